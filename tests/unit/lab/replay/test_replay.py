"""Replays by hand: what is found when, what is charged, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.errors import UnknownPolicyError
from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.lab.replay.policy_registry import POLICIES, expand_policies, run
from proxyd.lab.replay.replay import Terms, measures_of_probes, replay, split
from proxyd.lab.traces import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
GRID = ChrononGrid(10.0)


def terms(probes: int, *, per_chronon: int | None = None, life_s: float | None = None, sources: int = 2) -> Terms:
    nothing = tuple(np.zeros(0) for _ in range(sources))
    return Terms(
        grid=GRID,
        epoch=Epoch(0, 6),
        probes=probes,
        history=nothing,
        history_start_s=0.0,
        slot_s=20.0,
        per_chronon=per_chronon,
        life_s=life_s,
    )


class Scripted:
    """Probes what it was told to, and remembers what it found."""

    def __init__(self, script: dict[Chronon, list[int]]) -> None:
        self.script = script
        self.found: list[tuple[Chronon, list[int], list[float]]] = []

    def choose(self, now: Chronon, room: int) -> Ints:
        return np.array(self.script.get(now, []), dtype=np.int64)

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        self.found.append((now, probed[item_of].tolist(), times_s.tolist()))


EVENTS = (np.array([5.0, 12.0, 20.0]), np.array([41.0]))


def test_a_probe_finds_what_came_until_it_starts() -> None:
    policy = Scripted({1: [0], 2: [1, 0], 4: [0]})
    made = replay(EVENTS, policy, terms(10))
    assert policy.found == [(1, [0], [5.0]), (2, [0, 0], [12.0, 20.0]), (4, [], [])]
    assert [chronons.tolist() for chronons in made.of_each(2)] == [[1, 2, 4], [2]]


def test_what_is_never_found_is_charged_to_the_end() -> None:
    made = replay(EVENTS, Scripted({2: [0, 1]}), terms(10))
    got = measures_of_probes(EVENTS, made, terms(10))
    assert got.mean_delay_s == pytest.approx((15.0 + 8.0 + 0.0 + 19.0) / 4)
    assert got.median_delay_s == pytest.approx((8.0 + 15.0) / 2)
    assert got.undiscovered_mean == pytest.approx(42.0 / 60.0)
    assert (got.probes, got.peak_probes_per_slot) == (2, 2)


@pytest.mark.parametrize(
    ("life_s", "completeness", "unfinished"), [(None, 1 / 3, 1), (8.0, 0.5, 0), (0.0, 0.25, 0), (60.0, 1.0, 1)]
)
def test_completeness_is_the_share_of_the_intervals_that_ended(
    life_s: float | None, completeness: float, unfinished: int
) -> None:
    made = replay(EVENTS, Scripted({2: [0, 1]}), terms(10))
    got = measures_of_probes(EVENTS, made, terms(10, life_s=life_s))
    assert got.completeness == pytest.approx(completeness)
    assert got.unfinished == unfinished


def test_peaks_are_counted_by_slot_of_the_plan() -> None:
    made = replay(EVENTS, Scripted({2: [0, 1], 3: [0], 4: [1]}), terms(10))
    assert measures_of_probes(EVENTS, made, terms(10)).peak_probes_per_slot == 3


@pytest.mark.parametrize("chosen", [[0, 1, 1], [0, 0]], ids=["more than its room", "one source twice"])
def test_a_policy_that_breaks_its_terms_is_found_out(chosen: list[int]) -> None:
    with pytest.raises(ValueError, match="chronon 0"):
        replay(EVENTS, Scripted({0: chosen}), terms(2))


def test_no_probe_is_made_without_budget() -> None:
    made = replay(EVENTS, Scripted({0: [0, 1], 1: [0]}), terms(2))
    assert made.chronons.tolist() == [0, 0]


def test_the_even_pace_adds_up_to_the_budget() -> None:
    paced = terms(7)
    assert [paced.even(now) for now in paced.epoch] == [1, 1, 1, 1, 1, 2]


def test_events_of_the_start_belong_to_the_test() -> None:
    before, after = split(Trace.of([[1.0, 2.0, 3.0]]), 2.0)
    assert (before[0].tolist(), after[0].tolist()) == ([1.0], [2.0, 3.0])


def test_the_clairvoyant_finds_everything_within_a_chronon() -> None:
    assert run("clairvoyant", EVENTS, terms(12)).achieved.mean_delay_s <= 10.0


def test_policies_are_checked_by_name() -> None:
    assert expand_policies(["all"]) == POLICIES
    assert expand_policies(["auto", "auto"]) == ("auto",)
    with pytest.raises(UnknownPolicyError, match="there is no policy 'best'; choose from auto, index, sup"):
        expand_policies(["best"])
