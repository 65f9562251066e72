"""Owners who watch one address in the same way share its probes, and each is told only of what came since."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxyd.store.listed_rows import Wanted
from tests.golden.reports.case import Answer, Case, read_case
from tests.golden.reports.daemon_world import World, running

_ALL = Wanted()
FEED = "http://x.example/feed"
WATCH = 'WATCH \'{0}\' AS "{1}⋮news" INTO "{1}" EVERY 1 MINUTE;'
_CASE = """rule {0}
run
at 0m

  rss
  Post 1 | guid 1 | link http://x.example/1
"""


@asynccontextmanager
async def daemon(folder: Path, patch: pytest.MonkeyPatch, declared: str) -> AsyncIterator[tuple[World, Counter[str]]]:
    """Run a daemon; also yields how often each address was asked, with the names of the headers that tell it apart."""
    asked, answer = Counter[str](), World.answer

    async def count(world: World, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path != "/robots.txt":
            asked[request.headers.get("X-Team", "")] += 1
        return await answer(world, request)

    patch.setattr(World, "answer", count)
    async with running(case_in(folder, declared), folder, patch) as world:
        yield world, asked
    patch.setattr(World, "answer", answer)


def case_in(folder: Path, declared: str) -> Case:
    folder.mkdir()
    path = folder / "shared.case"
    path.write_text(_CASE.format(declared), encoding="utf-8")
    return read_case(path)


def with_another_post(world: World) -> Answer:
    before = world.answers[FEED].text
    text = before.replace("<item>", "<item><title>New</title><guid>new</guid></item><item>", 1)
    return Answer(text=text, body=text.encode())


async def asked_in_an_hour(folder: Path, patch: pytest.MonkeyPatch, declared: str) -> Counter[str]:
    async with daemon(folder, patch, declared) as (world, asked):
        await world.go_to(3600.0)
        return Counter(asked)


async def test_three_owners_of_one_address_ask_as_often_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [WATCH.format(FEED, name) for name in ("Ann", "Ben", "Cem")]
    alone = (await asked_in_an_hour(tmp_path / "one", monkeypatch, texts[0])).total()
    together = (await asked_in_an_hour(tmp_path / "three", monkeypatch, "".join(texts))).total()
    assert alone >= 12
    assert together <= alone + 2  # the first of each is its own


async def test_each_owner_is_told_of_what_came_since_the_own_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [WATCH.format(FEED, name) for name in ("Ann", "Ben")]
    async with daemon(tmp_path / "told", monkeypatch, texts[0]) as (world, _):
        await world.go_to(600.0)
        world.answers[FEED] = with_another_post(world)
        await world.go_to(900.0)
        (world.daemon.declarations._folder._folder / "b.profile").write_text(texts[1], encoding="utf-8")
        assert await world.daemon.declarations.reload() == ()
        await world.go_to(1500.0)
        assert await told(world) == {"Ann⋮news": 1}
        world.answers[FEED] = with_another_post(world)
        world.answers[FEED] = Answer(
            text=(text := world.answers[FEED].text.replace(">new<", ">newer<", 1)), body=text.encode()
        )
        await world.go_to(2100.0)
        assert await told(world) == {"Ann⋮news": 2, "Ben⋮news": 1}


async def told(world: World) -> dict[str, int]:
    found: Any = await world.daemon.resources.store.history.find_between(_ALL, 0, 10**9, limit=100)
    return dict(Counter(row.rule for row in found.rows))


async def test_who_sends_other_headers_asks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_header = (
        f"CREATE SOURCE \"Ben⋮s\" OF FEED AT '{FEED}' HEADER 'X-Team' 'ben';"
        'INSERT NOTIFICATION "Ben⋮r" INTO "Ben" FROM SOURCES "s" SET QUERY "SELECT title FROM FEED" '
        'SET TRIGGER "ON INSERT TO FEED" SET EVERY 1 MINUTE; CREATE PROFILE "Ben";'
    )
    asked = await asked_in_an_hour(tmp_path / "headers", monkeypatch, WATCH.format(FEED, "Ann") + with_header)
    assert min(asked[""], asked["ben"]) >= 12
