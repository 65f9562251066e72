"""Puts the sources that rules ask for into the planner, and keeps the planner's data on them up to date."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, host_of
from proxyd.core.model.profile import Source
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.demand import Demands
from proxyd.core.politeness import ProbeLog, Throttles
from proxyd.core.rules.demands import demands_of
from proxyd.core.rules.knowledge import Knowledge
from proxyd.core.rules.observation import Observation
from proxyd.core.rules.source_requests import moved_url
from proxyd.core.rules.stages.captures import JointCaptures
from proxyd.core.rules.state import SourceState
from proxyd.core.rules.subscriptions import Hubs


class SourcePlacement:
    """Keeps the planner's sources in line with the declaration, the outcomes and the hubs."""

    def __init__(
        self, known: Knowledge, planner: Planner, captures: JointCaptures, hubs: Hubs, rng: np.random.Generator
    ) -> None:
        self._known = known
        self._grid = known.grid
        self._planner = planner
        self._captures = captures
        self._hubs = hubs
        self._rng = rng
        self._seed = int(rng.integers(2**32))
        self._throttles = Throttles()
        self._set_aside: dict[str, PlannedSource] = {}  # paused: their past probes still count for politeness
        self._next_anchor_s = 0.0
        self._next_period_s = inf

    def place_all(self, now_s: float) -> None:
        """Put in every source that a rule asks for now, and remove the others."""
        compiled, now = self._known.compiled, self._grid.chronon_at(now_s)
        self._set_aside = {name: each for name, each in self._set_aside.items() if name in compiled.rules_of}
        for source_id in [name for name in self._planner.sources if name not in compiled.rules_of]:
            self._planner.remove(source_id)
        for source_id in compiled.rules_of:
            if source_id not in self._known.paused:
                self._planner.put(self._placed(compiled.sources[source_id], now_s), now)
        self._planner.limits.forget({each.host for each in self._planner.sources.values()}, now_s)
        self._next_period_s = compiled.next_period_s(now_s)

    def refresh(self, now: Chronon) -> None:
        """Place sources again if a rule's period begins or ends, and lay planned intervals once an epoch."""
        now_s = self._grid.start_s(now)
        if now_s >= self._next_period_s:
            self.place_all(now_s)
        if now_s >= self._next_anchor_s:
            self._next_anchor_s = now_s + self._known.settings.epoch_s
            for source_id, planned in self._planner.sources.items():
                if planned.demands.intervals:
                    self._lay(planned, now_s)
                    self._planner.reschedule(source_id, now)

    def pause(self, source_id: str) -> None:
        """Plan no more probes of a source."""
        planned = self._planner.sources.get(source_id)
        if planned is not None:
            self._set_aside[source_id] = planned
            self._planner.remove(source_id)

    def resume(self, source_id: str, now_s: float) -> None:
        """Plan a source again if a rule asks for it; what its hub did not push meanwhile does not count against it."""
        if source_id in self._known.compiled.rules_of:
            self._hubs.trust_since(source_id, now_s)
            placed = self._placed(self._known.compiled.sources[source_id], now_s)
            self._planner.put(placed, self._grid.chronon_at(now_s))

    def ask_once(self, sources: Iterable[str], now_s: float) -> None:
        """Place sources again so that they are probed for the joint intervals that want them."""
        for source_id in sources:
            planned = self._planner.sources.get(source_id)
            if planned is not None:
                planned.demands.once = self._captures.asked_once(source_id)
                self._planner.reschedule(source_id, self._grid.chronon_at(now_s))

    def subscribed(self, source_id: str, now_s: float) -> None:
        """Note until when the hub of a source pushes; this decides which probes it needs."""
        planned = self._planner.sources.get(source_id)
        if planned is not None:
            planned.pushed_until_s = self._hubs.pushes_until_s(source_id)
            self._planner.reschedule(source_id, self._grid.chronon_at(now_s))

    def take_in(self, outcome: ProbeOutcome, observation: Observation) -> None:
        """Tell the planner when an outcome lets its source be probed again, and when it should be."""
        planned = self._planner.sources.get(outcome.source_id)
        if planned is None:
            return
        state, source = observation.state, self._known.compiled.sources[planned.source_id]
        planned.pushed_until_s = self._hubs.pushes_until_s(planned.source_id)
        planned.not_before_s = state.not_before_s
        planned.fresh_until_s = state.fresh_until_s
        planned.rate_per_s = self._known.rate_per_s(source, outcome.finished_s)
        planned.window = _full_window(state)
        planned.dispersion = state.fit.dispersion
        if planned.last_seen_s is None and outcome.kind.is_success:
            self._lay(planned, outcome.finished_s, is_first=True)
        scope = self._known.settings.throttle_scope(outcome.answered_by or planned.host)
        if (until_s := self._throttles.take_in(scope, outcome, self._rng)) is not None:
            self._planner.limits.blocks.block(scope, until_s)
        planned.host = host_of(moved_url(state, source) or source.url)
        planned.throttle_scope = self._known.settings.throttle_scope(planned.host)
        if outcome.crawl_delay_s is not None:
            self._planner.limits.hosts.space(planned.host, outcome.crawl_delay_s)

    def feed_back(self, outcome: ProbeOutcome, observation: Observation) -> None:
        """Update the demands of a source with what was found; call it after the planner took the probe in."""
        planned, now_s = self._planner.sources.get(outcome.source_id), outcome.finished_s
        if planned is None:
            return
        fired = {record.rule for record in observation.rules.intervals}
        for demand in planned.demands.intervals:
            count = self._known.count(demand.rule, planned.source_id)
            demand.follow(now_s, rate_per_s=planned.rate_per_s, count=count, fired=demand.rule in fired)
        self._count(planned.source_id, planned.demands)
        for paced in planned.demands.paced:
            since_s = now_s - self._known.compiled.programs[paced.rule].accepted_s
            paced.count(self._known.count(paced.rule, planned.source_id), since_s)
        self._planner.reschedule(outcome.source_id, self._grid.chronon_at(now_s))

    # -- how

    def _placed(self, source: Source, now_s: float) -> PlannedSource:
        """Return a source in the planner's form, with what the planner already knows of it."""
        old = self._planner.sources.get(source.source_id) or self._set_aside.pop(source.source_id, None)
        state = self._known.state(source)
        host = host_of(moved_url(state, source) or source.url)
        scope = self._known.settings.throttle_scope(host)
        log = ProbeLog(self._known.politeness(source), old.log.starts_s if old else [])
        if not log.starts_s and state.last_start_s is not None:
            # Only the last start is stored, so assume that the whole window was used then.
            for _ in range(log.budget.probes or 1):
                log.record(state.last_start_s)
            self._planner.limits.hosts.remember(host, state.last_start_s)
            if state.last_outcome == OutcomeKind.THROTTLED.value:
                self._planner.limits.blocks.block(scope, state.not_before_s)
        return PlannedSource(
            source_id=source.source_id,
            host=host,
            throttle_scope=scope,
            log=log,
            demands=self._demands(source, now_s, old.demands if old else Demands()),
            rate_per_s=self._known.rate_per_s(source, now_s),
            last_seen_s=state.watched_s,
            not_before_s=state.not_before_s,
            fresh_until_s=state.fresh_until_s,
            window=_full_window(state),
            dispersion=state.fit.dispersion,
            pushed_until_s=self._hubs.pushes_until_s(source.source_id),
            postponed=old.postponed if old else {},
        )

    def _demands(self, source: Source, now_s: float, old: Demands) -> Demands:
        """Return the demands of the active rules on a source; demands that were there before continue."""
        asking = self._known.compiled.programs_of(source.source_id)
        programs = [program for program in asking if source.source_id in program.event_sources]
        demands = demands_of(
            [program for program in programs if program.is_active(now_s)],
            {program.rule.name: self._known.count(program.rule.name, source.source_id) for program in programs},
            old,
            rate_per_s=self._known.rate_per_s(source, now_s),
            now_s=now_s,
            grid=self._grid,
            seed=self._seed,
        )
        demands.once = self._captures.asked_once(source.source_id)
        self._count(source.source_id, demands)
        return demands

    def _count(self, source_id: str, demands: Demands) -> None:
        """Tell the demands that count items what their rules have counted."""
        for counted in demands.counted:
            counted.count = self._known.count(counted.rule, source_id)
            counted.passing = self._known.passing(counted.rule, source_id)

    def _lay(self, planned: PlannedSource, now_s: float, *, is_first: bool = False) -> None:
        """Lay planned intervals; after the first time only if one has passed, or a slow source's would never come."""
        for demand in planned.demands.intervals:
            lay = demand.anchor if is_first else demand.renew
            lay(now_s, rate_per_s=planned.rate_per_s, count=self._known.count(demand.rule, planned.source_id))


def _full_window(state: SourceState) -> int | None:
    """Return the size of a feed's window if old items slide off it, otherwise ``None``."""
    return state.shown if state.slides and state.shown else None
