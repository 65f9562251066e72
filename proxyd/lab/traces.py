"""Update traces: read from CSV lines, or drawn from models with the given generator."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import ModelError, TraceError
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Epoch
from proxyd.core.rates.week_bins import WEEK_S

if TYPE_CHECKING:
    from _csv import Reader


def zipf_rates(sources: int, *, exponent: float, total_per_s: float) -> Floats:
    """Return update rates proportional to ``1 / rank ** exponent``, largest first, that sum to ``total_per_s``.

    >>> zipf_rates(3, exponent=1.0, total_per_s=11.0)
    array([6., 3., 2.])
    """
    weights = np.arange(1, sources + 1, dtype=np.float64) ** -exponent
    rates: Floats = weights * (total_per_s / weights.sum())
    return rates


@dataclass(frozen=True, slots=True)
class Week:
    """A periodic intensity: pieces of equal length, each with a factor of the mean rate.

    Parameters
    ----------
    period_s
        Length of the week in seconds.
    factors
        Factors of the pieces in order, not negative; only their proportions count.
    phase_s
        The time at which a week begins.

    Examples
    --------
    >>> Week(4.0, (3.0, 1.0)).expect(np.array([0.0, 2.0, 4.0, 6.0]))
    array([0., 3., 4., 7.])
    """

    period_s: float
    factors: tuple[float, ...]
    phase_s: float = 0.0

    def __post_init__(self) -> None:
        if self.period_s <= 0 or not self.factors or min(self.factors) < 0 or sum(self.factors) <= 0:
            raise ValueError("a week needs a length and factors of which none is negative and one is positive")

    def edges_s(self, start_s: float, stop_s: float) -> Floats:
        """Return ``start_s``, ``stop_s`` and the times between them at which the intensity changes."""
        piece_s = self.period_s / len(self.factors)
        first = floor((start_s - self.phase_s) / piece_s) + 1
        last = ceil((stop_s - self.phase_s) / piece_s)
        inside = self.phase_s + np.arange(first, last, dtype=np.float64) * piece_s
        return np.concatenate([[start_s], inside[(inside > start_s) & (inside < stop_s)], [stop_s]])

    def expect(self, times_s: Floats) -> Floats:
        """Return the expected events at rate 1 from the beginning of a week to each time: ``t`` on average."""
        count = len(self.factors)
        pieces = (times_s - self.phase_s) * (count / self.period_s)
        heights = np.array(self.factors) * (self.period_s / sum(self.factors))
        weeks = np.floor(pieces / count)
        levels = np.concatenate([[0.0], np.cumsum(heights)])
        within: Floats = np.interp(pieces - weeks * count, np.arange(count + 1), levels)
        total: Floats = weeks * self.period_s + within
        return total


STEADY = Week(1.0, (1.0,))
"""The week of a source with a constant rate."""


def poisson_events(rate_per_s: float, week: Week, *, start_s: float, stop_s: float, rng: np.random.Generator) -> Floats:
    """Return the times in [``start_s``, ``stop_s``) of a Poisson process, in ascending order.

    Parameters
    ----------
    rate_per_s
        Mean over a whole week.

    Notes
    -----
    It uses inversion, which is exact: given their number, the events are uniform in expected-events time.

    Examples
    --------
    >>> times = poisson_events(2.0, STEADY, start_s=0.0, stop_s=500.0, rng=np.random.Generator(np.random.PCG64(1)))
    >>> 900 < len(times) < 1100
    True
    """
    edges = week.edges_s(start_s, stop_s)
    expected = week.expect(edges)
    expected -= expected[0]
    count = rng.poisson(rate_per_s * expected[-1])
    times: Floats = np.interp(np.sort(rng.random(count)) * expected[-1], expected, edges)
    return times


MONDAY_S = 1735516800.0
"""A Monday, 00:00 UTC, at which model traces begin."""

_DELAYS_BACK = 20  # bursts older than this many mean delays have ended


def working_week(*, phase_s: float = MONDAY_S, night: float = 0.2, weekend: float = 0.2) -> Week:
    """Return an hourly week: full rate from 8 to 18 on working days, less at night and on the weekend.

    >>> week = working_week()
    >>> len(week.factors), week.factors[7:9], week.factors[-1]
    (168, (0.2, 1.0), 0.2)
    """
    day = [1.0 if 8 <= hour < 18 else night for hour in range(24)]
    return Week(WEEK_S, tuple(day * 5 + [weekend] * 48), phase_s)


def noisy_updates(updates: Ints, kept: float, *, epoch: Epoch, rng: np.random.Generator) -> Ints:
    """Return known update chronons with noise, ascending: each kept with probability ``kept``, else moved.

    Parameters
    ----------
    updates
        Chronons of the epoch, shape (n,).
    kept
        Z, from 0 to 1; 1 keeps all updates.
    epoch
        The chronons to which an update may be moved, all equally likely.

    Raises
    ------
    ValueError
        ``kept`` is not a probability.

    Notes
    -----
    Source: Roitman et al., the model FPN. Their section 4.1 *switches off* with probability Z; section 4.4, where Z =
    1 is free of noise, determines the interpretation used here.

    Examples
    --------
    >>> rng = np.random.Generator(np.random.PCG64(1))
    >>> noisy_updates(np.array([2, 5, 9]), 1.0, epoch=Epoch(0, 10), rng=rng)
    array([2, 5, 9])
    >>> len(noisy_updates(np.array([2, 5, 9]), 0.4, epoch=Epoch(0, 10), rng=rng))
    3
    """
    if not 0.0 <= kept <= 1.0:
        raise ValueError(f"{kept} is no probability: updates are kept with one from 0 to 1")
    given = np.asarray(updates, dtype=np.int64)
    stays = rng.random(given.shape) < kept
    moved = rng.integers(epoch.start, epoch.stop, given.shape)
    return np.sort(np.where(stays, given, moved))


def noisy_events(
    events_s: ArrayLike, kept: float, *, start_s: float, stop_s: float, rng: np.random.Generator
) -> Floats:
    """Return events with the noise of ``noisy_updates``, in continuous time: moved ones lie anywhere in the test.

    Parameters
    ----------
    events_s
        Unix seconds, shape (n,).

    Examples
    --------
    >>> rng = np.random.Generator(np.random.PCG64(1))
    >>> noisy_events([2.0, 5.0], 1.0, start_s=0.0, stop_s=9.0, rng=rng)
    array([2., 5.])
    """
    given = np.asarray(events_s, dtype=np.float64)
    stays = rng.random(given.shape) < kept
    return np.sort(np.where(stays, given, rng.uniform(start_s, stop_s, given.shape)))


def burst_events(
    rate_per_s: float,
    week: Week,
    *,
    start_s: float,
    stop_s: float,
    rng: np.random.Generator,
    children: float = 3.0,
    delay_s: float = 1800.0,
) -> Floats:
    """Return the times in [``start_s``, ``stop_s``) of a cluster process, in ascending order.

    Parents are a Poisson process; each has a geometric number of children, each after an exponential delay.

    Parameters
    ----------
    rate_per_s
        Mean rate of all events, parents and children, over a whole week.
    children
        Mean number of children of a parent, at least 0.
    delay_s
        Mean time from a parent to a child.

    Notes
    -----
    A Neyman-Scott process: with m children the variance of the events in a long time is ``1 + 2 m`` times their mean;
    in a Poisson process it equals the mean.

    Examples
    --------
    >>> from proxyd.lab.traces import STEADY
    >>> rng = np.random.Generator(np.random.PCG64(1))
    >>> times = burst_events(1.0, STEADY, start_s=0.0, stop_s=2000.0, rng=rng, delay_s=2.0)
    >>> 1600 < len(times) < 2400
    True
    """
    if children < 0 or delay_s <= 0:
        raise ValueError("bursts need a mean number of children from 0 on and a delay longer than 0 s")
    begin_s = start_s - _DELAYS_BACK * delay_s
    parents = poisson_events(rate_per_s / (1.0 + children), week, start_s=begin_s, stop_s=stop_s, rng=rng)
    sizes = rng.geometric(1.0 / (1.0 + children), len(parents)) - 1
    followers = np.repeat(parents, sizes) + rng.exponential(delay_s, int(sizes.sum()))
    times = np.sort(np.concatenate([parents, followers]))
    return times[(times >= start_s) & (times < stop_s)]


def drifting_events(
    rate_per_s: float,
    week: Week,
    *,
    start_s: float,
    stop_s: float,
    rng: np.random.Generator,
    volatility: float = 0.3,
    step_s: float = WEEK_S,
) -> Floats:
    """Return the times in [``start_s``, ``stop_s``) of a Poisson process whose rate drifts, in ascending order.

    After each ``step_s`` the logarithm of the rate takes a normal step; between steps only ``week`` varies the rate.

    Parameters
    ----------
    rate_per_s
        Mean rate before the first step.
    volatility
        Standard deviation of a step, not negative; 0 gives a Poisson process.
    step_s
        Time between steps, a week by default.

    Notes
    -----
    Steps have mean ``-volatility^2 / 2``, so that the expected rate stays ``rate_per_s``.

    Examples
    --------
    >>> from proxyd.lab.traces import STEADY
    >>> rng = np.random.Generator(np.random.PCG64(1))
    >>> times = drifting_events(5.0, STEADY, start_s=0.0, stop_s=40.0, rng=rng, step_s=10.0)
    >>> bool(np.all(np.diff(times) >= 0))
    True
    """
    if volatility < 0 or step_s <= 0:
        raise ValueError("volatility cannot be negative, and steps take longer than 0 s")
    edges_s = np.append(np.arange(start_s, stop_s, step_s), stop_s)
    steps = rng.normal(-0.5 * volatility**2, volatility, max(0, len(edges_s) - 2))
    levels = np.exp(np.concatenate([[0.0], np.cumsum(steps)]))
    pieces = [
        poisson_events(rate_per_s * float(level), week, start_s=float(begin_s), stop_s=float(end_s), rng=rng)
        for level, begin_s, end_s in zip(levels, edges_s, edges_s[1:], strict=False)
    ]
    return np.concatenate([np.zeros(0), *pieces])


class UpdateModel(Protocol):
    """A function that draws the events of one source."""

    def __call__(
        self, rate_per_s: float, week: Week, *, start_s: float, stop_s: float, rng: np.random.Generator
    ) -> Floats:
        """Return the times in [``start_s``, ``stop_s``), ascending."""


MODELS: Mapping[str, UpdateModel] = MappingProxyType(
    {"poisson": poisson_events, "bursts": burst_events, "drift": drifting_events}
)
"""The models that ``model_trace`` knows, by name."""


def model_trace(
    name: str,
    *,
    sources: int,
    weeks: float,
    rng: np.random.Generator,
    rate_per_week: float = 10.0,
    exponent: float = 1.0,
    week: Week | None = None,
) -> Trace:
    """Return a trace of synthetic sources from ``MONDAY_S`` on; sources are named after their model and rank.

    Parameters
    ----------
    name
        A name of ``MODELS``, or several joined by ``+``, which share the sources evenly; the first get any extra ones.
    weeks
        Length of the trace.
    rate_per_week
        Mean number of updates of a source in a week.
    exponent
        Exponent of each model's rates, which are proportional to ``1 / rank ** exponent``.
    week
        Shape that all sources share; ``working_week()`` by default.

    Raises
    ------
    ModelError
        A name is unknown, and the message lists the known ones; or there are fewer sources than models, or no time.

    Examples
    --------
    >>> rng = np.random.Generator(np.random.PCG64(1))
    >>> trace = model_trace("poisson+bursts", sources=3, weeks=2, rng=rng)
    >>> trace.sources, len(trace) > 20
    (('poisson0000', 'poisson0001', 'bursts0000'), True)
    >>> model_trace("poison", sources=3, weeks=2, rng=rng)
    Traceback (most recent call last):
        ...
    proxyd.core.errors.ModelError: there is no update model 'poison'; there are bursts, drift and poisson
    """
    names = [part.strip() for part in name.split("+")]
    for part in names:
        if part not in MODELS:
            raise ModelError(f"there is no update model {part!r}; there are bursts, drift and poisson")
    if sources < len(names) or weeks <= 0 or rate_per_week <= 0:
        raise ModelError("each model needs at least one source, a rate and some weeks")
    shape = working_week() if week is None else week
    found: dict[str, Floats] = {}
    for place, part in enumerate(names):
        count = len(range(place, sources, len(names)))
        rates = zipf_rates(count, exponent=exponent, total_per_s=count * rate_per_week / WEEK_S)
        ranks = sum(known.startswith(part) for known in found)
        for rank, rate in enumerate(rates.tolist(), ranks):
            times = MODELS[part](rate, shape, start_s=MONDAY_S, stop_s=MONDAY_S + weeks * WEEK_S, rng=rng)
            found[f"{part}{rank:04d}"] = times
    return Trace(tuple(found), tuple(found.values()))


@dataclass(frozen=True, eq=False)
class Trace:
    """Update events of several sources.

    Parameters
    ----------
    sources
        Names, in the order of ``events_s``.
    events_s
        Unix seconds of each source's events, ascending.

    Examples
    --------
    >>> trace = Trace(("a", "b"), (np.array([1.0, 4.0]), np.array([2.0])))
    >>> len(trace), trace.start_s, trace.stop_s
    (3, 1.0, 4.0)
    """

    sources: tuple[str, ...]
    events_s: tuple[Floats, ...]

    @classmethod
    def of(cls, events_s: Sequence[ArrayLike]) -> Trace:
        """Return a trace of unnamed sources; their events are sorted.

        >>> Trace.of([[2.0, 1.0]]).events_s
        (array([1., 2.]),)
        """
        times = tuple(np.sort(np.asarray(events, dtype=np.float64).reshape(-1)) for events in events_s)
        return cls(tuple(f"source{number:04d}" for number in range(len(times))), times)

    def __len__(self) -> int:
        return sum(times.size for times in self.events_s)

    @property
    def start_s(self) -> float:
        """Time of the first event; raises ``ValueError`` for a trace without events."""
        return min(float(times[0]) for times in self.events_s if times.size)

    @property
    def stop_s(self) -> float:
        """Time of the last event."""
        return max(float(times[-1]) for times in self.events_s if times.size)


def parse_trace(lines: Iterable[str], *, name: str) -> Trace:
    """Return the trace in CSV lines: a header ``source,timestamp``, then one event per line, in any order.

    Parameters
    ----------
    name
        Name of the lines' source, for messages.

    Raises
    ------
    TraceError
        A line is not a source and a number of seconds; the message gives the line.

    Examples
    --------
    >>> parse_trace(["source,timestamp", "a,2", "b,1", "a,1.5"], name="t.csv").events_s
    (array([1.5, 2. ]), array([1.]))
    """
    rows = csv.reader(lines)
    try:
        return _trace_of(rows, name)
    except csv.Error as error:
        raise TraceError(f"it is not CSV ({error})", file=name, line=max(1, rows.line_num)) from error


def _trace_of(rows: Reader, name: str) -> Trace:
    header = next(rows, None)
    if header is None or [field.strip() for field in header] != ["source", "timestamp"]:
        raise TraceError("expected the header source,timestamp", file=name, line=1)
    events: dict[str, list[float]] = {}
    for row in rows:
        if row:
            source, time_s = _event(row, name, rows.line_num)
            events.setdefault(source, []).append(time_s)
    if not events:
        raise TraceError("there are no events; add lines such as feed1,1700000000", file=name, line=2)
    return Trace(tuple(events), tuple(np.sort(np.array(times)) for times in events.values()))


def _event(row: list[str], file: str, line: int) -> tuple[str, float]:
    if len(row) != 2:
        raise TraceError(f"expected a source and a timestamp, found {len(row)} fields", file=file, line=line)
    try:
        time_s = float(row[1])
    except ValueError:
        time_s = nan
    if not isfinite(time_s):
        raise TraceError(f"{row[1]!r} is not a time in unix seconds", file=file, line=line)
    source = row[0].strip()
    if not source:
        raise TraceError("the source is empty; write a name", file=file, line=line)
    return source, time_s
