"""A site is told down by a second failure, up by the first success, slow, and before its certificate expires."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import DomainAnswer
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import SourceHealth

SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
SITE, DAY_S = "shop.example.org", 86400.0
UP, DOWN, BUSY = OutcomeKind.SAME_BODY, OutcomeKind.HTTP_ERROR, OutcomeKind.THROTTLED


def decider_of(options: str = "", more: str = "") -> Decider:
    """Return a decider with one site."""
    text = f"{more} WATCH 'https://shop.example.org/' OF SITE {options};"
    declared = check([SourceText("t", text)]).declaration
    assert declared is not None
    decider = Decider(SETTINGS, np.random.default_rng(1))
    decider.declare(declared, dict.fromkeys(declared.rules, 0.0), 0.0)
    return decider


def probe(
    decider: Decider, at_s: float, kind: OutcomeKind = UP, took_s: float = 0.1, end_s: float | None = None
) -> list[str]:
    """Let a probe of the site end, and return the titles of the messages that it makes."""
    status = {UP: 200, BUSY: 429}.get(kind, 503)
    outcome = ProbeOutcome(SITE, kind, at_s, at_s + took_s, status, detail=f"status {status}")
    observation = decider.observe(replace(outcome, is_answered=True, certificate_end_s=end_s))
    assert observation is not None
    decider.outcomes.finish(observation.outcome, observation)
    return [json.loads(each.body)["data"]["message"]["title"] for each in observation.rules.notifications]


def told(decider: Decider, kinds: Iterable[OutcomeKind], every_s: float = 20.0) -> list[tuple[int, str]]:
    """Return the numbers of probes that told something, and the messages."""
    return [(number, each) for number, kind in enumerate(kinds) for each in probe(decider, every_s * number, kind)]


def test_down_is_told_by_the_second_failure_and_up_by_the_first_success() -> None:
    assert told(decider_of(), [UP, DOWN, DOWN, DOWN, *[DOWN] * 10, UP, UP]) == [
        (2, f"{SITE} is down since 1970-01-01 00:00 UTC: status 503"),
        (14, f"{SITE} is up again after 4 min"),
    ]


@pytest.mark.parametrize(
    "kinds",
    [[UP, DOWN, UP, DOWN, UP], [UP, BUSY, BUSY, BUSY, UP], [UP, DOWN, BUSY, UP]],
    ids=["single failures", "asked for fewer requests", "a failure, then fewer requests"],
)
def test_a_hiccup_is_not_told(kinds: Sequence[OutcomeKind]) -> None:
    assert told(decider_of(), kinds) == []


@pytest.mark.parametrize("options", ["", "WITHIN 5 MINUTES"])
def test_a_failure_is_confirmed_twenty_seconds_later(options: str) -> None:
    decider, starts_s, fails_s = decider_of(options), list[float](), list[float]()
    for chronon in range(90):
        for planned in decider.planner.choose(chronon).probes:
            starts_s.append(planned.start_s)
            decider.planner.start(planned, planned.start_s)
            if len(starts_s) in {3, 4}:
                fails_s.append(planned.start_s)
            probe(decider, planned.start_s, DOWN if len(starts_s) in {3, 4} else UP)
    assert fails_s[1] - fails_s[0] == 20.0


def test_a_site_is_asked_every_forty_seconds() -> None:
    decider, starts_s = decider_of(), list[float]()
    for chronon in range(24):
        for planned in decider.planner.choose(chronon).probes:
            starts_s.append(planned.start_s)
            decider.planner.start(planned, planned.start_s)
            probe(decider, planned.start_s, DOWN if planned.start_s in {70.0, 90.0} else UP)
    assert starts_s == [0.0, 30.0, 70.0, 90.0, 110.0, 150.0, 190.0, 230.0]


def test_after_says_how_many_probes_must_fail() -> None:
    numbers = [number for number, _ in told(decider_of("ON HEALTH AFTER 3 PROBES"), [UP, DOWN, DOWN, DOWN])]
    assert numbers == [3]


def test_a_slow_site_is_told_after_three_probes() -> None:
    decider = decider_of()
    for number in range(20):
        probe(decider, 40.0 * number, took_s=0.2)
    slow = [probe(decider, 40.0 * number, took_s=2.0) for number in range(20, 24)]
    assert slow == [[], [], [f"{SITE} has been slow since 1970-01-01 00:13 UTC: 2.0 s, usually 0.2 s at most"], []]


def test_a_certificate_is_told_once_until_it_is_renewed() -> None:
    decider, end_s = decider_of(), 20 * DAY_S
    days = [probe(decider, number * DAY_S, end_s=end_s) for number in range(1, 15)]
    assert [number for number, each in enumerate(days, 1) if each] == [6]
    assert days[5] == [f"{SITE} has a certificate that expires in 13 days (1970-01-21)"]
    renewed = [probe(decider, number * DAY_S, end_s=end_s + 60 * DAY_S) for number in range(15, 80)]
    assert [number for number, each in enumerate(renewed, 15) if each] == [66]


def test_two_machines_with_two_old_certificates_are_told_at_most_daily() -> None:
    decider = decider_of()
    messages = [probe(decider, 40.0 * n, end_s=(5 + n % 2) * DAY_S) for n in range(2 * 2160)]
    assert len([each for each in messages if each]) == 2


@pytest.mark.parametrize(("options", "number"), [("CERTIFICATE 10 DAYS", 1), ("CERTIFICATE NONE", 0), ("", 1)])
def test_the_time_before_an_expiry_can_be_set(options: str, number: int) -> None:
    assert len(probe(decider_of(options), 0.0, end_s=9.5 * DAY_S)) == number


def test_the_domain_is_told_as_rdap_says() -> None:
    decider = decider_of()
    decider.known.domains[SITE] = DomainAnswer(1.0, "example.org", 25.5 * DAY_S)
    assert probe(decider, 10.0) == [f"{SITE} has a domain, example.org, that expires in 25 days (1970-01-26)"]
    assert probe(decider, 50.0) == []
    decider.known.domains[SITE] = DomainAnswer(2 * DAY_S, "example.org", 390.5 * DAY_S)
    assert probe(decider, 2 * DAY_S + 1.0) == []
    health = decider.known.state(decider.known.compiled.sources[SITE]).health
    assert health.site is not None
    assert health.site.domain is not None
    assert health.site.domain.end_s == 390.5 * DAY_S
    assert SourceHealth.of_values(json.loads(json.dumps(health.values()))) == health


def test_nothing_is_told_of_maintenance_but_of_what_lasts_longer() -> None:
    decider = decider_of("MAINTENANCE DURING 'Thu 00:00-01:00'")  # 1 January 1970 was a Thursday
    assert told(decider, [UP, *[DOWN] * 20], every_s=60.0) == []
    assert [len(probe(decider, 3590.0 + 20.0 * number, DOWN)) for number in range(4)] == [0, 0, 1, 0]


def test_the_trouble_of_a_profile_does_not_tell_of_a_site_again() -> None:
    more = "CREATE PROFILE \"default\" ON TROUBLE TELL LOG 'x'; WATCH 'https://a.example/feed';"
    decider = decider_of(more=more)
    assert decider.known.compiled.programs["default: trouble"].rule.source_ids == ("a.example/feed",)
    assert len(told(decider, [UP, DOWN, DOWN, DOWN, DOWN])) == 1


def test_what_a_site_is_told_of_does_not_wait_for_digests_or_quiet_hours() -> None:
    more = "CREATE PROFILE \"default\" DIGEST DAILY AT '08:00' QUIET DURING '22:00-07:00';"
    rule = decider_of("TELL LOG 'x'", more).known.compiled.programs[SITE].rule
    assert (rule.digest, rule.quiet) == (None, ())
