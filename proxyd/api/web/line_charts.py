"""Charts as coordinates; templates draw them as SVG, next to a table of the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log, log10

LEVELS = 8


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
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
    lines: tuple[Line, ...]
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
    bottom: float = 24.0
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


def line(frame: Frame, name: str, kind: str, points: Points) -> Line:
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
    return Line(name, kind, paths, tuple(point for run in runs for point in run))


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
class Cell:
    """An hour of the week: the ``level`` of its shade, its rate factor, expected items, and planned probes."""

    day: int
    hour: int
    level: int
    factor: float | None
    items: float | None
    planned: int


def heat_map(week: Sequence[float], rate_per_day: float, planned_s: Iterable[float]) -> list[list[Cell]]:
    """Return a week's cells by day from Monday; ``planned_s`` are unix seconds, hours are those of UTC.

    >>> cells = heat_map([], 24.0, [4 * 86400.0 + 60.0])  # 1970-01-05 was a Monday
    >>> cells[0][0].planned, cells[0][1].planned, cells[0][0].level
    (1, 0, 0)
    """
    counts = [0] * 168
    for at_s in planned_s:
        counts[int(at_s // 3600 + 72) % 168] += 1
    most = max(week, default=0.0)
    return [[_cell(day, hour, week, most, rate_per_day, counts) for hour in range(24)] for day in range(7)]


def _cell(day: int, hour: int, week: Sequence[float], most: float, rate: float, counts: Sequence[int]) -> Cell:
    at = day * 24 + hour
    if not week:
        return Cell(day, hour, 0, None, None, counts[at])
    level = 0 if most <= 0 or week[at] <= 0 else max(1, round(LEVELS * week[at] / most))
    return Cell(day, hour, level, week[at], week[at] * rate / 24.0, counts[at])


def spark_line(counts: Sequence[int], *, step: float = 6.0, height: float = 18.0) -> str:
    """Return a path of one bar for each count, ``step`` apart; a bar is never lower than a tenth of the height.

    >>> spark_line([0, 2, 1])
    'M6.0 18.0 v-18.0 h5.0 v18.0 z M12.0 18.0 v-9.0 h5.0 v9.0 z'
    """
    most = max(counts, default=0)
    heights = [max(round(height * count / most, 1), height / 10) if count else 0.0 for count in counts]
    bars = [(k * step, high) for k, high in enumerate(heights) if high]
    return " ".join(f"M{x} {height} v-{high} h{step - 1} v{high} z" for x, high in bars)
