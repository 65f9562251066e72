"""Which events answer the first events of a rule with THEN, and what finding them may cost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.rules.programs.meter import QUICK_LIMITS, WORK_LIMITS, Limits, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.answers import MatchTask
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0


def following(condition: str, *, within: str = "1 HOUR") -> str:
    return rule("r").replace(
        "ON INSERT TO RSS", f"ON INSERT TO RSS THEN INSERT TO RSS WHERE {condition} WITHIN {within}"
    )


def program(condition: str) -> RuleProgram:
    return decider(declaration(source("s"), following(condition)), now_s=T0).known.compiled.programs["r"]


def event(seq: int, title: object, source_id: str = "s") -> UpdateEvent:
    fields = {"channel.item.title": title}
    one = Item(str(seq), fields, None, str(seq))  # type: ignore[arg-type]
    return UpdateEvent(source_id, seq, EventKind.INSERT, one, T0 + seq, T0 + 9.0, exact=True)


def task(condition: str, titles: Sequence[object], waiting: Sequence[object] = ()) -> MatchTask:
    """Return the task of events of which each may be a first one and an answer; those that wait came before."""
    found = [event(number, title) for number, title in enumerate(titles, len(waiting))]
    before = {f"w{number}": event(number, title) for number, title in enumerate(waiting)}
    return MatchTask(program(condition), "s", before, [], found, found)


def pairs(found: MatchTask, limits: Limits = WORK_LIMITS) -> list[tuple[int, int | None]]:
    match = found.run(Meter(limits))
    assert match.failures == ()
    return [(first.seq, None if answer is None else answer.seq) for first, answer in match.firsts]


VALUES: list[object] = ["5", 5, 5.0, "5.0", "a", "b", "a", None, True, "True", "", 5, "b", 1]


@pytest.mark.parametrize("condition", ["{} = {}", "{1} = {0}"])
def test_an_index_finds_the_same_answers_as_all_pairs(condition: str) -> None:
    indexed = task(condition.format("title", "FIRST.title"), VALUES, VALUES[:4])
    assert indexed.program.answer is not None
    assert indexed.program.answer.keys is not None
    compared = task("NOT (title <> FIRST.title)", VALUES, VALUES[:4])
    assert compared.program.answer is not None
    assert compared.program.answer.keys is None
    assert pairs(indexed) == pairs(compared)
    found, other = indexed.run(Meter()), compared.run(Meter())
    assert {name: answer.seq for name, answer in found.answered.items()} == {
        name: answer.seq for name, answer in other.answered.items()
    }
    assert found.answered


@pytest.mark.parametrize("condition", ["title = FIRST.title || 'x'", "title = FIRST.title || 'x' AND link IS NULL"])
def test_a_page_of_ten_thousand_is_answered_within_the_limits(condition: str) -> None:
    found = task(condition, [f"a{number // 2}{'x' * (number % 2)}" for number in range(10_000)])
    meter = Meter(WORK_LIMITS)
    match = found.run(meter)
    assert match.failures == ()
    assert sum(answer is not None for _, answer in match.firsts) == 5_000
    assert meter.steps < WORK_LIMITS.steps / 10


@pytest.mark.parametrize(
    "condition",
    [
        "title LIKE FIRST.title || 'x'",
        "NOT title = FIRST.title OR link = 'x'",
        "title = FIRST.title AND LENGTH(title) > LENGTH(FIRST.title)",
    ],
)
@pytest.mark.parametrize("limits", [QUICK_LIMITS, Limits(200_000, 5_000_000)], ids=["loop", "worker"])
def test_the_first_exceeded_limit_ends_the_match(condition: str, limits: Limits) -> None:
    found = task(condition, ["a"] * 3_000, ["a"])
    meter = Meter(limits)
    match = found.run(meter)
    assert (match.answered, match.firsts, match.given) == ({}, (), ())
    assert [each.rule for each in match.failures] == ["r"]
    assert meter.steps <= limits.steps + 10 * len(found.given)


def test_a_pair_that_cannot_be_evaluated_is_no_answer() -> None:
    too_long = f"REPLACE(FIRST.title, 'a', '{'b' * 1000}')"
    found = task(f"LENGTH({too_long} || {too_long}) > 0", ["a" * 999, "c"])
    assert pairs(found) == [(0, None), (1, None)]


async def test_a_match_that_fails_is_the_failure_of_its_rule_once_and_what_waits_stays() -> None:
    drive = Drive(decider(declaration(source("s"), following("title LIKE '%' || FIRST.title || '%x'")), now_s=T0))
    old = item("old", T0 - 50)
    await drive.see(changed("s", [old], T0))
    waits = await drive.see(changed("s", [item("wait", T0 + 5), old], T0 + 10))
    assert len(waits.rules.joint) == 1
    many = [item(f"{'a' * 200} {number}", T0 + 20) for number in range(2_000)]
    failed = await drive.see(changed("s", [*many, old], T0 + 30))
    assert [each.rule for each in failed.rules.failures] == ["r"]
    assert [each.failures for each in failed.rules.failing] == [1]
    assert (failed.rules.joint, failed.rules.ended) == ((), ())
    answered = await drive.see(changed("s", [item("wait, and x", T0 + 35), *many, old], T0 + 40))
    assert answered.rules.failures == ()
    assert len(answered.rules.notifications) == 1
