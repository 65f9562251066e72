"""Events of sources themselves: over random failures, moves and restarts, each is told once, and none while offline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import EventKind
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import Notification
from tests.fleets import item

HOSTS = "abcd"
KINDS = ("FAILURE", "RECOVERY", "MOVED")
AFTER = 2
OK, ERROR, MOVED, SILENT, RESTART = "ok", "error", "moved", "silent", "restart"
steps = st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from([OK, ERROR, MOVED, SILENT, RESTART])), max_size=40)


@dataclass(frozen=True)
class Told:
    """An event that was told of a source, after the step of a number."""

    step: int
    source: str
    kind: EventKind


def declaration() -> Declaration:
    """Return four sources of hosts of their own, and a rule for each kind of event, after two probes."""
    sources = "".join(f"CREATE SOURCE \"{name}\" OF FEED AT 'https://{name}.example.org/';\n" for name in HOSTS)
    rules = "".join(
        f'INSERT NOTIFICATION "{kind}" INTO "P" SET QUERY "SELECT name FROM SOURCE" '
        f'SET TRIGGER "ON {kind} TO SOURCE AFTER {AFTER} PROBES";\n'
        for kind in KINDS
    )
    declared = check([SourceText("t", f'CREATE PROFILE "P";\n{sources}{rules}')]).declaration
    assert declared is not None
    return declared


DECLARATION = declaration()
SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))


def decider(before: Decider | None = None) -> Decider:
    """Return a decider, or one that goes on after a restart with what is stored."""
    made = Decider(SETTINGS, np.random.default_rng(1))
    if before is not None:
        made.restore(dict(before.known.states), before.known.streams.copy())
    made.declare(DECLARATION, dict.fromkeys(DECLARATION.rules, 0.0), 0.0)
    return made


def outcome(source: str, seen: str, at_s: float) -> ProbeOutcome:
    """Return how a probe ended."""
    if seen == ERROR:
        return ProbeOutcome(source, OutcomeKind.HTTP_ERROR, at_s, at_s, 500, detail="HTTP 500")
    if seen == SILENT:
        return ProbeOutcome(source, OutcomeKind.TIMEOUT, at_s, at_s)
    moved = f"https://{source}.example.net/" if seen == MOVED else None
    items = (item("a", None),)
    return ProbeOutcome(source, OutcomeKind.CHANGED, at_s, at_s, 200, items, body_hash=seen, permanent_url=moved)


def kind_of(notification: Notification) -> str:
    """Return what a notification tells of: an event of a source, or that proxyd was offline."""
    kind: str = json.loads(notification.body)["data"]["event"]["kind"]
    return kind


def told(course: Sequence[tuple[str, str]]) -> Iterator[Told]:
    """Yield the events that are told over a course of probes."""
    found = decider()
    for number, (source, seen) in enumerate(course):
        if seen == RESTART:
            found = decider(found)
            continue
        observation = found.observe(outcome(source, seen, 60.0 * number))
        assert observation is not None
        found.outcomes.finish(observation.outcome, observation)
        notices = [each for each in observation.rules.notifications if kind_of(each) != "offline"]
        made = {each.notification_id for each in notices}
        assert len(made) == len(observation.source_events)
        yield from (Told(number, source, each.kind) for each in observation.source_events)


@given(steps)
@settings(max_examples=60, deadline=None)
def test_failures_and_recoveries_alternate(course: Sequence[tuple[str, str]]) -> None:
    for name in HOSTS:
        kinds = [each.kind for each in told(course) if each.source == name and each.kind is not EventKind.MOVED]
        expected = [EventKind.RECOVERY if number % 2 else EventKind.FAILURE for number in range(len(kinds))]
        assert kinds == expected


@given(steps.map(lambda course: [(name, ERROR if seen == SILENT else seen) for name, seen in course]))
@settings(max_examples=60, deadline=None)
def test_each_run_of_answered_failures_is_told_once_and_so_is_its_end(course: Sequence[tuple[str, str]]) -> None:
    for name in HOSTS:
        own = [seen == ERROR for source, seen in course if source == name and seen != RESTART]
        runs = [(failed, len(list(run))) for failed, run in groupby(own)]
        long = [failed and length >= AFTER for failed, length in runs]
        kinds = [each.kind for each in told(course) if each.source == name]
        assert kinds.count(EventKind.FAILURE) == sum(long)
        assert kinds.count(EventKind.RECOVERY) == sum(long[:-1])


@given(steps)
@settings(max_examples=60, deadline=None)
def test_a_restart_changes_nothing(course: Sequence[tuple[str, str]]) -> None:
    answered = [(name, ERROR if seen == SILENT else seen) for name, seen in course]
    without = [each for each in answered if each[1] != RESTART]
    assert [(each.source, each.kind) for each in told(answered)] == [(each.source, each.kind) for each in told(without)]


@given(st.lists(st.sampled_from(HOSTS), max_size=30))
@settings(max_examples=60, deadline=None)
def test_nothing_is_told_while_no_host_answers(silent: Sequence[str]) -> None:
    course = [*((name, OK) for name in HOSTS), *((name, SILENT) for name in silent), *((name, OK) for name in HOSTS)]
    assert not list(told(course))


@given(steps)
@settings(max_examples=60, deadline=None)
def test_a_move_is_told_once_as_long_as_it_leads_to_the_same_place(course: Sequence[tuple[str, str]]) -> None:
    moving = [(name, MOVED if seen == OK else seen) for name, seen in course]
    moved = [each.source for each in told(moving) if each.kind is EventKind.MOVED]
    assert len(moved) == len(set(moved))
