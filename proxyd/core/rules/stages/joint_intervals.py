"""Intervals that several pages must capture: a trigger on one class and a query of others, or a count over a class.

An event opens the interval on every page of the query that correlates with it. The notification goes out once all are
captured, or partial when the interval ends; what is obtained after that goes out once, as a supplement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.item import Item, UpdateEvent, Value
from proxyd.core.rules.programs.expression_compiler import Closure, Row, is_true
from proxyd.core.rules.state import StoredEvent

MOST_ROWS = 1000  # of one page
LONGEST_S = 86400.0  # for which a page is waited for whose life nothing ends, and for supplements
_LIVES = 2.0  # expected lives of a page after which its interval is taken to have ended


@dataclass(frozen=True, slots=True)
class Obtained:
    """What a page showed to the probe that was to capture it."""

    source_id: str
    seen_s: float
    captured: bool
    rows: tuple[Mapping[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class JointInterval:
    """An interval open on several pages.

    Parameters
    ----------
    interval_id
        The id of its notification.
    events
        Of the trigger's stream since the rule's previous firing; the last one opened the interval.
    opened, deadline
        Chronons; no deadline where each page's next update ends it.
    ends_s
        When it is taken to have ended for pages that were not obtained: then a partial notification goes out.
    wanted
        Pages still to be obtained.
    told
        Pages of the partial notification, ``None`` before it; what comes after them is a supplement.
    """

    interval_id: str
    rule: str
    events: tuple[UpdateEvent, ...]
    opened: Chronon
    opened_s: float
    deadline: Chronon | None
    ends_s: float
    wanted: tuple[str, ...]
    obtained: tuple[Obtained, ...] = ()
    told: tuple[str, ...] | None = None

    @property
    def event(self) -> UpdateEvent:
        """The event that opened it."""
        return self.events[-1]

    @property
    def is_complete(self) -> bool:
        """Whether every page was obtained."""
        return not self.wanted

    @property
    def is_captured(self) -> bool:
        """Whether every page was captured in time."""
        return not self.wanted and all(page.captured for page in self.obtained)

    def news(self) -> tuple[Obtained, ...]:
        """Return the pages that no notification has told of."""
        return tuple(page for page in self.obtained if page.source_id not in (self.told or ()))


def correlated(
    event: UpdateEvent, pages: Mapping[str, Sequence[Mapping[str, Value]] | None], table: str, condition: Closure | None
) -> list[str]:
    """Return the pages that may hold a row for an event: those where one meets ``condition``, or nothing is known.

    ``pages`` holds the rows last seen of each page, ``None`` before first contact; without a condition all correlate.
    """
    row = Row.of(event)
    return [
        source_id
        for source_id, rows in pages.items()
        if condition is None
        or rows is None
        or any(is_true(condition(replace(row, fields=fields, tables={table: fields}))) for fields in rows)
    ]


def wait_s(rates_per_s: Iterable[float], *, chronon_s: float) -> float:
    """Return how long pages are waited for whose life ends with their next update: twice the longest expected life.

    >>> wait_s([0.1, 0.01], chronon_s=10.0)
    200.0
    """
    slowest = min(rates_per_s, default=0.0)
    return min(LONGEST_S, max(10 * chronon_s, _LIVES / slowest if slowest > 0 else LONGEST_S))


def obtain(
    interval: JointInterval,
    source_id: str,
    found: Sequence[StoredEvent],
    rows: Sequence[Mapping[str, Value]],
    *,
    seen_s: float,
    grid: ChrononGrid,
) -> JointInterval:
    """Return the interval after a probe that started after it opened saw one of its pages.

    Under a window the page is captured up to the deadline; under *overwrite* unless it was updated in a later chronon
    than the one in which the interval opened.
    """
    if interval.deadline is not None:
        captured = grid.chronon_at(seen_s) <= interval.deadline
    else:
        captured = not any(not e.seed and grid.chronon_at(e.event_s) > interval.opened for e in found)
    page = Obtained(source_id, seen_s, captured, tuple(rows[:MOST_ROWS]))
    return replace(
        interval,
        wanted=tuple(each for each in interval.wanted if each != source_id),
        obtained=(*interval.obtained, page),
    )


def rows_of(items: Iterable[Item], paths: Iterable[str]) -> tuple[Mapping[str, Value], ...]:
    """Return the rows that queries see of a page's items: only the fields they read."""
    wanted = tuple(paths)
    return tuple({path: item.fields.get(path) for path in wanted} for item in items)[:MOST_ROWS]
