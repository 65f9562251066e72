"""A token of some profiles reads those, and nothing of any other is in an answer, in an error or in a count."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxyd.api.auth import new_token
from proxyd.api.endpoint import Endpoint
from proxyd.api.listings import Listings
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.app.server import endpoints
from tests.fakes import no_queries
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api, told
from tests.integration.dashboard_world import Browser

TEXTS = (
    'WATCH \'https://mine.example/feed\' AS "mine" INTO "Mine";',
    "WATCH 'https://hidden.example/feed' AS \"hidden\" INTO \"Hidden\" TELL MAIL 'hidden@example.org';",
    "WATCH 'https://site.mine.example' OF SITE AS \"my site\" INTO \"Mine\" TELL MAIL 'me@example.org';",
    "WATCH 'https://site.hidden.example' OF SITE AS \"hidden site\" INTO \"Hidden\" TELL MAIL 'me@example.org';",
)
_ENDPOINTS = endpoints(no_queries(), Listings(no_queries()), Streams(no_queries(), StreamSettings()))
REFUSED = [each for each in _ENDPOINTS if each.scope is not None and each.within is None]
MINE = (
    *("/profiles/Mine", "/profiles/Mine/feed.atom", "/profiles/Mine/feed.json", "/rules/mine", "/rules/mine/intervals"),
    *("/notifications?profile=Mine", "/items?profile=Mine&view=all", "/sources/mine.example%2Ffeed/items"),
    *("/items/{mine}", "/profiles", "/rules", "/sources", "/sites", "/notifications", "/items?view=all", "/export"),
    *("/notifications/told-mine", "/explain/mine.example%2Ffeed", "/sites/site.mine.example", "/items?q=item"),
)
EMPTY = ("/suspensions", "/moves", "/deliveries/dead", "/sources/mine.example%2Ffeed/probes")
HIDDEN = (
    *("/profiles/Hidden", "/profiles/P", "/profiles/Hidden/feed.atom", "/profiles/Hidden/feed.json", "/rules/hidden"),
    *("/rules/r", "/rules/hidden/intervals", "/notifications?profile=Hidden", "/items?profile=Hidden&view=all"),
    *("/sources/hidden.example%2Ffeed/items", "/sources/s/items", "/items/{hidden}"),
    *("/explain/hidden.example%2Ffeed", "/sources/hidden.example%2Ffeed/probes", "/sites/site.hidden.example"),
    *("/notifications/told-hidden", "/notifications/told-hidden/screenshot", "/sources/s/items/1"),
    *("/stream?profile=Hidden", "/stream?profile=Mine&rule=hidden", "/notifications?profile=Mine&rule=hidden"),
)


@dataclass
class Bound:
    """An API with profiles of two people, and the token of one."""

    running: Running
    headers: dict[str, str]
    positions: dict[str, str]

    async def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        path = f"/api/v1{path}".format(**self.positions)
        async with self.running.client.request(method, path, headers=self.headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def bound(tmp_path: Path) -> AsyncIterator[Bound]:
    async with running_api(tmp_path) as running:
        await running.control.declarations.declare(*TEXTS)
        for name in ("mine", "hidden"):
            found = changed(f"{name}.example/feed", [item(f"an item of {name}", T0 + 1.0)], T0 + 10.0)
            assert await running.control.loops.observer.take_in(found)
            await running.tell(told(f"told-{name}", rule_name=name, profiles=[name.title()]))
        token, shown = new_token("ada", "read", now_s=T0, expires_in_s=None, profiles=["Mine"])
        await running.control.queries.access.add_token(token)
        everything = Bound(running, await running.token("read"), {})
        items = json.loads((await everything.ask("/items?view=all"))[1])["items"]
        positions = {each["title"].rpartition(" ")[2]: str(each["position"]) for each in items}
        yield Bound(running, {"Authorization": f"Bearer {shown}"}, positions)


@pytest.mark.parametrize("path", MINE)
async def test_it_reads_its_own_profiles(bound: Bound, path: str) -> None:
    status, body = await bound.ask(path)
    assert status == 200, body
    assert "mine" in body.lower()
    assert "hidden" not in body.lower()


@pytest.mark.parametrize("path", EMPTY)
async def test_it_is_told_nothing_where_its_profiles_have_nothing(bound: Bound, path: str) -> None:
    status, body = await bound.ask(path)
    assert (status, json.loads(body)["items"]) == (200, []), body


async def test_it_counts_and_lists_only_what_is_its_own(bound: Bound) -> None:
    for path, own in (
        ("/notifications?profile=Mine", "told-mine"),
        ("/items?profile=Mine&view=all", "an item of mine"),
    ):
        body = (await bound.ask(path))[1]
        assert (body.count(own) > 0, "hidden" in body, '"next_cursor":null' in body) == (True, False, True)
    assert "an item" not in (await bound.ask("/items?profile=Mine&view=all&source=hidden.example%2Ffeed"))[1]


@pytest.mark.parametrize("path", HIDDEN)
async def test_what_is_of_others_is_not_there_and_its_error_says_no_more_than_of_what_does_not_exist(
    bound: Bound, path: str
) -> None:
    status, body = await bound.ask(path)
    nothing = re.sub("Hidden|hidden|/P$|/r$|/s/", lambda found: found[0].replace(found[0].strip("/"), "nothing"), path)
    unknown = await bound.ask(nothing.replace("{nothing}", "999"))
    assert status == unknown[0] == 404
    told_of = re.sub("(?<=')[^']*(?=')", "", body)
    assert told_of == re.sub("(?<=')[^']*(?=')", "", unknown[1])
    assert "mine" not in told_of.lower()


@pytest.mark.parametrize("endpoint", REFUSED, ids=lambda each: f"{each.method} {each.path}")
async def test_every_other_route_refuses_it(bound: Bound, endpoint: Endpoint) -> None:
    path = endpoint.path.format(name="Mine", id="told-mine", position=1)
    status, body = await bound.ask(path.removeprefix("/api/v1"), endpoint.method)
    assert (status, "you have only the profile" in body or "needs a token of scope" in body) == (403, True)
    assert "hidden" not in body.lower()


async def test_its_stream_tells_only_of_its_own(bound: Bound) -> None:
    path = "/api/v1/stream?profile=Mine&last_event_id=0"
    async with bound.running.client.get(path, headers=bound.headers) as answer:
        assert answer.status == 200
        await bound.running.tell(told("again", rule_name="mine"), told("secret", rule_name="hidden"))
        read = b""
        while b"again" not in read:
            read += await answer.content.readany()
        assert b"told-mine" in read
        assert b"hidden" not in read
        assert b"secret" not in read


async def test_one_of_a_single_profile_need_not_name_it(bound: Bound) -> None:
    for path, own in (("/notifications", "told-mine"), ("/items?view=all", "an item of mine")):
        status, body = await bound.ask(path)
        assert (status, own in body, "hidden" in body) == (200, True, False)
    both, shown = new_token("both", "read", now_s=T0, expires_in_s=None, profiles=["Mine", "P"])
    await bound.running.control.queries.access.add_token(both)
    reader = Bound(bound.running, {"Authorization": f"Bearer {shown}"}, {})
    status, body = await reader.ask("/notifications")
    assert (status, "told-mine" in body, "hidden" in body) == (200, True, False)


async def test_it_opens_neither_the_dashboard_nor_the_reader_of_phones(bound: Bound) -> None:
    shown = bound.headers["Authorization"].removeprefix("Bearer ")
    browser = Browser(bound.running)
    async with bound.running.client.get("/sign-in") as answer:
        mark = re.findall('name="mark" value="([^"]*)"', await answer.text())[0]
    async with bound.running.client.post("/sign-in", data={"token": shown, "mark": mark, "next": "/"}) as answer:
        assert answer.status == 401
    assert (await browser.get("/"))[0] in {303, 401, 200}
    form = {"Email": "x", "Passwd": shown}
    async with bound.running.client.post("/accounts/ClientLogin", data=form) as answer:
        assert answer.status in {401, 403}


async def test_one_of_a_profile_that_is_dropped_reads_nothing(bound: Bound) -> None:
    await bound.running.control.declarations.drop_profile("Mine")
    assert (await bound.ask("/profiles/Mine"))[0] == 404
    assert (await bound.ask("/notifications?profile=Mine"))[0] == 404
    assert (await bound.ask("/rules/mine"))[0] == 404
    assert (await bound.ask("/items/{mine}"))[0] == 404


async def test_it_is_made_over_the_api_with_scope_read_and_of_profiles_that_there_are(bound: Bound) -> None:
    admin = await bound.running.token("admin")
    for body, status in (
        ({"name": "bob", "scope": "read", "profiles": ["Mine", "P", "Mine"]}, 201),
        ({"name": "eve", "scope": "admin", "profiles": ["Mine"]}, 400),
        ({"name": "eve", "scope": "write", "profiles": ["a⋮b"]}, 400),
        ({"name": "eve", "scope": "read", "profiles": ["Nine"]}, 404),
    ):
        async with bound.running.client.post("/api/v1/tokens", json=body, headers=admin) as answer:
            assert answer.status == status, await answer.text()
    tokens = await bound.running.control.queries.access.tokens()
    assert {each.name: tuple(each.profiles) for each in tokens if each.profiles} == {
        "ada": ("Mine",),
        "bob": ("Mine", "P"),
    }
    async with bound.running.client.get("/api/v1/tokens", headers=admin) as answer:
        assert {each["name"]: each["profiles"] for each in (await answer.json())["items"]}["bob"] == ["Mine", "P"]


async def test_it_is_made_by_the_form_of_the_dashboard(bound: Bound) -> None:
    browser = Browser(bound.running)
    await browser.sign_in("admin")
    assert '<option value="Mine">' in (await browser.get("/tokens"))[1]
    answer, page = await browser.post("/tokens", {"name": "cy", "scope": "read", "profile": "Mine"})
    assert answer.status == 201
    shown = re.findall("pxd_[0-9a-zA-Z_-]+", page)[0]
    reader = Bound(bound.running, {"Authorization": f"Bearer {shown}"}, {})
    assert [(await reader.ask(path))[0] for path in ("/profiles/Mine", "/profiles/Hidden", "/rules")] == [200, 404, 200]
    for given in ({"scope": "admin", "profile": "Mine"}, {"scope": "read", "profile": "Nine"}):
        answer, page = await browser.post("/tokens", {"name": "eve", **given})
        assert answer.status == 422
        assert "eve" not in {each.name for each in await bound.running.control.queries.access.tokens()}
