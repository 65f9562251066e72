"""Previews: the coming probes if every probe finds what the rates expect. Plays copies and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.probe_slots import PlannedProbe

_MOST_COPIED = 4000
_MOST_BESIDE = 256  # sources besides the first ones: who ranks first in a chronon may start last, when its host is free
_MOST_STEPS = 10_000  # a tenth of a second


def play(planner: Planner, epoch: Epoch) -> Iterator[tuple[Chronon, list[PlannedProbe]]]:
    """Play an epoch as if every probe ended at once, including those in flight; yields each chronon's choice."""
    for source_id in tuple(planner.in_flight):
        planner.finished(source_id, planner.settings.grid.start_s(epoch.start), seen=True)
    now = epoch.start
    while now < epoch.stop:
        chosen = planner.choose(now)
        for planned in chosen:
            planner.finished(planned.probe.source_id, planned.start_s, seen=True)
        yield now, chosen
        now = max(now + 1, planner.queues.next_wake(now))


def preview(planner: Planner, epoch: Epoch, *, limit: int | None = None) -> list[PlannedProbe]:
    """Return the probes of ``epoch`` that are made if every probe finds what the rates expect.

    ``limit`` stops after that many probes. Then only the sources that may come before all others are copied: those that
    wake first, and the best of those that wait for room. If hosts hold back thousands of these, the sources that would
    be probed in their place may be missing. It also stops after many chronons in which sources wait for a small budget.

    Examples
    --------
    >>> from proxyd.core.model.budget import Budget
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.planning.queue.planner_settings import PlannerSettings
    >>> from proxyd.core.planning.policies.demands import Demands
    >>> from proxyd.core.planning.policies.uniform import UniformDemand
    >>> from proxyd.core.politeness import PolitenessBudget, ProbeLog
    >>> planner = Planner(PlannerSettings(ChrononGrid(10.0), Budget(1.0)))
    >>> demands = Demands([UniformDemand("r", period=5, next_due=0)])
    >>> planner.put(PlannedSource("a", "example.org", ProbeLog(PolitenessBudget(0.0)), demands, rate_per_s=0.01), now=0)
    >>> [planned.probe.chronon for planned in preview(planner, Epoch(0, 16))]
    [0, 5, 10, 15]
    """
    if limit is None:
        return _play(planner, planner.sources, epoch, limit).probes[:limit]
    room = limit + min(planner.settings.capacity(epoch.start), _MOST_BESIDE)
    while True:
        names, until = _first(planner, room, epoch)
        played = _play(planner, names, Epoch(epoch.start, max(epoch.start, until)), limit)
        is_sure = room > _MOST_COPIED or room >= limit + played.held_back
        is_all = len(names) == len(planner.sources) or (until >= epoch.stop and not played.held_back)
        if played.is_cut or is_all or (is_sure and len(played.probes) >= limit):
            return played.probes[:limit]
        room = 4 * max(room, played.held_back)


def preview_source(planner: Planner, source_id: str, epoch: Epoch) -> PlannedProbe | None:
    """Return the first probe of one source in ``epoch``, as if it had the budget to itself."""
    source = planner.sources.get(source_id)
    if source is None:
        return None
    alone = _alone(planner, source, epoch.start)
    blocked_s = alone.limits.blocked_until_s(source)
    now = max(epoch.start, planner.settings.grid.chronon_at(max(source.allowed_s(), blocked_s, 0.0)))
    now = planner.settings.next_room(max(now, alone.queues.next_wake(now - 1)), epoch.stop)
    while now < epoch.stop:
        if chosen := alone.choose(now):
            return chosen[0]
        now = planner.settings.next_room(max(now + 1, alone.queues.next_wake(now)), epoch.stop)
    return None


def _alone(planner: Planner, source: PlannedSource, now: Chronon) -> Planner:
    """Return a planner with a copy of one source that has its host to itself; it is valid until that is probed."""
    alone = Planner(planner.settings)
    if planner.week is not None:
        alone.change_to(planner.week)  # it does not change until a probe ends
    alone.limits.blocks.block(source.throttle_scope or source.host, planner.limits.blocked_until_s(source))
    alone.put(source.copy(), now)
    return alone


def _first(planner: Planner, room: int, epoch: Epoch) -> tuple[set[str], Chronon]:
    """Return the sources that the first ``room`` probes come from, and the chronon before which no others come."""
    grid, sources = planner.settings.grid, planner.sources
    until = _when_used(planner, room, epoch)
    waiting, wakes = planner.queues.first(room, sources, grid.start_s(epoch.start), grid.start_s(until))
    until = until if wakes is None else min(until, wakes)
    names = (waiting | planner.in_flight.keys()) & sources.keys()
    return names, epoch.stop if len(names) >= len(sources) else until


def _when_used(planner: Planner, room: int, epoch: Epoch) -> Chronon:
    """Return the first chronon before which the budget has room for so many probes."""
    left, now = room, epoch.start
    while left > 0 and now < epoch.stop:
        now = planner.settings.next_room(now, epoch.stop)
        left -= planner.settings.capacity(now)
        now += 1
    return min(now, epoch.stop)


@dataclass(frozen=True, slots=True)
class _Played:
    """Probes, how many sources were held back meanwhile, and whether it took too many chronons to find more."""

    probes: list[PlannedProbe]
    held_back: int
    is_cut: bool


def _play(planner: Planner, source_ids: Iterable[str], epoch: Epoch, limit: int | None) -> _Played:
    """Return probes of some sources, at least ``limit`` if there are."""
    probes: list[PlannedProbe] = []
    held_back: set[str] = set()
    part = planner.part(source_ids)
    for step, (_, chosen) in enumerate(play(part, epoch), start=1):
        probes += chosen
        held_back.update(name for name, _ in part.held_back)
        if limit is not None and (len(probes) >= limit or step >= _MOST_STEPS):
            return _Played(probes, len(held_back), is_cut=step >= _MOST_STEPS)
    return _Played(probes, len(held_back), is_cut=False)
