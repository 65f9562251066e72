"""The decider: makes every decision of proxyd, without reading a clock or doing I/O.

The daemon and the simulator drive the same decider: declarations, chronons and outcomes go in; probes, observations and
explanations come out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import Declaration
from proxyd.core.model.schedule import Probe
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.chunks import run_all as run_parts
from proxyd.core.planning.planner import Choice, Planner, switch_plan
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.compiled import NOTHING_COMPILED, Swap, compile_declaration, url_after_move, validators
from proxyd.core.rules.known.context import NO_CONTEXT, StoredContext
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.failing_rules import FailingRule
from proxyd.core.rules.known.knowledge import DeciderSettings, Knowledge
from proxyd.core.rules.known.state import JointInterval, SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Hubs, Subscription
from proxyd.core.rules.outcome_decider import OutcomeDecider, finish_at_once
from proxyd.core.rules.placement import SourcePlacement
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.snapshot import Fleet
from proxyd.core.rules.stages.captures import JointCaptures
from proxyd.core.rules.stages.hints import Hints
from proxyd.core.rules.stages.observation import Observation
from proxyd.core.rules.stages.payload import ProbeFacts
from proxyd.core.rules.stages.rule_tasks import Backlog, RecallTask, RuleTask, counts, refill_stream


class _Recalls:
    """Opens streams, and says what stored events mean for them."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known

    def follow(self, swap: Swap, now_s: float) -> list[Backlog]:
        """Let streams follow a declaration; return the new ones through which the past must be replayed."""
        known, programs = self._known, self._known.compiled.programs
        known.streams.keep(programs)
        rules = [name for name in swap.rules if name in programs]
        for name in rules:
            program, streams = programs[name], known.streams.of_rule(name)
            is_kept = known.compiled.continues(name, swap.before)
            kept = streams.items() if is_kept else ()
            opened = [program.open_stream(each, known.next_seq(source_id, program), now_s) for source_id, each in kept]
            known.streams.replace(name, opened)
        gained = {name: programs[name].rule.source_ids for name in rules} | dict(swap.gained)
        return [
            each
            for name, sources in gained.items()
            for each in self._open_streams(programs[name], sources, swap.fresh.get(name, ()))
        ]

    def _open_streams(
        self, program: RuleProgram, sources: Iterable[str], fresh: Iterable[StreamState]
    ) -> Iterator[Backlog]:
        """Open the missing streams of a rule, and yield those through which the past must be replayed."""
        name, known = program.rule.name, self._known
        if program.trigger.counts_across:
            known.streams.setdefault((name, ""), program.new_stream(""))
        there = known.streams.of_rule(name)
        new = [source_id for source_id in dict.fromkeys(sources) if source_id not in there]
        known.streams.begin(name, [each for each in fresh if each.source_id not in there])  # most of them
        there = known.streams.of_rule(name)
        known.streams.begin(name, program.new_streams([source_id for source_id in new if source_id not in there]))
        # most rules start NOW: of none of their sources the past counts, however many they have
        for source_id in new if program.may_look_back and not program.is_of_source else ():
            state = known.states.get(source_id)
            if state is None or state.first_contact_s is None or not known.has(source_id):
                continue
            if program.looks_back(known.compiled.declaration_s(source_id)):
                yield Backlog(program, known.compiled.sources[source_id], state.next_seq)

    def replay(self, entry: Backlog, stored: Sequence[StoredEvent], now_s: float) -> RuleTask:
        """Return the replay of stored events through a new stream; the streams of its result are to be kept."""
        name, source_id = entry.program.rule.name, entry.source.source_id
        return RuleTask(
            entry.program,
            self._known.streams[name, source_id],
            stored,
            ProbeFacts(entry.source.url, self._known.grid, self._known.compiled.declaration_s(source_id), now_s),
            self._known.streams.get((name, "")),
            is_replay=True,  # past joint intervals are counted, but not notified
            is_first=self._known.compiled.declaration.page_class(entry.source) == entry.program.event_class,
        )

    def lost(self) -> list[tuple[RuleProgram, StreamState]]:
        """Return our streams that lost their events in a restart, each with its rule."""
        programs, streams = self._known.compiled.programs, self._known.streams.values()
        return [(programs[each.rule], each) for each in streams if _is_lost(each) and self.is_ours(each)]

    def lost_of(self, source_id: str) -> list[tuple[RuleProgram, StreamState]]:
        """Return the streams of a source of another planner, whose events that one alone has, each with its rule."""
        known = self._known
        keys = [
            (program, known.streams.get((program.rule.name, stream_of)))
            for program in known.compiled.programs_of(source_id)
            for stream_of in ((source_id, "") if program.trigger.counts_across else (source_id,))
        ]
        return [(program, stream) for program, stream in keys if stream is not None and _is_lost(stream)]

    def is_ours(self, stream: StreamState) -> bool:
        """Whether this planner lets a stream see events; one of all sources of a rule has no source."""
        return self._known.has(stream.source_id) if stream.source_id else self._known.has_rule(stream.rule)

    def recall(self, stream: StreamState, stored: Mapping[str, Sequence[StoredEvent]], now_s: float) -> RecallTask:
        """Return what restores the events and windows of a stream, which are not stored with it."""
        program = self._known.compiled.programs[stream.rule]
        found = (
            program.own_view(each.event(source_id))
            for source_id, events in stored.items()
            for each in events
            if counts(program, each, self._known.compiled.declaration_s(source_id))
        )
        return RecallTask(program, stream, [event for event in found if event is not None], now_s)

    def waiting_of(self, rules: Collection[str]) -> list[tuple[RuleProgram, StreamState]]:
        """Return the streams of some rules that hold events since they last fired, each with its rule."""
        programs, streams = self._known.compiled.programs, self._known.streams.values()
        return [(programs[each.rule], each) for each in streams if each.rule in rules and each.pending]

    def refill(self, rule: str, source_id: str, stored: Mapping[str, Sequence[StoredEvent]]) -> None:
        """Let the events that a stream holds have what its rule's query reads now."""
        program, stream = self._known.compiled.programs.get(rule), self._known.streams.get((rule, source_id))
        if program is not None and stream is not None:
            events = (program.own_view(each.event(name)) for name, found in stored.items() for each in found)
            self._known.streams[rule, source_id] = refill_stream(program, stream, filter(None, events))


def _is_lost(stream: StreamState) -> bool:
    """Return whether a stream has counted events and holds none."""
    return stream.count > 0 and not stream.pending


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
        self.recalls = _Recalls(self.known)
        self._rng = rng
        self._hints = Hints(self.planner, settings.cycle, settings.grid.length_s)
        self.placement = SourcePlacement(self.known, self.planner, self.captures, self.hubs, rng)
        self.outcomes = OutcomeDecider(
            self.known, self.planner, self.captures, self.hubs, self._hints, self.placement, rng
        )

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
        """Take over what a store remembers, ``changes`` oldest first; the next ``declare`` is then taken in whole."""
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
        self.placement.restore(record.sources)

    def compile(
        self, declaration: Declaration, accepted: Mapping[str, float], declared: Mapping[str, float], now_s: float
    ) -> Swap:
        """Return a declaration ready to run; this changes nothing, and may take long in another thread."""
        swap = compile_declaration(
            declaration, accepted, declared, chronon_s=self.settings.grid.length_s, before=self.known.compiled
        )
        return replace(swap, sources=self.placement.neediest_first(swap.sources, now_s))

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
        change is left alone. With ``in_parts`` the caller has sources placed by ``placement.place_in_parts``.

        Sources that stay keep what was learned; streams keep the counts that the rule still counts if its NOW is
        unchanged. Returns the new streams whose START lies in the past of a known source, for ``recalls.replay``.
        """
        known, previous = self.known, self.known.compiled
        if swap is None or swap.before is not previous:
            swap = self.compile(declaration, accepted, declared, now_s)
        known.forget_moves(swap.after)
        known.compiled = swap.after.following(known.estimates.accepted)
        known.failing.keep(known.compiled.programs)
        backlog = self.recalls.follow(swap, now_s)
        before, after = previous.moved, known.compiled.moved  # a move that is accepted or forgotten changes the address
        moving = (name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
        changed = (*swap.sources, *moving)
        self._allow_hubs(changed)
        self.captures.declare()
        self.placement.declare(changed, now_s)
        if not in_parts:
            run_parts(self.placement.place_in_parts(lambda: now_s))
        return backlog

    def accept_move(self, source_id: str, now_s: float) -> SourceState | None:
        """Read a source where its permanent redirects lead, and return its new state; ``None`` if it has not moved."""
        known = self.known
        source = known.compiled.sources[source_id]
        state = known.state_after_move(source, now_s)
        if state is None:
            return None
        known.estimates.keep(state)  # what is under way of the old address is not taken in any more
        known.compiled = known.compiled.following(known.estimates.accepted)
        self._allow_hubs([source_id])
        self.placement.place(source_id, now_s)
        return state

    def _allow_hubs(self, changed: Iterable[str]) -> None:
        """Let hubs push the sources that rules ask for, at the addresses at which they are read."""
        if not self.settings.subscribes:
            return
        gone = [each for each in self.hubs.subscriptions() if each not in self.known.compiled.rules_of]
        for source_id in (*filter(self.known.has, changed), *gone):
            self.hubs.allow(source_id, self.known.address_of_pushes(source_id))

    def pause(self, paused: Mapping[str, Suspension], now_s: float) -> None:
        """Probe these sources no more, and all others that rules ask for again."""
        before, self.known.paused = self.known.paused, paused
        for source_id in paused.keys() - before.keys():
            self.placement.pause(source_id)
        for source_id in sorted(before.keys() - paused.keys()):
            self.placement.resume(source_id, now_s)

    # -- probes

    def choose(self, now: Chronon, most: float = inf, *, from_s: float = -inf, in_parts: bool = False) -> Choice:
        """Choose at most ``most`` probes to start in chronon ``now`` and not before ``from_s`` (unix seconds).

        Each is in flight until ``OutcomeDecider.finish``. With ``in_parts`` the caller places all but the first of the
        sources that wait.
        """
        now_s = self.known.grid.start_s(now)
        self.placement.refresh(now)
        for _ in self.placement.place_in_parts(lambda: now_s):
            if in_parts:
                break
        self._hints.hasten_bursts(now_s)
        choice = self.planner.choose(now, most, from_s=from_s)
        return replace(choice, probes=[each for each in choice.probes if self._keep_or_drop(each, now_s)])

    def _keep_or_drop(self, planned: PlannedProbe, now_s: float) -> bool:
        """Return True if a rule still asks for this probe, else give it back; places its source first if that waits."""
        source_id = planned.probe.source_id
        if not self.placement.place_if_waiting(source_id, now_s):
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
            moved_url=url_after_move(state, source),
        )

    def observe(
        self,
        outcome: ProbeOutcome,
        stored: StoredContext = NO_CONTEXT,
        *,
        reading: str | None = None,
        probe: Probe | None = None,
    ) -> Observation | None:
        """Take in an outcome as ``OutcomeDecider.observe`` does; rules run here, however long they take."""
        return finish_at_once(self.outcomes.observe(outcome, stored, reading=reading, probe=probe))

    def note_subscription(self, subscription: Subscription, now_s: float) -> None:
        """Take in the new state of a subscription."""
        self.hubs.keep(subscription)
        self.placement.note_subscription(subscription.source_id, now_s)

    # -- the plan of the week

    def fleet(self, now_s: float) -> Fleet:
        """Return the present state of the sources that the plan of the week is for, gathered at once."""
        return run_parts(self.snapshot(now_s))

    def snapshot(self, now_s: float) -> Chunked[Fleet]:
        """Gather the fleet in parts; ``switch_plan`` follows up sources that change after their part."""
        fleet = Fleet(self.known, self.planner.limits.hosts, now_s)
        # in the order of the declaration, so that a plan does not depend on which sources were placed first
        for planned in self.planner.in_parts(self.known.compiled.sources):
            fleet.add(planned, self.planner.week)
            yield
        self.planner.limits.forget(fleet.hosts, now_s)
        return fleet.close(self.planner.week, self.planner.settings, self._hints.changes())

    def switch_plan(self, week: WeekPlan, now_s: float) -> Chunked[None]:
        """Detect by a new plan of the week from now on, in parts; sources probed meanwhile are planned again."""
        self._hints.siblings = week.siblings
        if week.turned_h:
            self.known.estimates.turn_weeks(week.turned_h, now_s)
        return switch_plan(self.planner, week, self.settings.grid.chronon_at(now_s))
