"""The feeds of profiles over real sockets, read as feed readers read them."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import feedparser
import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from proxyd.api.rest.profile_feeds import FeedState
from proxyd.app.server import ApiSettings, serve_api
from proxyd.probing.feeds.json_feed import parse_json_feed
from tests.fleets import rule
from tests.integration.api_world import T0, Running, running_api, told

FORMS = ["feed.atom", "feed.json"]
HOSTILE = "<script>alert('1')</script> & \"q\" \x00\x1b\ufffe ]]>"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


async def read(running: Running, path: str, status: int = 200, **headers: str) -> tuple[bytes, Any]:
    if "read" not in vars(running):
        vars(running)["read"] = await running.token("read")
    address = f"/api/v1/profiles/{path}"
    async with running.client.get(address, headers=vars(running)["read"] | headers) as answer:
        assert answer.status == status, await answer.text()
        return await answer.read(), answer


def parsed(body: bytes) -> Any:
    found = feedparser.parse(body)
    assert found.bozo is False
    assert found.version == "atom10"
    return found


async def test_atom_names_the_newest_first_with_ids_that_stay(running: Running) -> None:
    row = {"channel.item.title": "  News of\nthe day ", "channel.item.link": "https://example.org/1?a=1&b=2", "n": 1.5}
    await running.tell(told("a", at_s=T0 + 1), told("b", at_s=T0 + 2, items=[row]), told("c", at_s=T0 + 3, items=[]))
    body, answer = await read(running, "P/feed.atom")
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    feed = parsed(body)
    assert [entry.title for entry in feed.entries] == ["r", "News of the day", "a"]
    assert [entry.link for entry in feed.entries] == [
        "https://example.org/s",
        "https://example.org/1?a=1&b=2",
        "https://example.org/s",
    ]
    assert (feed.feed.title, feed.feed.updated) == ("P", "2001-09-09T01:46:43.000Z")
    assert feed.feed.author == "proxyd"
    assert feed.feed.links[0].rel == "self"
    assert feed.entries[1].updated == "2001-09-09T01:46:42.000Z"
    assert "<dt>n</dt><dd>1.5</dd>" in feed.entries[1].content[0].value
    ids = [entry.id for entry in feed.entries]
    assert len(set(ids)) == 3
    assert all(each.startswith("urn:uuid:") for each in ids)
    await running.tell(told("d"))
    assert [entry.id for entry in parsed((await read(running, "P/feed.atom"))[0]).entries][1:] == ids


async def test_the_json_feed_is_valid_and_is_read_by_our_own_reader(running: Running) -> None:
    await running.tell(told("a"), told("b", late=True, items=[{"headline": "H", "url": "https://example.org/b"}]))
    body, answer = await read(running, "P/feed.json")
    assert answer.headers["Content-Type"] == "application/feed+json; charset=utf-8"
    document = json.loads(body)
    assert document["version"] == "https://jsonfeed.org/version/1.1"
    assert isinstance(document["title"], str)
    assert document["feed_url"] == str(answer.url)
    for item in document["items"]:
        assert isinstance(item["id"], str)
        assert isinstance(item["content_html"], str)
        assert all(isinstance(item[name], str) for name in ("title", "date_published", "date_modified"))
    assert [item["id"] for item in document["items"]] == ["b", "a"]
    feed = parse_json_feed(body, answer.content_type, str(answer.url))
    assert (feed.version, feed.title, feed.trouble, feed.truncated) == ("json11", "P", "", False)
    assert [item.fields["channel.item.title"] for item in feed.items] == ["H", "a"]
    assert feed.items[0].fields["channel.item.link"] == "https://example.org/b"
    assert feed.items[0].published_s == T0


async def test_what_items_say_is_text_and_never_markup(running: Running) -> None:
    row = {"channel.item.title": HOSTILE, "channel.item.link": "javascript:alert(1)", f"<b>{HOSTILE}": HOSTILE}
    await running.tell(told("a", items=[row, {"title": None, "other": True}], url="data:text/html,x"))
    entry = parsed((await read(running, "P/feed.atom"))[0]).entries[0]
    assert "<script" not in entry.content[0].value
    assert "links" not in entry
    document = json.loads((await read(running, "P/feed.json"))[0])
    assert "url" not in document["items"][0]
    content = document["items"][0]["content_html"]
    assert "<script" not in content
    assert "<b>" not in content
    assert "&lt;script&gt;" in content


@pytest.mark.parametrize("form", FORMS)
async def test_a_feed_of_nothing_is_valid(running: Running, form: str) -> None:
    body, answer = await read(running, f"P/{form}")
    if form == "feed.atom":
        assert parsed(body).entries == []
        assert parsed(body).feed.id.startswith("urn:uuid:")
    else:
        assert parse_json_feed(body, answer.content_type, str(answer.url)).items == ()


@pytest.mark.parametrize("form", FORMS)
async def test_a_feed_holds_the_newest_hundred_of_its_profile_or_rule(running: Running, form: str) -> None:
    text = 'CREATE PROFILE "Q/1 é" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");\n'
    text += rule("q").replace('"P"', '"Q/1 é"') + rule("q2").replace('"P"', '"Q/1 é"')
    await running.control.declarations.declare(text)
    names = [f"n{number}" for number in range(103)]
    await running.tell(*(told(name) for name in names), told("one", rule_name="q"), told("two", rule_name="q2"))

    async def ids(path: str) -> list[str]:
        body = (await read(running, path))[0]
        if form == "feed.json":
            return [item["title"] for item in json.loads(body)["items"]]
        return [entry.title for entry in parsed(body).entries]

    assert await ids(f"P/{form}") == names[:2:-1]
    assert await ids(f"Q%2F1%20%C3%A9/{form}") == ["two", "one"]
    assert await ids(f"Q%2F1%20%C3%A9/{form}?rule=q") == ["one"]
    await read(running, f"P/{form}?rule=q", 404)
    await read(running, f"nowhere/{form}", 404)


@pytest.mark.parametrize("form", FORMS)
async def test_what_is_known_is_not_sent_again(running: Running, form: str) -> None:
    await running.tell(told("a"))
    _, first = await read(running, f"P/{form}")
    etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
    body, same = await read(running, f"P/{form}", 304, **{"If-None-Match": f'"x", W/{etag}'})
    assert (body, same.headers["ETag"], same.headers["Last-Modified"]) == (b"", etag, modified)
    await read(running, f"P/{form}", 304, **{"If-Modified-Since": modified})
    await read(running, f"P/{form}", 200, **{"If-Modified-Since": modified, "If-None-Match": '"other"'})
    await running.tell(told("b"))
    _, second = await read(running, f"P/{form}", 200, **{"If-None-Match": etag})
    assert second.headers["ETag"] != etag
    await read(running, f"P/{form}", 200, **{"If-Modified-Since": modified})  # in the same second


def test_two_versions_never_share_a_second() -> None:
    changes = FeedState()
    served = [changes.change_s(("feed",), tag, now_s) for tag, now_s in (("a", 5.9), ("b", 5.9), ("b", 9.0), ("a", 9))]
    assert served == [5, 6, 6, 9]


@pytest.mark.parametrize("form", FORMS)
async def test_the_token_may_be_in_the_address_and_stays_out_of_everything(
    running: Running, form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await running.tell(told("a"))
    shown = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "proxyd.sock"
    with capture_logs() as logs:
        async with (
            serve_api(running.control.queries, ApiSettings("127.0.0.1", 0, path, str(path))),
            ClientSession() as session,
        ):
            base = f"http://{logs[0]['addresses'][0]}/api/v1"
            async with session.get(f"{base}/profiles/P/{form}?token={shown}") as answer:
                assert answer.status == 200
                assert shown not in await answer.text() + str(answer.headers)
            for wrong in (f"P/{form}?token={shown}x", f"P/{form}?token=", f"P/{form}", f"P?token={shown}"):
                async with session.get(f"{base}/profiles/{wrong}") as answer:
                    assert answer.status == 401
            async with session.get(f"{base}/profiles/nowhere/{form}?token={shown}") as answer:
                assert answer.status == 404
                assert shown not in await answer.text()
            async with session.get(f"{base}/stream?token={shown}") as answer:
                assert answer.status == 401
    assert shown not in caplog.text + repr(logs)
