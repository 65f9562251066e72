"""Intervals that several sources must capture: an event in one class with a query of others, or a count over a class.

An event opens the interval on every source of the query that correlates with it. The notification is sent once all are
captured, or is sent as partial when the interval ends; what is obtained later is sent once, as a supplement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.item import Item, UpdateEvent, Value
from proxyd.core.rules.known.context import History
from proxyd.core.rules.known.state import IntervalRecord, StoredEvent
from proxyd.core.rules.programs.expression_compiler import Closure, Row, is_true
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.rule_program import RuleProgram

_MOST_ROWS = 1000  # of one source in a query
LONGEST_S = 86400.0  # longest wait for a source whose life has no end, and for supplements
_LIVES = 2.0  # expected lives of a source after which its interval is assumed to have ended
_STEPS_PER_COPY = 12  # of a row


@dataclass(frozen=True, slots=True)
class Obtained:
    """The rows of a source at the probe that captured or missed an interval."""

    source_id: str
    seen_s: float
    captured: bool
    rows: tuple[Mapping[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class JointInterval:
    """An interval open on several sources."""

    interval_id: str  # also of its notification
    rule: str
    # events of the trigger's stream since the rule's previous firing; the last one opened the interval
    events: tuple[UpdateEvent, ...]
    # ``opened``, ``deadline``: chronons; there is no deadline if each source's next update ends the interval
    opened: Chronon
    opened_s: float
    deadline: Chronon | None
    # when it is taken to have ended for missing sources, in unix seconds; a partial notification is then sent
    ends_s: float
    wanted: tuple[str, ...]  # sources still to be obtained
    obtained: tuple[Obtained, ...] = ()
    # sources in the partial notification, ``None`` before it; later sources go into a supplement
    told: tuple[str, ...] | None = None

    @property
    def event(self) -> UpdateEvent:
        """The event that opened it."""
        return self.events[-1]

    @property
    def is_complete(self) -> bool:
        """Whether every source was obtained."""
        return not self.wanted

    def news(self) -> tuple[Obtained, ...]:
        """Return the sources that no notification has reported yet."""
        return tuple(each for each in self.obtained if each.source_id not in (self.told or ()))


@dataclass(frozen=True, slots=True)
class Announcement:
    """A joint interval that is to be notified now; ``url`` is that of the source whose event opened it."""

    program: RuleProgram
    interval: JointInterval
    history: History
    url: str
    created_s: float


@dataclass(frozen=True, slots=True)
class IntervalStep:
    """One step of a joint interval."""

    interval: JointInterval
    is_over: bool = False
    announced: Announcement | None = None
    records: tuple[IntervalRecord, ...] = ()  # whether each source that is decided now captured the interval
    asks: tuple[str, ...] = ()  # the sources that the interval wants probed from now on, or no longer


def sources_that_correlate(
    event: UpdateEvent,
    seen: Mapping[str, Sequence[Mapping[str, Value]] | None],
    table: str,
    condition: Closure | None,
    meter: Meter,
) -> list[str]:
    """Return the sources that may have a row for an event: a row meets ``condition``, or the rows are unknown.

    ``seen`` holds the last rows seen of each source, ``None`` before first contact. Without a condition all sources
    correlate. So do the remaining ones once the meter is spent.
    """
    row = Row.of(event, meter=meter)

    def may(rows: Sequence[Mapping[str, Value]] | None) -> bool:
        if condition is None or rows is None or meter.is_spent:
            return True
        try:
            return any(is_true(condition(with_row(fields))) for fields in rows)
        except Exception:  # noqa: BLE001 - the query itself decides later, and reports what fails
            return True

    def with_row(fields: Mapping[str, Value]) -> Row:
        meter.spend(_STEPS_PER_COPY)
        return replace(row, fields=fields, tables={table: fields})

    return [source_id for source_id, rows in seen.items() if may(rows)]


def wait_s(rates_per_s: Iterable[float], *, chronon_s: float) -> float:
    """Return how long to wait for sources whose life ends with their next update: twice the longest expected life.

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
    """Return the interval after one of its sources was seen by a probe that started after the interval opened.

    Under a window the source is captured up to the deadline; under *overwrite* it is captured unless it was updated in
    a chronon later than the one in which the interval opened.
    """
    if interval.deadline is not None:
        captured = grid.chronon_at(seen_s) <= interval.deadline
    else:
        captured = not any(not e.seed and grid.chronon_at(e.event_s) > interval.opened for e in found)
    obtained = Obtained(source_id, seen_s, captured, tuple(rows[:_MOST_ROWS]))
    return replace(
        interval,
        wanted=tuple(each for each in interval.wanted if each != source_id),
        obtained=(*interval.obtained, obtained),
    )


def rows_of(items: Iterable[Item], paths: Iterable[str]) -> tuple[Mapping[str, Value], ...]:
    """Return the rows of a source's items that queries see: only the fields they read."""
    wanted = tuple(paths)
    return tuple({path: item.fields.get(path) for path in wanted} for item in items)[:_MOST_ROWS]
