"""Planners that share the sources run the same declaration, and never have a source twice while it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from proxyd.base.metrics import Metrics
from proxyd.cluster.division import Division
from proxyd.cluster.shared_fleet import Handovers, SharedFleet
from proxyd.core.errors import BusyError
from proxyd.core.language import CheckSettings
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.suspension import Subject
from proxyd.core.rules.known.failing_rules import FailingRule, rule_meaning
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.daemon import Declarations
from proxyd.store.backups import open_connections
from proxyd.store.databases.membership import Shares
from proxyd.store.databases.shards import FIRST_SHARD, SHARDS, shard_of
from proxyd.store.followed_rows import FollowedFleet
from proxyd.store.sql_store import SqlStore
from proxyd.store.suspension_rows import record_failing
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, decider, declaration, rule, source, stream_recall
from tests.servers import PostgresServer

T0 = 1_700_000_000.0
NAMES = [f"s{number}" for number in range(12)]
ACROSS = rule("all", when="COUNT(*) ACROSS SOURCES % 5 = 0")
LOWER, UPPER = frozenset(range(SHARDS // 2)), frozenset(range(SHARDS // 2, SHARDS))


@dataclass
class GivenShares(Shares):
    """Shards that a test gives, and what all planners run."""

    name: str
    runs: dict[str, str]
    own: frozenset[int] = frozenset()
    has_looked: asyncio.Event = field(default_factory=asyncio.Event)
    busy: Callable[[], Awaitable[Collection[int]]] | None = None

    def all_run(self, digest: str) -> bool:
        return all(each == digest for each in self.runs.values())

    async def note_runs(self, digest: str) -> None:
        self.runs[self.name] = digest

    async def follow(self, sleep: object, changed: object, busy: Callable[[], Awaitable[Collection[int]]]) -> None:
        self.busy = busy


class Planner:
    """One of several planners over a database."""

    def __init__(self, folder: Path, store: SqlStore, clock: FakeClock, shares: GivenShares) -> None:
        self.decider = decider(declaration(), now_s=T0)
        self.decider.known.owned = Division(frozenset())
        self.shares, self.store, stored = shares, store, FollowedFleet(store.read_each)
        recall = stream_recall(self.decider, store)
        parts = (CheckSettings(), Metrics(), lambda _: b"s", stored.sources)
        self.declarations = Declarations(folder, recall, clock, *parts)
        self.under_way: set[str] = set()
        self.fleet = SharedFleet(
            shares, stored, recall, self.declarations, [lambda: self.under_way], clock, lambda: True
        )
        shares.runs[shares.name] = ""
        shares.has_looked.set()

    async def start(self) -> None:
        """Start as the daemon does; nothing runs on."""
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            assert await self.fleet.start(self.declarations.start, stopping, tasks)
            stopping.set()

    @property
    def planned(self) -> set[str]:
        return set(self.decider.planner.sources)


@dataclass
class Both:
    """Two planners: the first looks after the declaration."""

    folder: Path
    clock: FakeClock
    one: Planner
    two: Planner

    async def look(self, times: int = 3) -> None:
        for _ in range(times):
            for each in (self.one, self.two):
                await each.fleet.look()
                assert not self.one.planned & self.two.planned

    @property
    def planned(self) -> set[str]:
        return self.one.planned | self.two.planned


@pytest.fixture
async def both(tmp_path: Path, postgresql: PostgresServer) -> AsyncIterator[Both]:
    database = postgresql.create_migrated()
    sources = "".join(source(name, host=f"{name}.example") for name in NAMES)
    (tmp_path / "a.profile").write_text(DOMAIN + sources + rule("r"))
    clock, runs = FakeClock(T0), dict[str, str]()
    async with open_connections(database) as first, open_connections(database) as second:
        stores = [SqlStore(each, ChrononGrid(10.0)) for each in (first, second)]
        async with stores[0].writer.running(), stores[1].writer.running():
            one, two = (
                Planner(tmp_path, store, clock, GivenShares(name, runs, own))
                for store, name, own in zip(stores, ("one", "two"), (LOWER, UPPER), strict=True)
            )
            await one.start()
            await two.start()
            yield Both(tmp_path, clock, one, two)


async def test_each_plans_its_shards_and_together_they_plan_all(both: Both) -> None:
    await both.look()
    for planner, shards in ((both.one, LOWER), (both.two, UPPER)):
        assert planner.planned == {name for name in NAMES if shard_of(f"{name}.example") in shards}
    assert (both.one.declarations.gate.controls, both.two.declarations.gate.controls) == (True, False)
    budgets = [each.decider.planner.settings.budget.per_s for each in (both.one, both.two)]
    assert sum(budgets) == pytest.approx(1.0)
    assert min(budgets) > 0


async def test_what_one_declares_and_suspends_all_run(both: Both) -> None:
    await both.one.declarations.declare(source("t", host="t.example"))
    await both.one.declarations.suspensions.pause("s3", by="me")
    await both.look()
    assert both.planned == {*NAMES, "t"} - {"s3"}
    assert both.two.declarations.declaration.sources.keys() == {*NAMES, "t"}
    assert both.two.declarations.suspensions.of(Subject.SOURCE, "s3") is not None
    with pytest.raises(BusyError, match="another planner"):
        await both.two.declarations.declare(source("u"))
    await both.one.declarations.suspensions.resume("s3")
    (both.folder / "a.profile").write_text(DOMAIN + source("s3", host="s3.example") + rule("r"))
    await both.one.declarations.reload()
    await both.look()
    assert both.planned == {"s3", "t"}


async def test_whichever_planner_records_notifications_all_hear_of_it(both: Both) -> None:
    heard: list[str] = []
    both.two.fleet.told.listen(lambda: heard.append("news"))
    await both.look()
    assert heard == []
    sent = Notification("n", "r", "s0", 1.0, 2.0, False, b"{}", ())
    await both.one.store.record_results(RuleResults(notifications=(sent,)))
    await both.look(3)
    assert heard == ["news"]


async def test_a_rule_that_failed_too_often_is_suspended_and_resumed_everywhere(both: Both) -> None:
    await both.look()
    program = both.one.decider.known.compiled.programs["r"]
    failing = FailingRule("r", rule_meaning(program.rule), 5, "s0", "why", T0, suspended_s=T0)
    store = both.one.store
    await store.writer.submit(lambda connection: record_failing(connection, [failing]))
    await both.look()
    assert all(each.decider.known.failing.is_suspended("r") for each in (both.one, both.two))
    await both.one.declarations.suspensions.resume("r")
    await both.look()
    assert not any(each.decider.known.failing.is_suspended("r") for each in (both.one, both.two))


async def test_pages_that_are_tied_move_once_the_other_planner_has_let_them_go(both: Both) -> None:
    await both.look()
    gaining, losing = (both.one, both.two) if "s0" in both.one.planned else (both.two, both.one)
    theirs = min(losing.planned)
    losing.under_way = {theirs}
    await both.one.declarations.declare(ACROSS)
    await both.look()
    assert losing.planned == set()
    assert not gaining.decider.known.has(theirs)
    losing.under_way = set()
    await both.look()
    assert gaining.planned == {*NAMES}
    await both.one.declarations.declare("DROP NOTIFICATION all;")
    await both.look()
    assert both.planned == {*NAMES}
    assert losing.planned


async def test_shards_that_go_during_a_look_are_given_up_by_the_next(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    await both.look()
    catch_up = Handovers.catch_up

    async def loses_some(handovers: Handovers) -> None:
        await catch_up(handovers)
        both.one.shares.own = frozenset({FIRST_SHARD})

    with monkeypatch.context() as patched:
        patched.setattr(Handovers, "catch_up", loses_some)
        await both.clock.advance(60.0)  # or nothing is read
        await both.one.fleet.look()
    assert both.one.planned == {name for name in NAMES if shard_of(f"{name}.example") in LOWER}
    await both.one.fleet.look()
    assert both.one.planned == {name for name in NAMES if shard_of(f"{name}.example") == FIRST_SHARD}


async def test_who_gets_sources_has_its_part_of_the_budget_before_it_plans(both: Both) -> None:
    both.two.shares.own = frozenset()
    await both.look()
    assert both.two.decider.planner.settings.budget.per_s == 0.0
    planned_with: list[float] = []
    both.two.fleet.many_gained.listen(lambda: planned_with.append(both.two.decider.planner.settings.budget.per_s))
    both.two.shares.own = UPPER
    await both.look()
    assert planned_with == [both.two.decider.planner.settings.budget.per_s]
    assert planned_with[0] > 0.0


async def test_the_shards_of_one_that_has_ended_are_planned_and_its_folder_is_read(both: Both) -> None:
    await both.look()
    (both.folder / "b.profile").write_text(source("t", host="t.example"))
    del both.one.shares.runs["one"]
    both.two.shares.own = LOWER | UPPER
    for _ in range(2):
        await both.two.fleet.look()
    assert both.two.declarations.gate.controls
    assert both.two.planned == {*NAMES, "t"}
    await both.two.declarations.declare(source("u", host="u.example"))
    assert "u" in both.two.planned


async def test_a_shard_is_given_up_when_nothing_is_under_way_there(both: Both) -> None:
    await both.look()
    await both.one.fleet.follow()
    assert both.one.shares.busy is not None
    name = min(both.one.planned)
    shard = shard_of(f"{name}.example")
    both.one.under_way = {name}
    both.one.shares.own = frozenset({FIRST_SHARD})
    assert await both.one.shares.busy() == LOWER - {FIRST_SHARD} | {shard}  # the others were not given up yet
    await both.one.fleet.look()
    assert await both.one.shares.busy() == {shard}
    async with both.one.declarations.suspensions.turn:
        assert await both.one.shares.busy() == {*range(SHARDS)}
    both.one.under_way = set()
    assert await both.one.shares.busy() == set()
