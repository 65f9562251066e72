"""A feed of titles that pretend to be something else, all the way through the daemon."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import feedparser
from aiohttp import web

from proxyd.core.texts.safe_text import visible
from tests.acceptance.support import World, eventually, rule_text, world
from tests.hostile import CONTROLS, MARKUP, NO_UTF8, hidden_in
from tests.integration.test_hostile_content import shown_in

ATOM = "{http://www.w3.org/2005/Atom}"
TITLES = MARKUP | CONTROLS | NO_UTF8 | {"long": "x" * 100_000}
FORMS = ("GITHUB", "CLOUDEVENTS")


class Posts:
    """Takes what is posted, whatever it is."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        return web.Response(status=204)


class JsonFeed:
    """A JSON feed, which brings what XML cannot."""

    def __init__(self) -> None:
        self.titles: dict[str, str] = {"first": "the first"}

    async def handle(self, _request: web.Request) -> web.StreamResponse:
        items = [{"id": guid, "title": title, "content_text": title} for guid, title in self.titles.items()]
        feed = {"version": "https://jsonfeed.org/version/1.1", "title": MARKUP["script"], "items": items}
        return web.Response(body=json.dumps(feed).encode(), content_type="application/feed+json")


async def test_hostile_titles_are_texts_wherever_they_come_out(tmp_path: Path) -> None:
    feed, posts = JsonFeed(), {form: Posts() for form in FORMS}
    async with world(tmp_path) as w:
        w.origin.pages["evil"] = feed.handle
        for form, to in posts.items():
            w.origin.pages[form] = to.handle
        others = "".join(
            rule_text(form, 1, w.origin.url(form)).replace("'SECRET_HOOK'", f"'SECRET_HOOK' FORM {form}")
            for form in FORMS
        )
        w.daemon.declare(w.text(["evil"], {"each": 1}, extra=others))
        await w.daemon.start()
        await w.daemon.knows("evil")
        feed.titles = TITLES | feed.titles  # the newest first
        assert set(await w.receiver.received("each", len(TITLES))) == set(TITLES)
        w.receiver.check()
        titles = {a.guids[0]: a.data["items"][0]["channel.item.title"] or "" for a in w.receiver.arrivals["each"]}
        assert {name: titles[name] for name in MARKUP} == {
            name: text.replace("\r\n", "\n").strip() for name, text in MARKUP.items()
        }
        assert not re.search(r"[\x00-\x08\x0e-\x1f\ud800-\udfff]", "".join(titles.values()))
        await other_forms(posts)
        await what_a_terminal_gets(w)
        await what_readers_get(w, titles)
        assert hidden_in(w.daemon.log) == set()


async def other_forms(posts: dict[str, Posts]) -> None:
    """Fail where a body in another form is no JSON, or names other items."""
    for form, to in posts.items():
        await eventually(lambda to=to: len(to.bodies) > len(TITLES), f"all posts as {form}")  # the first is the ping
        items = [item for body in to.bodies for item in json.loads(body)["data"].get("items", ())]
        assert {item["channel.item.guid"] for item in items} == set(TITLES)


async def what_a_terminal_gets(w: World) -> None:
    done = await w.daemon.cli("notifications", "--rule", "each", "--limit", "100")
    assert (done.code, done.err) == (0, "")
    assert hidden_in(done.out) == set()
    lines = done.out.splitlines()
    assert len(lines) == len(TITLES) + 1
    assert [name for name, text in MARKUP.items() if visible(text)[:20].partition("\n")[0] not in done.out] == []


async def what_readers_get(w: World, titles: dict[str, str]) -> None:
    """Read the feed of the profile, and the page of notifications."""
    token = (await w.daemon.cli("token", "create", "--name", "me", "--scope", "read")).out.split()[-1]
    _, _, body = await w.daemon.request("GET", "/api/v1/profiles/watch/feed.atom?rule=each", token=token)
    assert feedparser.parse(body.encode()).bozo is False
    found = {entry.findtext(f"{ATOM}title") for entry in ElementTree.fromstring(body).findall(f"{ATOM}entry")}
    assert {" ".join(titles[name].split()) for name in MARKUP} <= found
    _, _, form = await w.daemon.request("GET", "/sign-in")
    mark = re.search(r'name="mark" value="([^"]*)"', form)
    assert mark is not None
    fields, headers = {"mark": mark[1], "token": token}, {"Cookie": f"proxyd_sign_in={mark[1]}"}
    status, said, _ = await w.daemon.request("POST", "/sign-in", data=fields, headers=headers, allow_redirects=False)
    assert status == 303
    headers = {"Cookie": said["Set-Cookie"].partition(";")[0]}
    _, _, page = await w.daemon.request("GET", "/notifications?rule=each&limit=100", headers=headers)
    text = shown_in(page).text
    lines = {name: " ".join(titles[name].split()) for name in MARKUP}
    assert [name for name, title in lines.items() if visible(title)[:100] not in text] == []
