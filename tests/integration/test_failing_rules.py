"""A rule that fails too often, from the probe to the page: suspended, shown, kept over restarts, resumed, edited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxyd.app.wiring import Built, build
from proxyd.config.loading import load
from proxyd.core.errors import ConflictError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.suspension import Subject
from proxyd.store.backups import open_store
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, PoissonOrigin, changed, item, rule, source
from tests.integration.api_world import offline_parts

T0 = 1_000_000_000.0
BAD = "LENGTH(REPLACE(title, 'a', '" + "b" * 1000 + "')) > 0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    migrated_file(tmp_path / "p.db")
    (tmp_path / "profiles").mkdir()
    return tmp_path


@asynccontextmanager
async def process(folder: Path, *rules: str) -> AsyncIterator[Built]:
    """Start a daemon whose loops stand still on some rules."""
    (folder / "profiles" / "a.profile").write_text(DOMAIN + source("s") + "".join(rules))
    settings, clock = load(environ={}, profiles=folder / "profiles"), FakeClock(T0)
    async with open_store(migrated_file(folder / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        built = build(settings, offline_parts(settings, store, clock, PoissonOrigin({}, clock.time_s)))
        await built.declarations.start()
        yield built


async def fail(built: Built, times: int, begin: int) -> None:
    for number in range(begin, begin + times):
        await built.loops.observer.take_in(changed("s", [item("a" * 2_000 + str(number), T0 + number)], T0 + number))


async def test_it_is_suspended_over_restarts_until_it_is_resumed(folder: Path) -> None:
    bad, sound = rule("bad", where=BAD), rule("sound")
    async with process(folder, bad, sound) as built:
        await built.loops.observer.take_in(changed("s", [], T0))
        await fail(built, 4, 1)
    async with process(folder, bad, sound) as built:
        await fail(built, 3, 11)
        found = built.queries.suspensions.failing.of("bad")
        assert found is not None
        assert (found.failures, found.suspended_s) == (5, T0 + 11)
        assert built.queries.suspensions.failing.of("sound") is None
    async with process(folder, bad, sound) as built:
        assert built.decider.known.failing.is_suspended("bad")
        assert built.decider.known.streams["sound", "s"].count == 7
        change = await built.queries.suspensions.resume("bad")
        assert change.said == "rule bad is evaluated again, on what its sources show from now on"
        assert (await built.queries.suspensions.resume("bad")).said == "rule bad is not suspended"
        await fail(built, 1, 21)
        assert built.decider.known.failing.all()["bad"].failures == 1


async def test_an_edit_while_the_daemon_is_down_starts_it_again(folder: Path) -> None:
    async with process(folder, rule("bad", where=BAD)) as built:
        await built.loops.observer.take_in(changed("s", [], T0))
        await fail(built, 5, 1)
        assert built.decider.known.failing.is_suspended("bad")
    async with process(folder, rule("bad", where=f"NOT {BAD}")) as built:
        assert built.queries.suspensions.failing.of("bad") is None
        assert await built.resources.store.failing.load() == {}


async def test_of_a_source_and_a_rule_of_one_name_the_one_that_is_held_is_resumed(folder: Path) -> None:
    async with process(folder, rule("s", where=BAD)) as built:
        suspensions = built.queries.suspensions
        await suspensions.pause("s", "me")
        assert (await suspensions.resume("s")).said == "source s is probed again"
        await fail(built, 5, 1)
        assert (await suspensions.resume("s")).said.startswith("rule s is evaluated again")
        await fail(built, 5, 11)
        await suspensions.pause("s", "me")
        with pytest.raises(ConflictError, match="a source and a rule are called 's'"):
            await suspensions.resume("s")


async def test_a_source_and_a_rule_of_one_name_are_told_apart(folder: Path) -> None:
    async with process(folder, rule("s")) as built:
        with pytest.raises(ConflictError, match="a source and a rule are called 's'"):
            await built.queries.suspensions.resume("s")
        said = [
            (await built.queries.suspensions.resume("s", subject=each)).said for each in (Subject.SOURCE, Subject.RULE)
        ]
        assert said == ["source s is not paused", "rule s is not suspended"]
        await built.queries.suspensions.mute("s", "me", subject=Subject.RULE)
        told = (await built.queries.suspensions.resume("s", subject=Subject.RULE)).said
        assert told == "rule s is not suspended; it is muted: `proxyd unmute` sends its notifications"
