"""Runs the tasks of rules: quick ones on the event loop, others in a worker process that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import structlog

from proxyd.core.rules.programs.meter import QUICK_LIMITS, WORK_LIMITS, Limits, Meter
from proxyd.core.rules.stages.rule_tasks import RuleTask, Task, run_task
from proxyd.errors import WorkerFailedError
from proxyd.metrics import Metrics
from proxyd.worker_pool import WorkerLimits, WorkerPool

R = TypeVar("R")
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

    async def run(self, tasks: Iterable[Task[R]]) -> list[R]:
        """Return the results of tasks, in order; raises nothing.

        Other coroutines run only between tasks, after as many steps as one quick task may take, or while the worker is
        busy.
        """
        results: list[R] = []
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

    async def _in_worker(self, task: Task[R]) -> R:
        self._metrics.slow_rules.inc()
        try:
            result: R = await self._pool.run(task, self._work)
        except WorkerFailedError as error:
            return task.failed(str(error))
        except Exception as error:
            log.exception("a rule could not be sent to a worker", rule=task.program.rule.name)
            return task.failed(type(error).__name__)
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
