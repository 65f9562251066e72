"""How an outcome is handled: find events, evaluate rules, learn, and decide what follows.

``OutcomeDecider.observe`` is the whole story; ``finish`` is what happens once its observation is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Protocol, TypeVar

import numpy as np

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, host_of
from proxyd.core.model.profile import Source
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.planning.planner import Planner
from proxyd.core.politeness.faults import Connectivity
from proxyd.core.rates.siblings import FEWEST_IN_MASS
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.context import (
    NO_CONTEXT,
    History,
    Shape,
    SourceContext,
    StoredContext,
    StoreQuery,
    store_query,
)
from proxyd.core.rules.known.failing_rules import FailingRule, RuleFailure
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import JointInterval, Notification, SourceHealth, SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Hubs
from proxyd.core.rules.placement import SourcePlacement
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.stages.answers import Match
from proxyd.core.rules.stages.captures import JointCaptures
from proxyd.core.rules.stages.events import Discovery, WindowEvents, find_events
from proxyd.core.rules.stages.hints import Hints
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.core.rules.stages.payload import Announcement, outage_notices
from proxyd.core.rules.stages.rule_tasks import JointTask, RuleTask, Task, tasks_of
from proxyd.core.rules.stages.site_uptime import site_change
from proxyd.core.rules.stages.source_events import source_news
from proxyd.core.rules.stages.source_state import calibrate, next_state

R = TypeVar("R")


class Evaluation(Protocol):
    """Runs the tasks of rules, here or in another process; neither method raises what a rule does."""

    async def run(self, tasks: Iterable[Task[R]]) -> list[R]:
        """Return the results of tasks, in order."""

    def turn(self, tasks: Iterable[RuleTask]) -> AbstractAsyncContextManager[None]:
        """Lock what rules share among sources while it is read and changed."""


class AtOnce:
    """The evaluation of the simulator: tasks run here, and nothing else runs meanwhile."""

    async def run(self, tasks: Iterable[Task[R]]) -> list[R]:
        """Return the results of tasks, in order; each has a meter of its own."""
        return [task.run(Meter()) for task in tasks]

    @asynccontextmanager
    async def turn(self, tasks: Iterable[RuleTask]) -> AsyncIterator[None]:
        """Lock nothing."""
        yield


AT_ONCE = AtOnce()


def finish_at_once(story: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that waits for nothing, as those evaluated by ``AT_ONCE`` do."""
    try:
        story.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError("the coroutine waits for something")


@dataclass(frozen=True, slots=True)
class _Draft:
    """An outcome that has changed nothing yet: what it says of its source, and the tasks of its rules."""

    context: SourceContext
    outcome: ProbeOutcome
    found: Discovery
    health: SourceHealth
    source_events: tuple[StoredEvent, ...]
    history: History
    tasks: tuple[RuleTask, ...]
    bug: Exception | None = None


class OutcomeDecider:
    """Decides what an outcome leads to: takes it into what is known, and lets the planner go on."""

    def __init__(
        self,
        known: Knowledge,
        planner: Planner,
        captures: JointCaptures,
        hubs: Hubs,
        hints: Hints,
        placement: SourcePlacement,
        rng: np.random.Generator,
    ) -> None:
        self._known = known
        self._planner = planner
        self._captures = captures
        self._hubs = hubs
        self._hints = hints
        self._placement = placement
        self._rng = rng
        self.connection = Connectivity()

    # -- an outcome

    def query_for(self, outcome: ProbeOutcome) -> StoreQuery | None:
        """Return what ``observe`` needs from the store, or ``None`` if it needs nothing."""
        source = self._known.source(outcome.source_id)
        if source is None:
            return None
        completes = bool(self._captures.wanting(source.source_id))
        if outcome.kind is not OutcomeKind.CHANGED and not outcome.is_missing and not completes:
            return None
        programs, state = self._known.running(source.source_id), self._known.state(source)
        shape = Shape.of(self._known.compiled.declaration.page_class(source))
        return store_query(outcome, shape, state, programs, completes=completes)

    async def observe(
        self,
        outcome: ProbeOutcome,
        stored: StoredContext = NO_CONTEXT,
        evaluation: Evaluation = AT_ONCE,
        *,
        reading: str | None = None,
        probe: Probe | None = None,
    ) -> Observation | None:
        """Take in an outcome and return what it changes, to be recorded before ``finish``.

        While rules are evaluated, a declaration or another source's outcome may change what they depend on: then the
        outcome is read again. If a document cannot be taken in, its source has failed, and ``bug`` says how. Returns
        ``None`` if the source is gone, or if it is no longer read as ``reading`` says, the way in which it was probed.
        ``probe`` is the planned probe.
        """
        while (draft := self._draft(outcome, stored, reading)) is not None:
            async with evaluation.turn(draft.tasks):
                if not self._is_current(draft):  # another outcome had the turn first
                    continue
                results = RuleResults.merge(await evaluation.run(draft.tasks))
                answered = self._captures.match_tasks(results.firings, results.answers, outcome.source_id)
                matches = await evaluation.run(answered)
                if self._is_current(draft):
                    observation, announced = self._apply(draft, results, matches, probe)
                    break
        else:
            return None
        if announced:
            joint = await self._notify_joint(announced, outcome.finished_s, evaluation, _picture_of(outcome))
            observation = replace(observation, rules=RuleResults.merge([observation.rules, joint]))
        return observation

    def finish(self, outcome: ProbeOutcome, observation: Observation | None) -> None:
        """Let the planner continue with a source after its observation was recorded.

        A declaration that came meanwhile may have changed or removed the source.
        """
        if observation is not None and observation.bug is not None:
            outcome = observation.outcome
        self._placement.place_if_waiting(outcome.source_id, outcome.finished_s)
        if observation is not None:
            self._placement.note_observation(outcome, observation)
        learn = partial(self._placement.update_demands, outcome=outcome, observation=observation)
        if outcome.is_push:
            self._planner.note_push(outcome.source_id, outcome.finished_s, learn=learn)
        else:
            seen = observation is not None and outcome.kind.is_success
            self._planner.finish(outcome.source_id, outcome.finished_s, seen=seen, learn=learn)
        if observation is not None:
            self._hints.hasten_siblings(observation.hints, outcome.finished_s)
            if observation.found.is_doubtful and outcome.source_id in self._planner.sources:
                self._planner.ask(outcome.source_id, outcome.finished_s, Reason.CONFIRMATION)

    async def end_overdue(
        self, interval: JointInterval, stored: StoredContext, now_s: float, evaluation: Evaluation = AT_ONCE
    ) -> RuleResults | None:
        """End an overdue joint interval and return what to record, or ``None`` if it changed meanwhile."""
        captured = self._captures.end_overdue(interval, stored.history, now_s)
        if captured is None:
            return None
        self._placement.ask_once(captured.sources, now_s)
        joint = await self._notify_joint(captured.announcements, now_s, evaluation)
        return RuleResults.merge([captured.results, joint])

    # -- its steps

    def _draft(self, outcome: ProbeOutcome, stored: StoredContext, reading: str | None) -> _Draft | None:
        """Return what an outcome says, or, of a document that cannot be taken in, that its source has failed."""
        source = self._known.source(outcome.source_id, reading)
        if source is None:
            return None
        try:
            return self._read(source, outcome, stored)
        except Exception as error:  # whatever a document does to us, its source fails alone, and not the daemon
            if outcome.kind is not OutcomeKind.CHANGED:
                raise
            return replace(self._read(source, _failure_at_document(outcome, error), stored), bug=error)

    def _read(self, source: Source, outcome: ProbeOutcome, stored: StoredContext) -> _Draft:
        context = self._known.context(source)
        is_excused, is_sure = self._blame(context, outcome)
        throttled_s = self._throttle_end_s(context)
        context = replace(context, is_excused=is_excused, is_sure=is_sure, throttled_until_s=throttled_s)
        found = find_events(context, outcome, stored.items, stored.shown)
        health, of_source = source_news(context, outcome if found.is_doubtful else found.outcome)
        tasks = tasks_of(context, found.events, of_source, stored.history, _picture_of(outcome))
        return _Draft(context, outcome, found, health, of_source, stored.history, tasks)

    def _blame(self, context: SourceContext, outcome: ProbeOutcome) -> tuple[bool, bool]:
        """Return whether a failure is excused, as while we are offline, and whether it is surely the source's."""
        failing = context.state.health.failing
        since_s = outcome.started_s if failing is None else failing.since_s
        host, hosts = host_of(context.source.url), self._known.compiled.hosts
        is_sure = self.connection.is_sure(host, outcome, since_s=since_s, hosts=hosts)
        return self.connection.excuses(host, outcome), is_sure

    def _throttle_end_s(self, context: SourceContext) -> float:
        """Return until when a source is or was left alone because it, or its host, asked for fewer requests."""
        state, planned = context.state, self._planner.sources.get(context.source.source_id)
        own_s = state.not_before_s if state.last_outcome == OutcomeKind.THROTTLED.value else 0.0
        return own_s if planned is None else max(own_s, self._planner.limits.throttle_end_s(planned))

    def _is_current(self, draft: _Draft) -> bool:
        """Whether nothing that a draft depends on has changed since."""
        known, context = self._known, draft.context
        if known.compiled.sources.get(context.source.source_id) is not context.source:
            return False
        running = known.running(context.source.source_id)
        if len(running) != len(context.rules) or any(
            now is not then for now, (then, _) in zip(running, context.rules, strict=True)
        ):
            return False
        if self._blame(context, draft.outcome) != (context.is_excused, context.is_sure):
            return False
        state = known.state(context.source)
        if state is not context.state and state != context.state:
            return False
        return all(known.is_unchanged(task.program, task.stream, task.across) for task in draft.tasks)

    def _apply(
        self, draft: _Draft, results: RuleResults, matches: Sequence[Match], probe: Probe | None
    ) -> tuple[Observation, Sequence[Announcement]]:
        """Apply an outcome to all that is known; the joint intervals that it ends are notified later."""
        outcome, found = draft.outcome, draft.found
        self._placement.place_if_waiting(
            outcome.source_id, outcome.finished_s
        )  # one that waits to be placed has no record yet
        outage = tuple(self._end_outage(draft.context, outcome))
        context = self._with_plan(draft.context, outcome)
        if len(self._planner.sources) > FEWEST_IN_MASS and (mass_s := self._hints.mass_times(found.window.evidence)):
            found = replace(found, window=replace(found.window, mass_s=mass_s))
        judged = calibrate(context, found, results.intervals)
        state = next_state(context, found, judged, draft.health, rng=self._rng)
        week = self._learn(context, found.window, state)
        subscription = self._hubs.follow(outcome, found.events)
        self._known.keep_streams(results.streams)
        captured = self._captures.update(found, results.firings, draft.history, matches)
        self._placement.ask_once(captured.sources, outcome.finished_s)
        failures = tuple(failure for match in matches for failure in match.failures)
        failing = self._count_failures(draft, (*results.failures, *failures))
        others = RuleResults(notifications=outage, failures=failures, failing=failing)
        observation = Observation(
            state,
            found,
            RuleResults.merge([results, captured.results, others]),
            judged.calibration,
            week,
            subscription,
            probe,
            source_events=draft.source_events,
            site=None if context.source.site is None else site_change(context, found.outcome, draft.health),
            bug=draft.bug,
        )
        return self._with_restart(observation, outcome), captured.announcements

    def _end_outage(self, context: SourceContext, outcome: ProbeOutcome) -> Iterable[Notification]:
        """Record what an outcome says of our connection, and return the notices of the outage that it ends."""
        health = context.state.health
        own = health.failing is not None and (health.is_sure or context.is_sure)
        since_s = -inf if own else inf if health.failing is None else health.failing.since_s
        ended = self.connection.take_in(host_of(context.source.url), outcome, since_s=since_s)
        if ended is None:
            return ()
        return outage_notices(self._known.compiled.programs.values(), ended, context.source, context.zone)

    def _with_plan(self, context: SourceContext, outcome: ProbeOutcome) -> SourceContext:
        """Return a context with what the plan says of the source."""
        source = context.source
        planned = self._planner.sources.get(source.source_id)
        if planned is None:
            return context
        model = self._known.estimates.model(source, planned.rate_per_s, self._planner.week, outcome.finished_s)
        return replace(context, model=model, pushed_until_s=planned.pushed_until_s)

    def _learn(self, context: SourceContext, window: WindowEvents, state: SourceState) -> WeekCounts | None:
        """Take in a source's new state, and return the counts of its week if they changed."""
        estimates, source = self._known.estimates, context.source
        if context.is_another_page:
            estimates.weeks.pop(source.source_id, None)
        has_turned = state.fit.week_off_since_s is not None and context.state.fit.week_off_since_s is None
        plan, before, evidence, mass_s = self._planner.week, context.state, window.evidence, window.mass_s
        week = None
        if evidence is not None:
            week = estimates.see(source, before, evidence, plan, turned=has_turned, mass_s=mass_s)
        self._hints.learn(source.source_id, evidence)
        estimates.keep(state)
        return week

    def _count_failures(self, draft: _Draft, failures: Iterable[RuleFailure]) -> tuple[FailingRule, ...]:
        failures_of: dict[str, list[RuleFailure]] = {}
        for each in failures:
            failures_of.setdefault(each.rule, []).append(each)
        rules = [task.program.rule for task in draft.tasks]
        ended = [(rule, failures_of.get(rule.name, ())) for rule in rules]
        undecided = {task.program.rule.name for task in draft.tasks if task.program.is_joint}
        return self._known.failing.count(ended, draft.outcome.finished_s, undecided)

    async def _notify_joint(
        self, announced: Iterable[Announcement], now_s: float, evaluation: Evaluation, picture: str | None = None
    ) -> RuleResults:
        """Evaluate the messages of ended joint intervals, and count the failures of their rules."""
        tasks = [JointTask(each, self._known.grid, picture) for each in announced]
        made = await evaluation.run(tasks)
        ended = [(task.program.rule, each.failures) for task, each in zip(tasks, made, strict=True)]
        return replace(RuleResults.merge(made), failing=self._known.failing.count(ended, now_s))

    def _with_restart(self, observation: Observation, outcome: ProbeOutcome) -> Observation:
        """Return an observation with what a restart needs to plan the next probes alike."""
        events = observation.found.events
        # stored with the probe: a restart must plan the same probes as a process that goes on
        hints = self._hints.siblings_to_probe(outcome.source_id, events, outcome.finished_s)
        return replace(
            observation,
            record=self._placement.record(outcome, observation),
            hints=tuple(hint for hint in hints if self._known.has(hint.source_id)),
            fleet=self._known.estimates.record(),
        )


def _failure_at_document(outcome: ProbeOutcome, error: Exception) -> ProbeOutcome:
    """Return the outcome of a probe whose document proxyd itself cannot take in."""
    return ProbeOutcome(
        *(outcome.source_id, OutcomeKind.PARSER_FAILED, outcome.started_s, outcome.finished_s),
        detail=f"proxyd failed at the document, and its log says how: {type(error).__name__}",
        requests=outcome.requests,
        answered_by=outcome.answered_by,
        is_answered=outcome.is_answered,
        is_push=outcome.is_push,
    )


def _picture_of(outcome: ProbeOutcome) -> str | None:
    return None if outcome.picture is None else outcome.picture.sha256
