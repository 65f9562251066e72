"""Pages that wait for room in the budget and for nothing else, ranked all at once however many they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from proxyd.scheduling.fleet import WeekPlan
from proxyd.scheduling.page import OVER_BUDGET, Page

Floats = NDArray[np.float64]
_UNPLANNED = -1
_FOUND = 4096  # gains found anew in a call
_RUN = 256  # so many are sorted at first, then four times as many


class Waiting:
    """Pages that are due for detection alone, or for their first contact.

    What the ranking needs of a page is kept when it is put: a page that changes must be removed and put anew.

    Examples
    --------
    >>> from proxyd.politeness import PolitenessBudget, ProbeLog
    >>> from proxyd.scheduling import Demands
    >>> waiting = Waiting()
    >>> for name, rate_per_s in (("a", 0.01), ("b", 0.1)):
    ...     log = ProbeLog(PolitenessBudget(60.0))
    ...     waiting.put(Page(name, name, log, Demands(detecting=["r"]), rate_per_s, last_seen_s=0.0), None)
    >>> gains = waiting.gains(100.0, None, price_item_s=50.0)
    >>> [(gain, page.source_id) for gain, page in waiting.best(gains)]
    [(10.0, 'b'), (1.0, 'a')]
    """

    def __init__(self) -> None:
        self._pages: list[Page] = []
        self._place: dict[str, int] = {}
        self._numbers = np.zeros(64, dtype=np.int64)
        self._kept = np.zeros((4, 64))  # rate times weight, last seen, not before, what to take from the calls
        self._gains = np.zeros(64)
        self._calls = self._told = 0

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, source_id: str) -> bool:
        return source_id in self._place

    def put(self, page: Page, week: WeekPlan | None) -> None:
        """Add a page that does not wait yet."""
        place = self._place[page.source_id] = len(self._pages)
        self._pages.append(page)
        if place == len(self._numbers):
            self._numbers = np.concatenate([self._numbers, self._numbers])
            self._gains = np.concatenate([self._gains, self._gains])
            self._kept = np.concatenate([self._kept, self._kept], axis=1)
        self._numbers[place], self._gains[place] = _number(page, week), np.nan
        worth = page.rate_per_s * page.demands.weight
        self._kept[:, place] = worth, page.last_seen_s or 0.0, page.not_before_s, self._calls

    def remove(self, source_id: str) -> None:
        """Forget a page; does nothing where it does not wait."""
        place = self._place.pop(source_id, None)
        if place is None:
            return
        page, last = self._pages[place], self._pages.pop()
        if passed := self._calls - int(self._kept[3, place]):
            page.postponed[OVER_BUDGET] = page.postponed.get(OVER_BUDGET, 0) + passed
        if last is not page:
            self._pages[place], self._place[last.source_id] = last, place
            self._numbers[place], self._gains[place] = self._numbers[len(self)], self._gains[len(self)]
            self._kept[:, place] = self._kept[:, len(self)]

    def renumber(self, week: WeekPlan) -> None:
        """Go by a new plan."""
        self._numbers[: len(self)] = [_number(page, week) for page in self._pages]

    # -- ranking

    def gains(self, now_s: float, week: WeekPlan | None, *, price_item_s: float) -> Floats:
        """Return the expected delay that a probe of each would end, over its price; shape (waiting,).

        Some thousand are found anew in each call, by turns; the others have grown a little since.
        """
        gains = self._gains[: len(self)]
        fresh = np.isnan(gains)
        fresh[(self._calls * _FOUND + np.arange(min(_FOUND, len(self)))) % max(1, len(self))] = True
        places = np.flatnonzero(fresh)
        worth, seen_s = self._kept[:2, places]
        gains[places] = worth * (now_s - seen_s) ** 2 / 2 / price_item_s
        if week is not None:
            places = places[self._numbers[places] != _UNPLANNED]
            gains[places] = week.gains_of(self._numbers[places], now_s)
        return gains.copy()

    @property
    def not_before_s(self) -> Floats:
        """Before when each may not be probed, shape (waiting,)."""
        return self._kept[2, : len(self)].copy()

    def best(self, gains: Floats) -> Iterator[tuple[float, Page]]:
        """Yield the gain and the page of each, the largest gain first."""
        pages, left, run = list(self._pages), np.arange(len(gains)), _RUN
        while len(left):
            if len(left) > run:
                order = np.argpartition(-gains[left], run)
                first, left = left[order[:run]], left[order[run:]]
            else:
                first, left = left, left[:0]
            found = [(-float(gains[place]), pages[place].source_id, pages[place]) for place in first]
            yield from ((-gain, page) for gain, _, page in sorted(found, key=lambda each: each[:2]))
            run *= 4

    # -- how often the budget had no room

    def pass_over(self) -> int:
        """Note that all but those ``looked_at`` since the last call were passed over once more; return how many."""
        passed, self._told = len(self) - self._told, 0
        self._calls += 1
        return passed

    def looked_at(self, source_id: str) -> None:
        """Note that a page was held back for a reason of its own; does nothing where it does not wait."""
        if (place := self._place.get(source_id)) is not None:
            self._kept[3, place] += 1
            self._told += 1

    def passed_over(self, source_id: str) -> int:
        """Return how often a page was passed over since it was put."""
        place = self._place.get(source_id)
        return 0 if place is None else self._calls - int(self._kept[3, place])


def _number(page: Page, week: WeekPlan | None) -> int:
    number = None if week is None else week.number(page.source_id)
    return _UNPLANNED if number is None else number
