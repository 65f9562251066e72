"""Pages that wait are chosen as if all were ranked each time, but for what their gains grew in two rounds of turns."""

from __future__ import annotations

from functools import partial
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands, detection_index
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.source_queues import ReadyQueue
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

TURN = 8  # gains found again in a call, in place of thousands
MOST = 60
LAG = 2 * (MOST // TURN + 1) + 1  # calls
PRICE = 3.0

scripts = st.lists(  # by call: rates of pages put before it, how many others leave, how many are taken
    st.tuples(st.lists(st.floats(1e-4, 1.0), max_size=12), st.integers(0, 3), st.integers(0, 6)),
    min_size=1,
    max_size=90,
)


def page(number: int, rate_per_s: float, seen_s: float) -> PlannedSource:
    log = ProbeLog(PolitenessBudget(0.0))
    return PlannedSource(f"s{number}", "h", log, Demands([DetectionDemand("r")]), rate_per_s, last_seen_s=seen_s)


def gain(each: PlannedSource, now_s: float) -> float:
    return detection_index(each.rate_per_s, max(0.0, now_s - (each.last_seen_s or 0.0))) / PRICE


def step(waiting: ReadyQueue, pages: list[PlannedSource], now_s: float, taken: int) -> list[PlannedSource]:
    """Take the best out of those that wait; return them."""
    gains = partial(waiting.gains, now_s=now_s, week=None)
    found = [each for _, each in islice(waiting.best(gains), taken)]
    for each in found:
        waiting.remove(each.source_id)
        pages.remove(each)
    waiting.pass_over(Constraint.BUDGET)
    return found


@given(script=scripts, seed=st.integers(0, 99))
def test_none_is_taken_before_one_whose_gain_was_larger_two_rounds_ago(
    script: list[tuple[list[float], int, int]], seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyd.core.planning.queue.source_queues._FOUND", TURN)
        patch.setattr("proxyd.core.planning.queue.source_queues._SHORT", TURN)
        patch.setattr("proxyd.core.planning.queue.source_queues._RUN", 4)
        waiting, pages, number = ReadyQueue(), list[PlannedSource](), 0
        for call, (rates, leaving, taken) in enumerate(script):
            now_s = 100.0 + call
            for rate_per_s in rates[: MOST - len(pages)]:
                pages.append(page(number, rate_per_s, now_s - 1.0 - (number + seed) % 3 * 400.0))
                waiting.put(pages[-1], None, PRICE)
                number += 1
            for _ in range(min(leaving, len(pages))):
                waiting.remove(pages.pop((number * 31 + seed) % len(pages)).source_id)
            found = step(waiting, pages, now_s, taken)
            assert len(found) == min(taken, len(pages) + len(found))
            least = min((gain(each, now_s) for each in found), default=float("inf"))
            assert all(gain(each, now_s - LAG) <= least + 1e-9 for each in pages)


def test_one_that_was_left_out_comes_once_it_has_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.core.planning.queue.source_queues._FOUND", TURN)
    monkeypatch.setattr("proxyd.core.planning.queue.source_queues._SHORT", TURN)
    monkeypatch.setattr("proxyd.core.planning.queue.source_queues._RUN", 4)
    waiting = ReadyQueue()
    for each in (page(0, 1.0, 999.0), *(page(number, 0.001, 0.0) for number in range(1, 30))):
        waiting.put(each, None, PRICE)
    for now_s in (1000.0 + call for call in range(60)):
        gains = partial(waiting.gains, now_s=now_s, week=None)
        first = next(waiting.best(gains))[1].source_id
        assert (first == "s0") or now_s < 1035.0 + LAG


_RATES = st.integers(1, 10_000).map(lambda rate: rate / 10_000)  # equal, or apart by more than sums are rounded


@given(rates=st.lists(_RATES, max_size=40), taken=st.integers(0, 40))
def test_some_thousand_are_taken_in_their_order(rates: list[float], taken: int) -> None:
    waiting, pages = ReadyQueue(), [page(number, rate, 0.0) for number, rate in enumerate(rates)]
    for each in pages:
        waiting.put(each, None, PRICE)
    ranked = sorted(pages, key=lambda each: (-gain(each, 50.0), each.source_id))
    assert step(waiting, pages, 50.0, taken) == ranked[:taken]
    assert step(waiting, pages, 51.0, len(rates)) == sorted(
        ranked[taken:], key=lambda each: (-gain(each, 51.0), each.source_id)
    )


def test_a_new_plan_has_all_ranked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_FOUND", TURN), ("_SHORT", TURN), ("_RUN", 4)):
        monkeypatch.setattr(f"proxyd.core.planning.queue.source_queues.{name}", value)
    waiting, pages = ReadyQueue(), [page(number, 0.01, 0.0) for number in range(200)]
    for each in pages:
        waiting.put(each, None, PRICE)

    def first() -> str:
        gains = partial(waiting.gains, now_s=1000.0, week=None)
        return next(waiting.best(gains))[1].source_id

    for _ in range(40):  # several rounds at the old price
        first()
    waiting.renumber(None)
    waiting.put(page(999, 0.04, 0.0), None, PRICE)
    assert first() == "s999"
