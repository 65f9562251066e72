"""Back-off, retry ladder and spacing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.politeness.endpoints import LADDER_S, wait_after_attempt_s
from proxyd.core.politeness.host_budgets import BackOff, PolitenessBudget, ProbeLog, back_off

RNG = np.random.default_rng(3)
FAILURES = [kind for kind in OutcomeKind if not kind.is_success]


def outcome(kind: OutcomeKind, retry_after_s: float | None = None) -> ProbeOutcome:
    return ProbeOutcome("s", kind, 100.0, 100.0, retry_after_s=retry_after_s)


def wait(previous: BackOff, kind: OutcomeKind, asked_s: float | None = None) -> float:
    return back_off(previous, outcome(kind, asked_s), spacing_s=300.0, rng=RNG).not_before_s - 100.0


@pytest.mark.parametrize("kind", FAILURES)
@given(failures=st.integers(0, 10_000))
def test_no_failure_ever_disables_a_source_for_good(kind: OutcomeKind, failures: int) -> None:
    assert 60.0 <= wait(BackOff(failures), kind) <= 86400.0 * 1.1


def test_waits_double_and_are_never_in_step() -> None:
    waits = [wait(BackOff(n), OutcomeKind.TIMEOUT) for n in range(4)]
    assert [pytest.approx(300.0 * 2**n, rel=0.1) for n in range(4)] == waits
    assert len({wait(BackOff(), OutcomeKind.TIMEOUT) for _ in range(20)}) == 20


@pytest.mark.parametrize("asked_s", [5.0, 120.0, 3600.0])
def test_retry_after_is_never_undercut(asked_s: float) -> None:
    assert asked_s <= wait(BackOff(3), OutcomeKind.THROTTLED, asked_s) <= asked_s * 1.1


@pytest.mark.parametrize("kind", FAILURES)
def test_without_growth_only_a_throttle_lengthens_the_wait(kind: OutcomeKind) -> None:
    found = back_off(BackOff(7), outcome(kind), spacing_s=300.0, rng=RNG, grows=False)
    assert (found.failures, found.not_before_s > 0) == (8, kind is OutcomeKind.THROTTLED)


def test_retry_after_holds_without_growth() -> None:
    asked = outcome(OutcomeKind.HTTP_ERROR, 120.0)
    assert back_off(BackOff(7), asked, spacing_s=300.0, rng=RNG, grows=False).not_before_s >= 220.0


def test_a_success_forgets_failures() -> None:
    assert back_off(BackOff(5, 1e9), outcome(OutcomeKind.NOT_MODIFIED), spacing_s=300.0, rng=RNG) == BackOff(0, 0.0)


def test_a_success_may_still_ask_to_wait() -> None:
    assert wait(BackOff(), OutcomeKind.CHANGED, 50.0) == pytest.approx(50.0)


def test_the_ladder_climbs_and_ends() -> None:
    waits = [wait_after_attempt_s(n, asked_s=None, rng=RNG) for n in range(1, len(LADDER_S) + 2)]
    assert waits[-1] is None
    assert waits[:-1] == [pytest.approx(step, rel=0.1) for step in LADDER_S]


def test_a_receiver_can_lengthen_a_step_but_not_shorten_it() -> None:
    assert wait_after_attempt_s(1, asked_s=100.0, rng=RNG) == pytest.approx(100.0, rel=0.1)
    assert wait_after_attempt_s(5, asked_s=1.0, rng=RNG) == pytest.approx(300.0, rel=0.1)


@given(
    st.floats(0, 50),
    st.one_of(st.none(), st.integers(1, 5)),
    st.floats(1, 200),
    st.lists(st.floats(0, 60), max_size=40),
)
def test_probes_started_when_allowed_never_exceed_any_window(
    spacing_s: float, probes: int | None, window_s: float, pauses: list[float]
) -> None:
    log, now, starts = ProbeLog(PolitenessBudget(spacing_s, probes, window_s)), 0.0, []
    for pause in pauses:
        now = max(now + pause, log.earliest_s())
        log.record(now)
        starts.append(now)
    assert all(b - a >= spacing_s - 1e-9 for a, b in pairwise(starts))
    if probes is not None:
        assert all(b - a >= window_s - 1e-9 for a, b in zip(starts, starts[probes:], strict=False))
