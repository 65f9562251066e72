"""When an endpoint may be sent to: limits, pauses it asked for, and the circuit of one that fails."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from proxyd.core.politeness.endpoints import (
    LONGEST_PAUSE_S,
    LONGEST_WAIT_S,
    Circuit,
    EndpointLimits,
    Endpoints,
    circuit_after_failure,
)

HERE = "https://r.example/"


def endpoints(limits: EndpointLimits | None = None) -> Endpoints:
    return Endpoints(limits or EndpointLimits(), np.random.default_rng(1))


def test_one_lane_alone_never_opens_the_circuit() -> None:
    circuit = Circuit()
    for second in range(100):
        circuit = circuit_after_failure(circuit, "a", float(second), np.random.default_rng(1))
    assert not circuit.is_open


def test_the_circuit_opens_after_five_failures_over_two_lanes_and_its_waits_grow_up_to_a_limit() -> None:
    rng, circuit, now_s, waits = np.random.default_rng(1), Circuit(), 0.0, []
    for lane in "abab":
        circuit = circuit_after_failure(circuit, lane, now_s, rng)
        assert not circuit.is_open
    for _ in range(80):
        circuit = circuit_after_failure(circuit, "a", now_s, rng)
        waits.append(circuit.until_s - now_s)
        now_s = circuit.until_s
    wanted = [min(LONGEST_WAIT_S, 2.0 * 1.1**n) for n in range(80)]
    assert all(least <= wait <= least * 1.1 for least, wait in zip(wanted, waits, strict=True))
    assert all(wait <= 2.2 + 0.11 * sum(waits[:n]) for n, wait in enumerate(waits))  # a tenth of the outage until then


def test_what_was_under_way_when_the_circuit_opened_does_not_lengthen_its_wait() -> None:
    rng = np.random.default_rng(1)
    opened = circuit_after_failure(Circuit(4, frozenset("ab")), "a", 0.0, rng)
    assert circuit_after_failure(opened, "b", 1.0, rng) == opened


def test_an_open_circuit_lets_one_attempt_through_at_a_time_and_success_closes_it() -> None:
    gates = endpoints()
    opened = [gates.note_failure(HERE, lane, 0.0, asked_s=None, position=n) for n, lane in enumerate("ababa")]
    assert opened == [False, False, False, False, True]
    until_s = gates.note_shut(0.0)[HERE]
    assert not gates.enter(HERE, 0.0)
    assert gates.enter(HERE, until_s)
    assert not gates.enter(HERE, until_s)
    assert gates.note_shut(until_s) == {HERE: inf}
    gates.note_acceptance(HERE, 1)
    gates.leave(HERE, until_s)
    assert gates.note_shut(until_s) == {}


def fails(gates: Endpoints, *positions: int) -> None:
    for position in positions:
        gates.note_failure(HERE, "a", 0.0, asked_s=None, position=position)


def test_the_first_success_after_failures_or_after_a_start_wakes_what_waits() -> None:
    gates = endpoints()
    assert [gates.note_acceptance(HERE, n) for n in (1, 2)] == [True, False]
    fails(gates, 3, 4)
    assert [gates.note_acceptance(HERE, n) for n in (5, 3, 4)] == [True, False, False]


def test_a_delivery_that_is_refused_itself_is_not_woken_by_each_success_of_others() -> None:
    gates = endpoints()
    gates.note_acceptance(HERE, 1)
    for number in range(10, 20):
        fails(gates, 2)
        assert gates.note_acceptance(HERE, number) == (number == 10)
    fails(gates, 2, 3)  # the receiver itself was down again
    assert gates.note_acceptance(HERE, 30)


def test_no_more_attempts_at_once_than_allowed() -> None:
    gates = endpoints(EndpointLimits(2))
    assert [gates.enter(HERE, 0.0) for _ in range(3)] == [True, True, False]
    assert gates.enter("https://other.example/", 0.0)
    assert gates.note_shut(0.0) == {HERE: inf}
    gates.leave(HERE, 1.0)
    assert gates.enter(HERE, 1.0)


def test_no_more_attempts_in_a_window_than_allowed() -> None:
    gates = endpoints(EndpointLimits(8, attempts=2, window_s=60.0))
    for at_s in (0.0, 10.0):
        assert gates.enter(HERE, at_s)
        gates.leave(HERE, at_s)
    assert gates.note_shut(11.0) == {HERE: 60.0}
    assert not gates.enter(HERE, 59.0)
    assert gates.enter(HERE, 60.0)
    gates.leave(HERE, 60.0)
    assert gates.note_shut(61.0) == {HERE: 70.0}


def test_a_clock_that_was_set_back_shuts_no_endpoint_for_longer_than_its_window() -> None:
    gates = endpoints(EndpointLimits(8, attempts=1, window_s=60.0))
    assert gates.enter(HERE, 10_000.0)
    assert gates.note_shut(100.0) == {HERE: 160.0}


@pytest.mark.parametrize(("asked_s", "pause_s"), [(30.0, 30.0), (1e9, LONGEST_PAUSE_S)])
def test_what_a_receiver_asks_for_holds_for_all_lanes(asked_s: float, pause_s: float) -> None:
    gates = endpoints()
    assert not gates.note_failure(HERE, "a", 100.0, asked_s=asked_s, position=1)
    assert gates.note_shut(100.0) == {HERE: 100.0 + pause_s}
    assert gates.note_shut(100.0 + pause_s) == {}


def test_what_works_is_forgotten() -> None:
    gates = endpoints()
    for number in range(100):
        assert gates.enter(f"https://{number}.example/", 0.0)
        gates.leave(f"https://{number}.example/", 0.0)
    assert gates._gates == {}
