"""The work of a rule is counted in steps, and ended when it is too much: the rule fails alone."""

from __future__ import annotations

import json
import pickle
import time

import pytest

from proxyd.core.model.profile import Declaration
from proxyd.core.rules.programs.function_values import MOST_PATTERN
from proxyd.core.rules.programs.meter import QUICK_LIMITS, WORK_LIMITS, Limits, Meter
from proxyd.core.rules.programs.rule_program import compile_rule
from proxyd.core.rules.stages.payload import MOST_SHOWN
from proxyd.core.rules.stages.rule_tasks import RuleTask, overwriting
from proxyd.notify.channels.message_forms import payload
from tests.fleets import Drive, changed, decider, declaration, item, rule, source
from tests.hostile_rules import HOSTILE_RULES, T0, HostileRule, items, shown


@pytest.mark.parametrize("name", HOSTILE_RULES)
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(QUICK_LIMITS, id="on the loop"),
        pytest.param(WORK_LIMITS, id="in a worker", marks=pytest.mark.long),
    ],
)
def test_a_rule_ends_at_its_limit(name: str, limits: Limits) -> None:
    meter = Meter(limits)
    step = HOSTILE_RULES[name]().task().run(meter)
    failure = step.failures[-1]
    assert failure.rule == "bad"
    if "which a rule cannot keep" in failure.reason:  # a state that is full, before the work is too much
        return
    assert meter.is_spent
    assert "for what one probe found" in failure.reason or "in all for one probe" in failure.reason


async def test_others_go_on_beside_a_rule_that_exceeds_its_limit() -> None:
    hostile = HOSTILE_RULES["a pattern that is a field"]()
    sound = rule("sound", when="COUNT(*) % 200 = 0")
    drive = Drive(decider(declaration(source("s"), hostile.text, sound), now_s=T0))
    old = item("old", T0 - 50)
    await drive.see(changed("s", [old], T0))
    found = (await drive.see(changed("s", [*hostile.items, old], T0 + 10))).rules
    assert [each.rule for each in found.notifications] == ["sound"]
    assert [each.rule for each in found.failures] == ["bad"]
    assert {each.rule: each.count for each in found.streams}["sound"] == 200


def test_what_is_usual_is_quick() -> None:
    usual = [
        rule("bad", where="title LIKE '%price%' AND NOT link ILIKE '%/ads/%'"),
        rule("bad", where=r"title REGEXP '(?i)\b(release|update)[ -]v?[0-9.]+'"),
        rule("bad", when="COUNT(*) % 10 = 0", query="SELECT title, link FROM RSS ORDER BY title LIMIT 3"),
    ]
    for text in usual:
        meter = Meter(QUICK_LIMITS)
        step = HostileRule(text, [shown(n, f"Release v{n}.0 and its new price") for n in range(12)]).task().run(meter)
        assert (meter.is_spent, step.failures) == (False, ())
        assert step.notifications


def test_a_pattern_from_a_source_may_not_be_long() -> None:
    text = rule("bad", where="title LIKE link")
    step = HostileRule(text, items(1, "a", "%" * (MOST_PATTERN + 1))).task().run(Meter())
    assert step.failures[0].reason == "a pattern read from a source has 1001 characters; the limit is 1000"
    assert HostileRule(text, items(1, "a", "%" * MOST_PATTERN)).task().run(Meter()).failures == ()


@pytest.mark.long
def test_the_same_work_takes_the_same_steps() -> None:
    def steps() -> float:
        meter = Meter()
        HOSTILE_RULES["differences of long texts"]().task().run(meter)
        return meter.steps

    assert steps() == steps() > WORK_LIMITS.steps


def test_a_task_does_the_same_in_another_process() -> None:
    task = HostileRule(rule("bad", where="title LIKE 'a%'", when="COUNT(*) % 2 = 0"), items(5)).task()
    sent: RuleTask = pickle.loads(pickle.dumps(task))
    assert sent.run(Meter()) == task.run(Meter())
    assert pickle.loads(pickle.dumps(sent.run(Meter()))) == task.run(Meter())


def test_a_notification_holds_the_rows_that_fit_and_counts_the_rest() -> None:
    text = rule("bad", when="COUNT(*) % 50 = 0", query="SELECT title, title AS again FROM RSS")
    (told,) = HostileRule(text, items(50, "a" * 60_000)).task().run(Meter()).notifications
    data = json.loads(told.body)["data"]
    assert len(data["items"]) == len(data["message"]["rows"]) == MOST_SHOWN // 120_000
    assert data["left_out"] == {"items": 50 - len(data["items"])}
    second = json.loads(payload(told.body, 2))["data"]
    assert second["left_out"] == data["left_out"]
    (small,) = HostileRule(text, items(50)).task().run(Meter()).notifications
    assert "left_out" not in json.loads(small.body)["data"]


def test_a_row_that_does_not_fit_at_all_fails() -> None:
    columns = ", ".join(f"title AS c{n}" for n in range(40))
    step = HostileRule(rule("bad", query=f"SELECT {columns} FROM RSS"), items(1, "a" * 60_000)).task().run(Meter())
    assert [each.reason for each in step.failures] == [
        "a row of its query has 2400000 characters; the limit is 2000000"
    ]


def test_compiling_patterns_ends_on_the_loop_and_is_done_once() -> None:
    cases = " ".join(rf"WHEN title REGEXP '\pL{{3}}{n}' THEN 1" for n in range(50))
    task = HostileRule(rule("bad", where=f"CASE {cases} END = 1"), items(1, "a")).task()
    first, later = Meter(QUICK_LIMITS), Meter(QUICK_LIMITS)
    task.run(first)
    assert first.is_spent
    assert _ends_up_quick(task, later)
    whole, again = Meter(), Meter()
    task.run(whole)
    task.run(again)
    assert whole.steps == again.steps


def _ends_up_quick(task: RuleTask, last: Meter) -> bool:
    """Run a task several times; return whether the last run was quick."""
    for _ in range(20):
        task.run(Meter(QUICK_LIMITS))
    task.run(last)
    return not last.is_spent


def test_the_wording_of_many_columns_is_counted() -> None:
    columns = ", ".join(str(n) for n in range(4_000))
    meter = Meter(QUICK_LIMITS)
    HostileRule(rule("bad", query=f"SELECT {columns} FROM RSS"), items(2)).task().run(meter)
    assert meter.is_spent


@pytest.mark.parametrize("term", ["title", "SUM({n})"])
def test_a_query_is_compiled_in_time_that_grows_with_its_length(term: str) -> None:
    """Sixteen times the columns take 256 times as long if each is compared with every other."""

    def least_s(count: int) -> float:
        columns = ", ".join(term.format(n=n) for n in range(count))
        declared = declaration(source("s"), rule("bad", query=f"SELECT {columns} FROM RSS"))
        return min(_seconds(declared) for _ in range(3))

    assert least_s(2_400) < 60 * least_s(150) + 0.05


def _seconds(declared: Declaration) -> float:
    began_s = time.process_time()
    compile_rule(declared.rules["bad"], declared, accepted_s=T0, chronon_s=10.0)
    return time.process_time() - began_s


def test_what_overwrites_each_event() -> None:
    assert overwriting([]) == []
    assert overwriting([5, 5, 5]) == [None, None, None]
    assert overwriting([1, 2, 2, 4, 3]) == [2, 4, 4, None, None]
