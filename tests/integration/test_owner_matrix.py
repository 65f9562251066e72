"""Whoever is bound to one profile sees and changes nothing of another: every route, page, reader's call and tool."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from proxyd.api.auth import new_token
from proxyd.api.passwords import invite
from proxyd.base.doers import Doer, acting
from proxyd.core.model.profile import owner_of
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api, told
from tests.integration.dashboard_world import Browser
from tests.integration.test_agents import over_http
from tests.integration.test_people import choose

_FEED = "WATCH 'https://{0}.example/feed' AS \"{0}\" TELL LOG '{0}';"
OF_OWNER = (
    _FEED + "WATCH 'https://{0}.example' OF SITE AS \"{0} site\";"
    "CREATE DOMAIN \"{0} words\" AS CLASS::X (name: String FROM CSS 'h1'); CREATE RECEIVER \"{0} team\" AS LOG '{0}';"
)
SHARED = (
    'WATCH \'https://both.example/feed\' AS "both" INTO "Mine"; '
    "WATCH 'https://both.example/feed' AS \"veiled both\" INTO \"Veiled\" TELL MAIL 'veiled@example.org'; "
    "WATCH 'https://veiled-shared.example/feed' AS \"veiled shared\" INTO \"Veiled\" TELL MAIL 'veiled@example.org'; "
    'WATCH \'https://veiled-shared.example/\' OF SITE AS "veiled shop" INTO "Veiled";'
)
Whose = Literal["mine", "veiled", "veiled shared", "nothing"]
OTHERS: tuple[Whose, ...] = ("veiled", "veiled shared")

# what needs no token, and what is about whoever asks alone
OPEN = {
    *("/healthz", "/readyz", "/metrics", "/api/v1/openapi.json", "/static/{file}", "/sign-in", "/sign-in/elsewhere"),
    *(
        "/sign-in/elsewhere/back",
        "/welcome/{secret}",
        "/sign-in/link",
        "/sign-in/link/{secret}",
        "/status/{name}",
        "/websub/{callback_id}",
        "/websub/feeds/{key}",
    ),
    *("/accounts/ClientLogin", "/mcp", "/sign-out", "/account/password", "/account/sessions/end", "/account/tokens"),
    *("/account/tokens/{name}/drop", "/live", "/api/v1/stream"),
}
CHANGES: dict[str, Any] = {  # what a request changes over the API; `None` for one without a body
    "POST /api/v1/profiles": 'DROP NOTIFICATION "{rule}"; DROP SOURCE "{source}";',
    "DELETE /api/v1/profiles/{name}": None,
    "POST /api/v1/removed/{id}/restore": None,
    "POST /api/v1/import": "https://x.example/feed",
    "POST /api/v1/reload": None,
    "POST /api/v1/pause": {"source": "{source}"},
    "POST /api/v1/resume": {"name": "{source}"},
    "POST /api/v1/mute": {"name": "{rule}"},
    "POST /api/v1/unmute": {"name": "{profile}"},
    "POST /api/v1/moves": {"source": "{source}"},
    "POST /api/v1/probe": {"name": "{source}"},
    "POST /api/v1/notifications/{id}/replay": None,
    "POST /api/v1/deliveries/replay": None,
    "POST /api/v1/deliveries/test": {"rule": "{rule}"},
    "POST /api/v1/tokens": {"name": "new", "scope": "read"},
    "DELETE /api/v1/tokens/{name}": None,
    "POST /api/v1/people": {"name": "new", "scope": "read"},
    "DELETE /api/v1/people/{name}": None,
    "POST /api/v1/people/{name}/limits": {"sources": 1},
    "POST /api/v1/receivers/{name}/test": None,
    "POST /api/v1/marks": {"items": ["{position}"], "read": True, "starred": True},
}
FORM = {  # fields of all forms of pages
    "name": "{rule}",
    "items": "{position}",
    "up_to": "{position}",
    "source": "{source}",
    "profile": "{profile}",
    "read": "true",
    "starred": "true",
    "text": 'DROP NOTIFICATION "{rule}";',
    "confirmed": "1",
    "tag": "x",
    "url": "https://x.example",
    "do": "remove",
    "addresses": "https://x.example",
}
DECLARING = {
    "/add",
    "/add/list",
    "/api/v1/import",
    "/profiles",
    "/sites",
}  # what somebody adds is in their own profile, whatever its name
PLANNED = {"/api/v1/explain/{name}", "/api/v1/sources", "/sources/{name}/why"}
"""What the one plan of all sources shows in: rates that are guessed from the fleet, and when a shared host is free."""
READER: dict[str, dict[str, str]] = {
    "/reader/api/0/edit-tag": {"i": "{position}", "a": "user/-/state/com.google/read"},
    "/reader/api/0/mark-all-as-read": {"s": "feed/{source}"},
    "/reader/api/0/subscription/edit": {"ac": "unsubscribe", "s": "feed/{source}"},
    "/reader/api/0/stream/items/contents": {"i": "{position}"},
    "/reader/api/0/stream/items/ids": {"s": "feed/{source}"},
    "/reader/api/0/stream/contents": {"s": "feed/{source}"},
}
TOOLS: dict[str, dict[str, Any]] = {
    "list_sources": {},
    "list_rules": {},
    "list_items": {"source": "{source}"},
    "search_items": {"words": "words", "source": "{source}"},
    "read_item": {"position": "{position}"},
    "what_is_new": {"since": "2000-01-01T00:00:00Z", "rule": "{rule}"},
    "explain_source": {"source": "{source}"},
    "explain_item": {"source": "{source}", "event": "{position}"},
    "mark_items": {"positions": ["{position}"]},
    "mute": {"rule": "{rule}", "until": "2100-01-01T00:00:00Z"},
    "unmute": {"rule": "{rule}"},
    "declare": {"statements": 'DROP NOTIFICATION "{rule}";'},
}


@dataclass
class World:
    """An API with what is mine and what is veiled from me, and the tokens and the browser with which I ask."""

    running: Running
    browser: Browser
    tokens: Mapping[str, str]
    positions: Mapping[str, int]
    read: list[str] = field(default_factory=list)  # the texts that were read from the database

    def names(self, whose: Whose) -> dict[str, str]:
        """Return what is called how."""
        host = whose.replace(" ", "-")
        if whose == "nothing":
            return dict.fromkeys(("rule", "source", "site", "receiver", "profile", "id"), whose) | {
                "position": "999999"
            }
        profile = "Mine" if whose == "mine" else "Veiled"
        names = {"receiver": f"{whose} team", "rule": whose, "source": f"{host}.example/feed"}
        names |= {"site": f"{host}.example", "profile": profile}
        return names | {"id": f"told {whose}", "position": str(self.positions[whose])}

    def filled(self, template: Any, whose: Whose) -> Any:
        """Return a body or a form about something."""
        if isinstance(template, dict):
            return {key: self.filled(each, whose) for key, each in template.items()}
        if isinstance(template, list):
            return [self.filled(each, whose) for each in template]
        if template == "{position}":
            return int(self.names(whose)["position"])
        return _fill(template, self.names(whose)) if isinstance(template, str) else template

    def path(self, path: str, whose: Whose) -> str:
        names = self.names(whose)
        kind = next((each for each in ("rule", "receiver", "profile", "site") if f"/{each}s/" in path), "source")
        names |= {"name": names[kind], "stream": f"feed/{names['source']}"}
        return _fill(path, {key: quote(each, safe="") for key, each in names.items()})

    async def ask(self, method: str, route: str, whose: Whose, bearer: str) -> tuple[int, str]:
        """Return the status and the body of an answer about what somebody has."""
        path = self.path(route, whose)
        if route.startswith("/api/"):
            body = self.filled(CHANGES[f"{method} {route}"], whose) if method != "GET" else None
            return await self._send(method, path, body, {"Authorization": f"Bearer {self.tokens[bearer]}"})
        if route.startswith("/reader/"):
            headers = {"Authorization": f"GoogleLogin auth={self.tokens['person']}"}
            given = self.filled(READER.get(route, {}), whose)
            async with self.running.client.request(method, path, headers=headers, params=given) as answer:
                return answer.status, await answer.text()
        if method == "GET":
            return await self.browser.get(path)
        answer, text = await self.browser.post(path, {k: str(v) for k, v in self.filled(FORM, whose).items()})
        said = re.findall('<p class="said.*?</p>', (await self.browser.get("/account"))[1])
        return answer.status, "".join([text, answer.headers.get("Location", ""), *said])

    async def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, str]:
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, str):
            sent, headers = {"data": body}, headers | {"Content-Type": "text/plain"}
        async with self.running.client.request(method, path, headers=headers, **sent) as answer:
            return answer.status, await answer.text()

    def routes(self, *methods: str) -> list[tuple[str, str]]:
        """Return every route that asks for a token or a session, as the router has them."""
        found = set()
        assert self.running.client.app is not None
        for each in self.running.client.app.router.routes():
            path = re.sub(r"\{(\w+):[^}]*\}+", r"{\1}", each.resource.canonical if each.resource else "")
            if each.method in methods and path not in OPEN:
                found.add((each.method, path))
        return sorted(found)

    async def others(self) -> str:
        """Return all of what is veiled that somebody could change."""
        control = self.running.control
        texts = {key: text for key, text in control.declarations._given.api.items() if "veiled" in text.lower()}
        stored = await control.queries.reading.stored.articles([self.positions[each] for each in OTHERS], "person:ann")
        mutes = [each.key for each in control.queries.suspensions.all() if "veiled" in each.name.lower()]
        dead = await control.queries.history.dead_letters(before=None, limit=99)
        dead = [each for each in dead if owner_of(each.rule) != "Mine"]
        return repr((texts, stored, mutes, dead, "Veiled" in control.declarations.declaration.profiles))


def _fill(template: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), template)


@contextmanager
def listening(read: list[str]) -> Iterator[None]:
    """Note each text that is read from the database."""

    def note(data: bytes) -> str:
        text = data.decode()
        read.append(text)
        return text

    def connected(connection: Any, _: Any) -> None:
        connection.text_factory = note

    event.listen(Pool, "connect", connected)
    try:
        yield
    finally:
        event.remove(Pool, "connect", connected)


@asynccontextmanager
async def owner_world(folder: Path) -> AsyncIterator[World]:
    read: list[str] = []
    with listening(read):
        async with running_api(folder, declared=False) as running:
            control = running.control
            for name in ("mine", "veiled"):
                with acting(Doer(name, "api", "", (name.title(),))):
                    await control.declarations.declare(OF_OWNER.format(name))
            await control.declarations.declare(SHARED)
            sources = {"mine": "Mine⋮mine.example/feed", "veiled": "Veiled⋮veiled.example/feed"}
            sources |= {"veiled shared": "veiled-shared.example/feed", "both": "both.example/feed"}
            for name, source in sources.items():
                seen = changed(source, [item(f"words of {name}", T0 + 1.0)], T0 + 10.0)
                assert await control.loops.observer.take_in(seen)
                rule = source.partition("⋮")[0] + f"⋮{name}" if "⋮" in source else name
                await running.tell(told(f"told {name}", rule_name=rule, source=source))
            await running.give_up("told-dead-veiled", "veiled refused")
            for name in ("Veiled⋮veiled", "veiled shared"):
                await control.queries.suspensions.mute(name, "veiled person")
            await control.queries.suspensions.pause("veiled-shared.example/feed", "veiled person")
            browser = Browser(running)
            await choose(browser, await invite(control.queries, "first", "admin"))  # who has the marks of before
            running.client.session.cookie_jar.clear()
            await choose(browser, await invite(control.queries, "ann", "write", ["Mine"]))
            browser.csrf = re.findall('name="csrf" value="([^"]*)"', (await browser.get("/account"))[1])[0]
            tokens = {}
            for name, person, scope in (("write", None, "write"), ("read", None, "read"), ("person", "ann", "write")):
                of: Sequence[str] = ["Mine"] if person is None else []
                token, shown = new_token(f"{name} t", scope, now_s=T0, expires_in_s=None, profiles=of, person=person)  # type: ignore[arg-type]
                await control.queries.access.add_token(token)
                tokens[name] = shown
            found = await control.queries.items.search("words", source_id=None, before=None, limit=9)
            positions = {each.title.removeprefix("words of "): each.position for each in found}
            yield World(running, browser, tokens, positions, read)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with owner_world(tmp_path) as made:
        yield made


def leaks(text: str) -> str:
    """Return what of others is in an answer."""
    found = re.search(r".{0,60}veiled.{0,60}", text, re.IGNORECASE)
    return found[0] if found else ""


async def test_what_is_shown_has_nothing_of_others_and_reads_no_row_of_theirs(world: World) -> None:
    wrong, statuses = dict[str, object](), list[int]()
    for method, route in world.routes("GET"):
        for bearer in ("read", "write", "person") if route.startswith("/api/") else ("person",):
            world.read.clear()
            status, text = await world.ask(method, route, "mine", bearer)
            statuses.append(status)
            if status >= 500 or leaks(text) or any(map(leaks, world.read)):
                wrong[f"{bearer}: {route}"] = status, leaks(text) or next(filter(leaks, world.read), "")
    assert wrong == {}
    assert statuses.count(200) > 100


async def test_the_rows_that_others_read_are_noted(world: World) -> None:
    world.read.clear()
    async with world.running.client.get("/api/v1/items", headers=await world.running.token("read")) as answer:
        assert leaks(await answer.text())
    assert any(map(leaks, world.read))


async def test_what_is_of_others_is_answered_like_what_does_not_exist(world: World) -> None:
    different: dict[str, object] = {}
    for method, route in world.routes("GET"):
        if "{" not in route and route not in READER:
            continue
        for bearer in ("write", "person") if route.startswith("/api/") else ("person",):
            expected = await world.ask(method, route, "nothing", bearer)
            for whose in OTHERS:
                status, text = await world.ask(method, route, whose, bearer)
                if (status, unnamed(world, text, whose)) != (expected[0], unnamed(world, expected[1], "nothing")):
                    different[f"{bearer}: {route} of {whose}"] = status, expected[0], text[:300]
    assert different == {}


async def test_what_is_of_others_is_changed_by_nothing_and_refused_like_what_does_not_exist(world: World) -> None:
    before, different = await world.others(), dict[str, object]()
    for method, route in world.routes("POST", "DELETE", "PUT", "PATCH"):
        if route in DECLARING:
            continue
        for bearer in ("write", "person") if route.startswith("/api/") else ("person",):
            expected = await world.ask(method, route, "nothing", bearer)
            for whose in OTHERS:
                status, text = await world.ask(method, route, whose, bearer)
                if (status, unnamed(world, text, whose)) != (expected[0], unnamed(world, expected[1], "nothing")):
                    different[f"{bearer}: {method} {route} of {whose}"] = status, expected, text[:300]
                if await world.others() != before:
                    different[f"{bearer}: {method} {route} of {whose}"] = "changed it"
                    before = await world.others()
    assert different == {}


async def test_what_is_ones_own_is_changed_and_the_answers_have_nothing_of_others(world: World) -> None:
    before, wrong = await world.others(), dict[str, object]()
    last = {"DELETE /api/v1/profiles/{name}", "POST /profiles/{name}/drop", "POST /rules/{name}/remove"}
    last |= {"POST /sources/{name}/remove", "POST /reader/api/0/subscription/edit", "POST /api/v1/profiles"}
    last |= {"POST /rules", "POST /sources"}
    routes = world.routes("POST", "DELETE", "PUT", "PATCH")
    for method, route in sorted(routes, key=lambda pair: " ".join(pair) in last):
        if route in DECLARING:
            continue
        for bearer in ("write", "person") if route.startswith("/api/") else ("person",):
            status, text = await world.ask(method, route, "mine", bearer)
            if status >= 500 or leaks(text) or await world.others() != before:
                wrong[f"{bearer}: {method} {route}"] = status, leaks(text) or "changed something of others"
    assert wrong == {}
    assert "Mine" not in world.running.control.declarations.declaration.profiles


async def test_what_others_do_changes_no_answer_and_no_tag(world: World) -> None:
    before = await answers(world)
    control = world.running.control
    with acting(Doer("veiled", "api", "", ("Veiled",))):
        await control.declarations.declare(
            "WATCH 'https://veiled-more.example/feed'; WATCH 'https://veiled-more.example' OF SITE; "
            "WATCH 'https://mine.example/feed' AS \"mine\" TELL LOG 'veiled'; CREATE RECEIVER \"mine team\" AS LOG 'v';"
        )
    await control.declarations.declare(
        'WATCH \'https://both.example/feed\' AS "veiled too" INTO "Veiled"; DROP NOTIFICATION "veiled shared";'
    )
    await control.queries.suspensions.mute("Veiled", "veiled person")
    found = changed("Veiled⋮veiled.example/feed", [item("veiled news", T0 + 2.0)], T0 + 20.0)
    assert await control.loops.observer.take_in(found)
    await world.running.tell(told("told more", rule_name="veiled both", source="both.example/feed"))
    await world.running.give_up("told-dead-again", "veiled refused")
    after = await answers(world)
    different = {path: (before[path], each) for path, each in after.items() if each != before[path]}
    assert {path: each for path, each in different.items() if path not in PLANNED} == {}


async def answers(world: World) -> dict[str, tuple[int, str, str | None]]:
    """Return the status, the body and the tag of each answer over the API about what is mine."""
    found = {}
    for _, route in world.routes("GET"):
        if route.startswith("/api/"):
            headers = {"Authorization": f"Bearer {world.tokens['write']}"}
            async with world.running.client.get(world.path(route, "mine"), headers=headers) as answer:
                found[route] = answer.status, await answer.text(), answer.headers.get("ETag")
        elif "/reader/" not in route:
            found[route] = *await world.ask("GET", route, "mine", "person"), None
    return found


async def test_no_tool_of_an_agent_shows_or_changes_what_is_of_others(world: World) -> None:
    before = await world.others()
    for bearer in ("read", "write", "person"):
        async with over_http(world.running, world.tokens[bearer]) as session:
            assert {each.name for each in (await session.list_tools()).tools} == set(TOOLS)
            for name, template in TOOLS.items():
                answers = {}
                for whose in ("mine", "nothing", *OTHERS):
                    given = world.filled(template, whose)
                    answer = await session.call_tool(name, given)
                    answers[whose] = answer.is_error, unnamed(world, answer.content[0].text, whose)
                assert leaks(answers["mine"][1]) == "", name
                assert answers["veiled"] == answers["veiled shared"] == answers["nothing"], name
                assert await world.others() == before, name


def unnamed(world: World, text: str, whose: Whose) -> str:
    """Return an answer without the names that were asked for."""
    names = world.names(whose)
    text = re.sub(rf"(?<=/){names.pop('position')}(?!\w)", "#", text)
    for name in sorted(set(names.values()), key=len, reverse=True):
        for written in {name, quote(name, safe=""), quote(name), escape(name), json.dumps(name)[1:-1]}:
            text = re.sub(rf"(?<![\w#]){re.escape(written)}(?![\w#])", "#", text)
    return text
