"""While a large declaration is loaded, feeds that are due are asked; nothing of that is lost or asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import pytest
from structlog.testing import capture_logs

from proxyd.app.wiring import Built, build
from proxyd.config import Settings, load
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.rules.state import SourceState
from proxyd.daemon import EarlyProbes, Planning
from proxyd.daemon.remembered import early_digest, load_sources
from proxyd.ports import MaySend, Prober
from proxyd.store import SqlStore, open_store
from proxyd.store.followed_rows import RememberedSources
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, PoissonOrigin, rule, source
from tests.integration.api_world import T0, offline_parts

NAMES = [f"s{number}" for number in range(12)]
HOUR_S, DAY_S = 3600.0, 86400.0
EVERY_S = 3 * HOUR_S  # each has a new item


@dataclass
class Machine:
    """A machine with a database; its daemons follow each other."""

    folder: Path
    clock: FakeClock = field(default_factory=lambda: FakeClock(T0))

    def declare(self, *sources: str) -> None:
        (self.settings.profiles / "a.profile").write_text(DOMAIN + "".join(sources) + rule("r"))

    @property
    def settings(self) -> Settings:
        profiles = self.folder / "profiles"
        profiles.mkdir(exist_ok=True)
        return load(environ={}, profiles=profiles, chronon="10s", budget="1/s")

    @asynccontextmanager
    async def daemon(self, prober: Prober) -> AsyncIterator[Built]:
        async with open_store(self.folder / "p.db", ChrononGrid(10.0)) as store, store.writer.running():
            yield build(self.settings, offline_parts(self.settings, store, self.clock, prober))

    def origin(self) -> PoissonOrigin:
        times = [T0 + EVERY_S * (number + 0.5) for number in range(40)]
        return PoissonOrigin(dict.fromkeys(NAMES, times), self.clock.time_s)

    async def live(self, found: Built, prober: PoissonOrigin, *, hours: int) -> None:
        """Probe as planned for some hours, and plan the week."""
        for _ in range(2 * hours):
            await self.clock.advance(HOUR_S / 2)
            await choose(found, self.clock, prober)
        resources = found.resources
        await Planning(
            *(found.decider, self.clock, found.metrics),
            every_s=HOUR_S,
            plans=resources.store.plan,
            declared=lambda: found.declarations.digest,
        ).plan()


async def choose(found: Built, clock: FakeClock, prober: PoissonOrigin) -> list[str]:
    """Make the probes of this chronon, and return their sources."""
    grid, asked = found.decider.settings.grid, []
    for planned in found.decider.choose(grid.chronon_at(clock.time_s())):
        request = found.decider.request(planned.probe.source_id, clock.time_s())
        assert request is not None
        await found.observer.take_in(await prober.probe(request), reading=request.reading, probe=planned.probe)
        asked.append(request.source_id)
    return asked


async def lived(
    folder: Path, *, hosts: Mapping[str, str] = MappingProxyType({}), paused: Sequence[str] = ()
) -> Machine:
    """Return a machine whose daemon has planned twelve feeds, some at shared hosts, and ended a day ago."""
    migrated_file(folder / "p.db")
    made = Machine(folder)
    made.declare(*(source(name, host=hosts.get(name, f"{name}.example")) for name in NAMES))
    prober = made.origin()
    async with made.daemon(prober) as found:
        await found.declarations.start()
        await made.live(found, prober, hours=24)
        for name in paused:
            await found.declarations.suspensions.pause(name, "me")
    await made.clock.advance(DAY_S)
    return made


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let twelve sources be many."""
    monkeypatch.setattr("proxyd.daemon.plan_loop._LARGE", len(NAMES))


@pytest.fixture
async def machine(tmp_path: Path) -> Machine:
    """A machine whose daemon has planned twelve feeds of hosts of their own, and ended a day ago."""
    return await lived(tmp_path)


class Early:
    """Early probes of a daemon that starts: ``ask`` returns once it is loaded, after ``load_s``."""

    def __init__(self, machine: Machine, found: Built, load_s: int = 30) -> None:
        self.load_s = load_s
        self.machine = machine
        self.found = found
        parts = found.resources
        self.probes = EarlyProbes(found.decider, parts.store, parts.transport, parts.clock)

    async def ask(self, tasks: asyncio.TaskGroup) -> None:
        async def begun(declared: str) -> None:
            if await self.probes.begin(tasks, declared):
                for _ in range(self.load_s):
                    await self.machine.clock.someone_sleeps()  # the store reads in threads
                    await self.machine.clock.advance(1.0)
            assert not self.found.declarations.has_started

        await self.found.declarations.start(begun)
        await self.probes.end()


async def test_a_loaded_daemon_does_not_wait_after_the_last_feed_that_was_due(machine: Machine) -> None:
    prober = machine.origin()
    async with machine.daemon(prober) as found, asyncio.TaskGroup() as tasks:
        early = Early(machine, found, load_s=len(NAMES) - 1)  # it ends in the pause after the last one
        async with asyncio.timeout(30.0):
            await early.ask(tasks)
        assert len(prober.started) == len(NAMES)
        await early.probes.take_in(found.observer)


async def test_feeds_that_are_due_are_asked_while_the_declaration_is_loaded(machine: Machine) -> None:
    prober = machine.origin()
    async with machine.daemon(prober) as found, asyncio.TaskGroup() as tasks:
        early = Early(machine, found)
        await early.ask(tasks)
        asked = [name for _, name in prober.started]
        assert sorted(asked) == sorted(NAMES)
        assert found.decider.planner.in_flight.keys() == set(NAMES)
        assert await choose(found, machine.clock, prober) == []
        await early.probes.take_in(found.observer)
        assert found.decider.planner.in_flight == {}
        assert {found.decider.known.states[name].last_start_s for name in NAMES} <= {at_s for at_s, _ in prober.started}
        stored = await found.resources.store.load_states()
        shown = await found.resources.store.history.made_probes("s0", before=None, limit=1)
        assert [(each.reason, each.outcome) for each in shown] == [("detection", "changed")]
        starts = {name: found.decider.planner.sources[name].log.starts_s for name in NAMES}
        assert starts == {name: [at_s] for at_s, name in prober.started}
        assert all(stored[name].arrivals == found.decider.known.states[name].arrivals > 10 for name in NAMES)
        assert len(prober.started) == len(NAMES)


async def test_feeds_that_were_not_asked_when_loading_ends_are_due_at_once(machine: Machine) -> None:
    prober = machine.origin()
    async with machine.daemon(prober) as found, asyncio.TaskGroup() as tasks:
        early = Early(machine, found, load_s=4)
        await early.ask(tasks)
        await early.probes.take_in(found.observer)
        some = [name for _, name in prober.started]
        assert 0 < len(some) < len(NAMES)
        starts_s = [at_s for at_s, _ in prober.started]
        assert all(after_s - before_s >= 1.0 for before_s, after_s in pairwise(starts_s))
        await machine.clock.advance(10.0)
        rest = await choose(found, machine.clock, prober)
    assert sorted([*some, *rest]) == sorted(NAMES)


async def test_no_more_is_probed_than_may_wait_for_the_declaration(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyd.daemon.early_probes._MOST_HELD", 3)
    prober = machine.origin()
    async with machine.daemon(prober) as found, asyncio.TaskGroup() as tasks:
        early = Early(machine, found, load_s=2)
        await early.ask(tasks)
        await early.probes.take_in(found.observer)
    assert len(prober.started) == 3


async def test_feeds_that_cannot_be_read_are_probed_once_all_is_loaded(machine: Machine) -> None:
    async with machine.daemon(machine.origin()) as found:
        plans, settings = found.resources.store.plan, found.decider.settings
        kept = await plans.load()
        assert kept is not None
        await found.declarations.start()
        digest = early_digest(found.declarations.digest, settings)
        await plans.save(replace(kept, declared=digest, early=b"damaged"))
    with capture_logs() as logged:
        assert await asked_early(machine) == []
    assert [each["reason"] for each in logged if each["log_level"] == "warning"] == [
        "Error -3 while decompressing data: incorrect header check"
    ]


async def asked_early(machine: Machine) -> list[str]:
    """Return which sources the next daemon asks early."""
    prober = machine.origin()
    async with machine.daemon(prober) as found, asyncio.TaskGroup() as tasks:
        early = Early(machine, found)
        await early.ask(tasks)
        await early.probes.take_in(found.observer)
    return [name for _, name in prober.started]


async def test_another_declaration_is_loaded_before_anything_is_asked(machine: Machine) -> None:
    machine.declare(*(source(name, host=f"{name}.example", options="WEBSUB OFF") for name in NAMES))
    assert await asked_early(machine) == []


async def test_a_small_declaration_is_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.daemon.plan_loop._LARGE", len(NAMES) + 1)
    assert await asked_early(await lived(tmp_path)) == []


async def test_what_was_asked_after_the_plan_is_left_to_the_planner(machine: Machine) -> None:
    first = await asked_early(machine)
    await machine.clock.advance(600.0)
    assert sorted(first) == sorted(NAMES)
    assert await asked_early(machine) == []


async def test_sources_that_share_a_host_and_paused_ones_are_not_asked(tmp_path: Path) -> None:
    machine = await lived(tmp_path, hosts={"s0": "s1.example"}, paused=["s11"])
    assert sorted(await asked_early(machine)) == sorted(NAMES[2:11])


class Hanging:
    """An origin that never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def probe(self, request: ProbeRequest, _may_send: MaySend | None = None) -> ProbeOutcome:
        self.asked.append(request.source_id)
        await asyncio.Event().wait()
        raise AssertionError


async def test_what_a_killed_daemon_has_asked_is_not_asked_again(machine: Machine) -> None:
    prober = Hanging()
    async with machine.daemon(prober) as found, asyncio.TaskGroup() as tasks:
        early = Early(machine, found)
        await early.ask(tasks)
        taking = asyncio.create_task(early.probes.take_in(found.observer))
        await asyncio.sleep(0)
        taking.cancel()
    assert sorted(prober.asked) == sorted(NAMES)
    await machine.clock.advance(60.0)
    assert await asked_early(machine) == []
    async with machine.daemon(machine.origin()) as found:
        await found.declarations.start()
        assert await choose(found, machine.clock, machine.origin()) == []
        await machine.clock.advance(found.decider.settings.source_spacing_s)
        assert len(await choose(found, machine.clock, machine.origin())) == 10


@pytest.mark.parametrize("stops_at_once", [True, False])
async def test_a_daemon_goes_on_with_what_was_probed_while_it_was_loaded(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, stops_at_once: bool
) -> None:
    prober, clock = machine.origin(), machine.clock
    began_s, may_load = clock.time_s(), asyncio.Event()

    async def slowly(store: SqlStore) -> RememberedSources:
        await may_load.wait()
        return await load_sources(store)

    monkeypatch.setattr("proxyd.daemon.declarations.load_sources", slowly)

    def is_stored(state: SourceState) -> bool:
        return (state.last_success_s or 0.0) >= began_s

    async with open_store(machine.folder / "p.db", ChrononGrid(10.0)) as store, asyncio.timeout(60.0):
        parts = offline_parts(machine.settings, store, clock, prober)
        found = build(machine.settings, parts)
        running = asyncio.create_task(found.daemon.run())
        while not prober.started:
            await clock.someone_sleeps()
            await clock.advance(1.0)
        assert not found.declarations.has_started
        early = {name for _, name in prober.started}
        may_load.set()
        while not found.declarations.has_started:
            await asyncio.sleep(0.01)
            await clock.advance(1.0)
        while not (stops_at_once or all(is_stored(found.decider.known.states[name]) for _, name in prober.started)):
            await asyncio.sleep(0.01)
            await clock.advance(1.0)
        found.daemon.stop()
        await running  # the clock stands still: nothing waits for the next chronon
    asked = [name for _, name in prober.started]
    assert early <= set(asked)
    assert len(set(asked)) == len(asked)
    async with open_store(machine.folder / "p.db", ChrononGrid(10.0)) as store:
        assert {name for name, state in (await store.load_states()).items() if is_stored(state)} == set(asked)
