"""Sources that wait only for room in the budget, ranked together even if there are very many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.queue.planned_source import PlannedSource

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Gains: TypeAlias = Callable[[Ints], Floats]
_LIMITS = (Constraint.BUDGET, Constraint.OVERLOAD)
_UNPLANNED, _OF_ITS_OWN = -1, -2  # sources that the plan of the week does not know, or whose rule says their worth
_FOUND = 2048  # number of gains that a call computes again
_SHORT = 4096  # number of sources on a new short list
_RUN = 256  # number sorted first, then four times as many


class ReadyQueue:
    """Sources that are due and wait only for room, or for their first contact.

    The data that the ranking needs is stored when a source is put: a source that changes must be removed and put again.

    For more than some thousand sources the gains are computed again in turn. Whenever all had their turn, the best ones
    form the short list. Each call ranks only this list and the sources put since whose gain is at least that of any
    source left out. So a source is passed over for one of smaller gain only by less than its own gain grows in two
    rounds of turns.

    Examples
    --------
    >>> from functools import partial
    >>> from proxyd.core.politeness import PolitenessBudget, ProbeLog
    >>> from proxyd.core.planning.policies.auto import DetectionDemand
    >>> from proxyd.core.planning.policies.demands import Demands
    >>> waiting = ReadyQueue()
    >>> for name, rate_per_s in (("a", 0.01), ("b", 0.1)):
    ...     log = ProbeLog(PolitenessBudget(60.0))
    ...     source = PlannedSource(name, name, log, Demands([DetectionDemand("r")]), rate_per_s, last_seen_s=0.0)
    ...     waiting.put(source, None, price_item_s=50.0)
    >>> gains = partial(waiting.gains, now_s=100.0, week=None)
    >>> [(gain, source.source_id) for gain, source in waiting.best(gains)]
    [(10.0, 'b'), (1.0, 'a')]
    """

    def __init__(self) -> None:
        self._sources: list[PlannedSource] = []
        self._place: dict[str, int] = {}
        self._numbers = np.zeros(64, dtype=np.int64)
        self._kept = np.zeros((64, 5))  # worth over price, last seen, not before, what to take from the calls
        self._gains = np.zeros(64)  # as last computed, nan if never
        self._calls = [0] * len(_LIMITS)  # calls in which there was no room for all, by reason
        self._looked_at = self._turn = 0
        self._short = np.zeros(0, dtype=np.int64)
        self._joined: set[int] = set()  # places of the sources put or moved since the last call
        self._least = inf  # the largest gain that the short list left out; infinity if a new list is needed

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, source_id: str) -> bool:
        return source_id in self._place

    def put(
        self,
        source: PlannedSource,
        week: WeekPlan | None,
        price_item_s: float = 1.0,
        own_per_s2: float | None = None,
    ) -> None:
        """Add a source that does not wait yet; the price is that of a probe of it, if the plan does not know it.

        ``own_per_s2`` is the worth over the price, by half the square of the wait, if a rule says it.
        """
        place = self._place[source.source_id] = len(self._sources)
        self._sources.append(source)
        self._joined.add(place)
        if place == len(self._numbers):
            self._numbers = np.concatenate([self._numbers, self._numbers])
            self._gains = np.concatenate([self._gains, self._gains])
            self._kept = np.concatenate([self._kept, self._kept])
        self._numbers[place] = _number(source, week) if own_per_s2 is None else _OF_ITS_OWN
        self._gains[place] = np.nan
        worth = source.rate_per_s * source.weight / price_item_s if own_per_s2 is None else own_per_s2
        self._kept[place] = worth, source.last_seen_s or 0.0, source.not_before_s, *self._calls

    def remove(self, source_id: str) -> None:
        """Forget a source; does nothing if it does not wait."""
        place = self._place.get(source_id)
        if place is None:
            return
        source = self._sources[place]
        for limit, passed in self.passed_over(source_id).items():
            source.postpone(limit, passed)
        del self._place[source_id]
        last = self._sources.pop()
        if last is not source:
            self._sources[place], self._place[last.source_id] = last, place
            self._joined.add(place)
            self._numbers[place], self._gains[place] = self._numbers[len(self)], np.nan  # it may miss its turn
            self._kept[place] = self._kept[len(self)]

    def renumber(self, week: WeekPlan | None) -> None:
        """Use a new plan; all gains are computed again at the next ranking."""
        others = np.flatnonzero(self._numbers[: len(self)] != _OF_ITS_OWN)
        self._numbers[others] = [_number(self._sources[place], week) for place in others.tolist()]
        self._gains[: len(self)], self._turn, self._least = np.nan, 0, inf

    # -- ranking

    def gains(self, places: Ints, *, now_s: float, week: WeekPlan | None) -> Floats:
        """Return the expected delay that a probe at each place would end, divided by its price; shape (places,)."""
        worth, seen_s = self._kept[places, :2].T
        gains: Floats = worth * (now_s - seen_s) ** 2 / 2
        if week is not None:
            planned = np.flatnonzero(self._numbers[places] >= 0)
            gains[planned] = week.gains_of(self._numbers[places[planned]], now_s)
        return gains

    def soonest(self, places: Ints) -> Floats:
        """Return gains that rank first the sources that might be probed first; shape (places,)."""
        soonest: Floats = -self._kept[places, 2]
        return soonest

    def first(self, count: int, gains_of: Gains, later_of: Gains) -> list[PlannedSource]:
        """Return the sources of the largest gains, and those whose later gains may put them before one of these.

        Gains only grow, so the first ``count`` probes are among these regardless of the order of probes. Changes
        nothing; the result is in no order.
        """
        if count >= len(self):
            return list(self._sources)
        places = np.arange(len(self))
        least = np.partition(gains_of(places), -count)[-count]
        return [self._sources[place] for place in np.flatnonzero(later_of(places) >= least)]

    def best(self, gains_of: Gains) -> Iterator[tuple[float, PlannedSource]]:
        """Yield gain and source, the largest gain first; do not put or remove sources meanwhile."""
        if len(self) <= 1:  # usual for planners of one source
            yield from zip(gains_of(np.arange(len(self))).tolist(), self._sources, strict=True)
            return
        self._rank_short(gains_of)
        yield from self._ranked(self._short)
        if len(self._short) < len(self):
            self._least = inf
            others = np.ones(len(self), dtype=np.bool_)
            others[self._short] = False
            yield from self._ranked(np.flatnonzero(others))

    def _rank_short(self, gains_of: Gains) -> None:
        """Compute gains again, and with them the short list."""
        gains, short = self._gains[: len(self)], self._listed()
        new = np.flatnonzero(np.isnan(gains)) if self._least == inf else short[np.isnan(gains[short])]
        turn = np.arange(self._turn, min(self._turn + _FOUND, len(self)))
        for places in (new, turn):
            gains[places] = gains_of(places)
        self._turn += _FOUND
        self._short = short[gains[short] >= self._least]
        if self._turn >= len(self):
            self._turn, self._least = 0, inf
        if self._least == inf or not _RUN <= len(self._short) <= 2 * _SHORT:
            beyond = max(0, len(self) - _SHORT)
            self._short = np.sort(np.argpartition(gains, beyond)[beyond:]) if beyond else np.arange(len(self))
            self._least = float(gains[self._short].min()) if beyond else -inf

    def _listed(self) -> Ints:
        """Return the places of the short list and of those that joined it, in order and without repetition."""
        joined = np.fromiter(self._joined, np.int64, len(self._joined))
        self._joined.clear()
        listed = np.sort(np.concatenate([self._short, joined]), kind="stable")
        return listed[(np.diff(listed, prepend=-1) > 0) & (listed < len(self))]

    def _ranked(self, left: Ints) -> Iterator[tuple[float, PlannedSource]]:
        """Yield gain and source of some places, the largest gain first."""
        losses, run = -self._gains[left], _RUN
        while len(left):
            order = np.argpartition(losses, run) if len(left) > run else np.arange(len(left))
            first, order = order[:run], order[run:]
            places = left[first].tolist()
            names = [self._sources[place].source_id for place in places]
            for loss, _, place in sorted(zip(losses[first].tolist(), names, places, strict=True)):
                yield -loss, self._sources[place]
            left, losses, run = left[order], losses[order], 4 * run

    # -- counts of calls without room

    def pass_over(self, limit: Constraint) -> int:
        """Count one more call without room for all but those ``looked_at`` since the last call; return how many."""
        passed, self._looked_at = len(self) - self._looked_at, 0
        self._calls[_LIMITS.index(limit)] += 1
        return passed

    def looked_at(self, source_id: str, limit: Constraint) -> None:
        """Note that a source was held back for a reason of its own; does nothing if it does not wait."""
        if (place := self._place.get(source_id)) is not None:
            self._kept[place, 3 + _LIMITS.index(limit)] += 1
            self._looked_at += 1

    def passed_over(self, source_id: str) -> Counter[Constraint]:
        """Return how often a source was passed over since it was put, by the limit that left no room."""
        place = self._place.get(source_id)
        if place is None:
            return Counter()
        passed = zip(_LIMITS, self._calls, self._kept[place, 3:].tolist(), strict=True)
        return Counter({limit: calls - int(taken) for limit, calls, taken in passed if calls > taken})


def _number(source: PlannedSource, week: WeekPlan | None) -> int:
    number = None if week is None else week.number(source.source_id)
    return _UNPLANNED if number is None else number
