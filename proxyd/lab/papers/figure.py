"""Figures: the results of an experiment, as a table that matplotlib can also draw.

Matplotlib is an optional dependency, which is imported only when needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Epoch
from proxyd.core.planning.capture.earliest_deadline import OPEN, Spans
from proxyd.lab.algorithms.sup_schedules import sup_arrays
from proxyd.lab.traces import STEADY, Week, noisy_updates, zipf_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Probes: TypeAlias = tuple[Ints, Ints]
"""Pages and chronons of probes, of equal shape."""

CHRONONS = 1000
"""Number of chronons in the papers' epochs."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Execution intervals, all arrays of shape (E,): page, first and last chronon."""

    pages: Ints
    starts: Ints
    deadlines: Ints

    def __len__(self) -> int:
        return len(self.pages)

    def sup(self) -> Probes:
        """Return the fewest probes that capture them all, each as late as possible."""
        return sup_arrays(self.pages, self.starts, self.deadlines)

    def noisy_windows(self, kept: float, *, epoch: int, rng: np.random.Generator) -> Intervals:
        """Return the intervals, each kept with probability ``kept``, else moved to a random start; lengths stay."""
        starts = np.where(rng.random(len(self)) < kept, self.starts, rng.integers(0, epoch, len(self)))
        length = int(np.max(self.deadlines - self.starts, initial=0))
        return Intervals(self.pages, starts, np.minimum(starts + length, epoch - 1))

    def utility(self, probes: Probes) -> float:
        """Return the share that ``probes`` capture: the effective utility, since SUP with full knowledge captures all.

        >>> found = Updates.of([[2, 5]], 10).intervals(1, None)
        >>> found.utility((np.array([0]), np.array([4])))
        0.5
        """
        if not len(self):
            return 1.0
        at = Spans((), self.pages, self.starts, self.deadlines).first_captures(*probes)
        return float(np.mean(at < OPEN))


@dataclass(frozen=True, slots=True, eq=False)
class Updates:
    """Updates of numbered pages in an epoch that begins at chronon 0."""

    # Shape (n,), in order of the page, then of the chronon
    pages: Ints
    chronons: Ints
    count: int  # number of pages
    epoch: int  # number of chronons

    @classmethod
    def of(cls, chronons: list[list[int]], epoch: int) -> Updates:
        """Return the updates of pages, given one list for each page."""
        pages = np.repeat(np.arange(len(chronons)), [len(own) for own in chronons])
        own = [np.sort(np.array(given, dtype=np.int64)) for given in chronons]
        return cls(pages, np.concatenate([np.zeros(0, np.int64), *own]), len(chronons), epoch)

    def __len__(self) -> int:
        return len(self.pages)

    @property
    def of_page(self) -> list[Ints]:
        """The chronons of each page."""
        return np.split(self.chronons, np.searchsorted(self.pages, np.arange(1, self.count)))

    def shift(self, chronons: Ints) -> Updates:
        """Return as many updates of each page at other chronons."""
        order = np.lexsort((chronons, self.pages))
        return Updates(self.pages[order], chronons[order], self.count, self.epoch)

    def noisy(self, kept: float, rng: np.random.Generator) -> Updates:
        """Return the updates as the model FPN(Z) with Z = ``kept`` sees them."""
        epoch = Epoch(0, self.epoch)
        return self.shift(np.concatenate([noisy_updates(own, kept, epoch=epoch, rng=rng) for own in self.of_page]))

    def intervals(self, every: int, life: int | None, *, closed: bool = False) -> Intervals:
        """Return the intervals of ``COUNT(*) % every = 0`` on every page.

        Parameters
        ----------
        life
            ``None`` for *overwrite*, else the window in chronons.
        closed
            Under *overwrite*: the interval ends at the next update instead of one chronon before it.

        Examples
        --------
        >>> found = Updates.of([[2, 5, 9, 9]], 20).intervals(2, None)
        >>> found.starts.tolist(), found.deadlines.tolist()
        ([5, 9], [8, 19])
        """
        last = np.append(self.pages[1:] != self.pages[:-1], True)[: len(self)]
        following = np.where(last, self.epoch, np.append(self.chronons[1:], self.epoch)[: len(self)])
        if life is None:
            deadlines = np.maximum(self.chronons, following - (0 if closed else 1))
        else:
            deadlines = self.chronons + life
        ranks = np.arange(len(self)) - np.searchsorted(self.pages, self.pages) + 1
        fires = ranks % every == 0
        return Intervals(
            self.pages[fires], self.chronons[fires], np.minimum(deadlines[fires], self.epoch - 1).astype(np.int64)
        )


@dataclass(frozen=True, slots=True)
class Dataset:
    """The distribution of a synthetic set of updates."""

    name: str
    # Exact numbers of pages and updates
    pages: int
    events: int
    exponent: float  # exponent of the pages' rates, which are proportional to `1 / rank ** exponent`
    week: Week = STEADY  # the intensity over the epoch, which lasts from 0 to 1
    batch: float = 1.0  # mean number of simultaneous updates (geometric)

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Return one trace."""
        rates = zipf_rates(self.pages, exponent=self.exponent, total_per_s=float(self.events))
        heads = self.events if self.batch == 1.0 else self.events // round(self.batch)
        pages = np.sort(rng.choice(self.pages, size=heads, p=rates / self.events))
        times = self._times(rng.random(heads))
        sizes = np.ones(heads, dtype=np.int64) if self.batch == 1.0 else rng.geometric(1.0 / self.batch, heads)
        pages, times = np.repeat(pages, sizes), np.repeat(times, sizes)
        order = np.lexsort((times, pages))
        return Drawn(self, rates, pages[order], times[order])

    def expect(self, rates: Floats, chronons: int) -> Updates:
        """Return the updates that the Poisson model expects: a page's k-th where ``Lambda(0, t) = k``."""
        counts = np.floor(rates + 1e-9).astype(np.int64)
        pages = np.repeat(np.arange(self.pages), counts)
        ranks = np.arange(len(pages)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        times = self._times(ranks / np.repeat(rates, counts))
        return Updates(pages, _chronons(times, chronons), self.pages, chronons)

    def chances(self, rates: Floats, chronons: int) -> Floats:
        """Return the probability of an update of each page in each chronon, shape (pages, chronons)."""
        shares = np.diff(self.week.expect(np.arange(chronons + 1) / chronons))
        likely: Floats = -np.expm1(-np.outer(rates, shares))
        return likely

    def _times(self, shares: Floats) -> Floats:
        """Return when each share of the epoch's expected updates has come."""
        edges = self.week.edges_s(0.0, 1.0)
        times: Floats = np.interp(shares, self.week.expect(edges), edges)
        return times


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A trace of a data set: sorted pages, times from 0 to 1, and the pages' true rates per epoch."""

    dataset: Dataset
    rates: Floats
    pages: Ints
    times: Floats

    def updates(self, chronons: int = CHRONONS) -> Updates:
        """Return the updates in an epoch of ``chronons`` chronons."""
        return Updates(self.pages, _chronons(self.times, chronons), self.dataset.pages, chronons)

    def expect(self, chronons: int = CHRONONS) -> Updates:
        """Return the updates that the Poisson model expects from the true rates."""
        return self.dataset.expect(self.rates, chronons)


def _chronons(times: Floats, chronons: int) -> Ints:
    return np.minimum(np.floor(times * chronons + 1e-9).astype(np.int64), chronons - 1)


def office_week(first: int, last: int, *, outside: float) -> Week:
    """Return an hourly week that fills the epoch: hours ``first`` to ``last`` of working days, and the time outside.

    >>> office_week(9, 17, outside=0.0).expect(np.array([9 / 168, 17 / 168])).round(3)
    array([0. , 0.2])
    """
    day = [1.0 if first <= hour < last else outside for hour in range(24)]
    return Week(1.0, tuple(day * 5 + [outside] * 48))


RSS = Dataset("RSS (stand-in)", 103, 1972, 1.0, office_week(8, 18, outside=0.2))
SYNTHETIC_1 = Dataset("Synthetic 1", 244, 3754, 0.0, Week(1.0, (2.0, 1.0, 1.0, 1.0, 1.0, 4.0)))
SYNTHETIC_2 = Dataset("Synthetic 2", 792, 4194, 1.0, office_week(9, 15, outside=0.0))


_Curve: TypeAlias = tuple[str, list[float | str], list[float]]
"""A curve's name, and the coordinates of its points."""

_MARKERS = "os^Dv<>pXP*"
_WIDE, _HIGH = 100.0, 20.0
"""Values that span more than these factors get a logarithmic axis, along ``x`` and along ``y``."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A table, and how to draw it."""

    name: str  # short name, also for its files: letters, digits and hyphens
    title: str  # what it shows, with the units
    # The table
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    # Columns to draw, `y` against `x`; `None` for a table only
    x: str | None = None
    y: tuple[str, ...] = ()
    by: str | None = None  # column that distinguishes the curves; `None` if each of `y` is one
    note: str = ""  # what to compare the figure with, or what differs from the paper and why


def curves(figure: Figure) -> list[_Curve]:
    """Return the curves of a figure with an ``x``, in the order of the table.

    >>> rows = (("a", 1, 2.0), ("a", 2, 3.0), ("b", 1, 4.0))
    >>> curves(Figure("f", "", ("name", "t", "cost"), rows, x="t", y=("cost",), by="name"))
    [('a', [1, 2], [2.0, 3.0]), ('b', [1], [4.0])]
    """
    if figure.x is None:
        raise ValueError(f"{figure.name} is a table only")
    along = figure.columns.index(figure.x)
    split = None if figure.by is None else figure.columns.index(figure.by)
    found: dict[str, _Curve] = {}
    for measured in figure.y:
        height = figure.columns.index(measured)
        for row in figure.rows:
            key = measured if split is None else str(row[split])
            name = key if split is None or len(figure.y) == 1 else f"{key}, {measured}"
            _, places, heights = found.setdefault(name, (name, [], []))
            places.append(row[along])
            heights.append(float(row[height]))
    return list(found.values())


def _height_label(figure: Figure) -> str:
    """Return the label of the vertical axis: the column or, if there are several, the title's units or subject.

    >>> costs = "Expected cost of the policies, ratio 3 (days x importance)"
    >>> _height_label(Figure("f", costs, ("n", "doe", "uniform"), (), x="n", y=("doe", "uniform")))
    'days x importance'
    >>> _height_label(Figure("f", "Items undiscovered: 20 sources", ("n", "a", "b"), (), x="n", y=("a", "b")))
    'Items undiscovered'
    """
    if len(figure.y) == 1:
        return figure.y[0]
    units = re.search(r"\(([^()\d]+)\)$", figure.title)
    return units[1] if units else re.split(r"[,:]", figure.title)[0]


def plot(figure: Figure, path: Path) -> None:
    """Draw ``figure`` into a PNG file."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8.0, 5.0), dpi=120, layout="constrained")
    axes = canvas.add_subplot()
    drawn = curves(figure)
    for number, curve in enumerate(drawn):
        _draw(axes, number, curve)
    axes.set_title(fill(figure.title, 80), fontsize=11)
    axes.set_xlabel(figure.x or "")
    axes.set_ylabel(fill(_height_label(figure), 60))
    axes.grid(visible=True, alpha=0.3)
    _scale(axes, drawn)
    if len(drawn) > 1:
        axes.legend(fontsize=8, ncols=1 if len(drawn) <= 8 else 2, title=figure.by)
    canvas.savefig(path, format="png")


def _draw(axes: Axes, number: int, curve: _Curve) -> None:
    name, places, heights = curve
    marker = _MARKERS[number % len(_MARKERS)]
    if len(places) == 1:
        axes.plot(places, heights, marker, markersize=11, label=name, zorder=3)
    else:
        axes.plot(places, heights, marker=marker, markersize=4 if len(places) < 50 else 0, linewidth=1.4, label=name)


def _scale(axes: Axes, drawn: list[_Curve]) -> None:
    from matplotlib.ticker import MaxNLocator

    heights = [value for _, _, values in drawn for value in values]
    places = [place for _, values, _ in drawn for place in values if not isinstance(place, str)]
    if _is_wide(heights, _HIGH):
        axes.set_yscale("log")
    if len(places) < len(heights):
        return
    if _is_wide(places, _WIDE):
        axes.set_xscale("log")
    elif all(float(place).is_integer() for place in places):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _is_wide(values: list[float], factor: float) -> bool:
    return bool(values) and min(values) > 0 and max(values) > factor * min(values)
