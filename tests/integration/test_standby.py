"""A planner that stood by begins as one that reads everything when it leads, and reads only what has changed since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from proxyd.core.language import CheckSettings, Parsed, parse
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.allocation.packed_state import pack
from proxyd.core.rules.compiled import Swap
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.stages.stored import NO_CONTEXT
from proxyd.daemon import Declarations, Standby
from proxyd.daemon.remembered import COLD, Remembering, settings_of_plan
from proxyd.metrics import Metrics
from proxyd.store import SqlStore, StoredPlan
from proxyd.store.databases.opening import open_connections
from tests.databases import migrate
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, changed, decider, declaration, item, rule, source, stream_recall
from tests.servers import PostgresServer

T0 = 1_700_000_000.0
NAMES = [f"s{number}" for number in range(7)]
OWN = 'CREATE PROFILE "{}" AS (DOMAIN "D", USER "u");'


@dataclass
class Cluster:
    """A database, the profiles, and a planner that stands by."""

    folder: Path
    store: SqlStore
    clock: FakeClock
    standby: Standby

    async def begins(self, remembering: Remembering = COLD) -> tuple[Declarations, Decider]:
        """Return what a planner has that has begun to lead."""
        found = decider(declaration(), now_s=T0)
        recall = stream_recall(found, self.store)
        settings = CheckSettings()
        begun = Declarations(self.folder, recall, self.clock, settings, Metrics(), lambda _: b"s", remembering)
        await begun.start()
        return begun, found

    async def see(self, found: Decider, name: str, items: int) -> None:
        """Let a source show so many items."""
        at_s = self.clock.time_s()
        outcome = changed(name, [item(f"{name} {number}", at_s - items + number) for number in range(items)], at_s)
        needed = found.needed(outcome)
        known = NO_CONTEXT if needed is None else await self.store.known(name, needed)
        observation = found.observe(outcome, known)
        assert observation is not None
        await self.store.record(observation)
        found.finished(outcome, observation)

    async def looks(self) -> None:
        """Let the one that stands by look."""
        following = asyncio.create_task(self.standby.follow(self.store))
        await self.clock.someone_sleeps()
        following.cancel()


@pytest.fixture
async def cluster(tmp_path: Path, postgresql: PostgresServer) -> AsyncIterator[Cluster]:
    database = postgresql.create()
    migrate(database)
    rules = [rule("r", when="COUNT(*) % 3 = 0"), rule("all", when="COUNT(*) ACROSS SOURCES % 5 = 0")]
    (tmp_path / "a.profile").write_text(DOMAIN + "".join(map(source, NAMES)) + "".join(rules))
    clock = FakeClock(T0)
    async with open_connections(database) as connections:
        store = SqlStore(connections, ChrononGrid(10.0))
        async with store.writer.running():
            yield Cluster(tmp_path, store, clock, Standby(tmp_path, CheckSettings(), clock, chronon_s=10.0))


async def test_it_reads_and_compiles_only_what_has_changed_since(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, _ = await cluster.begins()
    await leader.declare(OWN.format("Mine"))
    (cluster.folder / "b.profile").write_text("no profile")
    await cluster.looks()
    (cluster.folder / "b.profile").write_text(source("t"))
    await leader.reload()
    await cluster.looks()
    read: list[str] = []

    def spied(text: str, file: str, **limits: int) -> Parsed:
        read.append(text)
        return parse(text, file, **limits)

    monkeypatch.setattr("proxyd.daemon.declared_texts.parse", spied)
    compiled: list[int] = []
    compile_rules = Decider.compile

    def spied_too(found: Decider, declared: Declaration, *since: Mapping[str, float]) -> Swap:
        compiled.append(len(declared.sources))
        return compile_rules(found, declared, *since)

    monkeypatch.setattr(Decider, "compile", spied_too)
    after, found = await cluster.begins(cluster.standby)
    assert (read, compiled) == ([], [0])  # of nothing, by the test itself
    assert set(found.known.compiled.requests) == {*NAMES, "t"}
    await after.declare(OWN.format("More"))
    assert set(after.declaration.profiles) == {"P", "Mine", "More"}
    read.clear()
    again, _ = await cluster.begins(cluster.standby)
    assert len(read) == 1
    assert (compiled, set(again.declaration.profiles)) == ([0, 8, 0, 8], {"P", "Mine", "More"})


@pytest.mark.parametrize("seed", range(3))
async def test_it_knows_what_one_knows_that_reads_everything(cluster: Cluster, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leader, found = await cluster.begins()
    for number in range(40):
        await cluster.clock.advance(100.0)
        await cluster.see(found, NAMES[rng.integers(len(NAMES))], number)
        if number % 13 == 7:
            await cluster.looks()
        if number == 30:
            await leader.declare(OWN.format("Mine"))
    state = found.fleet(cluster.clock.time_s()).state()
    assert state is not None
    plan = StoredPlan(T0, cluster.clock.time_s(), settings_of_plan(found.settings), pack(state))
    await cluster.store.plan.save(plan)
    third = rule("r", when="COUNT(*) % 3 = 0")
    (cluster.folder / "a.profile").write_text(DOMAIN + "".join(map(source, NAMES[:-1])) + third)
    (_, warm), (_, cold) = await cluster.begins(cluster.standby), await cluster.begins()
    assert set(warm.known.compiled.programs) == set(cold.known.compiled.programs) == {"r"}
    assert warm.known.states == cold.known.states
    assert warm.known.streams.copy() == cold.known.streams.copy() != {}
    assert learned(warm) == learned(cold) != {}
    now = warm.known.grid.chronon_at(cluster.clock.time_s()) + 1
    assert warm.explainer.plan(now, limit=50) == cold.explainer.plan(now, limit=50) != []


def learned(found: Decider) -> dict[str, tuple[list[float], float]]:
    """Return what is learned of the weeks."""
    return {name: (each.counts.tolist(), each.squares) for name, each in found.known.estimates.weeks.items()}
