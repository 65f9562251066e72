"""No rule that the language can say, on no texts, ends the process, takes more than its limits or holds up the loop."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Iterator
from time import thread_time
from types import FrameType
from typing import Any

import pytest

from proxyd.base.interpreter import tune_interpreter
from proxyd.base.metrics import Metrics
from proxyd.core.rules.programs.meter import QUICK_LIMITS, Limits, Meter
from proxyd.core.rules.stages.answers import Match, MatchTask
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.core.rules.stages.rule_tasks import RuleTask, Task
from proxyd.daemon import RuleEvaluation
from tests.hostile_rules import Work, work_of
from tests.random_rules import RandomRules

SHORT_WORK = Limits(300_000, 5_000_000)
LITTLE_WORK = Limits(60_000, 1_000_000)  # each call that is counted takes five times as long
CALLS_PER_STEP = 5  # Python's calls; twice as many as were measured
UNCOUNTED = 300  # steps to begin a rule, and a tenth of them for each event that it gets
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


def following(work: Work, result: RuleResults | Match | None) -> RuleTask | MatchTask | None:
    """Return the next task of a probe's work after this result, or ``None``; without a result, the first."""
    try:
        return work.send(result)
    except StopIteration:
        return None


def counted(task: RuleTask | MatchTask, meter: Meter) -> tuple[RuleResults | Match, int]:
    """Run a task; return what it did and the number of its calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        step = task.run(meter)
    finally:
        sys.setprofile(None)
    return step, calls


def size_of(task: RuleTask | MatchTask) -> int:
    """Return how many events a task gets."""
    if isinstance(task, RuleTask):
        return len(task.found)
    return len(task.waiting) + len(task.firsts) + len(task.given)


@pytest.mark.parametrize("limits", [QUICK_LIMITS, LITTLE_WORK], ids=["on the loop", "in a worker"])
def test_random_rules_end_at_their_limits(limits: Limits) -> None:
    ended = made = matched = 0
    for first in tasks(1, 40):
        work, made = work_of(first), made + 1
        task = following(work, None)
        while task is not None:
            meter = Meter(limits)
            step, calls = counted(task, meter)
            ended += meter.is_spent
            matched += isinstance(step, Match)
            done = min(meter.steps, limits.steps)  # what exceeds the limit is counted, and not begun
            assert calls <= CALLS_PER_STEP * (done + UNCOUNTED + UNCOUNTED / 10 * size_of(task))
            assert bool(step.failures) or not meter.is_spent
            assert all(each.rule == "bad" and each.reason for each in step.failures)
            made_characters = sum(len(each.body) for each in getattr(step, "notifications", ()))
            assert made_characters <= 4 * limits.characters + 10_000 * size_of(task)
            task = following(work, step)
    assert made > 30
    assert 0 < ended < made
    assert matched > 5


@pytest.fixture
def tuned() -> Iterator[None]:
    """Set the interpreter as the daemon does."""
    collections, turn_s = gc.get_threshold(), sys.getswitchinterval()
    tune_interpreter()
    yield
    gc.set_threshold(*collections)
    sys.setswitchinterval(turn_s)
    gc.unfreeze()


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("tuned")
async def test_ten_thousand_random_rules_stall_nothing_and_leave_no_memory() -> None:
    """A stall is the processor time of the loop's thread in one step, which does not depend on the machine's load."""
    longest_s, before_s, stop = 0.0, 0.0, False

    async def watch() -> None:
        nonlocal longest_s, before_s
        before_s = thread_time()
        while not stop:
            await asyncio.sleep(0.001)
            now_s = thread_time()
            longest_s = max(longest_s, now_s - before_s)
            before_s = now_s

    async with RuleEvaluation(Metrics(), work=SHORT_WORK) as evaluation:
        await evaluation.run(tasks(2, 500))
        before_bytes = _memory_bytes()
        watching = asyncio.create_task(watch(), name="watch")
        made, coming = 0, tasks(3, 10_500)
        while (first := next(coming, None)) is not None:
            work, made = work_of(first), made + 1
            task = following(work, None)
            while task is not None:
                before_s = thread_time()  # to make the rule is the test's own work
                jobs: list[Task[Any]] = [task]
                (step,) = await evaluation.run(jobs)
                longest_s = max(longest_s, thread_time() - before_s)  # a quick rule does not let the watch run
                assert all(each.rule == "bad" and each.reason for each in step.failures)
                task = following(work, step)
        stop = True
        await watching
    grown = _memory_bytes() - before_bytes
    print(f"{made} random rules: longest stall {longest_s * 1e3:.0f} ms, memory grown by {grown >> 20} MiB")  # noqa: T201
    assert made > 10_000
    assert longest_s < STALL_S
    assert grown < GROWTH_BYTES


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
