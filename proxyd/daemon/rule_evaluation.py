"""Runs the tasks of rules, and restores their streams from stored events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import structlog

from proxyd.base.clock import Signal
from proxyd.base.metrics import Metrics
from proxyd.base.worker_pool import WorkerLimits, WorkerPool
from proxyd.core.errors import WorkerFailedError
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.failing_rules import RuleFailure
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.outcome_decider import Evaluation
from proxyd.core.rules.programs.meter import QUICK_LIMITS, WORK_LIMITS, Limits, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import MAX_PENDING, StreamState
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.core.rules.stages.rule_tasks import Backlog, RuleTask, Task, run_task
from proxyd.store.sql_store import SqlStore

_R = TypeVar("_R")
log = structlog.get_logger("rules")
_LIMITS = WorkerLimits(timeout_s=30.0, memory_bytes=1 << 30, tries=1)
_WORKERS = 1


class RuleEvaluation:
    """Runs tasks without holding up the event loop; use it with ``async with``.

    ``work`` limits the steps and characters of a rule, ``limits`` the time and memory of its worker.
    """

    def __init__(self, metrics: Metrics, *, work: Limits = WORK_LIMITS, limits: WorkerLimits = _LIMITS) -> None:
        self._metrics = metrics
        self._work = work
        self._pool: WorkerPool[Any] = WorkerPool(run_task, "the rule's worker", workers=_WORKERS, limits=limits)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __aenter__(self) -> RuleEvaluation:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def run(self, tasks: Iterable[Task[_R]]) -> list[_R]:
        """Return the results of tasks, in order; raises nothing."""
        # Other coroutines run only between tasks, after as many steps as one quick task may take, or while the worker
        # is busy
        results: list[_R] = []
        steps = 0.0
        for task in tasks:
            meter = Meter(QUICK_LIMITS)
            result = task.run(meter)
            steps += meter.steps
            if meter.is_spent:
                result = await self._in_worker(task)
            elif steps > QUICK_LIMITS.steps:
                await asyncio.sleep(0)
                steps = 0.0
            results.append(result)
        return results

    async def _in_worker(self, task: Task[_R]) -> _R:
        self._metrics.slow_rules.inc()
        try:
            result: _R = await self._pool.run(task, self._work)
        except WorkerFailedError as error:
            return task.failure(str(error))
        except Exception as error:
            log.exception("a rule could not be sent to a worker", rule=task.program.rule.name)
            return task.failure(type(error).__name__)
        return result

    @asynccontextmanager
    async def turn(self, tasks: Iterable[RuleTask]) -> AsyncIterator[None]:
        """Lock what rules share among sources while it is read and changed: streams, and what waits for an answer."""
        shared = sorted(
            task.stream.rule for task in tasks if task.across is not None or task.program.answer is not None
        )
        async with AsyncExitStack() as stack:
            for rule in shared:
                await stack.enter_async_context(self._turns.setdefault(rule, asyncio.Lock()))
            yield


_TURN = 500  # sources that are looked at before other tasks have their turn


def log_failures(failures: Iterable[RuleFailure]) -> None:
    """Log each rule that failed, once."""
    for each in dict.fromkeys(failures):
        log.warning("a rule failed", rule=each.rule, source=each.source_id, reason=each.reason)


class StreamRecall:
    """Reads stored events for streams; ``news`` is notified whenever replayed events make notifications."""

    def __init__(self, decider: Decider, store: SqlStore, evaluation: Evaluation) -> None:
        self.decider = decider
        self._recalls = decider.recalls
        self._evaluation = evaluation
        self._captures = decider.captures
        self.store = store
        self.news = Signal()

    async def restore_pending(self, now_s: float) -> None:
        """Restore the streams' events since they last fired, and their windows."""
        for program, stream in self._recalls.lost():
            await self._restore(program, stream, now_s)

    async def restore_pending_of(self, sources: Iterable[str], now_s: float) -> None:
        """Restore the same of the streams of some sources, which another planner has had until now."""
        seen: set[tuple[str, str]] = set()
        for number, source_id in enumerate(sources):
            if number % _TURN == 0:
                await asyncio.sleep(0)
            for program, stream in self._recalls.lost_of(source_id):
                if (stream.rule, stream.source_id) not in seen:
                    seen.add((stream.rule, stream.source_id))
                    await self._restore(program, stream, now_s)

    async def _restore(self, program: RuleProgram, stream: StreamState, now_s: float) -> None:
        task = self._recalls.recall(stream, await self._events_of(program, stream, now_s), now_s)
        self.decider.known.keep_streams(await self._evaluation.run([task]))

    async def refill(self, rules: Collection[str], now_s: float) -> None:
        """Let the events that streams hold have what the edited queries of these rules read."""
        for program, stream in self._recalls.waiting_of(rules) if rules else ():
            events = await self._events_of(program, stream, now_s)
            self._recalls.refill(stream.rule, stream.source_id, events)

    async def refresh_query_rows(self) -> None:
        """Tell joint intervals what their queries' sources showed last, and delete those that are no longer awaited."""
        shown = self._captures.shown
        for source_id in shown.sources_unseen():
            items = await self.store.present_items(source_id)
            if shown.get(source_id) is None:  # a probe may have shown newer ones meanwhile
                shown.see(source_id, items)
        await self.store.plan.forget_joint_intervals(self._captures.take_orphans())

    async def _events_of(self, program: RuleProgram, stream: StreamState, now_s: float) -> dict[str, list[StoredEvent]]:
        """Return the stored events that a stream must see again, by source."""
        kind, windows_s = program.rule.trigger.kind, now_s - program.trigger.longest_s
        if not stream.source_id:
            since_s = min(stream.fired_s, windows_s)
            return {
                source_id: await self.store.load_events(source_id, since_s, kind=kind)
                for source_id in program.event_sources
            }
        source_id = stream.source_id
        events = await self.store.load_events_after(source_id, stream.fired_seq, kind=kind, limit=MAX_PENDING)
        if program.trigger.longest_s > 0:
            known = {event.seq for event in events}
            recent = await self.store.load_events(source_id, windows_s, kind=kind)
            events = sorted([*events, *(e for e in recent if e.seq not in known)], key=lambda event: event.seq)
        return {source_id: events}

    async def replay(self, entry: Backlog, now_s: float) -> None:
        """Run a source's earlier events through a new stream; events that arrive during this are left out."""
        source_id = entry.source.source_id
        kind = entry.program.rule.trigger.kind
        events = await self.store.load_events(source_id, entry.program.start_s, kind=kind)
        results = await self._replay_entry(entry, [each for each in events if each.seq < entry.before_seq], now_s)
        await self.store.record_results(results)
        log_failures(results.failures)
        if results.notifications:
            self.news.notify()

    async def _replay_entry(self, entry: Backlog, events: Sequence[StoredEvent], now_s: float) -> RuleResults:
        """Return what a replay means; it is made again if its stream moved while it was evaluated."""
        while True:
            task = self._recalls.replay(entry, events, now_s)
            async with self._evaluation.turn([task]):
                (results,) = await self._evaluation.run([task])
                if self.decider.known.is_unchanged(task.program, task.stream, task.across):
                    self.decider.known.keep_streams(results.streams)
                    return results
