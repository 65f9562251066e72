"""Rules run at once if they are quick, otherwise in a worker process that can be ended."""

from __future__ import annotations

import asyncio
import multiprocessing
from dataclasses import replace

from proxyd.base.metrics import Metrics
from proxyd.base.worker_pool import WorkerLimits
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.stages.rule_tasks import RuleTask
from proxyd.daemon import RuleEvaluation
from tests.fleets import rule
from tests.hostile_rules import HOSTILE_RULES, HostileRule, items

QUICK = HostileRule(rule("bad"), items(3))
SLOW = HostileRule(rule("bad"), items(300))


def in_workers(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("proxyd_slow_rules_total") or 0.0


async def test_quick_rules_need_no_worker_and_slow_ones_say_the_same_in_one() -> None:
    metrics, before = Metrics(), {child.pid for child in multiprocessing.active_children()}
    tasks = [QUICK.task(), SLOW.task(), QUICK.task()]
    async with RuleEvaluation(metrics) as evaluation:
        assert await evaluation.run(tasks[:1]) == [tasks[0].run(Meter())]
        assert in_workers(metrics) == 0
        assert await evaluation.run(tasks) == [task.run(Meter()) for task in tasks]
        assert in_workers(metrics) == 1
    assert {child.pid for child in multiprocessing.active_children()} <= before


async def test_a_rule_that_takes_too_long_is_ended_and_others_go_on() -> None:
    hostile = HOSTILE_RULES["a join of all with all"]().task()
    limits = WorkerLimits(timeout_s=0.2, memory_bytes=1 << 30, tries=1)
    async with RuleEvaluation(Metrics(), limits=limits) as evaluation:
        ended, quick = await evaluation.run([hostile, QUICK.task()])
        assert [each.reason for each in ended.failures] == ["the rule's worker took longer than 0.2 s"]
        assert ended.streams == (hostile.stream,)
        assert len(quick.notifications) == 3


async def test_the_loop_turns_while_a_worker_is_busy() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn(), name="turning")
    async with RuleEvaluation(Metrics()) as evaluation:
        await evaluation.run([SLOW.task()])
    turning.cancel()
    assert turns > 10


async def test_many_quick_rules_together_let_others_run_between_them() -> None:
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    async with RuleEvaluation(Metrics()) as evaluation:
        task = asyncio.create_task(other(), name="other")
        await evaluation.run([QUICK.task()] * 100)
        order.append("rules")
        await task
    assert order == ["other", "rules"]


async def test_rules_that_count_across_sources_take_turns() -> None:
    def across(source_id: str) -> RuleTask:
        task = QUICK.task()
        return replace(task, stream=replace(task.stream, source_id=source_id), across=task.stream)

    evaluation, order = RuleEvaluation(Metrics()), list[str]()

    async def first() -> None:
        async with evaluation.turn([across("a")]):
            order.append("a begins")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append("a ends")

    async def second() -> None:
        async with evaluation.turn([across("b")]):
            order.append("b")

    await asyncio.gather(first(), second())
    assert order == ["a begins", "a ends", "b"]
