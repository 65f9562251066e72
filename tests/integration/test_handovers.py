"""Planners that share sources, and hand them over through the store, tell what one planner tells that has them all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from sqlalchemy import select

from proxyd.cluster.division import UNDIVIDED, Division, division_of, ties_of
from proxyd.cluster.shared_fleet import Handovers
from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import Item
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import NO_CONTEXT
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.store import rows
from proxyd.store.backups import open_connections
from proxyd.store.databases import tables as t
from proxyd.store.databases.shards import SHARDS
from proxyd.store.followed_rows import FollowedFleet
from proxyd.store.sql_store import SqlStore
from tests.fakes import FakeClock
from tests.fleets import changed, item, stream_recall
from tests.servers import PostgresServer

T0 = 1_700_000_000.0
ALL = frozenset(range(SHARDS))
FEEDS = [f"s{number}" for number in range(6)]
OTHERS = {"one": "ONE", "two": "TWO", "quote": "QUOTE"}
TEXT = (
    """CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String, channel.item.pubDate:Timestamp)
CLASS::ONE(channel.item.title:String, channel.item.pubDate:Timestamp)
CLASS::TWO(channel.item.title:String, channel.item.pubDate:Timestamp)
CLASS::QUOTE(symbol:String FROM JSON '$.symbol', last:Decimal FROM JSON '$.last');
CREATE PROFILE "P" AS (DOMAIN "D");
"""
    + "".join(f"CREATE SOURCE {name} OF RSS AT 'https://{name}.example/';\n" for name in FEEDS)
    + "".join(f"CREATE SOURCE {name} OF {kind} AT 'https://{name}.example/';\n" for name, kind in OTHERS.items())
    + """INSERT NOTIFICATION each INTO "P" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS";
INSERT NOTIFICATION third INTO "P" SET QUERY "SELECT title FROM RSS"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) % 3 = 0" SET LIMIT 5 PER 1 HOUR;
INSERT NOTIFICATION across INTO "P" SET QUERY "SELECT title FROM RSS"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) ACROSS SOURCES % 5 = 0" FROM SOURCES s0, s1;
INSERT NOTIFICATION answered INTO "P" SET QUERY "SELECT ONE.title FROM ONE, TWO"
SET TRIGGER "ON INSERT TO ONE THEN INSERT TO TWO WITHIN 1 HOUR";
INSERT NOTIFICATION joined INTO "P"
SET QUERY "SELECT r.title, q.last FROM RSS r JOIN QUOTE q ON q.symbol = 'x'" SET TRIGGER "ON INSERT TO RSS"
FROM SOURCES s2, quote;
"""
)


def declared() -> Declaration:
    checked = check([SourceText("t", TEXT)])
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return checked.declaration


class Planner:
    """A planner that shares the sources with others, over the store of all."""

    def __init__(self, store: SqlStore, clock: FakeClock, division: Division) -> None:
        planner = PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0))
        self.decider = Decider(DeciderSettings(planner), np.random.default_rng(1))
        self.decider.known.owned = division
        declaration = declared()
        self.decider.declare(declaration, dict.fromkeys(declaration.rules, T0), T0)
        self._store = store
        self.handovers = Handovers(stream_recall(self.decider, store), FollowedFleet(store.read_each), clock)

    async def see(self, name: str, items: list[Item], at_s: float) -> None:
        """Let a source show items."""
        found = self.decider
        outcome = changed(name, items, at_s)
        needed = found.outcomes.query_for(outcome)
        known = NO_CONTEXT if needed is None else await self._store.known(name, needed)
        observation = found.observe(outcome, known)
        assert observation is not None
        await self._store.record(observation)
        found.outcomes.finish(outcome, observation)

    async def end_overdue(self, now_s: float) -> None:
        """End the intervals whose time is over."""
        for interval, needed in self.decider.captures.overdue(now_s):
            known = await self._store.known(interval.event.source_id, needed) if needed.histories else NO_CONTEXT
            results = await self.decider.outcomes.end_overdue(interval, known, now_s)
            assert results is not None
            await self._store.record_results(results)

    @property
    def planned(self) -> set[str]:
        return set(self.decider.planner.sources)


@dataclass
class Fleet:
    """Planners over one store, and what their sources show."""

    store: SqlStore
    clock: FakeClock
    planners: list[Planner]
    shown: dict[str, list[Item]] = field(default_factory=dict)

    async def probe(self, name: str, new: int) -> None:
        """Let a source have some new items, and whoever has it see them."""
        now_s = self.clock.time_s()
        fresh = [item(f"{name} {now_s} {number}", now_s - 5.0 + number) for number in range(new)]
        if name == "quote":
            values: dict[str, str | int | float | bool | None] = {"symbol": "x", "last": now_s}
            self.shown[name] = [Item("page", values, None, f"{now_s}")]
        else:
            self.shown[name] = [*fresh, *self.shown.get(name, [])]
        (planner,) = [each for each in self.planners if each.decider.known.has(name)]
        await planner.see(name, self.shown[name], now_s)
        for each in self.planners:
            await each.end_overdue(now_s)

    async def divide(self, *own: frozenset[int]) -> None:
        """Let the planners have these shards, each given up before it is taken."""
        before = [division_of(each.decider.known).own for each in self.planners]
        for planner, had, wanted in zip(self.planners, before, own, strict=True):
            assert had is not None
            await planner.handovers.give_up(had & wanted)
        for planner, wanted in zip(self.planners, own, strict=True):
            await planner.handovers.catch_up()
            await planner.handovers.take(wanted)

    async def told(self) -> dict[str, tuple[str, bool]]:
        """Return the notifications by id: each rule, and whether it went over its limit."""
        return {row.notification_id: (row.rule, row.limited) for row in await self.store.read(select(t.notifications))}


@pytest.fixture
async def fleets(postgresql: PostgresServer) -> AsyncIterator[tuple[Fleet, Fleet]]:
    """Yield a fleet with one planner that has everything, and one with three that share it."""
    databases = [postgresql.create_migrated() for _ in range(2)]
    async with open_connections(databases[0]) as first, open_connections(databases[1]) as second:
        one, shared = (SqlStore(each, ChrononGrid(10.0)) for each in (first, second))
        async with one.writer.running(), shared.writer.running():
            for store in (one, shared):
                declaration = declared()
                await store.declarations.accept([], declaration.rules.values(), T0)
            clock = FakeClock(T0)
            whole = Planner(one, clock, UNDIVIDED)
            ties = ties_of(declaration, whole.decider.known.compiled.programs.values(), str)
            nothing = Division(frozenset(), ties)
            yield Fleet(one, clock, [whole]), Fleet(shared, clock, [Planner(shared, clock, nothing) for _ in range(3)])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
async def test_shared_sources_are_told_of_as_by_one_planner(fleets: tuple[Fleet, Fleet], seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, shared = fleets
    names = [*FEEDS, *OTHERS]
    for step in range(60):
        if step % 6 == 0:
            holder = rng.integers(3, size=SHARDS)
            await shared.divide(*(frozenset(np.flatnonzero(holder == number).tolist()) for number in range(3)))
            planned = [each.planned for each in shared.planners]
            assert sum(map(len, planned)) == len(set().union(*planned)) == len(one.planners[0].planned)
        await one.clock.advance(float(rng.integers(20, 900)))
        name, new = names[rng.integers(len(names))], int(rng.integers(4))
        await one.probe(name, new)
        await shared.probe(name, new)
    told = await one.told()
    assert await shared.told() == told
    assert {rule for rule, _ in told.values()} == {"each", "third", "across", "answered", "joined"}


async def test_pages_that_a_rule_needs_together_have_one_planner(fleets: tuple[Fleet, Fleet]) -> None:
    _, shared = fleets
    await shared.divide(ALL - {0, 1, 2}, frozenset({0, 1, 2}), frozenset())
    for together in (["s0", "s1"], ["one", "two"], ["s2", "quote"]):
        has = [[each.decider.known.has(name) for name in together] for each in shared.planners]
        assert sorted(has) == [[False, False], [False, False], [True, True]]


async def test_what_was_given_up_is_asked_no_more(fleets: tuple[Fleet, Fleet]) -> None:
    _, shared = fleets
    await shared.divide(ALL, frozenset(), frozenset())
    first, second, _ = (each.decider for each in shared.planners)
    chosen = first.choose(int(T0 // 10)).probes
    assert {each.probe.source_id for each in chosen} >= {*FEEDS}
    await shared.divide(frozenset(), ALL, frozenset())
    assert [first.request(each.probe.source_id, T0) for each in chosen] == [None] * len(chosen)
    assert not first.planner.sources
    assert second.request("s0", T0) is not None


async def test_of_our_own_sources_only_the_newest_records_are_kept(fleets: tuple[Fleet, Fleet]) -> None:
    _, shared = fleets
    await shared.divide(ALL, frozenset(), frozenset())
    followed = FollowedFleet(shared.store.read_each)
    for new in (2, 1):
        await shared.clock.advance(600.0)
        await shared.probe("s0", new)
        await shared.probe("s3", new)
        found = await followed.catch_up(lambda name: name != "s0")
        assert found.states.keys() == found.weeks.keys() == {"s3"}
        assert "s0" not in {source_id for _, source_id in found.streams}
    stored = {row.source_id: rows.source_record(row) for row in await shared.store.read(select(t.sources))}
    assert followed.records(["s0", "s3", "unknown"]) == {name: stored[name] for name in ("s0", "s3")}
