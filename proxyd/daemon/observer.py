"""Observes outcomes: reads what the store knows of a source, decides, records, and counts what was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from weakref import WeakValueDictionary

import structlog

from proxyd.base.clock import Signal
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock, Memory
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.model.schedule import Probe
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import NO_CONTEXT, StoreQuery
from proxyd.core.rules.known.state import JointInterval
from proxyd.core.rules.outcome_decider import Evaluation
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.daemon.rule_evaluation import log_failures
from proxyd.tracing import NO_TRACES, Fact, Tracer

log = structlog.get_logger("probes")


class Observer:
    """Takes in outcomes, one at a time for each source, because a push may come during a probe."""

    def __init__(
        self,
        decider: Decider,
        memory: Memory,
        clock: Clock,
        metrics: Metrics,
        evaluation: Evaluation,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._decider = decider
        self.memory = memory
        self._clock = clock
        self._metrics = metrics
        self._evaluation = evaluation
        self._tracer = tracer
        self.news = Signal()  # notified whenever notifications are recorded
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ended_by: tuple[str, ...] = ()  # the source of the joint interval that is being ended
        self._was_up = True

    async def take_in(self, outcome: ProbeOutcome, *, reading: str | None = None, probe: Probe | None = None) -> bool:
        """Observe an outcome and record it; it cannot be lost when this returns.

        Returns whether the source still exists, and is read as ``reading`` says if that is given.
        """
        outcomes, source_id = self._decider.outcomes, outcome.source_id
        facts: dict[str, Fact] = {"source": source_id, "is_push": outcome.is_push}
        async with self.turn(source_id):
            with self._tracer.span("observe", facts, parent=outcome.trace):
                needed = outcomes.query_for(outcome)
                stored = await self.memory.known(source_id, needed) if needed is not None else NO_CONTEXT
                observation = await outcomes.observe(outcome, stored, self._evaluation, reading=reading, probe=probe)
                if observation is not None:
                    await self._record(observation)
                    self._count(observation)
                outcomes.finish(outcome, observation)
        return observation is not None

    async def take_stray(self, outcome: ProbeOutcome, *, reading: str, is_doubtful: bool = False) -> bool:
        """Observe the outcome of a probe that another process planned.

        It is ignored if it is doubtful, if it or a later one was recorded, or if a probe is running, which sees the
        same. Returns False if another planner may still have to record it: of a source that is declared nowhere, the
        planner that looks after the declaration says so.
        """
        known = self._decider.known
        if known.source(outcome.source_id) is None:
            return known.owned.has_declaration
        if not known.has(outcome.source_id):
            return False
        state = known.states.get(outcome.source_id)
        is_new = state is not None and (state.last_start_s is None or state.last_start_s < outcome.started_s)
        if is_new and not is_doubtful and outcome.source_id not in self._decider.planner.in_flight:
            await self.take_in(outcome, reading=reading)
        return True

    async def end_overdue(self, now_s: float) -> None:
        """End the overdue joint intervals, even if some of their sources were not obtained."""
        for interval, needed in self._decider.captures.overdue(now_s):
            self._ended_by = (interval.event.source_id,)
            await self._give_up(interval, needed, now_s)
        self._ended_by = ()

    async def _give_up(self, interval: JointInterval, needed: StoreQuery, now_s: float) -> None:
        stored = NO_CONTEXT
        if needed.histories:
            stored = await self.memory.known(interval.event.source_id, needed)
        results = await self._decider.outcomes.end_overdue(interval, stored, now_s, self._evaluation)
        if results is not None:
            await self._commit(self.memory.record_results(results), results)
            self._count_results(results)

    def turn(self, source_id: str) -> asyncio.Lock:
        """Return the lock that is held while an outcome of a source is observed and recorded."""
        return self._turns.setdefault(source_id, asyncio.Lock())

    def under_way(self) -> set[str]:
        """Return the sources of which an observation has not ended."""
        return {source_id for source_id, turn in self._turns.items() if turn.locked()}.union(self._ended_by)

    async def _record(self, observation: Observation) -> None:
        recording, items = self.memory.record(observation), len(observation.found.events)
        # a quiet one waits for others: how long says nothing about the database
        await self._commit(recording, observation.rules, items=items, is_timed=not observation.is_quiet)

    async def _commit(
        self, recording: Awaitable[None], results: RuleResults, *, items: int = 0, is_timed: bool = True
    ) -> None:
        began_s = self._clock.monotonic_s()
        ids = [notification.notification_id for notification in results.notifications]
        with self._tracer.span("commit", {"items": items, "notifications": ids}):
            await recording
        if is_timed:
            self._metrics.commit_s.observe(self._clock.monotonic_s() - began_s)
        if ids:
            self.news.notify()

    # -- metrics and logs

    def _count(self, observation: Observation) -> None:
        outcome, found, metrics = observation.outcome, observation.found, self._metrics
        source_id = outcome.source_id
        if not outcome.is_push:
            metrics.probes.labels(outcome.kind.value).inc()
        self._log_connection()
        if observation.bug is not None:
            said = "a document cannot be taken in; please report this"
            log.error(said, source=source_id, exc_info=observation.bug)
        if not outcome.kind.is_success:
            state = observation.state
            again_s = round(max(state.not_before_s - outcome.finished_s, 0.0), 1)
            fields = {"outcome": outcome.kind.value, "detail": outcome.detail, "failures": state.failures}
            log.warning("probe failed", source=source_id, not_again_for_s=again_s, **fields)
        if found.unfit_values:
            log.warning("values do not fit their types", source=source_id, values=found.unfit_values)
        if found.changed_guids:
            said = "guids changed: items recognised by their content"
            log.warning(said, source=source_id, items=found.changed_guids)
        metrics.requests.inc(outcome.requests)
        metrics.items.inc(sum(not event.seed for event in found.events))
        metrics.lost_items.inc(found.window.lost_items)
        metrics.unfit_values.inc(found.unfit_values)
        for delay_s in found.delays_s:
            metrics.item_delay.observe(max(0.0, delay_s))
        metrics.items_untimed.inc(found.items_without_time)
        if observation.calibration is not None:
            self._count_predicted(observation.calibration)
        self._count_results(observation.rules)

    def _log_connection(self) -> None:
        is_up = not self._decider.outcomes.connection.is_down
        if is_up != self._was_up:
            self._was_up = is_up
            self._metrics.connection_up.set(is_up)
            log.warning("a host answers again" if is_up else "no host answers: failures do not count meanwhile")

    def _count_predicted(self, account: Calibration) -> None:
        metrics = self._metrics
        metrics.predicted_items.inc(account.predicted_items)
        metrics.predicted_timed_items.inc(account.predicted_timed_items)
        metrics.predicted_delay.inc(account.predicted_delay_item_s)
        metrics.predicted_intervals.labels("captured").inc(account.predicted_captured)
        metrics.predicted_intervals.labels("missed").inc(account.predicted_missed)

    def _count_results(self, results: RuleResults) -> None:
        metrics = self._metrics
        for record in results.intervals:
            metrics.intervals.labels("captured" if record.captured else "missed").inc()
        if results.notifications:
            metrics.notifications.inc(len(results.notifications))
        log_failures(results.failures)
        for rule in results.failing:
            if rule.suspended_s is not None:
                facts = {"rule": rule.rule, "failures": rule.failures, "reason": rule.reason}
                log.error("a rule is suspended", **facts, remedy="edit it, or run `proxyd resume`")
