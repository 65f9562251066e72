"""The decider: everything proxyd decides, in one object that reads no clock and touches nothing.

The daemon and the simulator drive the same decider: declarations, chronons and outcomes go in; probes, observations and
explanations come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from types import MappingProxyType
from urllib.parse import urlsplit

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import Declaration, Source
from proxyd.core.planning.allocation.plan_switch import switch_plan
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked, run_all
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.demand import Demands
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.politeness import Connectivity, PolitenessBudget, ProbeLog, Throttles
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.capture_counts import CaptureCounts, StreamTable
from proxyd.core.rules.compiled import NOTHING_COMPILED, Compiled
from proxyd.core.rules.decider_settings import DeciderSettings
from proxyd.core.rules.demands import demands_of, politeness_of
from proxyd.core.rules.engine import (
    NO_CONTEXT,
    Observation,
    PageContext,
    StoredContext,
    accounted,
    history_needed,
    needed,
    observe,
    with_found,
)
from proxyd.core.rules.estimates import Estimates, Fleet
from proxyd.core.rules.explanation import Explainer
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.snapshot import Snapshot
from proxyd.core.rules.stages.captures import Captures, CaptureStep
from proxyd.core.rules.stages.joint_intervals import JointInterval
from proxyd.core.rules.stages.payload import History, notice
from proxyd.core.rules.stages.redirects import MISSING, moved_url, validators
from proxyd.core.rules.stages.streams import Backlog, advance, counted, counts, recalled
from proxyd.core.rules.state import SourceState, StoredEvent, StoreQuery, StreamState
from proxyd.core.rules.subscriptions import Hubs, Subscription, refused


class Decider:
    """Holds the declaration, what is known of its sources, and the planner; decides from them alone."""

    def __init__(self, settings: DeciderSettings, rng: np.random.Generator) -> None:
        self.settings = settings
        self.compiled = NOTHING_COMPILED
        self.estimates = Estimates(settings.prior_mean_per_s, settings.cycle)
        self._throttles = Throttles()
        self.connection = Connectivity()
        self.streams = StreamTable()
        self.hubs = Hubs()
        self.captures = Captures(settings.grid)
        self.planner = Planner(settings.planner)
        self.rng = rng
        self._seed = int(rng.integers(2**32))
        self._next_anchor_s = 0.0
        self._next_period_s = inf

    @property
    def states(self) -> dict[str, SourceState]:
        """What is known of each source."""
        return self.estimates.states

    # -- declarations

    def restore(
        self,
        states: Mapping[str, SourceState],
        streams: Mapping[tuple[str, str], StreamState],
        subscriptions: Mapping[str, Subscription] = MappingProxyType({}),
        joint: Iterable[JointInterval] = (),
        weeks: Mapping[str, WeekCounts] = MappingProxyType({}),
        changes: Iterable[tuple[str, float]] = (),
    ) -> None:
        """Take over what a store remembers; to be called before the first ``declare``.

        ``changes`` holds sources and when each had an item, oldest first.
        """
        self.streams = StreamTable(streams.values())
        self.captures = Captures(self.settings.grid, joint)
        self.hubs = Hubs(subscriptions)
        self.estimates.restore(states, weeks, changes)

    def declare(
        self,
        declaration: Declaration,
        accepted: Mapping[str, float],
        now_s: float,
        declared: Mapping[str, float] = MappingProxyType({}),
    ) -> list[Backlog]:
        """Swap in a declaration; ``accepted`` holds each rule's NOW, ``declared`` since when each source is.

        Sources that stay keep what was learned, streams their counts while the rule's NOW stays the same. Returns
        the new streams whose START lies in the past of a source already known: their ``backlog`` is to be replayed.
        """
        previous, grid = self.compiled, self.settings.grid
        self.compiled = compiled = Compiled.of(declaration, accepted, declared, chronon_s=grid.length_s)
        self.streams = StreamTable(
            compiled.programs[name].opened(stream)
            for (name, _), stream in self.streams.items()
            if compiled.continues(name, previous) and compiled.programs[name].fits(stream)
        )
        backlog = [each for program in compiled.programs.values() for each in self._open_streams(program)]
        if self.settings.subscribes:
            sources = (compiled.sources[source_id] for source_id in compiled.rules_of)
            self.hubs.allow({source.source_id: source.url for source in sources if source.websub is not False})
        self.captures.declare(compiled)
        self._place_pages(now_s)
        return backlog

    def _open_streams(self, program: RuleProgram) -> Iterator[Backlog]:
        """Open the streams of a rule that are not there, and yield what of the past is to be replayed through them."""
        name = program.rule.name
        if program.trigger.counts_across:
            self.streams.setdefault((name, ""), program.new_stream(""))
        for source_id in program.rule.source_ids:
            if (name, source_id) in self.streams:
                continue
            self.streams[name, source_id] = program.new_stream(source_id)
            known = self.states.get(source_id)
            looks_back = program.looks_back(self.compiled.declared_s(source_id))
            if known is not None and known.first_contact_s is not None and looks_back:
                yield Backlog(program, self.compiled.sources[source_id], known.next_seq)

    def backlog(self, entry: Backlog, stored: Sequence[StoredEvent], now_s: float) -> Observation:
        """Replay a source's stored events through a new stream and return what fired, to be recorded.

        Intervals of several pages are long over: their rules count what was, and notify of what comes.
        """
        name, source_id = entry.program.rule.name, entry.source.source_id
        grid, across = self.settings.grid, self.streams.get((name, ""))
        declared_s = self.compiled.declared_s(source_id)
        step = advance(entry.program, self.streams[name, source_id], stored, grid, across, declared_s=declared_s)
        self._keep_streams(step.streams)
        notices = () if entry.program.is_joint else step.firings
        return Observation(
            self.states[source_id],
            ProbeOutcome(source_id, OutcomeKind.SAME_BODY, now_s, now_s),
            streams=step.streams,
            intervals=step.intervals,
            notifications=tuple(
                notice(firing, {}, url=entry.source.url, created_s=now_s, grid=grid) for firing in notices
            ),
        )

    def recall(self, stream: StreamState, stored: Mapping[str, Sequence[StoredEvent]], now_s: float) -> None:
        """Give a restored stream back what is not stored with it, from the stored events of its pages.

        These are the events since it last fired, and those that its windows look back on.
        """
        program = self.compiled.programs[stream.rule]
        found = [
            each.event(source_id)
            for source_id, events in stored.items()
            for each in events
            if counts(program, each, self.compiled.declared_s(source_id))
        ]
        self.streams[stream.rule, stream.source_id] = recalled(program, stream, found, now_s)

    # -- probes

    def choose(self, now: Chronon, most: float = inf) -> list[PlannedProbe]:
        """Return the probes to start in chronon ``now``; each is in flight until ``finished``."""
        now_s = self.settings.grid.start_s(now)
        if now_s >= self._next_period_s:
            self._place_pages(now_s)
        if now_s >= self._next_anchor_s:
            self._next_anchor_s = now_s + self.settings.epoch_s
            for source_id, page in self.planner.pages.items():
                if page.demands.intervals:
                    self._anchor(page, now_s)
                    self.planner.reschedule(source_id, now)
        return self.planner.choose(now, most)

    def request(self, source_id: str, now_s: float) -> ProbeRequest | None:
        """Return what the prober needs, ``None`` where the source is gone meanwhile."""
        source = self.compiled.sources.get(source_id)
        if source is None:
            return None
        state = self._state(source)
        return replace(
            self.compiled.requests[source_id],
            validators=validators(state, now_s=now_s, rate_per_s=lambda: self._rate_per_s(source, now_s)),
            body_hash=state.body_hash,
            moved_url=moved_url(state, source),
        )

    def needed(self, outcome: ProbeOutcome) -> StoreQuery | None:
        """Return which stored items ``observe`` needs to be told of, ``None`` where none."""
        source = self.compiled.sources.get(outcome.source_id)
        if source is None:
            return None
        completes = bool(self.captures.wanting(source.source_id))
        if outcome.kind is not OutcomeKind.CHANGED and outcome.status not in MISSING and not completes:
            return None
        return needed(self._context(source), outcome, completes=completes)

    def observe(
        self, outcome: ProbeOutcome, known: StoredContext = NO_CONTEXT, *, reading: str | None = None
    ) -> Observation | None:
        """Return what an outcome changes and take it in.

        ``None`` where the source is gone or, if ``reading`` says what was probed and how it was read, has changed.
        """
        source = self.compiled.sources.get(outcome.source_id)
        if source is None or (reading is not None and reading != self.compiled.reading(source.source_id)):
            return None
        self.connection.take_in(_host(source.url), outcome)
        context = self._context(source)
        if self.connection.excuses(outcome):
            context = replace(context, is_excused=True)
        observation = observe(context, outcome, known, rng=self.rng)
        if (subscription := self.hubs.follow(outcome, observation.events)) is not None:
            observation = replace(observation, subscription=subscription)
        if (page := self.planner.pages.get(source.source_id)) is not None:
            model = self.estimates.model(source, page.rate_per_s, self.planner.week, outcome.finished_s)
            observation = accounted(context, observation, model, pushed_until_s=page.pushed_until_s)
        if context.is_another_page:
            self.estimates.forget_week(source.source_id)
        if observation.evidence is not None:
            week = self.estimates.see(source, context.state, observation.evidence)
            observation = observation if week is None else replace(observation, week=week)
        self.estimates.keep(observation.state)
        self._keep_streams(observation.streams)
        return self._with_captures(observation, known.history)

    def finished(self, outcome: ProbeOutcome, observation: Observation | None) -> None:
        """Let the planner go on with a source after its observation was recorded."""
        page = self.planner.pages.get(outcome.source_id)
        if page is not None and observation is not None:
            self._take_in(page, outcome, observation)
        seen = observation is not None and outcome.kind.is_success
        if outcome.is_push:
            self.planner.pushed(outcome.source_id, outcome.finished_s)
        else:
            self.planner.finished(outcome.source_id, outcome.finished_s, seen=seen)
        if observation is not None:
            self._hint(observation)
        if page is not None and observation is not None:
            self._feed_back(page, observation, outcome.finished_s)
            self.planner.reschedule(outcome.source_id, self.settings.grid.chronon_at(outcome.finished_s))

    def _hint(self, observation: Observation) -> None:
        """Let siblings of a source that changed be probed earlier."""
        source_id, now_s = observation.state.source_id, observation.outcome.finished_s
        newest_s = max((event.event_s for event in observation.events if event.exact and not event.seed), default=None)
        if newest_s is not None:
            for sibling, items in self.estimates.siblings_that_may_have_changed(source_id, newest_s, now_s):
                self.planner.hint(sibling, items, since_s=newest_s, now_s=now_s)

    def _take_in(self, page: PlannedSource, outcome: ProbeOutcome, observation: Observation) -> None:
        page.pushed_until_s = self.hubs.pushes_until_s(page.source_id)
        page.not_before_s = observation.state.not_before_s
        page.fresh_until_s = observation.state.fresh_until_s
        page.rate_per_s = self._rate_per_s(self.compiled.sources[page.source_id], outcome.finished_s)
        page.window = _full_window(observation.state)
        page.dispersion = observation.state.fit.dispersion
        if page.last_seen_s is None and outcome.kind.is_success:
            self._anchor(page, outcome.finished_s, anew=True)
        scope = self.settings.throttle_scope(outcome.answered_by or page.host)
        if (until_s := self._throttles.take_in(scope, outcome, self.rng)) is not None:
            self.planner.block(scope, until_s)
        self._move(page, observation.state)
        if outcome.crawl_delay_s is not None:
            self.planner.hosts.space(page.host, outcome.crawl_delay_s)

    # -- the plan of the week

    def fleet(self, now_s: float) -> Fleet:
        """Return the sources that a plan of the week is for, as they stand; it is made beside the event loop."""
        return run_all(self.snapshot(now_s))

    def snapshot(self, now_s: float) -> Chunked[Fleet]:
        """Gather the fleet in parts; a page that changes after its part is followed up when the plan is taken over."""
        taken = Snapshot(self.estimates, self.planner.hosts, now_s, self.settings.grid.length_s)
        for number, pages in enumerate(self.planner.in_parts()):
            if number:
                yield
            taken.add(pages, self.compiled.programs, self.compiled.sources)
        return taken.fleet(self.planner.week, self.settings.planner)

    def adopt(self, week: WeekPlan, now_s: float) -> None:
        """Detect by a plan of the week from now on; what was probed while it was made is planned anew."""
        run_all(self.switch_plan(week, now_s))

    def switch_plan(self, week: WeekPlan, now_s: float) -> Chunked[None]:
        """Do the same in parts."""
        self.estimates.siblings = week.siblings
        return switch_plan(self.planner, week, self.settings.grid.chronon_at(now_s))

    # -- intervals of several pages

    def overdue(self, now_s: float) -> list[tuple[JointInterval, StoreQuery]]:
        """Return the intervals that end without some of their pages, and what it takes of the store to say so."""
        found = self.captures.overdue(now_s)
        programs = self.compiled.programs
        return [(each, history_needed([programs[each.rule]], each.event.source_id, now_s)) for each in found]

    def give_up(self, interval: JointInterval, known: StoredContext, now_s: float) -> Observation | None:
        """Let such an interval end and return what there is to record, ``None`` where it changed meanwhile."""
        source_id = interval.event.source_id
        step = self.captures.give_up(interval, known.history, now_s)
        if step is None:
            return None
        outcome = ProbeOutcome(source_id, OutcomeKind.SAME_BODY, now_s, now_s)
        state = self.states.get(source_id) or SourceState(source_id, self.compiled.url_of(source_id))
        return self._with_steps(Observation(state, outcome), [step])

    def _with_captures(self, observation: Observation, history: History) -> Observation:
        """Return the observation with what it means for intervals that several pages must capture."""
        outcome = observation.outcome
        if outcome.kind is OutcomeKind.CHANGED and not outcome.is_push:
            self.captures.see(outcome.source_id, outcome.items)
        steps = self.captures.probed(outcome.source_id, outcome, observation.events, history)
        for firing in observation.firings:
            pages = {page: self.compiled.sources[page] for page in firing.program.rule.source_ids}
            seen = {page: self._state(source).last_success_s for page, source in pages.items()}
            rates = {page: self._rate_per_s(source, outcome.finished_s) for page, source in pages.items()}
            steps.append(self.captures.open(firing, seen, rates, with_found(history, firing, observation.events)))
        return self._with_steps(observation, steps) if steps else observation

    def _with_steps(self, observation: Observation, steps: Sequence[CaptureStep]) -> Observation:
        streams = {(each.rule, each.source_id): each for each in observation.streams}
        for step in steps:
            key = (step.interval.rule, step.interval.event.source_id)
            streams[key] = counted(self.streams[key], step.records)
            self._keep_streams([streams[key]])
            for page in {*step.interval.wanted, *(page.source_id for page in step.interval.obtained)}:
                self._ask_once(page, observation.outcome.finished_s)
        sent = [step.notification for step in steps if step.notification is not None]
        return replace(
            observation,
            streams=tuple(streams.values()),
            intervals=(*observation.intervals, *(record for step in steps for record in step.records)),
            notifications=(*observation.notifications, *sent),
            joint=tuple(step.interval for step in steps if not step.is_over),
            ended=tuple(step.interval.interval_id for step in steps if step.is_over),
        )

    def _ask_once(self, page_id: str, now_s: float) -> None:
        """Let a page be probed for the intervals that still want it."""
        page = self.planner.pages.get(page_id)
        if page is not None:
            page.demands.once = self.captures.asked_once(page_id)
            self.planner.reschedule(page_id, self.settings.grid.chronon_at(now_s))

    def fates(self, rules: Iterable[str]) -> CaptureCounts:
        """Return what became of the execution intervals of declared rules since their START."""
        return self.streams.fates_of(rules)

    def _keep_streams(self, streams: Iterable[StreamState]) -> None:
        for stream in streams:
            self.streams[stream.rule, stream.source_id] = stream

    # -- hubs

    def hub_refused(self, subscription: Subscription, now_s: float) -> Subscription:
        """Return a subscription after its hub refused a request."""
        return refused(subscription, now_s=now_s, rng=self.rng)

    def subscribed(self, subscription: Subscription, now_s: float) -> None:
        """Take in what became of a subscription: whether its hub pushes decides what is probed."""
        self.hubs.keep(subscription)
        page = self.planner.pages.get(subscription.source_id)
        if page is not None:
            page.pushed_until_s = self.hubs.pushes_until_s(page.source_id)
            self.planner.reschedule(page.source_id, self.settings.grid.chronon_at(now_s))

    def _move(self, page: PlannedSource, state: SourceState) -> None:
        """Count a source that moved for good to another host with that host's sources."""
        source = self.compiled.sources[page.source_id]
        page.host = _host(moved_url(state, source) or source.url)
        page.throttle_scope = self.settings.throttle_scope(page.host)

    @property
    def explainer(self) -> Explainer:
        """What says which probes are coming, and why; good until the next declaration."""
        return Explainer(self.settings, self.compiled, self.planner, self.estimates, self.hubs)

    # -- how

    def _state(self, source: Source) -> SourceState:
        return self.estimates.state(source, self.compiled.reading(source.source_id))

    def _context(self, source: Source) -> PageContext:
        names = self.compiled.rules_of.get(source.source_id, ())
        return PageContext(
            source=source,
            page_class=self.compiled.declaration.page_class(source),
            state=self._state(source),
            rules=[(self.compiled.programs[name], self.streams[name, source.source_id]) for name in names],
            across={name: self.streams[name, ""] for name in names if (name, "") in self.streams},
            grid=self.settings.grid,
            spacing_s=self._politeness(source).spacing_s,
            freshness_cap_s=0.0 if source.freshness is False else self.settings.freshness_cap_s,
            blend=self.estimates.blend,
            declared_s=self.compiled.declared_s(source.source_id),
        )

    def _rate_per_s(self, source: Source, now_s: float) -> float:
        return self.estimates.rate_per_s(self._state(source), source, now_s)

    def _politeness(self, source: Source) -> PolitenessBudget:
        return politeness_of(source, spacing_s=self.settings.source_spacing_s, chronon_s=self.settings.grid.length_s)

    def _place_pages(self, now_s: float) -> None:
        now = self.settings.grid.chronon_at(now_s)
        for source_id in [s for s in self.planner.pages if s not in self.compiled.rules_of]:
            self.planner.remove(source_id)
        for source_id in self.compiled.rules_of:
            self.planner.put(self._page(self.compiled.sources[source_id], now_s), now)
        self.planner.forget_hosts(now_s)
        self._next_period_s = self.compiled.next_period_s(now_s)

    def _page(self, source: Source, now_s: float) -> PlannedSource:
        """Return the page of a source, with what the planner already knew of it."""
        old = self.planner.pages.get(source.source_id)
        state = self._state(source)
        host = _host(moved_url(state, source) or source.url)
        scope = self.settings.throttle_scope(host)
        log = ProbeLog(self._politeness(source), old.log.starts_s if old else [])
        if not log.starts_s and state.last_start_s is not None:
            # only the last start is remembered over a restart: assume that the whole window was used then
            for _ in range(log.budget.probes or 1):
                log.record(state.last_start_s)
            self.planner.hosts.remember(host, state.last_start_s)
            if state.last_outcome == OutcomeKind.THROTTLED.value:
                self.planner.block(scope, state.not_before_s)
        return PlannedSource(
            source_id=source.source_id,
            host=host,
            throttle_scope=scope,
            log=log,
            demands=self._demands(source, now_s, old.demands if old else Demands()),
            rate_per_s=self._rate_per_s(source, now_s),
            last_seen_s=state.watched_s,
            not_before_s=state.not_before_s,
            fresh_until_s=state.fresh_until_s,
            window=_full_window(state),
            dispersion=state.fit.dispersion,
            pushed_until_s=self.hubs.pushes_until_s(source.source_id),
            postponed=old.postponed if old else {},
        )

    def _demands(self, source: Source, now_s: float, old: Demands) -> Demands:
        """Return what the active rules ask of a page; what was asked before goes on where it was."""
        asking = self.compiled.programs_of(source.source_id)
        programs = [program for program in asking if source.source_id in program.event_sources]
        demands = demands_of(
            [program for program in programs if program.is_active(now_s)],
            {program.rule.name: self._count(program.rule.name, source.source_id) for program in programs},
            old,
            rate_per_s=self._rate_per_s(source, now_s),
            now_s=now_s,
            grid=self.settings.grid,
            seed=self._seed,
        )
        demands.once = self.captures.asked_once(source.source_id)
        return demands

    def _count(self, rule: str, source_id: str) -> int:
        return self.streams[rule, source_id].count

    def _anchor(self, page: PlannedSource, now_s: float, *, anew: bool = False) -> None:
        """Lay intervals anew; but for ``anew`` only where one came and went, else a slow source's never comes."""
        for demand in page.demands.intervals:
            lay = demand.anchor if anew else demand.renew
            lay(now_s, rate_per_s=page.rate_per_s, count=self._count(demand.rule, page.source_id))

    def _feed_back(self, page: PlannedSource, observation: Observation, now_s: float) -> None:
        fired = {record.rule for record in observation.intervals}
        for demand in page.demands.intervals:
            count = self._count(demand.rule, page.source_id)
            demand.follow(now_s, rate_per_s=page.rate_per_s, count=count, fired=demand.rule in fired)
        for paced in page.demands.paced:
            since_s = now_s - self.compiled.programs[paced.rule].accepted_s
            paced.count(self._count(paced.rule, page.source_id), since_s)


@lru_cache(65_536)
def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


def _full_window(state: SourceState) -> int | None:
    """Return how many items a feed shows that old ones slide off, ``None`` for others."""
    return state.shown if state.slides and state.shown else None
