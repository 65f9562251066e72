"""A source is slow when its answers take much longer than usual, three times in a row."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import UNKNOWN_HEALTH, SourceHealth

SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
USUAL = [0.5] * 20


def told(latencies_s: Iterable[float | None], after: str = "") -> list[int]:
    """Return the numbers of the probes with which a source is told to be slow; ``None`` is a failure."""
    declared = check([SourceText("t", f"WATCH 'https://a.example/' ON SLOW {after};")]).declaration
    assert declared is not None
    (source,), numbers = declared.sources, []
    decider = Decider(SETTINGS, np.random.default_rng(1))
    decider.declare(declared, dict.fromkeys(declared.rules, 0.0), 0.0)
    for number, latency_s in enumerate(latencies_s):
        at_s = 60.0 * number
        kind = OutcomeKind.TIMEOUT if latency_s is None else OutcomeKind.SAME_BODY
        observation = decider.observe(ProbeOutcome(source, kind, at_s, at_s + (latency_s or 1.0), 200))
        assert observation is not None
        decider.outcomes.finish(observation.outcome, observation)
        for notification in observation.rules.notifications:
            assert "has been slow since" in json.dumps(json.loads(notification.body))
            numbers.append(number)
    return numbers


@pytest.mark.parametrize(
    ("latencies_s", "numbers"),
    [
        ([*USUAL, 3.0, 3.0, 3.0, 3.0], [22]),
        ([*USUAL, 3.0, 3.0, 0.5, 3.0, 3.0], []),
        ([*USUAL, 3.0, 3.0, None, 3.0], []),
        ([*USUAL, 3.0, 3.0, 3.0, 0.5, 3.0, 3.0, 3.0], [22, 26]),
        ([*USUAL, *[3.0] * 30, 0.5, 3.0, 3.0, 3.0], [22, 53]),
        ([0.1] * 20 + [0.9] * 5, []),
        ([0.5] * 10 + [3.0] * 5, []),
    ],
    ids=[
        "told once",
        "interrupted",
        "interrupted by a failure",
        "told again",
        "still slow after half an hour",
        "under a second",
        "not known yet",
    ],
)
def test_three_slow_answers_in_a_row_are_told_once(latencies_s: list[float | None], numbers: list[int]) -> None:
    assert told(latencies_s) == numbers


def test_after_says_how_many_answers_must_be_slow() -> None:
    assert told([*USUAL, 3.0, 3.0], "AFTER 1 PROBE") == [20]


@pytest.mark.parametrize("spread", [0.2, 0.6, 1.0])
def test_about_one_answer_of_twenty_takes_longer_than_usual(spread: float) -> None:
    health, longer = UNKNOWN_HEALTH, 0
    for number, latency_s in enumerate(np.random.default_rng(7).lognormal(-1.0, spread, 5000)):
        longer += number >= 1000 and latency_s > health.usual_s
        health = health.with_answer(float(number), float(latency_s))
    assert 0.03 < longer / 4000 < 0.07


def test_what_is_usual_survives_a_restart() -> None:
    health = UNKNOWN_HEALTH
    for number in range(23):
        health = health.with_answer(float(number), 0.5 if number < 20 else 3.0)
    assert health.slow is not None
    assert health.slow.probes == 3
    assert SourceHealth.of_values(json.loads(json.dumps(health.values()))) == health
