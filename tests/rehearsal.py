"""Rehearsals: the daemon's decider, without a daemon, against origins whose items are all known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.chronon import Epoch
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import delays_s
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import StoredContext
from proxyd.core.rules.known.estimates import until_next_plan_s
from proxyd.lab.replay.replay import SourceFault

Floats = NDArray[np.float64]


class Origins:
    """Feeds that gain an item at each given time, and show the newest ones.

    Parameters
    ----------
    times_s
        Item times of each source, ascending.
    window
        Number of items that a feed shows.
    faults
        The times at which sources answer differently.

    Examples
    --------
    >>> origins = Origins({"a": np.array([5.0, 7.0])})
    >>> outcome, known = origins.answer("a", 6.0)
    >>> [item.published_s for item in outcome.items], len(known.items)
    ([5.0], 0)
    """

    def __init__(
        self,
        times_s: Mapping[str, Floats],
        *,
        window: int = 20,
        faults: Mapping[str, Sequence[SourceFault]] = MappingProxyType({}),
    ) -> None:
        self._times_s = times_s
        self._window = window
        self._faults = faults
        self._shown = dict.fromkeys(times_s, -1)  # number of items when the source was last seen; -1 before

    def answer(self, source_id: str, at_s: float) -> tuple[ProbeOutcome, StoredContext]:
        """Return what a probe at ``at_s`` finds, and the items known from earlier probes."""
        for fault in self._faults.get(source_id, ()):
            if fault.holds_at(at_s):
                return ProbeOutcome(
                    source_id, fault.kind, at_s, at_s, retry_after_s=fault.retry_after_s
                ), StoredContext()
        before, times = self._shown[source_id], self._times_s[source_id]
        count = self._shown[source_id] = int(np.searchsorted(times, at_s, side="right"))
        if before == count:
            return ProbeOutcome(source_id, OutcomeKind.SAME_BODY, at_s, at_s, 200), StoredContext()
        numbers = range(count - 1, max(-1, count - 1 - self._window), -1)
        items = tuple(_item(number, float(times[number])) for number in numbers)
        known = {item.item_id: item for number, item in zip(numbers, items, strict=True) if number < before}
        return ProbeOutcome(
            source_id, OutcomeKind.CHANGED, at_s, at_s, 200, items, body_hash=str(count)
        ), StoredContext(known)


def _item(number: int, time_s: float) -> Item:
    return Item(str(number), {}, time_s, str(number))


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The probes of a rehearsal, in order of their starts, and those that failed."""

    probes: tuple[PlannedProbe, ...]
    failed: frozenset[int] = frozenset()

    def probes_s(self, sources: Sequence[str]) -> list[Floats]:
        """Return when each source was probed, ascending, in unix seconds."""
        found: dict[str, list[float]] = {source: [] for source in sources}
        for number, planned in enumerate(self.probes):
            if number not in self.failed:
                found[planned.probe.source_id].append(planned.start_s)
        return [np.array(found[source]) for source in sources]

    def delays_s(self, times_s: Mapping[str, Floats], *, start_s: float, stop_s: float) -> Floats:
        """Return the delay of each item from ``start_s`` on, to the end if it was never found."""
        pairs = zip(times_s.values(), self.probes_s(list(times_s)), strict=True)
        late = [delays_s(t[(t >= start_s) & (t < stop_s)], p[p <= stop_s], end_s=stop_s) for t, p in pairs]
        return np.concatenate([np.zeros(0), *late])


def rehearse(
    decider: Decider, origins: Origins, epoch: Epoch, *, plan_every_s: float = inf, first_plan_s: float | None = None
) -> Rehearsal:
    """Return the probes that the daemon would make, each answered at once.

    As in the daemon, only probes reveal the start and the end of a failure.

    Parameters
    ----------
    decider
        The decider, which learns from the rehearsal; do not use it again.
    plan_every_s, first_plan_s
        Interval (shorter at first) and first time of the plan of the week; the defaults are the daemon's.
    """
    grid = decider.settings.grid
    begun_s = grid.start_s(epoch.start)

    def next_plan_s(last_s: float) -> float:
        return last_s + until_next_plan_s(last_s - begun_s, plan_every_s)

    plan_s = next_plan_s(begun_s) if first_plan_s is None else first_plan_s
    made: list[PlannedProbe] = []
    failed: set[int] = set()
    for now in epoch:
        while plan_s <= grid.start_s(now):
            plan(decider, plan_s)
            plan_s = next_plan_s(plan_s)
        for planned in decider.choose(now).probes:
            while plan_s <= planned.start_s:
                plan(decider, plan_s)
                plan_s = next_plan_s(plan_s)
            if not take_in(decider, origins, planned):
                failed.add(len(made))
            made.append(planned)
    return Rehearsal(tuple(made), frozenset(failed))


def plan(decider: Decider, now_s: float) -> None:
    """Make a plan of the week and put it into use."""
    week = decider.fleet(now_s).plan()
    if week is not None:
        run_all(decider.switch_plan(week, now_s))


def take_in(decider: Decider, origins: Origins, planned: PlannedProbe) -> bool:
    """Make a probe, feed back its result, and return whether it succeeded."""
    at_s = planned.start_s
    planner = decider.planner
    planner.start(planned, at_s)
    outcome, known = origins.answer(planned.probe.source_id, at_s)
    decider.outcomes.finish(outcome, decider.observe(outcome, known))
    return outcome.kind.is_success
