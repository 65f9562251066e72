"""`proxyd advise` and `proxyd report`: what people are told of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from proxyd.cli.main import main
from tests.canned import Canned, answering

ADVICE: Mapping[str, Any] = {
    "budget_per_hour": 360.0,
    "planned_per_hour": 100.0,
    "trade": [
        {"probes_per_hour": 100.2, "delay_s": 5400.0, "completeness": 0.9, "price_item_hours": 0.25},
        {"probes_per_hour": 720.0, "delay_s": 90.0, "completeness": 0.99, "price_item_hours": 0.001},
    ],
    "shares": [{"share": 0.9, "expected": 0.912, "probes_per_hour": 55.0, "delay_s": 3600.0}],
    "targets": [
        {"rule": "met", "share": 0.9, "expected": 0.95, "reachable": 1.0, "probes_per_hour": 1.0,
         "needed_per_hour": 1.0, "limit": None},
        {"rule": "short", "share": 0.95, "expected": 0.5, "reachable": 0.6, "probes_per_hour": 2.0,
         "needed_per_hour": 8.0, "limit": "host politeness"},
        {"rule": "odd", "share": 0.95, "expected": 0.9, "reachable": 0.9, "probes_per_hour": 2.0,
         "needed_per_hour": 2.0, "limit": "another reason"},
    ],
    "intervals_over_s": 172_800.0,
    "rules": [
        {"rule": "news", "intervals": 12, "unmet": {"source politeness": 1, "budget": 2}},
        {"rule": "calm", "intervals": 3, "unmet": {}},
    ],
    "pareto": [{"captured": 9, "delay_s": 60.0}, {"captured": 11, "delay_s": 600.0}],
    "needed_per_hour": 40.0,
    "two_points_per_day": 14.2,
    "silent_planners": ["b", "c"],
}  # fmt: skip
NOTHING: Mapping[str, Any] = {key: [] for key in ("trade", "shares", "targets", "rules", "silent_planners")}
NO_ADVICE = {**ADVICE, **NOTHING, "planned_per_hour": None, "two_points_per_day": None}
DAY: Mapping[str, Any] = {
    "day": "2026-01-31", "probes": 12, "items": 7, "predicted_items": 6.5, "mean_delay_s": 60.0,
    "predicted_mean_delay_s": None, "captured": 3, "missed": 1, "completeness": 0.75, "predicted_completeness": 0.8,
    "off": True,
}  # fmt: skip
PROMISE = {"rule": "news", "intervals": 20, "promised": 0.9, "kept": 0.85, "week": "2026-01-26", "off": False}
OFF = {"source": "s", "rate_off_since": "2026-01-30T00:00:00Z", "found": 9.0, "expected": 2.0, "week_off_since": None,
       "week_score": 0.0, "summary": ["it shows more than expected", "its rate is learned again"]}  # fmt: skip
REPORT: Mapping[str, Any] = {"days": [DAY], "promises": [PROMISE], "promises_left_out": 1200, "off": [OFF]}
Say = Callable[[str, Mapping[str, Any]], str]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Return what a verb prints of an answer."""
    monkeypatch.setenv("PROXYD_TOKEN", "t")

    def run(verb: str, answer: Mapping[str, Any]) -> str:
        with answering(lambda _: Canned(json.dumps(answer).encode())) as base:
            assert main([*verb.split(), "--url", base]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(("verb", "answer"), [("advise --json", ADVICE), ("report --days 3 --json", REPORT)])
def test_json_is_the_answer(say: Say, verb: str, answer: Mapping[str, Any]) -> None:
    assert json.loads(say(verb, answer)) == answer


def test_a_budget_is_marked_as_the_present_one_or_as_over_what_is_allowed(say: Say) -> None:
    lines = say("advise", ADVICE).splitlines()
    assert lines[:2] == [
        "Without the sources of b, c, which did not answer.",
        "The budget allows 360 probes an hour; the plan looks for new items with 100 of them.",
    ]
    first = lines.index("If all of them went where they save most waiting:") + 2
    now, over = (line.split() for line in lines[first : first + 2])
    assert now == ["100", "1.5", "h", "90.0%", "now"]
    assert over == ["720", "1.5", "min", "99.0%", "over", "the", "budget"]
    assert "For 2 points more in time: 14.2 more probes a day." in lines
    assert ["90%", "55", "91.2%", "1", "h"] in [line.split() for line in lines]


def test_a_thousand_more_probes_are_written_in_full(say: Say) -> None:
    lines = say("advise", {**ADVICE, "two_points_per_day": 1151.3}).splitlines()
    assert "For 2 points more in time: 1,151 more probes a day." in lines


def test_targets_that_are_not_met_are_told_with_the_limit_and_a_remedy(say: Say) -> None:
    out = say("advise", ADVICE)
    assert "Rules that are expected to meet their target: 1 of 3\n" in out
    remedy = "8 probes an hour would do, 2 are made; lower host_spacing or raise host_budget"
    assert f"  short: 50% instead of 95%, because of host politeness; {remedy}\n" in out
    assert "  odd: 90% instead of 95%, because of another reason\n" in out
    assert "  met:" not in out


def test_events_that_cannot_be_in_time_are_counted_by_what_prevents_it(say: Say) -> None:
    assert say("advise", ADVICE).splitlines()[-5:] == [
        "Events that rules expect in the next 2 d:",
        "  news: 12, 3 not in time: 2 because of budget, 1 because of source politeness",
        "  calm: 3",
        "  within the budget: 9 after 1 min, 11 after 10 min on average",
        "  catching all of these needs an even 40 probes an hour",
    ]


def test_before_the_first_plan_only_the_budget_is_known(say: Say) -> None:
    first, second = say("advise", NO_ADVICE).splitlines()
    assert first.startswith("The budget allows 360 probes an hour. What others would achieve is known after")
    assert "plan_every" in second


def test_a_day_is_compared_with_its_prediction(say: Say) -> None:
    lines = say("report", REPORT).splitlines()
    assert lines[1].split() == [
        "2026-01-31",
        "12",
        "7",
        "6.5",
        "1",
        "min",
        "-",
        "75.0%",
        "80.0%",
        "fewer",
        "than",
        "expected",
    ]
    assert lines[4] == "Share of the items that rules saw within the time they are promised today, week by week:"
    assert lines[6].split() == ["2026-01-26", "news", "90.0%", "85.0%", "20"]
    assert lines[7:] == [
        "1,200 more fell less short than these.",
        "",
        "Sources with poor forecasts:",
        "  s: it shows more than expected",
        "  s: its rate is learned again",
    ]


def test_a_report_without_days_says_when_predictions_begin(say: Say) -> None:
    assert say("report", {"days": [], "promises": [], "promises_left_out": 0, "off": []}).splitlines() == [
        "Nothing to compare yet: predictions begin with the second probe of a source.",
        "",
        "No source has a poor forecast.",
    ]
