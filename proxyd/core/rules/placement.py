"""Puts the sources that rules ask for into the planner, and keeps the planner's data on them up to date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from math import floor, inf

import numpy as np

from proxyd.core.model.chronon import Chronon, Target
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, host_of
from proxyd.core.model.profile import PolicyName, Source, UtilityKind
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.kernels.counted_events import MOST_KINDS
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses, Step, halving, linear, merge_steps, window
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import goes_by_count
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.paced import LongestGapDemand
from proxyd.core.planning.policies.registry import POLICIES
from proxyd.core.planning.policies.rule_demand import Findings, RuleDemand, RuleRequest
from proxyd.core.planning.queue.planned_source import PlannedSource, SourceRecord
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import ProbeLog, Throttles
from proxyd.core.rules.known.compiled import url_after_move
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.known.subscriptions import Hubs
from proxyd.core.rules.programs.rule_program import RuleProgram, source_weights
from proxyd.core.rules.stages.captures import JointCaptures
from proxyd.core.rules.stages.observation import Observation

_ROUNDING = 1e-9
_PART = 50  # sources that are placed at once, which takes some milliseconds
# The probe loop places the rest. A rule about 50,000 sources was answered after 6 s, one about 200,000 after 32 s.
_PARTS_AWAITED = 40
_MOST_EPOCHS = 100  # that are followed up after a restart


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
        self._throttles = Throttles()
        self._set_aside: dict[str, PlannedSource] = {}  # paused: their past probes still count for politeness
        self._records: dict[str, SourceRecord] = {}  # of sources that were not placed since the start
        self._gained: set[str] = set()  # sources of other planners that were not placed since they came
        self._waiting: OrderedDict[str, None] = OrderedDict()  # sources to be placed again, or removed
        self._shared: dict[tuple[int, ...], _SharedDemand] = {}  # by the identities of a declaration's programs
        self._laid: dict[str, None] = {}  # sources with planned intervals
        self._epoch: int | None = None
        self._looked_s = -inf  # until when the edges of periods were looked at
        self._declared_s = -inf
        self._changed: list[str] = []  # by the last declaration, in the order in which they are placed

    def restore(self, records: Mapping[str, SourceRecord]) -> None:
        """Take over how sources stood before a restart, by name."""
        self._records = dict(records)

    def declare(self, changed: Sequence[str], now_s: float) -> None:
        """Note which sources a new declaration has placed again, or removed, before those that wait already."""
        rules_of = self._known.compiled.rules_of
        self._set_aside = {name: each for name, each in self._set_aside.items() if name in rules_of}
        before = bool(self._waiting)
        self._waiting.update(dict.fromkeys(changed))
        for source_id in reversed(changed) if before else ():
            self._waiting.move_to_end(source_id, last=False)
        self._changed = list(changed)
        self._shared = {}
        self._looked_s = now_s if self._looked_s == -inf else self._looked_s
        self._declared_s = now_s

    def release(self, lost: Iterable[str]) -> None:
        """Note that sources may have gone to other planners; ``place_in_parts`` removes those and places the rest."""
        self._place_again(lost)

    def _place_again(self, sources: Iterable[str]) -> None:
        for source_id in sources:
            self._waiting[source_id] = None
            self._set_aside.pop(source_id, None)

    def take_over(self, gained: Collection[str], records: Mapping[str, SourceRecord]) -> None:
        """Note that sources have come from other planners, and how they stood there; they are placed in this order."""
        self._place_again(gained)
        self._gained.update(gained)
        self._records.update(records)

    def neediest_first(self, sources: Iterable[str], now_s: float) -> list[str]:
        """Return sources in the order in which to place them; this may be done in a thread."""
        return sorted(sources, key=partial(self._items_since_probe, now_s), reverse=True)

    def _items_since_probe(self, now_s: float, source_id: str) -> float:
        """Return about how many items a source has had since its last probe."""
        state = self._known.states.get(source_id)
        if state is None or state.last_start_s is None:
            return inf
        per_s = sum(state.rate.events) / max(sum(state.rate.exposure_s), 1.0)
        return per_s * (now_s - state.last_start_s)

    @property
    def is_waiting(self) -> bool:
        """Whether sources are still to be placed."""
        return bool(self._waiting)

    def place_in_parts(self, now_s: Callable[[], float], size: int = _PART) -> Chunked[None]:
        """Place the sources that wait for it, in parts; another declaration may come in between."""
        while self._waiting:
            for source_id in list(islice(self._waiting, size)):
                self.place_if_waiting(source_id, now_s())
            self._planner.wake_due(self._grid.chronon_at(now_s()))
            yield
        self._changed = []
        self._records = {name: each for name, each in self._records.items() if name in self._known.paused}
        self._gained &= self._known.paused.keys()

    def place_declared_in_parts(self, now_s: Callable[[], float]) -> Chunked[None]:
        """Place the sources that the last declaration changed, in parts, some thousands at most; others may wait."""
        parts = self.place_in_parts(now_s)
        for _ in range(_PARTS_AWAITED):
            while self._changed and self._changed[-1] not in self._waiting:
                self._changed.pop()
            if not self._changed:
                break
            yield next(parts)

    def place_if_waiting(self, source_id: str, now_s: float) -> bool:
        """Place a source now if it waits for that; return whether it did."""
        is_waiting = source_id in self._waiting
        if is_waiting:
            self.place(source_id, now_s)
        return is_waiting

    def place(self, source_id: str, now_s: float) -> None:
        """Put in a source again that is declared otherwise now; remove it if it is planned no more."""
        # a chronon may have begun before the declaration, whose rules begin with it
        now_s = max(now_s, self._declared_s)
        self._waiting.pop(source_id, None)
        self._laid.pop(source_id, None)
        if self._known.is_planned(source_id):
            if source_id in self._gained:
                self._continue_state(source_id, now_s)
            placed = self._plan_of(self._known.compiled.sources[source_id], now_s)
            self._planner.put(placed, self._grid.chronon_at(now_s))
            if placed.demands.has_intervals:
                self._laid[source_id] = None
        else:
            self._planner.remove(source_id)

    def refresh(self, now: Chronon) -> None:
        """Have sources placed again whose rules begin or end, and lay planned intervals once an epoch."""
        now_s = self._grid.start_s(now)
        compiled = self._known.compiled
        for _, rule in compiled.edges_between(self._looked_s, now_s):
            self._waiting.update(dict.fromkeys(compiled.programs[rule].rule.source_ids))
        self._looked_s = max(self._looked_s, now_s)
        epoch = self._epoch_at(now)
        if self._epoch is not None and epoch > self._epoch:
            for source_id in list(self._laid):
                self.place_if_waiting(source_id, now_s)
                if (planned := self._planner.sources.get(source_id)) is not None:
                    self._lay(planned, now_s)
                    self._planner.reschedule(source_id, now)
        self._epoch = epoch

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
            self.place(source_id, now_s)

    def ask_once(self, sources: Iterable[str], now_s: float) -> None:
        """Place sources again so that they are probed for the joint intervals that want them."""
        for source_id in sources:
            planned = self._planner.sources.get(source_id)
            if planned is not None:
                planned.demands = replace(planned.demands, once=self._captures.single_demands(source_id))
                self._planner.reschedule(source_id, self._grid.chronon_at(now_s))

    def note_subscription(self, source_id: str, now_s: float) -> None:
        """Note until when the hub of a source pushes; this decides which probes it needs."""
        planned = self._planner.sources.get(source_id)
        if planned is not None:
            self._note_hub(planned)
            self._planner.reschedule(source_id, self._grid.chronon_at(now_s))

    def _note_hub(self, planned: PlannedSource) -> None:
        known = self._hubs.of(planned.source_id)
        if known is None:
            planned.pushed_until_s, planned.left_out = 0.0, 1.0
        else:
            planned.pushed_until_s, planned.left_out = known.relied_on_until_s, known.left_out

    def record(self, outcome: ProbeOutcome, observation: Observation) -> SourceRecord | None:
        """Return how a source will stand once the planner has taken an outcome in, or ``None`` if it is not planned."""
        planned = self._planner.sources.get(outcome.source_id) or self._set_aside.get(outcome.source_id)
        if planned is None:
            return None
        source, now_s = self._known.compiled.sources[planned.source_id], outcome.finished_s
        coming = planned.copy()
        if observation.subscription is not None:
            self._note_hub(coming)
        self._follow(coming, outcome, observation)
        if outcome.is_push:
            if coming.is_pushed(now_s):
                coming.note_seen(now_s, self._grid.chronon_at(now_s))
        elif outcome.kind.is_success:
            coming.note_seen(now_s, self._planner.in_flight.get(coming.source_id))
        self.update_demands(coming, outcome, observation)
        spacing_s = max(self._planner.limits.hosts.spacing_s(coming.host), outcome.crawl_delay_s or 0.0)
        week, counted_s = self._planner.week, None
        if week is not None and coming.last_seen_s is not None and coming.source_id in week:
            counted_s = week.effective_time_s(coming.source_id, coming.last_seen_s)
        return SourceRecord.of(
            coming,
            now_s,
            grid=self._grid,
            expected_per_s=source.expected_per_s,
            host_spacing_s=spacing_s,
            counted_s=counted_s,
        )

    def note_observation(self, outcome: ProbeOutcome, observation: Observation) -> None:
        """Tell the planner when an outcome lets its source be probed again, and when it should be."""
        planned = self._planner.sources.get(outcome.source_id)
        if planned is None:
            return
        state, source = observation.state, self._known.compiled.sources[planned.source_id]
        self._note_hub(planned)
        planned.not_before_s = state.not_before_s
        planned.fresh_until_s = state.fresh_until_s
        planned.matching = self._known.matching(source.source_id)
        planned.window = _full_window(state)
        planned.dispersion = state.fit.dispersion
        planned.gaps = state.fit.gaps
        self._follow(planned, outcome, observation)
        if not outcome.is_push:
            self._planner.limits.hosts.note_outcome(planned.host, outcome)
        scope = self._known.settings.throttle_scope(outcome.answered_by or planned.host)
        if (until_s := self._throttles.take_in(scope, outcome, self._rng)) is not None:
            self._planner.limits.blocks.block(scope, until_s)
        planned.host = host_of(url_after_move(state, source) or source.url)
        planned.throttle_scope = self._known.settings.throttle_scope(planned.host)
        if outcome.crawl_delay_s is not None:
            self._planner.limits.hosts.space(planned.host, outcome.crawl_delay_s)

    def update_demands(self, planned: PlannedSource, outcome: ProbeOutcome, observation: Observation | None) -> None:
        """Update the demands of a source with what was found; the planner calls it while it takes the probe in."""
        now_s, programs, streams = outcome.finished_s, self._known.compiled.programs, self._known.streams
        if observation is None or planned.demands.only_detects:
            return
        fired = {record.rule for record in observation.rules.intervals}
        for demand in [each for each in planned.demands.rules if (each.rule, planned.source_id) in streams]:
            events = self._known.streams[demand.rule, planned.source_id].count
            passing = self._known.matching_share(demand.rule, planned.source_id)
            counting_s = now_s - _counts_since_s(programs[demand.rule])
            demand.note_findings(Findings(now_s, planned.rate_per_s, events, demand.rule in fired, passing, counting_s))

    # -- how

    def _follow(self, planned: PlannedSource, outcome: ProbeOutcome, observation: Observation) -> None:
        """Plan a source by its new rate, and lay its intervals at first contact."""
        source, now_s = self._known.compiled.sources[planned.source_id], outcome.finished_s
        record = observation.record
        if record is None:
            estimates, state = self._known.estimates, observation.state
            planned.rate_per_s = estimates.rate_to_plan_by(state, source, now_s, self._planner.week)
            planned.items_known = estimates.blend.items_known(state.rate, now_s)
        else:
            planned.rate_per_s, planned.items_known = record.rate_per_s, record.items_known
        planned.learns_until_s = observation.state.learns_until_s(self._known.settings.planner.first_day_s)
        if planned.last_seen_s is None and outcome.kind.is_success:
            self._lay(planned, now_s, is_first=True)

    def _epoch_at(self, now: Chronon) -> int:
        """Return the number of the epoch that has begun by ``now``; epochs are counted from 1970, as restarts are."""
        return floor(self._grid.start_s(now) / self._known.settings.epoch_s + _ROUNDING)

    def _plan_of(self, source: Source, now_s: float) -> PlannedSource:
        """Return a source in the planner's form, with what the planner already knows of it."""
        old = self._planner.sources.get(source.source_id) or self._set_aside.pop(source.source_id, None)
        record = self._record(source.source_id, now_s) if old is None else None
        state, estimates = self._known.state(source), self._known.estimates
        rate_per_s = estimates.rate_to_plan_by(state, source, now_s, self._planner.week)
        host = host_of(url_after_move(state, source) or source.url)
        scope = self._known.settings.throttle_scope(host)
        host_budget = self._planner.limits.hosts.budget
        log = ProbeLog(self._known.politeness(source), [], host_budget.probes or 0, host_budget.window_s)
        if old is not None:
            log.starts_s = old.log.starts_s
        if not log.starts_s and state.last_start_s is not None:
            self._remember(log, host, state, record)
            if state.last_outcome == OutcomeKind.THROTTLED.value:
                self._planner.limits.blocks.block(scope, state.not_before_s)
        pushed_until_s = self._hubs.pushes_until_s(source.source_id)  # else what it pushed is not all that came
        is_hidden = record is not None and record.hidden_since_s > (state.watched_s or inf)
        placed = PlannedSource(
            source_id=source.source_id,
            host=host,
            throttle_scope=scope,
            log=log,
            demands=self._demands(source.source_id, rate_per_s, now_s, old.demands if old else record),
            rate_per_s=rate_per_s,
            items_known=estimates.blend.items_known(state.rate, now_s),
            learns_until_s=state.learns_until_s(self._known.settings.planner.first_day_s),
            hidden=old.hidden if old else record.hidden if record and is_hidden else 0.0,
            hidden_since_s=old.hidden_since_s if old else record.hidden_since_s if record and is_hidden else 0.0,
            last_seen_s=state.watched_s if pushed_until_s > (state.last_push_s or 0.0) else state.last_success_s,
            not_before_s=state.not_before_s,
            fresh_until_s=state.fresh_until_s,
            window=_full_window(state),
            dispersion=state.fit.dispersion,
            gaps=state.fit.gaps,
            matching=self._known.matching(source.source_id),
            pushed_until_s=pushed_until_s,
            left_out=self._hubs.left_out(source.source_id),
            probe_units=source.probe_units,
        )
        if old is not None:
            placed.postponed = old.postponed
        if record is not None:
            self._continue(placed, record, source, now_s)
        return placed

    def _record(self, source_id: str, now_s: float) -> SourceRecord | None:
        record = self._records.get(source_id)
        return None if record is None else record.as_of(now_s)

    def _continue_state(self, source_id: str, now_s: float) -> None:
        """Restore what another planner learned of a source, and let hubs push it to this one."""
        self._gained.discard(source_id)
        if self._known.settings.subscribes:
            self._hubs.allow(source_id, self._known.address_of_pushes(source_id))
        if (state := self._known.states.get(source_id)) is not None:
            self._known.estimates.keep(state.resume(now_s))

    def _remember(self, log: ProbeLog, host: str, state: SourceState, record: SourceRecord | None) -> None:
        """Restore the starts of a source's probes; if only the last is known, assume that all were made then."""
        hosts, last_s = self._planner.limits.hosts, state.last_start_s
        assert last_s is not None
        if record is None:
            log.starts_s = [last_s] * (log.budget.probes or 1)
            hosts.remember(host, last_s)
            return
        log.starts_s = list(record.starts_s)
        # a probe after the record, whose outcome was never recorded, because the process ended
        if last_s > record.as_of_s:
            log.record(last_s)
        hosts.space(host, record.host_spacing_s)
        hosts.restore(host, log.starts_s)

    def _continue(self, placed: PlannedSource, record: SourceRecord, source: Source, now_s: float) -> None:
        """Let a source continue as it stood before a restart."""
        if record.expected_per_s == source.expected_per_s:
            placed.rate_per_s, placed.items_known = record.rate_per_s, record.items_known
        if self._planner.week is not None and placed.last_seen_s is not None:
            seen_s, counted_s = placed.last_seen_s, record.counted_s
            told = placed.source_id, placed.rate_per_s, placed.weight_at_price, seen_s, placed.gaps
            self._planner.week.follow(*told, counted_s)
        epochs = range(
            self._epoch_at(self._grid.chronon_at(record.as_of_s)), self._epoch_at(self._grid.chronon_at(now_s))
        )
        for epoch in epochs[-_MOST_EPOCHS:] if placed.demands.has_intervals else ():
            laid = self._grid.ceil((epoch + 1) * self._known.settings.epoch_s)
            for demand in placed.demands.rules:
                demand.pending(laid - 1)
            self._lay(placed, self._grid.start_s(laid))

    def _demands(
        self, source_id: str, rate_per_s: float, now_s: float, before: Demands | SourceRecord | None
    ) -> Demands:
        """Return the demands of the active rules on a source; demands that were there before continue."""
        asking = self._known.compiled.programs_of(source_id)
        programs = [each for each in asking if source_id in each.event_sources and each.is_active(now_s)]
        alike = tuple(map(id, programs))
        shared = self._shared.get(alike)
        if shared is None:
            shared = _SharedDemand(programs, self._known.settings.planner, now_s)
            if not any(each.rule.importance for each in programs):  # that changes from week to week
                self._shared[alike] = shared
        demands = shared.on_source(self._known, before, source_id=source_id, rate_per_s=rate_per_s, now_s=now_s)
        once = self._captures.single_demands(source_id)
        return replace(demands, once=once) if once else demands

    def _lay(self, planned: PlannedSource, now_s: float, *, is_first: bool = False) -> None:
        """Lay planned intervals; after the first time only if one has passed, or a slow source's would never come."""
        streams = self._known.streams
        # one that waits to be placed may have demands of rules that no longer ask for it
        for demand in [each for each in planned.demands.rules if (each.rule, planned.source_id) in streams]:
            count = self._known.streams[demand.rule, planned.source_id].count
            demand.lay(now_s, rate_per_s=planned.rate_per_s, count=count, is_first=is_first)


def _full_window(state: SourceState) -> int | None:
    """Return the size of a feed's window if old items slide off it, otherwise ``None``."""
    return state.shown if state.slides and state.shown else None


class _SharedDemand:
    """What some rules ask of every source that has just these rules: it is computed once for all of them."""

    def __init__(self, programs: Sequence[RuleProgram], settings: PlannerSettings, now_s: float) -> None:
        self._programs = programs
        self._settings = settings
        self._now_s = now_s
        self._counted = _count_kinds(programs, settings)
        self._whole: Demands | None = None  # if they only detect: such demands do not change, so all sources have them
        self._losses: Losses = NO_LOSSES
        self._targets: list[tuple[str, Target]] = []
        self._order: list[int] | None = None  # of the programs; ``None`` before the first source
        self._weight = 1.0

    def on_source(
        self,
        known: Knowledge,
        before: Demands | SourceRecord | None,
        *,
        source_id: str,
        rate_per_s: float,
        now_s: float,
    ) -> Demands:
        """Return the demands of the rules on a source.

        A demand of ``before`` (there, or in the record from before a restart) continues if its rule asks for the same.
        Others begin at the NOW or the START of their rules.
        """
        if self._whole is not None:
            return self._whole
        found = []
        for program, (losses, is_crowded) in zip(self._programs, self._counted, strict=True):
            request = RuleRequest(
                rule=program.rule.name,
                source_id=source_id,
                choice=program.rule.policy,
                firing=program.trigger.firing,
                grid=self._settings.grid,
                now_s=now_s,
                since_s=_counts_since_s(program),
                rate_per_s=rate_per_s,
                count=known.streams[program.rule.name, source_id].count,
                passing=known.matching_share(program.rule.name, source_id),
                life_s=program.life_s,
                losses=losses,
                weight=program.weight,
                has_importance=bool(program.rule.importance),
                is_crowded=is_crowded,
            )
            found.append(_continue_demand(POLICIES[request.choice.name](request), request, before))
        order = self._order = self._compare(found) if self._order is None else self._order
        gaps = [LongestGapDemand(p.rule.name, gap_s) for p in self._programs if (gap_s := p.longest_gap_s) is not None]
        shortest = sorted(gaps, key=lambda demand: demand.gap_s)[:1]
        rules = [*(found[place] for place in order), *shortest]
        demands = Demands(rules, weight=self._weight, losses=self._losses, targets=self._targets)
        if demands.only_detects:
            self._whole = demands
        return demands

    def _compare(self, demands: Sequence[RuleDemand]) -> list[int]:
        """Compute what depends on the kinds of the demands; return the order in which their rules are asked."""
        pairs, settings = list(zip(self._programs, demands, strict=True)), self._settings

        def narrowest_s(program: RuleProgram) -> float:
            return target_of(program, settings).parts[0][0] if settings.has_targets else 0.0

        of_items = [program for program in self._programs if not program.is_of_source]
        weights = source_weights(of_items, self._now_s)
        heaviest = max((program.weight for program in of_items), default=1.0)
        self._weight = heaviest if weights is None else float(weights.mean())
        self._losses = _losses(pairs, settings)
        if settings.has_targets:
            self._targets = [(d.rule, target_of(program, settings)) for program, d in pairs if d.is_priced]
        # A probe is called by the first rule that it serves: the one that wants it soonest.
        return sorted(
            range(len(pairs)), key=lambda place: (not demands[place].detects, narrowest_s(self._programs[place]))
        )


def _count_kinds(programs: Sequence[RuleProgram], settings: PlannerSettings) -> list[tuple[Losses, bool]]:
    """Return what a firing of each rule loses, and whether too many kinds of counting rules come before it."""
    kinds: set[tuple[int, Losses]] = set()
    found = []
    for program in programs:
        losses, is_crowded = NO_LOSSES, False
        if is_counted(program):
            losses = _lost([program], settings)
            kind = program.trigger.firing.every, losses
            is_crowded = kind not in kinds and len(kinds) >= MOST_KINDS
            if not is_crowded:
                kinds.add(kind)
        found.append((losses, is_crowded))
    return found


def _continue_demand(demand: RuleDemand, request: RuleRequest, before: Demands | SourceRecord | None) -> RuleDemand:
    """Return the demand of a rule, as it stood if the rule asked for the same before."""
    grid, asks = request.grid, demand.asks(request.grid)
    if asks is None or before is None:
        return demand
    if isinstance(before, Demands):
        same = (each for each in before.rules if (each.rule, each.asks(grid)) == (request.rule, asks))
        return next(same, demand)
    if (state := before.state_of(request.rule, asks)) is not None:
        demand.resume(state, grid)
    demand.resume_starts(before.starts_s, request.since_s)
    return demand


def _counts_since_s(program: RuleProgram) -> float:
    """Return since when a rule counts events, in unix seconds."""
    return max(program.accepted_s, program.start_s)


def target_of(program: RuleProgram, settings: PlannerSettings) -> Target:
    """Return the share of its items' worth that a rule is to get, with times in seconds."""
    rule, steps = program.rule, _steps(program, 1.0)
    share = settings.default_share if rule.target is None else float(rule.target) / 100.0
    if steps:
        return Target(share, tuple((step.after, step.delay) for step in steps))
    return settings.default_target if rule.life is None else Target(share, ((inf, 1.0),))  # neither a life nor a decay


def _losses(pairs: Sequence[tuple[RuleProgram, RuleDemand]], settings: PlannerSettings) -> Losses:
    """Return what items lose while they wait, besides their delay, for the rules whose probes have a price.

    Rules that count items are left out if there are others, unless targets decide; if all count, ``every`` is the least
    n.
    """
    planned = [(program, demand) for program, demand in pairs if demand.is_priced]
    plain = [program for program, demand in planned if not demand.counts_items]
    # A target is predicted by the losses, so the lives of all rules must be among them.
    lost = _lost([program for program, _ in planned] if settings.has_targets or not plain else plain, settings)
    if any(demand.is_priced and not demand.counts_items for _, demand in pairs):
        return lost
    return replace(lost, every=min((program.trigger.firing.every for program, _ in planned), default=1))


def _lost(programs: Sequence[RuleProgram], settings: PlannerSettings) -> Losses:
    """Return what items lose while they wait, with lives in seconds, in parts of an item of the heaviest rule."""
    heaviest = max((program.weight for program in programs), default=1.0) or 1.0
    parts: dict[float, float] = {}
    overwritten = 0.0
    for program in programs:
        weight, life = program.weight / heaviest, program.rule.life
        steps = _steps(program, weight)
        # if the targets decide, a rule without a life has that of its target
        if not steps and life is None and settings.has_targets:
            steps = tuple(Step(after, part * weight) for after, part in settings.default_target.parts)
        for step in merge_steps(steps):  # a life ends several steps of a utility at once
            parts[step.after] = max(parts.get(step.after, 0.0), step.delay)
        if life is not None and life.window is None:
            overwritten = max(overwritten, weight)
    steps = merge_steps((Step(after, part) for after, part in parts.items()), early=settings.has_targets)
    return Losses(steps, overwritten)


def _steps(program: RuleProgram, part: float) -> tuple[Step, ...]:
    life_s, decay_s = program.life_s, program.decay_s
    if decay_s is None:
        return () if life_s is None else window(life_s, part)
    fall = linear if program.rule.utility.kind is UtilityKind.LINEAR else halving
    return tuple(replace(step, after=min(step.after, life_s or step.after)) for step in fall(decay_s, part))


def is_counted(program: RuleProgram) -> bool:
    """Return whether probes for a rule depend on the items counted since it last fired."""
    rule = program.rule
    has_importance = bool(rule.importance)
    return rule.policy.name is PolicyName.AUTO and goes_by_count(program.trigger.firing, has_importance=has_importance)
