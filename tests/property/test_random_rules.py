"""No rule that the language can say, on no texts, ends the process, takes more than its limits or holds up the loop."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from proxyd.core.rules.programs.meter import QUICK_LIMITS, Limits, Meter
from proxyd.core.rules.stages.rule_tasks import RuleTask
from proxyd.daemon import RuleEvaluation
from proxyd.metrics import Metrics
from tests.random_rules import RandomRules

SHORT_WORK = Limits(300_000, 5_000_000)
AT_ONCE = 70_000_000  # steps of the costliest single operation, which are counted before it begins
STALL_S, GROWTH_BYTES = 0.1, 64 << 20


def tasks(seed: int, count: int) -> Iterator[RuleTask]:
    """Yield what random rules have to do; the few that are not sound are left out."""
    rules = RandomRules(seed)
    for _ in range(count):
        hostile = rules.make()
        try:
            yield hostile.task()
        except AssertionError:
            continue


@pytest.mark.parametrize("limits", [QUICK_LIMITS, SHORT_WORK], ids=["on the loop", "in a worker"])
def test_random_rules_end_at_their_limits(limits: Limits) -> None:
    ended = made = 0
    for task in tasks(1, 150):
        meter = Meter(limits)
        step = task.run(meter)
        made += 1
        ended += meter.is_spent
        assert meter.steps <= limits.steps + AT_ONCE
        assert bool(step.failures) or not meter.is_spent
        assert all(each.rule == "bad" and each.reason for each in step.failures)
        assert sum(len(each.body) for each in step.notifications) <= 4 * limits.characters + 10_000 * len(task.found)
    assert made > 120
    assert 0 < ended < made


@pytest.mark.alone
@pytest.mark.long
async def test_ten_thousand_random_rules_stall_nothing_and_leave_no_memory(
    record_property: Callable[[str, object], None],
) -> None:
    longest_s, stop = 0.0, False

    async def watch() -> None:
        nonlocal longest_s
        before_s = monotonic()
        while not stop:
            await asyncio.sleep(0.001)
            now_s = monotonic()
            longest_s = max(longest_s, now_s - before_s)
            before_s = now_s

    async with RuleEvaluation(Metrics(), work=SHORT_WORK) as evaluation:
        await evaluation.run(tasks(2, 500))
        before_bytes = _memory_bytes()
        watching = asyncio.create_task(watch(), name="watch")
        made = 0
        for task in tasks(3, 10_500):
            await asyncio.sleep(0)
            (step,) = await evaluation.run([task])
            assert all(each.rule == "bad" and each.reason for each in step.failures)
            made += 1
        stop = True
        await watching
    grown = _memory_bytes() - before_bytes
    record_property("longest stall in ms", round(longest_s * 1e3))
    record_property("memory grown by MiB", grown >> 20)
    assert made > 10_000
    assert longest_s < STALL_S
    assert grown < GROWTH_BYTES


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
