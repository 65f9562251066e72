"""Captures under a capacity against enumeration, flows and linear programs; the bound against the true optimum."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.chronon import Epoch
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity, CaptureSchedule, edf
from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
from proxyd.lab.algorithms.overlapping_capture import greedy_capture, lp_bound, most_weight
from tests.examples import examples

CHRONONS = 6
capacities = st.lists(st.sampled_from([1, 0, 2]), min_size=CHRONONS, max_size=CHRONONS).map(
    lambda room: Capacity(Epoch(2, 2 + CHRONONS), room)
)


@st.composite
def disjoint(draw: st.DrawFn) -> list[ExecutionInterval]:
    """Return intervals of which those of one source are disjoint; some lie partly or wholly outside the epoch."""
    found = []
    for source in "abcd":
        edges = sorted(draw(st.sets(st.integers(0, 19), min_size=2, max_size=4)))
        found += [
            ExecutionInterval(source, f"r{n % 2}", low // 2, high // 2)
            for n, (low, high) in enumerate(zip(edges[::2], edges[1::2], strict=False))
            if n == 0 or low // 2 > edges[2 * n - 1] // 2
        ]
    return draw(st.permutations(found))


overlapping = st.lists(
    st.builds(
        lambda source, start, length: ExecutionInterval(source, "r", start, start + length),
        st.sampled_from("ab"),
        st.integers(1, 7),
        st.integers(0, 4),
    ),
    max_size=7,
)


def within(schedule: CaptureSchedule, capacity: Capacity) -> bool:
    at = [chronon for _, chronon in schedule.probes]
    assert len(set(schedule.probes)) == len(schedule.probes)
    allowed = dict(zip(capacity.epoch, capacity.probes.tolist(), strict=True))
    return all(at.count(chronon) <= allowed.get(chronon, 0) for chronon in at)


def measured(intervals: list[ExecutionInterval], schedule: CaptureSchedule) -> tuple[int, int]:
    """Return captured and delay, counted the slow way."""
    delays = []
    for interval in intervals:
        inside = [t for source, t in schedule.probes if source == interval.source_id and t in interval]
        delays += [min(inside) - interval.start] if inside else []
    return len(delays), sum(delays)


def every_assignment(
    intervals: list[ExecutionInterval], capacity: Capacity
) -> list[tuple[tuple[int, ...], tuple[int | None, ...]]]:
    """Return which intervals are captured when, for all ways to do it."""
    allowed = dict(zip(capacity.epoch, capacity.probes.tolist(), strict=True))
    choices = [[None, *(t for t in capacity.epoch if t in interval and allowed[t])] for interval in intervals]
    found = []
    for times in product(*choices):
        used = [t for t in times if t is not None]
        if all(used.count(t) <= allowed[t] for t in set(used)):
            found.append((tuple(n for n, t in enumerate(times) if t is not None), times))
    return found


@given(disjoint(), capacities)
def test_edf_and_the_front_equal_enumeration(intervals: list[ExecutionInterval], capacity: Capacity) -> None:
    least: dict[int, int] = {}
    for captured, times in every_assignment(intervals, capacity):
        delay = sum(t - i.start for t, i in zip(times, intervals, strict=True) if t is not None)
        least[len(captured)] = min(delay, least.get(len(captured), delay))
    schedule, front = edf(intervals, capacity), pareto(intervals, capacity)
    assert schedule.exact
    assert front.exact
    assert schedule.captured == max(least)
    assert within(schedule, capacity)
    assert measured(intervals, schedule) == (schedule.captured, schedule.delay)
    assert front.delays.tolist() == [least[k] for k in range(len(least))]
    for k in range(len(least)):
        own = front.schedule(k)
        assert within(own, capacity)
        assert measured(intervals, own) == (own.captured, own.delay) == (k, least[k])
    assert front.points == tuple((k, d) for k, d in sorted(least.items()) if least.get(k + 1, d + 1) > d)


@given(disjoint(), capacities, st.data())
def test_most_weight_equals_enumeration(
    intervals: list[ExecutionInterval], capacity: Capacity, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(0, 9), min_size=len(intervals), max_size=len(intervals)))
    best = max(sum(weights[n] for n in captured) for captured, _ in every_assignment(intervals, capacity))
    schedule = most_weight(intervals, weights, capacity)
    assert schedule.exact
    assert schedule.weight == schedule.bound == best
    assert within(schedule, capacity)
    assert measured(intervals, schedule) == (schedule.captured, schedule.delay)


def instance(seed: int, *, sources: int, chronons: int, most: int) -> tuple[list[ExecutionInterval], Capacity]:
    """Return disjoint intervals and a capacity, from a seed."""
    rng = np.random.default_rng(seed)
    found = []
    for source in range(sources):
        edges = np.sort(rng.choice(chronons, 6, replace=False)).reshape(3, 2)
        found += [ExecutionInterval(f"s{source}", "r", int(low), int(high)) for low, high in edges]
    return found, Capacity(Epoch(0, chronons), rng.integers(0, most + 1, chronons))


def edges_of(intervals: list[ExecutionInterval], capacity: Capacity) -> NDArray[np.int64]:
    """Return (interval, chronon) for all that fit, shape (edges, 2)."""
    pairs = [(n, t) for n, i in enumerate(intervals) for t in range(i.start, (i.deadline or 0) + 1)]
    return np.array([(n, t) for n, t in pairs if capacity.probes[t]])


@pytest.mark.parametrize("seed", range(4))
def test_edf_equals_a_maximum_flow(seed: int) -> None:
    intervals, capacity = instance(seed, sources=60, chronons=120, most=2)
    edges = edges_of(intervals, capacity)
    count, chronons = len(intervals), len(capacity.probes)
    sink = 1 + count + chronons
    rows = np.concatenate([np.zeros(count, int), 1 + edges[:, 0], 1 + count + np.arange(chronons)])
    columns = np.concatenate([1 + np.arange(count), 1 + count + edges[:, 1], np.full(chronons, sink)])
    values = np.concatenate([np.ones(count + len(edges), int), capacity.probes]).astype(np.int32)
    graph = csr_matrix((values, (rows, columns)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, 0, sink).flow_value
    assert edf(intervals, capacity).captured == flow == len(pareto(intervals, capacity).captured)
    assert lp_bound(intervals, capacity) == flow


def flow_program(
    intervals: list[ExecutionInterval], capacity: Capacity, cost: NDArray[np.float64], captured: int | None
) -> float:
    """Return the least cost of an assignment, of ``captured`` intervals where given; the program is integral."""
    edges = edges_of(intervals, capacity)
    number = np.arange(len(edges))
    once = csr_matrix((np.ones(len(edges)), (edges[:, 0], number)), shape=(len(intervals), len(edges)))
    room = csr_matrix((np.ones(len(edges)), (edges[:, 1], number)), shape=(len(capacity.probes), len(edges)))
    limits = csr_matrix(np.vstack([once.toarray(), room.toarray()]))
    solved = linprog(
        cost,
        A_ub=limits,
        b_ub=np.concatenate([np.ones(len(intervals)), capacity.probes]),
        A_eq=None if captured is None else np.ones((1, len(edges))),
        b_eq=None if captured is None else [captured],
        method="highs",
    )
    return float(solved.fun)


@pytest.mark.parametrize("seed", range(3))
def test_the_front_equals_flows_of_least_cost(seed: int) -> None:
    intervals, capacity = instance(seed, sources=40, chronons=90, most=2)
    edges = edges_of(intervals, capacity)
    starts = np.array([interval.start for interval in intervals])
    cost = (edges[:, 1] - starts[edges[:, 0]]).astype(np.float64)
    front = pareto(intervals, capacity)
    most = len(front.captured)
    assert np.all(np.diff(front.delays, n=2) >= 0)
    for k in {0, most // 2, most * 4 // 5, most - 7, most - 1, most}:
        assert round(flow_program(intervals, capacity, cost, k), 6) == front.delays[k] == front.schedule(k).delay
    with pytest.raises(InvalidScheduleError):
        front.schedule(most + 1)


@pytest.mark.parametrize("seed", range(3))
def test_most_weight_equals_the_program(seed: int) -> None:
    intervals, capacity = instance(seed, sources=50, chronons=80, most=1)
    weights = np.random.default_rng(seed).random(len(intervals))
    edges = edges_of(intervals, capacity)
    best = -flow_program(intervals, capacity, -weights[edges[:, 0]], None)
    assert most_weight(intervals, weights, capacity).weight == pytest.approx(best)
    assert lp_bound(intervals, capacity, weights) == pytest.approx(best)


def dense(seed: int) -> tuple[list[ExecutionInterval], Capacity, NDArray[np.float64]]:
    """Return intervals of as many sources that crowd a few chronons, a capacity and weights."""
    rng = np.random.default_rng(seed)
    count, chronons = int(rng.integers(4, 40)), int(rng.integers(4, 16))
    longest = int(rng.integers(1, chronons + 1))
    starts = rng.integers(0, chronons, count)
    ends = np.minimum(chronons - 1, starts + rng.integers(0, longest, count))
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    found = [ExecutionInterval(f"s{n}", "r", start, end) for n, (start, end) in enumerate(pairs)]
    return found, Capacity(Epoch(0, chronons), rng.choice([0, 1, 1, 2, 5], chronons)), rng.random(count)


@pytest.mark.parametrize("seed", range(60))
def test_crowded_instances_equal_the_programs(seed: int) -> None:
    intervals, capacity, weights = dense(seed)
    edges = edges_of(intervals, capacity)
    starts = np.array([interval.start for interval in intervals])
    cost = (edges[:, 1] - starts[edges[:, 0]]).astype(np.float64)
    front = pareto(intervals, capacity)
    for k, delay in enumerate(front.delays.tolist()):
        assert round(flow_program(intervals, capacity, cost, k), 6) == delay == front.schedule(k).delay
    most = -flow_program(intervals, capacity, -np.ones(len(edges)), None)
    assert round(most) == len(front.captured) == edf(intervals, capacity).captured
    best = -flow_program(intervals, capacity, -weights[edges[:, 0]], None)
    assert most_weight(intervals, weights, capacity).weight == pytest.approx(best)


def test_a_job_far_to_the_left_makes_room_on_the_right() -> None:
    spans = [("z", 0, 9), ("y", 0, 1), ("x", 1, 1)]
    intervals = [ExecutionInterval(source, "r", start, deadline) for source, start, deadline in spans]
    schedule = most_weight(intervals, [3, 2, 1], Capacity.constant(1, Epoch(0, 10)))
    assert schedule.probes == (("y", 0), ("x", 1), ("z", 2))


def true_optimum(intervals: list[ExecutionInterval], capacity: Capacity, weights: list[float]) -> float:
    """Return the most weight that probes can capture, one serving all open intervals of its source."""
    sources = sorted({interval.source_id for interval in intervals})
    probes = [(source, t) for source in sources for t in capacity.epoch]
    serves = np.array([[float(i.source_id == source and t in i) for source, t in probes] for i in intervals]).reshape(
        len(intervals), len(probes)
    )
    taken = np.array([[float(t == j) for _, t in probes] for j in capacity.epoch]).reshape(CHRONONS, len(probes))
    matrix = np.block([[-serves, np.eye(len(intervals))], [taken, np.zeros((CHRONONS, len(intervals)))]])
    limits = np.concatenate([np.zeros(len(intervals)), capacity.probes])
    goal = np.concatenate([np.zeros(len(probes)), -np.asarray(weights)])
    constraint = LinearConstraint(matrix, ub=limits)
    solved = milp(goal, constraints=constraint, integrality=np.ones_like(goal), bounds=Bounds(0, 1))
    return -float(solved.fun)


@given(overlapping, capacities, st.data())
@examples(60)
def test_the_bound_is_above_the_optimum_and_the_greedy_below(
    intervals: list[ExecutionInterval], capacity: Capacity, data: st.DataObject
) -> None:
    size = len(intervals)
    weights = data.draw(st.lists(st.sampled_from([1.0, 2.0, 5.0, 0.5]), min_size=size, max_size=size))
    best = true_optimum(intervals, capacity, weights) if intervals else 0.0
    schedule = greedy_capture(intervals, capacity, weights)
    assert within(schedule, capacity)
    assert measured(intervals, schedule) == (schedule.captured, schedule.delay)
    assert schedule.weight <= best + 1e-6
    assert lp_bound(intervals, capacity, weights) >= best - 1e-6
    assert schedule.bound is not None
    assert schedule.bound >= best - 1e-6
    assert not schedule.exact or schedule.weight >= best - 1e-6


@given(overlapping, capacities)
def test_where_intervals_of_a_source_overlap_no_result_claims_too_much(
    intervals: list[ExecutionInterval], capacity: Capacity
) -> None:
    best = true_optimum(intervals, capacity, [1.0] * len(intervals)) if intervals else 0.0
    for schedule in (edf(intervals, capacity), most_weight(intervals, np.ones(len(intervals)), capacity)):
        assert within(schedule, capacity)
        assert measured(intervals, schedule) == (schedule.captured, schedule.delay)
        assert schedule.captured <= best + 1e-6
        assert schedule.bound is not None
        assert schedule.bound >= best - 1e-6
        assert not schedule.exact or schedule.captured >= best - 1e-6
    front = pareto(intervals, capacity)
    for k in range(len(front.delays)):
        own = front.schedule(k)
        assert within(own, capacity)
        assert own.captured >= k


@given(disjoint(), capacities, st.sampled_from([0.0, 0.1, 0.5, 2.0]))
def test_the_cover_meets_every_point_within_epsilon(
    intervals: list[ExecutionInterval], capacity: Capacity, epsilon: float
) -> None:
    points = pareto(intervals, capacity).points
    cover = epsilon_cover(pareto(intervals, capacity), epsilon)
    assert set(cover) <= set(points)
    assert all(
        any(k <= own_k * (1 + epsilon) and own_d <= d * (1 + epsilon) for own_k, own_d in cover) for k, d in points
    )
    if epsilon == 0.0:
        assert cover == points


@given(disjoint(), capacities, st.data())
def test_the_order_of_the_intervals_is_irrelevant(
    intervals: list[ExecutionInterval], capacity: Capacity, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(intervals))
    assert edf(other, capacity) == edf(intervals, capacity)
    assert greedy_capture(other, capacity) == greedy_capture(intervals, capacity)
    assert pareto(other, capacity).points == pareto(intervals, capacity).points
