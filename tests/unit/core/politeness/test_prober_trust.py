"""A prober that fails where others have answers is put aside, and trusted again once it agrees with them."""

from __future__ import annotations

import pytest

from proxyd.core.model.outcome import OutcomeKind
from proxyd.core.politeness.faults import FEWEST, MOST_REST_S, PROBATION, REST_S, ProberTrust

FAILS, ANSWERS = OutcomeKind.BLOCKED, OutcomeKind.NOT_MODIFIED


def contradict(trust: ProberTrust, prober: str, times: int, *, now_s: float = 0.0, other: str = "good") -> None:
    for number in range(times):
        trust.take_in(prober, f"{prober}{number}.example", FAILS, now_s=now_s)
        trust.take_in(other, f"{prober}{number}.example", ANSWERS, now_s=now_s)


def agree(trust: ProberTrust, prober: str, times: int, *, now_s: float) -> None:
    for number in range(times):
        trust.take_in(prober, f"fine{number}.example", ANSWERS, now_s=now_s)


def test_one_that_fails_where_others_do_not_rests_longer_each_time() -> None:
    trust, now_s = ProberTrust(), 0.0
    contradict(trust, "bad", int(FEWEST) - 1)
    assert trust.aside(now_s) == {}
    rests = []
    for _ in range(8):
        contradict(trust, "bad", int(FEWEST), now_s=now_s)
        rest_s = REST_S
        while "bad" in trust.aside(now_s + rest_s):
            rest_s *= 1.5
        rests.append(rest_s)
        now_s += rest_s
        assert not trust.is_trusted("bad")
    assert rests == sorted(rests)
    assert rests[0] < rests[3]
    assert MOST_REST_S <= rests[-1] < 2.0 * MOST_REST_S


def test_hosts_that_are_down_for_all_say_nothing() -> None:
    trust = ProberTrust()
    for number in range(100):
        for prober in ("a", "b", "c"):
            trust.take_in(prober, f"{number}.example", OutcomeKind.UNREACHABLE, now_s=float(number))
    assert trust.aside(100.0) == {}


def test_answers_of_the_origin_are_not_the_fault_of_the_prober() -> None:
    trust = ProberTrust()
    for number in range(100):
        trust.take_in("a", f"{number}.example", OutcomeKind.HTTP_ERROR, now_s=0.0)
        trust.take_in("b", f"{number}.example", ANSWERS, now_s=0.0)
    assert trust.aside(0.0) == {}


def test_where_all_are_contradicted_alike_the_hosts_are_unsteady() -> None:
    trust, probers = ProberTrust(), ("a", "b", "c")
    for number in range(300):
        contradict(trust, probers[number % 3], 1, other=probers[(number + 1) % 3])
    assert trust.aside(0.0) == {}


def test_one_that_fails_at_some_hosts_only_is_found_among_others_that_do_not() -> None:
    trust = ProberTrust()
    for round_ in range(20):
        for prober in ("good", "better", "bad"):
            agree(trust, prober, 4, now_s=float(round_))
        contradict(trust, "bad", 1, now_s=float(round_))
    assert list(trust.aside(20.0)) == ["bad"]


def test_after_its_rest_it_is_trusted_once_it_agrees_with_others() -> None:
    trust = ProberTrust()
    contradict(trust, "bad", int(FEWEST))
    agree(trust, "bad", 100, now_s=1.0)  # what it still had to report
    assert "bad" in trust.aside(1.0)
    assert trust.aside(REST_S) == {}
    agree(trust, "bad", int(PROBATION) - 1, now_s=REST_S)
    assert not trust.is_trusted("bad")
    agree(trust, "bad", 1, now_s=REST_S)
    assert trust.is_trusted("bad")


def test_one_that_is_put_aside_for_years_rests_no_longer_than_usual() -> None:
    trust, now_s = ProberTrust(), 0.0
    for _ in range(1200):
        contradict(trust, "bad", int(FEWEST), now_s=now_s)
        assert "bad" in trust.aside(now_s)
        now_s += MOST_REST_S
        assert trust.aside(now_s) == {}


@pytest.mark.parametrize("days", [0.5, 3.0])
def test_probers_that_are_long_gone_are_forgotten(days: float) -> None:
    trust = ProberTrust()
    contradict(trust, "bad", int(FEWEST))
    agree(trust, "new", 1, now_s=days * 86400.0)
    assert trust.is_trusted("bad") is (days > 2.0)
