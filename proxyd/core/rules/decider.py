"""The decider: makes every decision of proxyd, without reading a clock or doing I/O.

The daemon and the simulator drive the same decider: declarations, chronons and outcomes go in; probes, observations and
explanations come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from types import MappingProxyType

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest, host_of
from proxyd.core.model.profile import Declaration
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.plan_switch import switch_plan
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.chunks import run_all as run_parts
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.planning.source_record import SourceRecord
from proxyd.core.politeness import Connectivity
from proxyd.core.rates.evidence import Evidence
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.burst_hints import BurstHints
from proxyd.core.rules.compiled import NOTHING_COMPILED, Compiled, Swap, compile_declaration
from proxyd.core.rules.decider_settings import DeciderSettings
from proxyd.core.rules.estimates import Fleet, FleetRecord
from proxyd.core.rules.failing import FailingRule
from proxyd.core.rules.knowledge import Knowledge
from proxyd.core.rules.moves import accepted_state, forget_moves
from proxyd.core.rules.observation import Observation, Prepared, RuleResults
from proxyd.core.rules.placement import SourcePlacement
from proxyd.core.rules.recalls import Recalls
from proxyd.core.rules.sharing import Sharing
from proxyd.core.rules.sibling_hints import SiblingHints
from proxyd.core.rules.snapshot import Snapshot
from proxyd.core.rules.source_requests import moved_url, validators
from proxyd.core.rules.stages.answer_matches import Match, MatchTask
from proxyd.core.rules.stages.calibration import calibrate
from proxyd.core.rules.stages.captures import JointCaptures
from proxyd.core.rules.stages.context import SourceContext
from proxyd.core.rules.stages.events import find_events
from proxyd.core.rules.stages.joint_intervals import JointInterval
from proxyd.core.rules.stages.outage_notices import outage_notices
from proxyd.core.rules.stages.payload import MadeNotifications
from proxyd.core.rules.stages.rule_tasks import JointTask, RuleStep, RuleTask, merged, run_all
from proxyd.core.rules.stages.source_events import source_news
from proxyd.core.rules.stages.source_state import next_state
from proxyd.core.rules.stages.stored import NO_CONTEXT, StoredContext, StoreQuery, store_query
from proxyd.core.rules.stages.streams import Backlog
from proxyd.core.rules.state import Notification, SourceState, StreamState
from proxyd.core.rules.subscriptions import Hubs, Subscription


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What a store remembers of the plan: how sources stood, what they share, and the plan of the week."""

    sources: Mapping[str, SourceRecord] = field(default_factory=dict)
    fleet: FleetRecord | None = None
    week: WeekPlan | None = None


class Decider:
    """Holds the declaration, the planner, and what is known of the sources; decides only from these."""

    def __init__(self, settings: DeciderSettings, rng: np.random.Generator) -> None:
        self.settings = settings
        self.known = Knowledge(settings)
        self.planner = Planner(settings.planner)
        self.captures = JointCaptures(self.known)
        self.hubs = Hubs(rng)
        self.connection = Connectivity()
        self.recalls = Recalls(self.known)
        self.explainer = Explainer(self.known, self.planner, self.hubs)
        self._rng = rng
        self._hints = SiblingHints(self.planner, settings.cycle)
        self._bursts = BurstHints(self.planner, settings.cycle, settings.grid.length_s)
        self._placement = SourcePlacement(self.known, self.planner, self.captures, self.hubs, rng)
        self.sharing = Sharing(self.known, self.captures, self.recalls, self.hubs, self._placement)

    # -- declarations

    def restore(
        self,
        states: Mapping[str, SourceState],
        streams: Mapping[tuple[str, str], StreamState],
        subscriptions: Mapping[str, Subscription] = MappingProxyType({}),
        joint: Iterable[JointInterval] = (),
        weeks: Mapping[str, WeekCounts] = MappingProxyType({}),
        changes: Iterable[tuple[str, float]] = (),
        failing: Mapping[str, FailingRule] = MappingProxyType({}),
    ) -> None:
        """Take over what a store remembers; the next ``declare`` is then taken in whole.

        ``changes`` holds pairs of a source and the time of an item, oldest first.
        """
        self.known.compiled = NOTHING_COMPILED
        self.known.streams.restore(streams.values())
        self.known.estimates.restore(states, weeks)
        self.known.failing.restore(failing)
        self.captures.restore(joint)
        self.hubs.restore(subscriptions)
        self._hints.restore(changes)

    def restore_plan(self, record: PlanRecord) -> None:
        """Take over the plan that a store remembers; call it before the first ``declare``."""
        if record.fleet is not None:
            self.known.estimates.restore_fleet(record.fleet)
        if record.week is not None:
            self.planner.change_to(record.week)
            self._hints.siblings = record.week.siblings
        self._placement.restore(record.sources)

    def compile(
        self, declaration: Declaration, accepted: Mapping[str, float], declared: Mapping[str, float], now_s: float
    ) -> Swap:
        """Return a declaration ready to run; this changes nothing, and may take long in another thread.

        Its sources are in the order in which to place them.
        """
        swap = compile_declaration(
            declaration, accepted, declared, chronon_s=self.settings.grid.length_s, before=self.known.compiled
        )
        return replace(swap, sources=self.neediest_first(swap.sources, now_s))

    def neediest_first(self, sources: Iterable[str], now_s: float) -> list[str]:
        """Return sources in the order in which to place them, those that have missed most first."""
        return self._placement.neediest_first(sources, now_s)

    def declare(
        self,
        declaration: Declaration,
        accepted: Mapping[str, float],
        now_s: float,
        declared: Mapping[str, float] = MappingProxyType({}),
        *,
        swap: Swap | None = None,
        in_parts: bool = False,
    ) -> list[Backlog]:
        """Swap in a declaration; ``accepted`` holds each rule's NOW, ``declared`` since when each source is.

        ``swap`` is what ``compile`` returned for the same; without it, the declaration is compiled here. What did not
        change is left alone. With ``in_parts`` the caller has sources placed by ``placing``.

        Sources that stay keep what was learned; streams keep the counts that the rule still counts if its NOW is
        unchanged. Returns the new streams whose START lies in the past of a known source, for ``recalls.replay``.
        """
        known, previous = self.known, self.known.compiled
        if swap is None or swap.before is not previous:
            swap = self.compile(declaration, accepted, declared, now_s)
        forget_moves(known.estimates, swap.after)
        known.compiled = swap.after.following(known.estimates.accepted)
        known.failing.keep(known.compiled.programs)
        backlog = self.recalls.follow(swap, now_s)
        changed = (*swap.sources, *_moved_otherwise(previous, known.compiled))
        self._allow_hubs(changed)
        self.captures.declare()
        self._placement.declare(changed, now_s)
        if not in_parts:
            run_parts(self.placing(lambda: now_s))
        return backlog

    @property
    def is_placing(self) -> bool:
        """Whether sources wait to be placed."""
        return self._placement.is_waiting

    def placing(self, now_s: Callable[[], float]) -> Chunked[None]:
        """Place the sources that wait for it, in parts; ``now_s`` returns the time, in unix seconds."""
        return self._placement.parts(now_s)

    def placing_declared(self, now_s: Callable[[], float]) -> Chunked[None]:
        """Place the sources that the last declaration changed, in parts; others may still wait then."""
        parts = self._placement.parts(now_s)
        while self._placement.has_changed_waiting():
            yield next(parts)

    def settle(self, source_id: str, now_s: float) -> None:
        """Place a source now if it waits for that."""
        self._placement.settle(source_id, now_s)

    def accept_move(self, source_id: str, now_s: float) -> SourceState | None:
        """Read a source where its permanent redirects lead, and return its new state; ``None`` if it has not moved.

        What is under way of the old address is not taken in any more.
        """
        known = self.known
        source = known.compiled.sources[source_id]
        state = accepted_state(known.state(source), source, known.compiled, now_s)
        if state is None:
            return None
        known.estimates.keep(state)
        known.compiled = known.compiled.following(known.estimates.accepted)
        self._allow_hubs([source_id])
        self._placement.place(source_id, now_s)
        return state

    def _allow_hubs(self, changed: Iterable[str]) -> None:
        """Let hubs push the sources that rules ask for, at the addresses at which they are read."""
        if not self.settings.subscribes:
            return
        gone = [each for each in self.hubs.subscriptions() if each not in self.known.compiled.rules_of]
        for source_id in (*filter(self.known.has, changed), *gone):
            self.hubs.allow(source_id, self.known.pushed_at(source_id))

    def pause(self, paused: Mapping[str, Suspension], now_s: float) -> None:
        """Probe these sources no more, and all others that rules ask for again."""
        before, self.known.paused = self.known.paused, paused
        for source_id in paused.keys() - before.keys():
            self._placement.pause(source_id)
        for source_id in sorted(before.keys() - paused.keys()):
            self._placement.resume(source_id, now_s)

    # -- probes

    def choose(
        self, now: Chronon, most: float = inf, *, from_s: float = -inf, in_parts: bool = False
    ) -> list[PlannedProbe]:
        """Return at most ``most`` probes to start in chronon ``now`` and not before ``from_s`` (unix seconds).

        Each is in flight until ``finished``. With ``in_parts`` the caller places all but the first sources that wait.
        """
        now_s = self.settings.grid.start_s(now)
        self._placement.refresh(now)
        for _ in self.placing(lambda: now_s):
            if in_parts:
                break
        self._bursts.give(now_s)
        return [each for each in self.planner.choose(now, most, from_s=from_s) if self._is_still_asked(each, now_s)]

    def _is_still_asked(self, planned: PlannedProbe, now_s: float) -> bool:
        """Return whether a rule still asks for a probe of a source that may wait to be placed; else drop the probe."""
        source_id = planned.probe.source_id
        if not self._placement.settle(source_id, now_s):
            return True
        source = self.planner.sources.get(source_id)
        if source is not None and (source.demands or source.asked is not None):
            return True
        self.planner.drop(planned, now_s)
        return False

    def request(self, source_id: str, now_s: float) -> ProbeRequest | None:
        """Return what the prober needs, or ``None`` if the source has been removed, paused or given up since."""
        source = self.known.source(source_id)
        if source is None or source_id in self.known.paused or not self.known.has(source_id):
            return None
        state = self.known.state(source)
        return replace(
            self.known.compiled.requests[source_id],
            validators=validators(state, now_s=now_s, rate_per_s=lambda: self.known.rate_per_s(source, now_s)),
            body_hash=state.body_hash,
            moved_url=moved_url(state, source),
        )

    def needed(self, outcome: ProbeOutcome) -> StoreQuery | None:
        """Return what ``observe`` needs from the store, or ``None`` if it needs nothing."""
        source = self.known.source(outcome.source_id)
        if source is None:
            return None
        completes = bool(self.captures.wanting(source.source_id))
        if outcome.kind is not OutcomeKind.CHANGED and not outcome.is_missing and not completes:
            return None
        return store_query(self.known.context(source), outcome, completes=completes)

    def observe(
        self,
        outcome: ProbeOutcome,
        stored: StoredContext = NO_CONTEXT,
        *,
        reading: str | None = None,
        probe: Probe | None = None,
    ) -> Observation | None:
        """Take in an outcome and return what it changes; ``probe`` is the planned probe.

        Rules run here, however long they take: ``prepare`` and ``conclude`` do the same with their work between them.
        Returns ``None`` if the source is gone, or if its present reading is not ``reading``, the one that was probed.
        """
        prepared = self.prepare(outcome, stored, reading=reading)
        if prepared is None:
            return None
        steps = run_all(prepared.tasks)
        observation, joint = self.conclude(prepared, steps, run_all(self.match_tasks(prepared, steps)), probe=probe)
        return replace(observation, rules=self.told(observation.rules, joint, run_all(joint), outcome.finished_s))

    def prepare(
        self, outcome: ProbeOutcome, stored: StoredContext = NO_CONTEXT, *, reading: str | None = None
    ) -> Prepared | None:
        """Return what an outcome says, and what its rules have to do; nothing changes.

        Run the tasks anywhere; then pass their results to ``conclude`` if ``is_current`` still holds.
        """
        source = self.known.source(outcome.source_id, reading)
        if source is None:
            return None
        context = self._blamed(self.known.context(source), outcome)
        found = find_events(context, outcome, stored.items, stored.shown)
        news = source_news(context, outcome if found.is_doubtful else found.outcome)
        tasks = RuleTask.all_of(context, found.events, stored.history, news.events, picture=_picture_of(outcome))
        return Prepared(context, outcome, found, stored.history, tasks, news)

    def is_current(self, prepared: Prepared) -> bool:
        """Whether nothing that the tasks depend on has changed since."""
        known, context = self.known, prepared.context
        if known.compiled.sources.get(context.source.source_id) is not context.source:
            return False
        running = known.running(context.source.source_id)
        if len(running) != len(context.rules) or any(
            now is not then for now, (then, _) in zip(running, context.rules, strict=True)
        ):
            return False
        blamed = self._blamed(context, prepared.outcome)
        if (blamed.is_excused, blamed.is_sure) != (context.is_excused, context.is_sure):
            return False
        return known.state(context.source) == context.state and all(map(self.recalls.is_unmoved, prepared.tasks))

    def match_tasks(self, prepared: Prepared, steps: Sequence[RuleStep]) -> list[MatchTask]:
        """Return the tasks of rules with THEN that follow those of an outcome, by these tasks' results."""
        step = merged(steps)
        return self.captures.match_tasks(step.firings, step.answers, prepared.outcome.source_id)

    def conclude(
        self,
        prepared: Prepared,
        steps: Sequence[RuleStep],
        matches: Sequence[Match] = (),
        *,
        probe: Probe | None = None,
    ) -> tuple[Observation, list[JointTask]]:
        """Take in an outcome with the results of its tasks, and return what it changes; ``probe`` is the planned one.

        The notifications of the joint intervals that this ended are missing in the observation: ``told`` adds what the
        tasks make that are returned with it.
        """
        outcome, found, step = prepared.outcome, prepared.found, merged(steps)
        self._placement.settle(outcome.source_id, outcome.finished_s)
        offline = tuple(self._ended_outage(prepared.context, outcome))
        context = self._judged(prepared.context, outcome)
        judged = calibrate(context, found, step.intervals)
        state = replace(next_state(context, found, judged, rng=self._rng), health=prepared.news.health)
        week = self._learn(context, found.window.evidence, state)
        subscription = self.hubs.follow(outcome, found.events)
        self.known.keep_streams(step.streams)
        captured = self.captures.take_in(found, step.firings, prepared.history, matches)
        self._placement.ask_once(captured.sources, outcome.finished_s)
        match_failures = {match.rule: match.failures for match in matches}
        ended = [
            (rule := task.program.rule, (*step_of_rule.failures, *match_failures.get(rule.name, ())))
            for task, step_of_rule in zip(prepared.tasks, steps, strict=True)
        ]
        undecided = {task.program.rule.name for task in prepared.tasks if task.program.is_joint}
        failing = self.known.failing.count(ended, outcome.finished_s, undecided)
        results = RuleResults.of(step, captured)
        failures = (*results.failures, *(failure for match in matches for failure in match.failures))
        notifications = (*results.notifications, *offline)
        rules = replace(results, notifications=notifications, failures=failures, failing=failing)
        observation = self._recorded(
            Observation(
                state,
                found,
                rules,
                judged.calibration,
                week,
                subscription,
                probe,
                source_events=prepared.news.events,
            ),
            outcome,
        )
        return observation, JointTask.all_of(captured, self.settings.grid, _picture_of(outcome))

    def told(
        self, results: RuleResults, tasks: Sequence[JointTask], made: Sequence[MadeNotifications], now_s: float
    ) -> RuleResults:
        """Return results with the notifications of joint intervals that the tasks made, or failed to make."""
        ended = [(task.program.rule, each.failures) for task, each in zip(tasks, made, strict=True)]
        return results.told(made, self.known.failing.count(ended, now_s))

    def begun(self, request: ProbeRequest, now_s: float) -> None:
        """Note that a source is asked by a probe that was not chosen; ``finished`` ends it."""
        self.planner.in_flight[request.source_id] = self.settings.grid.chronon_at(now_s)
        self.planner.limits.hosts.remember(request.host, now_s)

    def note_start(self, source_id: str, noted_s: float, start_s: float) -> None:
        """Record the start of an early probe for its source's spacing, in place of ``noted_s``, which was stored."""
        self.settle(source_id, start_s)
        if (source := self.planner.sources.get(source_id)) is None:
            return
        if noted_s in source.log.starts_s:  # the store was read after that
            source.log.correct(noted_s, None)
        source.record(start_s)

    def finished(self, outcome: ProbeOutcome, observation: Observation | None) -> None:
        """Let the planner continue with a source after its observation was recorded.

        A declaration that came meanwhile may have changed or removed the source.
        """
        self.settle(outcome.source_id, outcome.finished_s)
        if observation is not None:
            self._placement.take_in(outcome, observation)
        learn = partial(self._placement.feed_back, outcome=outcome, observation=observation)
        if outcome.is_push:
            self.planner.pushed(outcome.source_id, outcome.finished_s, learn=learn)
        else:
            seen = observation is not None and outcome.kind.is_success
            self.planner.finished(outcome.source_id, outcome.finished_s, seen=seen, learn=learn)
        if observation is not None:
            self._hints.give(observation.hints, outcome.finished_s)
            if observation.found.is_doubtful and outcome.source_id in self.planner.sources:
                self.planner.ask(outcome.source_id, outcome.finished_s, Reason.CONFIRMATION)

    def _recorded(self, observation: Observation, outcome: ProbeOutcome) -> Observation:
        """Return an observation with what a restart needs to plan the next probes alike."""
        hints = self._hints.hints(outcome.source_id, observation.found.events, outcome.finished_s)
        return replace(
            observation,
            record=self._placement.record(outcome, observation),
            hints=tuple(each for each in hints if self.known.has(each.source_id)),
            fleet=self.known.estimates.record(),
        )

    def _blamed(self, context: SourceContext, outcome: ProbeOutcome) -> SourceContext:
        """Return a context that says whose fault a failure is; one while the daemon is offline is excused."""
        failing = context.state.health.failing
        since_s = outcome.started_s if failing is None else failing.since_s
        host = host_of(context.source.url)
        return replace(
            context,
            is_excused=self.connection.excuses(host, outcome),
            is_sure=self.connection.is_sure(host, outcome, since_s=since_s, hosts=self.known.compiled.hosts),
            throttled_until_s=self._throttled_until_s(context),
        )

    def _throttled_until_s(self, context: SourceContext) -> float:
        """Return until when a source is or was left alone because it, or its host, asked for fewer requests."""
        state, planned = context.state, self.planner.sources.get(context.source.source_id)
        own_s = state.not_before_s if state.last_outcome == OutcomeKind.THROTTLED.value else 0.0
        return own_s if planned is None else max(own_s, self.planner.limits.blocked_until_s(planned))

    def _ended_outage(self, context: SourceContext, outcome: ProbeOutcome) -> Iterable[Notification]:
        """Take in what an outcome says of our connection, and return the notices of the outage that it ends."""
        health = context.state.health
        own = health.failing is not None and (health.is_sure or context.is_sure)
        since_s = -inf if own else inf if health.failing is None else health.failing.since_s
        ended = self.connection.take_in(host_of(context.source.url), outcome, since_s=since_s)
        if ended is None:
            return ()
        return outage_notices(self.known.compiled.programs.values(), ended, context.source)

    def _judged(self, context: SourceContext, outcome: ProbeOutcome) -> SourceContext:
        """Return a context with what the plan says of the source."""
        source = context.source
        planned = self.planner.sources.get(source.source_id)
        if planned is None:
            return context
        model = self.known.estimates.model(source, planned.rate_per_s, self.planner.week, outcome.finished_s)
        return replace(context, model=model, pushed_until_s=planned.pushed_until_s)

    def _learn(self, context: SourceContext, evidence: Evidence | None, state: SourceState) -> WeekCounts | None:
        """Take in a source's new state, and return the counts of its week if they changed."""
        estimates, source = self.known.estimates, context.source
        if context.is_another_page:
            estimates.forget_week(source.source_id)
        week = None if evidence is None else estimates.see(source, context.state, evidence, self.planner.week)
        self._hints.learn(source.source_id, evidence)
        self._bursts.learn(source.source_id, evidence)
        estimates.keep(state)
        return week

    def subscribed(self, subscription: Subscription, now_s: float) -> None:
        """Take in the new state of a subscription."""
        self.hubs.keep(subscription)
        self._placement.subscribed(subscription.source_id, now_s)

    def give_up(
        self, interval: JointInterval, stored: StoredContext, now_s: float
    ) -> tuple[RuleResults, list[JointTask]] | None:
        """End an overdue joint interval, or return ``None`` if it changed meanwhile.

        Returns what to record, and the tasks that make the notifications, which are to be recorded with it.
        """
        captured = self.captures.give_up(interval, stored.history, now_s)
        if captured is None:
            return None
        self._placement.ask_once(captured.sources, now_s)
        return RuleResults.of(merged([]), captured), JointTask.all_of(captured, self.settings.grid)

    # -- the plan of the week

    def fleet(self, now_s: float) -> Fleet:
        """Return the present state of the sources that the plan of the week is for; the plan is made in a thread."""
        return run_parts(self.snapshot(now_s))

    def snapshot(self, now_s: float) -> Chunked[Fleet]:
        """Gather the fleet in parts; ``switch_plan`` follows up sources that change after their part.

        The order is that of the declaration, so that a plan does not depend on which sources were placed first.
        """
        taken = Snapshot(self.known, self.planner.limits.hosts, now_s)
        for planned in self.planner.in_parts(self.known.compiled.sources):
            taken.add(planned)
            yield
        self.planner.limits.forget(taken.hosts, now_s)
        return taken.fleet(self.planner.week, self.planner.settings, self._hints.changes())

    def switch_plan(self, week: WeekPlan, now_s: float) -> Chunked[None]:
        """Detect by a new plan of the week from now on, in parts; sources probed meanwhile are planned again."""
        self._hints.siblings = week.siblings
        return switch_plan(self.planner, week, self.settings.grid.chronon_at(now_s))


def _moved_otherwise(before: Compiled, after: Compiled) -> list[str]:
    """Return the sources that are read at another address than before, because their move is accepted or forgotten."""
    both = before.moved.keys() | after.moved.keys()
    return [name for name in sorted(both) if before.moved.get(name) != after.moved.get(name)]


def _picture_of(outcome: ProbeOutcome) -> str | None:
    """Return the hash of the picture that a probe took."""
    return None if outcome.picture is None else outcome.picture.sha256
