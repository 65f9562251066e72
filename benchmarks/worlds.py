"""How far the planner is from an optimum that knows each world, in fourteen worlds made on purpose.

Run ``python benchmarks/worlds.py`` (about 20 s for a world and seed, most of them for the daemon's decider);
``--quick`` for two small worlds, ``--json`` for machines. The policies start without a history; the first four weeks
are not counted. *Known* is the optimum by the true intensity or, where gaps are independent, by the age of the newest
item that was found. Where sources follow each other or themselves it knows their mean rates only, so that a planner
that uses more may be ahead of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from proxyd.core.model.arrays import Floats
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import delays_s
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.one_source import Grid, PricedPaths
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.policy_registry import DeciderPolicy
from proxyd.lab.replay.replay import ReplayPolicy, Terms, replay
from proxyd.lab.replay.replay_policies import LearnedIndexPolicy, UniformPolicy, due_policy
from proxyd.lab.traces import MONDAY_S, STEADY, Week, poisson_events, working_week

HOUR_S, DAY_S = 3600.0, 86400.0
SLOT_S = 1800.0
WARM_WEEKS, COUNTED_WEEKS = 4, 8
POLICIES: dict[str, Callable[[Terms], ReplayPolicy]] = {
    "even": UniformPolicy,
    "square root": due_policy,
    "index": LearnedIndexPolicy,
    "proxyd": DeciderPolicy,
}
MEAN_A_WEEK, SIGMA = 14.0, 1.1  # of rates, which are log-normal
HIDDEN = 1e-6  # the rate of a cell in which nothing happens, in items a day
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Span:
    """The time of a world; its cells are slots."""

    sources: int
    start_s: float
    counted_s: float
    stop_s: float

    @property
    def edges_s(self) -> Floats:
        """The edges of all cells."""
        return np.arange(self.start_s, self.stop_s + 1.0, SLOT_S)

    @property
    def middles_s(self) -> Floats:
        """The middles of all cells."""
        return self.edges_s[:-1] + SLOT_S / 2

    def rates(self, rng: Rng) -> Floats:
        """Return mean rates of the sources in items a second."""
        return MEAN_A_WEEK / WEEK_S * rng.lognormal(-(SIGMA**2) / 2, SIGMA, self.sources)


@dataclass(frozen=True, eq=False)
class World:
    """Events of each source, and what the known optimum may know of them."""

    events_s: list[Floats]
    intensities: Floats | None = None  # items a second by source and cell
    gaps_s: Floats | None = None  # mean gaps of renewals, by source
    gaps: Gaps | None = None  # how these are drawn
    importance: Floats | None = None  # what an item of each source is worth


# -- renewals: optimal waits by the age of the newest item found


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gaps between items, with a mean of 1, and how they are drawn."""

    draw: Callable[[Rng, int], Floats]
    cells: int  # of a mean gap
    longest: float  # in mean gaps; older items count as this old


@cache
def gamma_gaps(shape: float) -> Gaps:
    """Return Gamma gaps."""

    def draw(rng: Rng, count: int) -> Floats:
        gaps: Floats = rng.gamma(shape, 1.0 / shape, count)
        return gaps

    return Gaps(draw, 48, 3.0)


@cache
def session_gaps(again: float = 0.75, soon: float = 0.05) -> Gaps:
    """Return gaps of sessions: mostly the next item comes soon, otherwise much later."""
    later = (1.0 - again * soon) / (1.0 - again)

    def draw(rng: Rng, count: int) -> Floats:
        gaps: Floats = rng.exponential(np.where(rng.random(count) < again, soon, later))
        return gaps

    return Gaps(draw, 48, 6.0)


class AgePolicy:
    """The waits of least long-run cost by the age of the newest item found, for a ladder of prices of a probe.

    A semi-Markov decision process on cells: a probe at age a with wait t costs the waiting of the items that are
    expected, plus the price; then the age is that of the newest item. Policy iteration solves it.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.gaps, self.cell = gaps, 1.0 / gaps.cells
        size = round(gaps.longest * gaps.cells)
        drawn = np.sort(gaps.draw(np.random.Generator(np.random.PCG64(0)), 400_000))
        edges = self.cell * np.arange(2 * size + 1)
        survival = np.maximum(1.0 - np.searchsorted(drawn, edges) / len(drawn), 1e-12)
        density = -np.diff(survival)
        renewals = np.zeros(size)  # expected items in each cell after an item
        for t in range(size):
            renewals[t] = density[t] + renewals[:t] @ density[:t][::-1]
        step = np.arange(size)
        behind = step[None, :] - step[:, None]
        self._following = np.where(behind >= 0, renewals[np.maximum(behind, 0)], 0.0)
        residual = density[step[:, None] + step[None, :]] / survival[:size, None]
        self._items = residual + residual @ np.where(behind > 0, renewals[np.maximum(behind - 1, 0)], 0.0)
        self._none = survival[step[:, None] + step[None, :] + 1] / survival[:size, None]
        self._kept = np.where(behind >= 0, survival[np.maximum(behind, 0)], 0.0)  # no further item until the probe
        self._older = np.minimum(step[:, None] + step[None, :] + 1, size - 1)
        self._age = np.maximum(behind, 0)
        # an item in the middle of its cell waits for the rest of the time
        self._costs = self._items @ np.where(behind >= 0, (behind + 0.5) * self.cell, 0.0)
        self.prices = np.geomspace(1e-4, 30.0, 48)
        solved = [self._solve(price) for price in self.prices.tolist()]
        self.waits = np.stack([waits for waits, _ in solved])  # in mean gaps, by price and age
        self.frequencies = np.array([frequency for _, frequency in solved])

    def _expect(self, values: Floats) -> Floats:
        """Return the expected value after each wait at each age."""
        expected: Floats = self._none * values[self._older] + self._items @ (self._kept * values[self._age])
        return expected

    def _solve(self, price: float) -> tuple[Floats, float]:
        size = len(self._costs)
        step = np.arange(size)
        waits = np.full(size, min(size - 1, round(np.sqrt(2 * price) / self.cell)))
        for _ in range(30):
            moves = self._items[:, :] * self._kept[:, waits].T
            matrix = np.zeros((size, size))
            np.add.at(matrix, (step[:, None], np.maximum(waits[:, None] - step[None, :], 0)), moves)
            matrix[step, self._older[step, waits]] += self._none[step, waits]
            matrix /= matrix.sum(axis=1, keepdims=True)
            lengths = (waits + 1) * self.cell
            # unknown: the values, of which the first is 0, and the cost of a unit of time in its place
            system = np.eye(size) - matrix
            system[:, 0] = lengths
            solution = np.linalg.solve(system, self._costs[step, waits] + price)
            rate, values = float(solution[0]), np.concatenate([[0.0], solution[1:]])
            tried = self._costs - rate * (step + 1) * self.cell + self._expect(values)
            better = np.argmin(tried, axis=1)
            if np.array_equal(better, waits):
                break
            waits = better
        share = np.linalg.lstsq(np.vstack([(np.eye(size) - matrix).T, np.ones(size)]), np.eye(size + 1)[-1])[0]
        return lengths, float(1.0 / (share @ lengths))


@cache
def age_policy(gaps: Gaps) -> AgePolicy:
    """Return the policy for gaps; to find it takes seconds."""
    return AgePolicy(gaps)


def probes_by_age(world: World, span: Span, probes: float) -> list[Floats]:
    """Return the probe times of every source at the one price that makes about as many probes."""
    assert world.gaps_s is not None
    assert world.gaps is not None
    policy = age_policy(world.gaps)
    low, high = -30.0, 30.0
    made: list[Floats] = []
    for _ in range(14):
        middle = (low + high) / 2
        numbers = np.clip(
            np.searchsorted(policy.prices, np.exp(middle) / (world.gaps_s / DAY_S)), 0, len(policy.prices) - 1
        )
        made = [
            _run_by_age(events, gap_s, policy, number, span)
            for events, gap_s, number in zip(world.events_s, world.gaps_s.tolist(), numbers.tolist(), strict=True)
        ]
        if sum(map(len, made)) > probes:
            low = middle
        else:
            high = middle
    return made


def _run_by_age(events_s: Floats, gap_s: float, policy: AgePolicy, number: int, span: Span) -> Floats:
    """Return the probe times of one source at a price."""
    waits, cell_s = policy.waits[number] * gap_s, policy.cell * gap_s
    probes: list[float] = []
    now_s, newest_s, last = span.start_s, span.start_s, len(policy.waits[number]) - 1
    while True:
        wait_s = float(waits[min(last, int((now_s - newest_s) / cell_s))])
        now_s = span.start_s + max(1, round((now_s + wait_s - span.start_s) / SLOT_S)) * SLOT_S
        if probes and now_s <= probes[-1]:
            now_s = probes[-1] + SLOT_S
        if now_s >= span.stop_s:
            return np.array(probes)
        probes.append(now_s)
        place = int(np.searchsorted(events_s, now_s, side="right"))
        newest_s = max(newest_s, float(events_s[place - 1])) if place else newest_s


# -- known intensities: the optimal path of each source at one price


def probes_by_intensity(world: World, span: Span, probes: float) -> list[Floats]:
    """Return the probe times of every source in the counted time, at the one price that makes about as many probes."""
    assert world.intensities is not None
    first = round((span.counted_s - span.start_s) / SLOT_S)
    edges = np.arange(world.intensities.shape[1] - first + 1, dtype=np.float64)
    worth = np.ones(span.sources) if world.importance is None else world.importance
    one = PiecewiseConstant.constant(1.0, edges[-1])
    paths = [
        PricedPaths(Prefix(PiecewiseConstant(edges, rates * SLOT_S * each), one), Grid(edges))
        for rates, each in zip(world.intensities[:, first:], worth.tolist(), strict=True)
    ]
    low, high = -20.0, 20.0
    made: list[Floats] = []
    for _ in range(22):
        middle = (low + high) / 2
        made = [np.array(path.path(float(np.exp(middle)), most=False), dtype=np.float64) for path in paths]
        if sum(map(len, made)) > probes:
            low = middle
        else:
            high = middle
    return [span.counted_s + SLOT_S * slots for slots in made]


# -- the worlds


def of_intensities(rates: Floats, span: Span, rng: Rng, importance: Floats | None = None) -> World:
    """Return a world of Poisson events with these intensities, by source and cell."""
    events: list[Floats] = []
    for row in rates:
        counts = rng.poisson(row * SLOT_S)
        cells = np.repeat(span.edges_s[:-1], counts)
        events.append(np.sort(cells + rng.random(len(cells)) * SLOT_S))
    return World(events, np.maximum(rates, HIDDEN / DAY_S), importance=importance)


def of_gaps(gaps_s: Floats, gaps: Gaps, span: Span, rng: Rng) -> World:
    """Return a world of renewals that began long before."""
    events: list[Floats] = []
    for gap_s in gaps_s.tolist():
        before_s = 20 * gap_s
        count = int(1.3 * (span.stop_s - span.start_s + before_s) / gap_s) + 50
        drawn = [gaps.draw(rng, count)]
        while sum(map(np.sum, drawn)) * gap_s < span.stop_s - span.start_s + before_s:
            drawn.append(gaps.draw(rng, count))
        times = span.start_s - before_s * rng.random() - 10 * gap_s + gap_s * np.cumsum(np.concatenate(drawn))
        events.append(times[(times >= span.start_s) & (times < span.stop_s)])
    return World(events, gaps_s=gaps_s, gaps=gaps)


def _flat(rates: Floats, span: Span) -> Floats:
    return np.repeat(rates[:, None], len(span.middles_s), axis=1)


def _weekly(week: Week, span: Span) -> Floats:
    """Return the factors of a week by cell."""
    levels: Floats = np.diff(week.expect(span.edges_s)) / SLOT_S
    return levels


def poisson(span: Span, rng: Rng) -> World:
    """Constant rates."""
    return of_intensities(_flat(span.rates(rng), span), span, rng)


def time_zones(span: Span, rng: Rng) -> World:
    """Office hours, each source in one of 24 time zones."""
    zones = rng.integers(0, 24, span.sources)
    weeks = np.stack(
        [_weekly(working_week(phase_s=MONDAY_S + HOUR_S * zone, night=0.02, weekend=0.02), span) for zone in zones]
    )
    return of_intensities(span.rates(rng)[:, None] * weeks, span, rng)


def wakers(span: Span, rng: Rng) -> World:
    """Two of five sources are dead until a time in the counted weeks."""
    rates = _flat(span.rates(rng), span)
    for source in np.flatnonzero(rng.random(span.sources) < 0.4):
        rates[source, span.middles_s < rng.uniform(span.counted_s, span.stop_s)] *= 0.001
    return of_intensities(rates, span, rng)


def jumps(span: Span, rng: Rng) -> World:
    """Rates that rise and fall by a factor of 100, every source every four weeks on average."""
    rates = _flat(span.rates(rng), span)
    for row in rates:
        is_low, at_s = rng.random() < 0.5, span.start_s
        while at_s < span.stop_s:
            until_s = at_s + rng.exponential(4 * WEEK_S)
            if is_low:
                row[(span.middles_s >= at_s) & (span.middles_s < until_s)] /= 100.0
            is_low, at_s = not is_low, until_s
    return of_intensities(rates, span, rng)


def silent(span: Span, rng: Rng) -> World:
    """Nine of ten sources have an item a year."""
    rates = np.where(rng.random(span.sources) < 0.1, 10 * span.rates(rng), 0.003 / DAY_S)
    rates[0] = 10 * MEAN_A_WEEK / WEEK_S
    return of_intensities(_flat(rates, span), span, rng)


def turned(span: Span, rng: Rng) -> World:
    """Office hours that turn by half a day, two weeks after the counting has begun."""
    before, after = (
        _weekly(working_week(phase_s=MONDAY_S + turn, night=0.02, weekend=0.02), span) for turn in (0.0, DAY_S / 2)
    )
    week = np.where(span.middles_s < span.counted_s + 2 * WEEK_S, before, after)
    return of_intensities(span.rates(rng)[:, None] * week, span, rng)


def fortnightly(span: Span, rng: Rng) -> World:
    """One week is busy, the next is not, each source in its own turn."""
    week = np.floor((span.middles_s - span.start_s) / WEEK_S).astype(np.int64)
    odd = rng.integers(0, 2, span.sources)
    return of_intensities(span.rates(rng)[:, None] * np.where((week + odd[:, None]) % 2, 1.9, 0.1), span, rng)


def regular(span: Span, rng: Rng) -> World:
    """Gamma gaps with a coefficient of variation of 0.22."""
    return of_gaps(1.0 / span.rates(rng), gamma_gaps(20.66), span, rng)


def fixed_times(span: Span, rng: Rng) -> World:
    """Gaps of 6 to 54 hours with a coefficient of variation of 0.1."""
    return of_gaps(rng.uniform(6 * HOUR_S, 54 * HOUR_S, span.sources), gamma_gaps(100.0), span, rng)


def sessions(span: Span, rng: Rng) -> World:
    """Sessions of four posts on average."""
    return of_gaps(1.0 / span.rates(rng), session_gaps(), span, rng)


def exciting(span: Span, rng: Rng, *, children: float = 0.6, delay_s: float = 6 * HOUR_S) -> World:
    """Each item brings 0.6 more, six hours later on average; what is known are the mean rates."""
    rates = span.rates(rng)
    events: list[Floats] = []
    for rate in rates.tolist():
        born = poisson_events(rate * (1 - children), STEADY, start_s=span.start_s - WEEK_S, stop_s=span.stop_s, rng=rng)
        every = [born]
        while len(born):
            born = np.repeat(born, rng.poisson(children, len(born)))
            born = born + rng.exponential(delay_s, len(born))
            every.append(born)
        times = np.sort(np.concatenate(every))
        events.append(times[(times >= span.start_s) & (times < span.stop_s)])
    return World(events, _flat(rates, span))


def publishers(span: Span, rng: Rng, *, group: int = 10) -> World:
    """Draw groups of ten that publish the same stories, each half of them and three hours later on average."""
    rates = np.repeat(span.rates(rng)[: -(-span.sources // group)], group)[: span.sources]
    events: list[Floats] = []
    for first in range(0, span.sources, group):
        stories = poisson_events(2 * rates[first], STEADY, start_s=span.start_s - DAY_S, stop_s=span.stop_s, rng=rng)
        for _ in range(first, min(first + group, span.sources)):
            times = stories[rng.random(len(stories)) < 0.5]
            times = np.sort(times + rng.exponential(3 * HOUR_S, len(times)))
            events.append(times[(times >= span.start_s) & (times < span.stop_s)])
    return World(events, _flat(rates, span))


def growing(span: Span, rng: Rng) -> World:
    """Pages whose rates double every one to six weeks, or halve."""
    weeks = (span.middles_s - span.start_s) / WEEK_S - (WARM_WEEKS + COUNTED_WEEKS) / 2
    doubling = rng.uniform(1.0, 6.0, span.sources) * rng.choice([-1.0, 1.0], span.sources)
    return of_intensities(span.rates(rng)[:, None] * 2.0 ** (weeks / doubling[:, None]), span, rng)


def valuable(span: Span, rng: Rng) -> World:
    """One of ten sources is slow, and each of its items is worth 30 others."""
    is_rare = np.arange(span.sources) % 10 == 0
    rates = np.where(is_rare, 1.0 / WEEK_S, span.rates(rng))
    return of_intensities(_flat(rates, span), span, rng, np.where(is_rare, 30.0, 1.0))


WORLDS: dict[str, Callable[[Span, Rng], World]] = {
    "Poisson": poisson,
    "24 time zones": time_zones,
    "dead sources wake": wakers,
    "rates change 100 times": jumps,
    "90 % silent": silent,
    "the week turns by 12 h": turned,
    "fortnightly busy": fortnightly,
    "regular gaps": regular,
    "fixed times": fixed_times,
    "self-exciting": exciting,
    "correlated publishers": publishers,
    "sessions of posts": sessions,
    "growing pages": growing,
    "rare but valuable": valuable,
}


# -- measuring


def mean_delay_h(world: World, probes_s: Sequence[Floats], span: Span) -> float:
    """Return the mean delay of the items of the counted time, each with what it is worth, in hours."""
    total = weight = 0.0
    worth = np.ones(span.sources) if world.importance is None else world.importance
    for times, probes, each in zip(world.events_s, probes_s, worth.tolist(), strict=True):
        counted = times[times >= span.counted_s]
        total += each * float(delays_s(counted, probes, end_s=span.stop_s).sum())
        weight += each * len(counted)
    return total / max(weight, 1e-9) / HOUR_S


def measure(name: str, seed: int, span: Span, probes_a_week: float) -> Iterator[dict[str, object]]:
    """Yield a line for each policy in a world."""
    world = WORLDS[name](span, np.random.Generator(np.random.PCG64([seed, *name.encode()])))
    grid = ChrononGrid(SLOT_S)
    epoch = Epoch(grid.chronon_at(span.start_s), grid.chronon_at(span.stop_s))
    probes = round(probes_a_week * span.sources * (span.stop_s - span.start_s) / WEEK_S)
    counted = probes * (span.stop_s - span.counted_s) / (span.stop_s - span.start_s)
    nothing = tuple(np.zeros(0) for _ in range(span.sources))
    terms = Terms(grid, epoch, probes, nothing, span.start_s, SLOT_S, seed=seed, importance=world.importance)

    def line(policy: str, probes_s: Sequence[Floats], began: float, known_h: float | None) -> dict[str, object]:
        delay_h = mean_delay_h(world, probes_s, span)
        made = sum(int((each >= span.counted_s).sum()) for each in probes_s) / counted
        took = {"seconds": perf_counter() - began, "probes": made}
        return {
            "world": name,
            "seed": seed,
            "policy": policy,
            "delay_h": delay_h,
            **took,
            "ratio": delay_h / (known_h or delay_h),
        }

    began = perf_counter()
    by_age = world.gaps is not None
    known_s = probes_by_age(world, span, probes) if by_age else probes_by_intensity(world, span, counted)
    known = line("known", known_s, began, None)
    for shown, make in POLICIES.items():
        began = perf_counter()
        made = replay(world.events_s, make(terms), terms)
        probes_s = [grid.length_s * each.astype(np.float64) for each in made.of_each(span.sources)]
        yield line(shown, probes_s, began, float(str(known["delay_h"])))
    yield known


def _print(lines: Sequence[dict[str, object]]) -> None:
    columns = [*POLICIES, "known"]
    print(
        f"{'world':24}" + "".join(f"{name:>13}" for name in columns) + f"{'proxyd / known':>16}{'+-':>6}{'probes':>8}"
    )
    for world in dict.fromkeys(str(line["world"]) for line in lines):
        rows = {name: [line for line in lines if (line["world"], line["policy"]) == (world, name)] for name in columns}
        means = {name: float(np.mean([row["delay_h"] for row in each])) for name, each in rows.items()}
        ratios = np.array([row["ratio"] for row in rows["proxyd"]])
        spread = ratios.std(ddof=1) / len(ratios) ** 0.5 if len(ratios) > 1 else 0.0
        used = float(np.mean([row["probes"] for row in rows["proxyd"]]))
        print(
            f"{world:24}"
            + "".join(f"{means[name]:13.2f}" for name in columns)
            + f"{means['proxyd'] / means['known']:16.2f}{spread:6.2f}{used:8.3f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes-a-week", type=float, default=28.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), metavar="WORLD", default=list(WORLDS))
    parser.add_argument("--quick", action="store_true", help="two small worlds, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    weeks, sources = ((1, 1), 6) if options.quick else ((WARM_WEEKS, COUNTED_WEEKS), 60)
    counted_s = MONDAY_S + weeks[0] * WEEK_S
    span = Span(sources, MONDAY_S, counted_s, counted_s + weeks[1] * WEEK_S)
    worlds, seeds = (("Poisson", "regular gaps"), 1) if options.quick else (options.worlds, options.seeds)
    lines = [
        line
        for world in worlds
        for seed in range(1, seeds + 1)
        for line in measure(world, seed, span, options.probes_a_week)
    ]
    if options.json:
        print(json.dumps(lines))
    else:
        _print(lines)


if __name__ == "__main__":
    main()
