"""The decider: makes every decision of proxyd, without reading a clock or doing I/O.

The daemon and the simulator drive the same decider: declarations, chronons and outcomes go in; probes, observations and
explanations come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from proxyd.core.planning.planner import Planner, switch_plan
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.compiled import NOTHING_COMPILED, Swap, compile_declaration, url_after_move, validators
from proxyd.core.rules.known.context import NO_CONTEXT, StoredContext
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.knowledge import DeciderSettings, Knowledge
from proxyd.core.rules.known.rule_counts import FailingRule
from proxyd.core.rules.known.state import JointInterval, SourceState
from proxyd.core.rules.known.subscriptions import Hubs, Subscription
from proxyd.core.rules.observing import Observing, finish_at_once
from proxyd.core.rules.placement import SourcePlacement
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.recalls import Recalls
from proxyd.core.rules.snapshot import Fleet
from proxyd.core.rules.stages.captures import JointCaptures
from proxyd.core.rules.stages.hints import Hints
from proxyd.core.rules.stages.observation import Observation
from proxyd.core.rules.stages.rule_tasks import Backlog


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
        self.recalls = Recalls(self.known)
        self._rng = rng
        self._hints = Hints(self.planner, settings.cycle, settings.grid.length_s)
        self.placement = SourcePlacement(self.known, self.planner, self.captures, self.hubs, rng)
        self.observing = Observing(self.known, self.planner, self.captures, self.hubs, self._hints, self.placement, rng)

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
        change is left alone. With ``in_parts`` the caller has sources placed by ``placement.placing``.

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
            run_parts(self.placement.placing(lambda: now_s))
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

    def choose(
        self, now: Chronon, most: float = inf, *, from_s: float = -inf, in_parts: bool = False
    ) -> list[PlannedProbe]:
        """Return at most ``most`` probes to start in chronon ``now`` and not before ``from_s`` (unix seconds).

        Each is in flight until ``Observing.finish``. With ``in_parts`` the caller places all but the first of the
        sources that wait.
        """
        now_s = self.settings.grid.start_s(now)
        self.placement.refresh(now)
        for _ in self.placement.placing(lambda: now_s):
            if in_parts:
                break
        self._hints.hasten_bursts(now_s)
        return [each for each in self.planner.choose(now, most, from_s=from_s) if self._is_still_asked(each, now_s)]

    def _is_still_asked(self, planned: PlannedProbe, now_s: float) -> bool:
        """Return whether a rule still asks for a probe of a source that may wait to be placed; else drop the probe."""
        source_id = planned.probe.source_id
        if not self.placement.settle(source_id, now_s):
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
        """Take in an outcome as ``Observing.observe`` does; rules run here, however long they take."""
        return finish_at_once(self.observing.observe(outcome, stored, reading=reading, probe=probe))

    def note_subscription(self, subscription: Subscription, now_s: float) -> None:
        """Take in the new state of a subscription."""
        self.hubs.keep(subscription)
        self.placement.note_subscription(subscription.source_id, now_s)

    # -- the plan of the week

    def fleet(self, now_s: float) -> Fleet:
        """Return the present state of the sources that the plan of the week is for; the plan is made in a thread."""
        return run_parts(self.snapshot(now_s))

    def snapshot(self, now_s: float) -> Chunked[Fleet]:
        """Gather the fleet in parts; ``switch_plan`` follows up sources that change after their part."""
        fleet = Fleet(self.known, self.planner.limits.hosts, now_s)
        # in the order of the declaration, so that a plan does not depend on which sources were placed first
        for planned in self.planner.in_parts(self.known.compiled.sources):
            fleet.add(planned)
            yield
        self.planner.limits.forget(fleet.hosts, now_s)
        return fleet.close(self.planner.week, self.planner.settings, self._hints.changes())

    def switch_plan(self, week: WeekPlan, now_s: float) -> Chunked[None]:
        """Detect by a new plan of the week from now on, in parts; sources probed meanwhile are planned again."""
        self._hints.siblings = week.siblings
        return switch_plan(self.planner, week, self.settings.grid.chronon_at(now_s))
