"""Charts as SVG: lines over time, lanes of what happened, and histograms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from math import ceil, floor, log, log10
from typing import ClassVar

from proxyd.api import wire
from proxyd.api.web.page_texts import duration
from proxyd.core.model.field_values import iso_time, local_time, parse_iso
from proxyd.core.model.outcome import OutcomeKind

_LEVELS = 8


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with gaps; ``paths`` are its runs of points in SVG's syntax, ``dots`` all its points."""

    name: str
    kind: str
    paths: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one pair of axes; ``mark`` is a highlighted point."""

    width: float
    height: float
    left: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[_Line, ...]
    mark: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The mapping of values to coordinates in a picture; if ``is_log``, the axes are logarithmic."""

    x_low: float
    x_high: float
    y_high: float
    y_low: float = 0.0
    is_log: bool = False
    width: float = 640.0
    height: float = 200.0
    left: float = 52.0
    bottom: ClassVar[float] = 24.0
    top: float = 8.0
    right: float = 18.0

    def x(self, value: float) -> float:
        """Return the place of a value on the x axis."""
        share = self._share(value, self.x_low, self.x_high)
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        """Return the place of a value on the y axis."""
        share = self._share(value, self.y_low, self.y_high)
        return round(self.height - self.bottom - share * (self.height - self.bottom - self.top), 1)

    def _share(self, value: float, low: float, high: float) -> float:
        if high <= low:
            return 0.5
        return log(value / low) / log(high / low) if self.is_log else (value - low) / (high - low)


def round_steps(high: float, count: int = 4) -> list[float]:
    """Return round values from 0 to ``high`` or a little above.

    >>> round_steps(9.3), round_steps(0.0)
    ([0.0, 2.5, 5.0, 7.5, 10.0], [0.0, 1.0])
    """
    if high <= 0:
        return [0.0, 1.0]
    size = 10.0 ** floor(log10(high / count))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each * count >= high * (1 - 1e-9))
    return [round(step * k, 12) for k in range(count + 1) if step * (k - 1) < high]


def steps_between(low: float, high: float, count: int = 5) -> list[float]:
    """Return round values between two, and those next to them.

    >>> steps_between(24.5, 31.0), steps_between(5.0, 5.0), steps_between(0.0, 0.0)
    ([24.0, 26.0, 28.0, 30.0, 32.0], [4.0, 5.0, 6.0], [-1.0, 0.0, 1.0])
    """
    if high <= low:
        pad = 10.0 ** floor(log10(abs(low))) if low else 1.0
        return [low - pad, low, low + pad]
    step = round_steps(high - low, count)[1]
    return [round(step * k, 12) for k in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)]


def round_times(high_s: float) -> list[float]:
    """Return round time spans from 0 to ``high_s`` or a little above, in seconds.

    >>> round_times(4000.0), round_times(30.0)
    ([0.0, 1200.0, 2400.0, 3600.0, 4800.0], [0.0, 10.0, 20.0, 30.0])
    """
    unit_s = next((each for each in (86400.0, 3600.0, 60.0) if high_s >= 1.5 * each), 1.0)
    return [step * unit_s for step in round_steps(high_s / unit_s)]


def factors(low: float, high: float, most: int = 8) -> list[float]:
    """Return round values of a logarithmic axis between two, few enough to be read.

    >>> factors(0.3, 80.0), factors(1.0, 1e6, most=4)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [1.0, 100.0, 10000.0, 1000000.0])
    """
    first, last = floor(log10(low)), floor(log10(high)) + 1
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        found = [round(each, 12) for each in found if low <= each <= high]
        if len(found) <= most:
            return found
    return found[:: -(-len(found) // most)]


_TIMES_S = (1e-3, 1e-2, 0.1, 1, 5, 15, 60, 300, 900, 3600, 10800, 43200, 86400, 259200, 864000, 2592000, 8640000)


def factor_times(low_s: float, high_s: float) -> list[float]:
    """Return round time spans of a logarithmic axis between two, in seconds.

    >>> factor_times(100.0, 25000.0)
    [300, 900, 3600, 10800]
    """
    return [each for each in _TIMES_S if low_s <= each <= high_s]


Points = Sequence[tuple[float, float | None]]


def line(frame: Frame, name: str, kind: str, points: Points) -> _Line:
    """Return a line with a gap at each missing value.

    >>> line(Frame(0.0, 2.0, 1.0), "a", "found", [(0.0, 0.0), (1.0, None), (2.0, 1.0)]).paths
    ('52.0,176.0', '622.0,8.0')
    """
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((frame.x(x), frame.y(y)))
    paths = tuple(" ".join(f"{x},{y}" for x, y in run) for run in runs if run)
    return _Line(name, kind, paths, tuple(point for run in runs for point in run))


def chart(
    frame: Frame, lines: Iterable[tuple[str, str, Points]], x_ticks: Iterable[Tick], y_ticks: Iterable[Tick]
) -> Chart:
    """Return a chart of lines, each with its name, kind and points; ticks are given as values."""
    return Chart(
        frame.width,
        frame.height,
        frame.left,
        frame.height - frame.bottom,
        tuple(Tick(frame.x(each.at), each.label) for each in x_ticks),
        tuple(Tick(frame.y(each.at), each.label) for each in y_ticks),
        tuple(line(frame, *each) for each in lines),
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """An hour of the week: the ``level`` of its shade, its rate factor, expected items, and planned probes."""

    day: int
    hour: int
    level: int
    factor: float | None
    items: float | None
    planned: int


def heat_map(
    week: Sequence[float], rate_per_day: float, planned_s: Sequence[float], *, is_cut: bool = False
) -> list[list[_Cell]]:
    """Return a week's cells by day from Monday; ``planned_s`` are unix seconds, hours are those of UTC.

    If ``is_cut``, the probes are the first of many, and the hours after them get as many as theirs on average.

    >>> cells = heat_map([], 24.0, [4 * 86400.0 + 60.0])  # 1970-01-05 was a Monday
    >>> cells[0][0].planned, cells[0][1].planned, cells[0][0].level
    (1, 0, 0)
    >>> cells = heat_map([], 24.0, [60.0 * minute for minute in range(121)], is_cut=True)
    >>> {cell.planned for row in cells for cell in row}
    {60}
    """
    counts = [0] * 168
    for at_s in planned_s:
        counts[int(at_s // 3600 + 72) % 168] += 1
    if is_cut:  # a source that is probed every minute had no dots but in the first 17 hours
        first, last = (planned_s[place] / 3600.0 for place in (0, -1))
        for hour in range(int(last), int(first) + 168):
            counts[(hour + 72) % 168] = round((len(planned_s) - 1) / (last - first))
    most = max(week, default=0.0)
    return [[_cell(day, hour, week, most, rate_per_day, counts) for hour in range(24)] for day in range(7)]


def _cell(day: int, hour: int, week: Sequence[float], most: float, rate: float, counts: Sequence[int]) -> _Cell:
    at = day * 24 + hour
    if not week:
        return _Cell(day, hour, 0, None, None, counts[at])
    level = 0 if most <= 0 or week[at] <= 0 else max(1, round(_LEVELS * week[at] / most))
    return _Cell(day, hour, level, week[at], week[at] * rate / 24.0, counts[at])


def spark_line(counts: Sequence[int], *, step: float = 6.0, height: float = 18.0) -> str:
    """Return a path of one bar for each count, ``step`` apart; a bar is never lower than a tenth of the height.

    >>> spark_line([0, 2, 1])
    'M6.0 18.0 v-18.0 h5.0 v18.0 z M12.0 18.0 v-9.0 h5.0 v9.0 z'
    """
    most = max(counts, default=0)
    heights = [max(round(height * count / most, 1), height / 10) if count else 0.0 for count in counts]
    bars = [(k * step, high) for k, high in enumerate(heights) if high]
    return " ".join(f"M{x} {height} v-{high} h{step - 1} v{high} z" for x, high in bars)


_DAY_S, _HOUR_S = 86400.0, 3600.0
_BAD_DAY = 0.99  # an uptime below that is shown as an outage
_STEPS_S = tuple(each * _HOUR_S for each in (1, 3, 6, 12, 24, 48, 120, 240, 720, 2400, 7200))
_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SUCCESSES = frozenset(each.value for each in OutcomeKind if each.is_success)
ITEMS_Y, PROBES_Y = 40.0, 116.0
LANE, MOST_LANES = 46.0, 12
_BOUNDS_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 3 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0, 10 * 86400.0)


@dataclass(frozen=True, slots=True)
class _Marks:
    """Marks of one kind: their common SVG path and their number."""

    name: str
    kind: str
    path: str
    count: int


@dataclass(frozen=True, slots=True)
class _TimeLine:
    """Items on one line, probes on another, and a line from each item to the probe that saw it."""

    width: float
    height: float
    left: float
    right: float
    ticks: tuple[Tick, ...]
    marks: tuple[_Marks, ...]
    delays: str


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Execution intervals, a line for each source: their spans, and marks of their fates."""

    width: float
    height: float
    left: float
    right: float
    ticks: tuple[Tick, ...]
    sources: tuple[tuple[str, float], ...]
    spans: str
    lags: str
    marks: tuple[_Marks, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar of a histogram; ``name`` is the range of its class."""

    name: str
    count: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Histogram:
    """A histogram of delays; ``ticks`` are the bounds between its classes."""

    width: float
    height: float
    bottom: float
    bars: tuple[_Bar, ...]
    ticks: tuple[Tick, ...]
    median_s: float
    nine_in_ten_s: float


def time_ticks(begin_s: float, end_s: float, most: int = 9, zone: tzinfo | None = UTC) -> list[Tick]:
    """Return at most ``most`` round times of a zone between two: hours, days of the week, or dates.

    >>> [tick.label for tick in time_ticks(0.0, 86400.0)]
    ['Thu 01', '03:00', '06:00', '09:00', '12:00', '15:00', '18:00', '21:00', 'Fri 02']
    >>> [tick.label for tick in time_ticks(3600.0, 4 * 86400.0, most=4)]
    ['Fri 02', 'Sat 03', 'Sun 04', 'Mon 05']
    """
    step_s = next((each for each in _STEPS_S if (end_s - begin_s) / each <= most), _STEPS_S[-1])
    ahead_s = _ahead_s(end_s, zone)
    first = ceil((begin_s + ahead_s) / step_s)
    times_s = [k * step_s for k in range(first, int((end_s + ahead_s) // step_s) + 1)]
    return [Tick(at_s - ahead_s, _label(at_s, step_s)) for at_s in times_s]


def _ahead_s(at_s: float, zone: tzinfo | None) -> float:
    """Return by how much the clocks of a zone are ahead of UTC; a chart shows one zone, also over their change."""
    ahead = local_time(at_s, zone).utcoffset()
    return 0.0 if ahead is None else ahead.total_seconds()


def day_bars(days: Sequence[wire.SiteDayShown]) -> list[tuple[str, str]]:
    """Return the bars of the days of a site as a path for each kind: ``up``, ``part``, ``down`` and ``unknown``.

    >>> day = {"date": "2026-01-01T00:00:00Z", "down_s": 0.0}
    >>> day_bars([wire.SiteDayShown(uptime=1.0, **day), wire.SiteDayShown(uptime=None, **day)])
    [('up', 'M0 0h3v24h-3z'), ('unknown', 'M4 0h3v24h-3z')]
    """
    paths: dict[str, str] = {}
    for place, each in enumerate(days):
        kind = "unknown" if each.uptime is None else "up" if each.uptime == 1.0 else "part"
        kind = "down" if each.uptime is not None and each.uptime < _BAD_DAY else kind
        paths[kind] = paths.get(kind, "") + f"M{4 * place} 0h3v24h-3z"
    return list(paths.items())


def day_ticks(begin_s: float, end_s: float, zone: tzinfo | None = UTC) -> list[Tick]:
    """Return marks at the beginnings of days of a zone, as values of a chart's axis."""
    ahead_s = _ahead_s(end_s, zone)
    days = range(ceil((begin_s + ahead_s) / _DAY_S), floor((end_s + ahead_s) / _DAY_S) + 1)
    return [Tick(day * _DAY_S - ahead_s, _NAMES[(day + 3) % 7]) for day in days]  # 1 January 1970 was a Thursday


def _label(at_s: float, step_s: float) -> str:
    if at_s % _DAY_S:
        return iso_time(at_s)[11:16]
    if step_s > 2 * _DAY_S:
        return iso_time(at_s)[5:10]
    return f"{_NAMES[int(at_s // _DAY_S + 3) % 7]} {iso_time(at_s)[8:10]}"


def probe_kind(outcome: str, items: int) -> str:
    """Return the result of a probe: ``found``, ``unchanged`` or ``failed``.

    >>> probe_kind("changed", 2), probe_kind("changed", 0), probe_kind("not_modified", 0), probe_kind("timeout", 0)
    ('found', 'unchanged', 'unchanged', 'failed')
    """
    if outcome not in _SUCCESSES:
        return "failed"
    return "found" if items else "unchanged"


def time_line(
    begin_s: float,
    end_s: float,
    items: Sequence[tuple[float, float]],
    probes: Sequence[tuple[float, str]],
    zone: tzinfo | None = UTC,
) -> _TimeLine:
    """Return the picture of items (published, seen) and probes (started, kind) in a period.

    Items published before the period start at its edge.

    >>> line = time_line(0.0, 100.0, [(10.0, 50.0)], [(50.0, "found"), (80.0, "unchanged")])
    >>> [(marks.name, marks.count) for marks in line.marks]
    [('unchanged', 1), ('failed', 0), ('found', 1), ('item', 1)]
    >>> line.delays
    'M110.0 40.0 L390.0 116.0'
    """
    frame = _frame(begin_s, end_s, 172.0)
    lines = [(frame.x(max(came_s, begin_s)), frame.x(min(max(seen_s, begin_s), end_s))) for came_s, seen_s in items]
    at = {kind: [frame.x(at_s) for at_s, its in probes if its == kind] for kind in ("unchanged", "failed", "found")}
    return _TimeLine(
        frame.width,
        frame.height,
        frame.left,
        frame.width - frame.right,
        _ticks(frame, zone),
        (
            _marks("unchanged", at["unchanged"], PROBES_Y, _stroke),
            _marks("failed", at["failed"], PROBES_Y, _cross),
            _marks("found", at["found"], PROBES_Y, _dot),
            _marks("item", [x for x, _ in lines], ITEMS_Y, _diamond),
        ),
        " ".join(f"M{x} {ITEMS_Y} L{seen_x} {PROBES_Y}" for x, seen_x in lines),
    )


def lanes(begin_s: float, end_s: float, intervals: Sequence[wire.IntervalOfRule], zone: tzinfo | None = UTC) -> _Lanes:
    """Return the picture of a rule's intervals for the sources with the newest ones, by name.

    Each interval is a span, which ends at its probe if nothing else ended it, with a mark at its probe; a line leads to
    a probe after its end. ``intervals`` are newest first.

    >>> times = {"start": "1970-01-01T00:00:10Z", "end": "1970-01-01T00:00:20Z", "probed": "1970-01-01T00:00:40Z"}
    >>> late = wire.IntervalOfRule(source="a", fate="late", exact=True, delay_s=30.0, utility=0.0, **times)
    >>> found = lanes(0.0, 100.0, [late])
    >>> found.sources, found.spans, found.lags, [marks.count for marks in found.marks]
    ((('a', 38.0),), 'M110.0 33.0 H180.0 v10 H110.0 Z', 'M180.0 38.0 H320.0', [0, 1, 0])
    """
    newest = list(dict.fromkeys(each.source for each in intervals))
    shown = sorted(newest[:MOST_LANES])
    at = {source: LANE * (k + 1.0) - 8.0 for k, source in enumerate(shown)}
    frame = _frame(begin_s, end_s, LANE * len(shown) + 36.0)
    drawn = [_Drawn.of(frame, each, at[each.source]) for each in intervals if each.source in at]
    return _Lanes(
        frame.width,
        frame.height,
        frame.left,
        frame.width - frame.right,
        _ticks(frame, zone),
        tuple(at.items()),
        " ".join(each.span for each in drawn),
        " ".join(each.lag for each in drawn if each.lag),
        tuple(
            _Marks(fate, fate, " ".join(shape(*each.mark) for each in its), len(its))
            for fate, shape in _FATES
            for its in ([each for each in drawn if each.fate == fate],)
        ),
        len(newest) - len(shown),
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The drawing of an interval."""

    fate: str
    span: str
    lag: str
    mark: tuple[float, float]

    @classmethod
    def of(cls, frame: Frame, each: wire.IntervalOfRule, y: float) -> _Drawn:
        def x(time: str | None, default: float) -> float:
            at_s = None if time is None else parse_iso(time)
            return default if at_s is None else frame.x(min(max(at_s, frame.x_low), frame.x_high))

        start_x = x(each.start, frame.left)
        end_x = x(each.end, x(each.probed, start_x))
        mark_x = x(each.probed, end_x)
        lag = f"M{end_x} {y} H{mark_x}" if mark_x > end_x else ""
        span = f"M{start_x} {y - 5} H{max(end_x, start_x + 1.5):.1f} v10 H{start_x} Z"
        return cls(each.fate, span, lag, (mark_x, y))


def histogram(delays_s: Iterable[float]) -> _Histogram | None:
    """Return a histogram of delays in roughly logarithmic classes with round bounds; ``None`` without delays.

    >>> found = histogram([2.0, 30.0, 40.0, 100.0])
    >>> [(bar.name, bar.count) for bar in found.bars]
    [('1 s to 5 s', 1), ('5 s to 15 s', 0), ('15 s to 60 s', 2), ('60 s to 5 min', 1)]
    >>> found.median_s, found.nine_in_ten_s
    (30.0, 100.0)
    """
    ordered = sorted(delays_s)
    if not ordered:
        return None
    class_of = [sum(delay_s >= bound_s for bound_s in _BOUNDS_S) for delay_s in ordered]
    first, last = class_of[0], class_of[-1]
    counts = [class_of.count(each) for each in range(first, last + 1)]
    frame = Frame(0.0, float(len(counts)), float(max(counts)), height=190.0, left=26.0, top=22.0, right=26.0)
    bars = tuple(_bar(frame, k, _class_name(first + k), count) for k, count in enumerate(counts))
    edges = [(k, first + k - 1) for k in range(len(counts) + 1) if 0 <= first + k - 1 < len(_BOUNDS_S)]
    ticks = tuple(Tick(frame.x(float(k)), duration(_BOUNDS_S[bound])) for k, bound in edges[:: 1 + len(edges) // 9])
    middle_s, late_s = _rank(ordered, 0.5), _rank(ordered, 0.9)
    return _Histogram(frame.width, frame.height, frame.height - frame.bottom, bars, ticks, middle_s, late_s)


def _class_name(number: int) -> str:
    """Return the range of a class in words.

    >>> _class_name(0), _class_name(12)
    ('less than 1 s', '10 d or more')
    """
    if number == 0:
        return f"less than {duration(_BOUNDS_S[0])}"
    low = duration(_BOUNDS_S[number - 1])
    return f"{low} or more" if number == len(_BOUNDS_S) else f"{low} to {duration(_BOUNDS_S[number])}"


def _rank(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed.

    >>> _rank([1.0, 2.0, 3.0, 4.0], 0.5), _rank([1.0], 0.9)
    (2.0, 1.0)
    """
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _bar(frame: Frame, number: int, name: str, count: int) -> _Bar:
    left, right, top = frame.x(number), frame.x(number + 1.0), frame.y(float(count))
    height = round(frame.height - frame.bottom - top, 1)
    return _Bar(name, count, round(left + 1.0, 1), top, round(right - left - 2.0, 1), height)


def _frame(begin_s: float, end_s: float, height: float) -> Frame:
    return Frame(begin_s, end_s, 1.0, width=780.0, height=height, left=40.0, right=40.0)


def _ticks(frame: Frame, zone: tzinfo | None) -> tuple[Tick, ...]:
    return tuple(Tick(frame.x(tick.at), tick.label) for tick in time_ticks(frame.x_low, frame.x_high, zone=zone))


_Shape = Callable[[float, float], str]


def _marks(kind: str, at: Sequence[float], y: float, shape: _Shape) -> _Marks:
    return _Marks(kind, kind, " ".join(shape(x, y) for x in at), len(at))


def _stroke(x: float, y: float) -> str:
    """Return a short upright line around a point."""
    return f"M{x} {y - 6} v12"


def _cross(x: float, y: float) -> str:
    """Return a cross around a point."""
    return f"M{x - 4:.1f} {y - 4} l8 8 m0 -8 l-8 8"


def _dot(x: float, y: float) -> str:
    """Return a disc around a point."""
    return f"M{x - 4:.1f} {y} a4 4 0 1 0 8 0 a4 4 0 1 0 -8 0 Z"


def _diamond(x: float, y: float) -> str:
    """Return a square on its corner around a point."""
    return f"M{x} {y - 4.5} l4.5 4.5 l-4.5 4.5 l-4.5 -4.5 Z"


_FATES: tuple[tuple[str, _Shape], ...] = (("captured", _dot), ("late", _diamond), ("missed", _cross))
