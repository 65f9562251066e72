"""The time that a site was up and down adds up to the time between its probes, less what counts as neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isclose

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.stages.site_uptime import Incident, SiteDay, uptime

SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
SITE, DAY_S = "a.example", 86400.0
LONGEST_S = 180.0
DST_S = 1_774_738_800.0  # 2026-03-28 23:00 UTC: in Berlin, the clocks are put forward two hours later
UP, DOWN, BUSY = OutcomeKind.SAME_BODY, OutcomeKind.HTTP_ERROR, OutcomeKind.THROTTLED
gaps_s = st.sampled_from([20.0, 40.0, 40.0, 170.0, 190.0, 4000.0, 100_000.0])
courses = st.lists(st.tuples(gaps_s, st.sampled_from([UP, UP, DOWN, DOWN, BUSY])), min_size=1, max_size=40)


@dataclass
class Record:
    """What the store would hold."""

    days: dict[int, SiteDay] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)

    def add(self, day: SiteDay) -> None:
        """Add to a day."""
        old = self.days.get(day.day, SiteDay(day.day))
        self.days[day.day] = SiteDay(
            day.day,
            old.up_s + day.up_s,
            old.down_s + day.down_s,
            old.probes + day.probes,
            old.failures + day.failures,
            old.answers_s + day.answers_s,
        )

    def note(self, incident: Incident) -> None:
        """Begin or end an outage."""
        if incident.ended_s is None:
            assert not self.incidents or self.incidents[-1].ended_s is not None
        else:
            assert self.incidents.pop() == Incident(incident.began_s, reason="status 503")
        self.incidents.append(incident)


def record_of(course: Sequence[tuple[float, OutcomeKind]], begin_s: float, options: str = "") -> Record:
    """Return what is recorded of a site over a course of gaps, in seconds, and outcomes after them."""
    declared = check([SourceText("t", f"WATCH 'https://{SITE}' OF SITE {options};")]).declaration
    assert declared is not None
    decider = Decider(SETTINGS, np.random.default_rng(1))
    decider.declare(declared, dict.fromkeys(declared.rules, 0.0), 0.0)
    found, now_s = Record(), begin_s
    for gap_s, kind in course:
        now_s += gap_s
        outcome = ProbeOutcome(SITE, kind, now_s, now_s, 200 if kind is UP else 503, detail="status 503")
        observation = decider.observe(outcome)
        assert observation is not None
        decider.outcomes.finish(observation.outcome, observation)
        assert observation.site is not None
        for day in observation.site.days:
            found.add(day)
        if observation.site.incident is not None:
            found.note(observation.site.incident)
    return found


@given(courses, st.floats(0.0, 3 * DAY_S))
@settings(max_examples=100, deadline=None)
def test_up_and_down_add_up_to_the_known_time(course: list[tuple[float, OutcomeKind]], begin_s: float) -> None:
    found = record_of(course, begin_s)
    judged = [kind is not BUSY for _, kind in course]
    lengths_s = [min(gap_s, LONGEST_S) for gap_s, _ in course[1:]]
    known_s = sum(length_s for length_s, both in zip(lengths_s, pairwise(judged), strict=True) if all(both))
    assert isclose(sum(each.up_s + each.down_s for each in found.days.values()), known_s, abs_tol=1e-3)
    assert sum(each.probes for each in found.days.values()) == sum(judged)
    assert sum(each.failures for each in found.days.values()) == sum(kind is DOWN for _, kind in course)


@given(courses)
@settings(max_examples=60, deadline=None)
def test_no_day_has_more_than_its_seconds(course: list[tuple[float, OutcomeKind]]) -> None:
    found = record_of([(min(gap_s, 190.0), kind) for gap_s, kind in course], DAY_S - 600.0)
    assert all(0.0 <= each.up_s + each.down_s <= DAY_S + 1e-6 for each in found.days.values())
    shares = uptime(found.days, found.incidents, 2 * DAY_S)
    assert all(each is None or 0.0 <= each <= 1.0 for each in (shares.day, shares.week, shares.month, shares.quarter))


@given(st.lists(st.booleans(), min_size=2, max_size=60))
@settings(max_examples=60, deadline=None)
def test_a_day_is_down_for_as_long_as_its_outages(ups: list[bool]) -> None:
    found = record_of([(40.0, UP if is_up else DOWN) for is_up in [*ups, True]], 1000.0)
    lasted_s = sum((each.ended_s or 0.0) - each.began_s for each in found.incidents)
    assert isclose(sum(each.down_s for each in found.days.values()), lasted_s, abs_tol=1e-3)


def test_the_last_24_hours_of_a_new_site_that_is_down_agree_with_its_days() -> None:
    found = record_of([(0.0, UP), (40.0, DOWN), (20.0, DOWN), (20.0, DOWN)], DAY_S)
    shares = uptime(found.days, found.incidents, DAY_S + 95.0, seen_s=DAY_S + 80.0)
    assert shares.day == shares.week == 0.5


def test_maintenance_is_neither_also_when_the_clocks_change() -> None:
    # 01:30 to 04:00 in Berlin lasts one and a half hours in that night
    options = "MAINTENANCE DURING 'Sun 01:30-04:00' IN 'Europe/Berlin'"
    found = record_of([(60.0, UP)] * 300, DST_S, options)
    total_s = sum(each.up_s + each.down_s for each in found.days.values())
    assert total_s == 299 * 60.0 - 91 * 60.0
