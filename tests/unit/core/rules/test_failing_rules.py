"""A rule whose expressions exceed a limit fails alone."""

from __future__ import annotations

import json

import pytest

from proxyd.core.errors import EvaluationError
from proxyd.core.model.item import Value
from proxyd.core.rules.programs.function_values import FUNCTIONS
from proxyd.core.rules.programs.meter import MOST_CHARACTERS, Limits, Meter
from proxyd.core.rules.stages.observation import RuleResults
from tests.fleets import Drive, changed, decider, declaration, item, recall, rule, source

T0 = 1_000_000_000.0
WIDE = "a" * 60


def nested(depth: int, inner: str = "title") -> str:
    """Return an expression that makes a text of 60 to the power of ``depth`` characters out of one."""
    for _ in range(depth):
        inner = f"REPLACE({inner}, 'a', '{WIDE}')"
    return inner


async def results(*rules: str, title: str = "a") -> RuleResults:
    """Return what comes of one new item for rules of which the last one is sound."""
    sound = rule("sound", query="SELECT title FROM RSS")
    drive = Drive(decider(declaration(source("s"), *rules, sound), now_s=T0))
    await drive.see(changed("s", [], T0))
    return (await drive.see(changed("s", [item(title, T0 + 5)], T0 + 10))).rules


@pytest.mark.parametrize(
    "expression",
    [
        nested(5),
        f"REPLACE({nested(3)}, 'a', {nested(3)})",
        "LENGTH(" + "||".join([nested(3)] * 10) + ")",
        f"COALESCE(NULL, {nested(6)})",
        f"UPPER({nested(5)})",
    ],
)
async def test_a_query_that_makes_too_long_a_text_costs_only_its_own_notification(expression: str) -> None:
    found = await results(rule("bad", query=f"SELECT {expression} AS x FROM RSS"))
    assert [each.rule for each in found.notifications] == ["sound"]
    assert [(each.rule, each.source_id) for each in found.failures] == [("bad", "s")]
    assert f"the limit is {MOST_CHARACTERS}" in found.failures[0].reason


@pytest.mark.parametrize(
    "condition",
    [
        f"{nested(5)} = 'a'",
        f"COUNT(*) FILTER (WHERE {nested(5)} LIKE 'b') > 0",
        f"MAX({nested(5)}) > 'a'",
        f"COUNT(*) OVER 1 HOUR > 0 AND LENGTH({nested(5)}) > 0",
    ],
)
async def test_an_event_on_which_the_condition_fails_does_not_count(condition: str) -> None:
    found = await results(rule("bad", when=condition))
    assert [each.rule for each in found.notifications] == ["sound"]
    assert [each.rule for each in found.failures] == ["bad"]
    assert {each.rule: each.count for each in found.streams} == {"bad": 0, "sound": 1}


async def test_a_failing_clause_of_a_query_fails_as_its_columns_do() -> None:
    clauses = ["WHERE {} = 'a'", "GROUP BY title, {}", "ORDER BY {}", "GROUP BY title HAVING MAX({}) = 'a'"]
    bad = [rule(str(n), query=f"SELECT title FROM RSS {c.format(nested(5))}") for n, c in enumerate(clauses)]
    found = await results(*bad)
    assert [each.rule for each in found.notifications] == ["sound"]
    assert sorted(each.rule for each in found.failures) == ["0", "1", "2", "3"]


async def test_the_rule_goes_on_with_the_next_event() -> None:
    bad = rule("bad", query=f"SELECT {nested(5)} AS x FROM RSS", when="COUNT(*) % 1 = 0")
    drive = Drive(decider(declaration(source("s"), bad), now_s=T0))
    await drive.see(changed("s", [], T0))
    first = await drive.see(changed("s", [item("a", T0 + 5)], T0 + 10))
    assert first.rules.notifications == ()
    then = await drive.see(changed("s", [item("b", T0 + 15), item("a", T0 + 5)], T0 + 20))
    rows = json.loads(then.rules.notifications[0].body)["data"]["items"]
    assert rows == [{"x": "b"}]


async def test_a_restart_meets_the_same_events_without_failing() -> None:
    bad = rule("bad", when=f"COUNT(*) FILTER (WHERE {nested(5)} = 'a') OVER 1 HOUR > 5")
    drive = Drive(decider(declaration(source("s"), bad), now_s=T0))
    await drive.see(changed("s", [], T0))
    seen = await drive.see(changed("s", [item("b", T0 + 5)], T0 + 10))
    stream = drive.decider.known.streams["bad", "s"]
    recall(drive.decider, stream, {"s": [*seen.found.events]}, T0 + 20)
    later = await drive.see(changed("s", [item("a", T0 + 25), item("b", T0 + 5)], T0 + 30))
    recall(drive.decider, stream, {"s": [*seen.found.events, *later.found.events]}, T0 + 40)
    assert drive.decider.known.streams["bad", "s"].windows[1] is not None


async def test_many_rows_together_are_limited_too() -> None:
    long = "b" * 400_000
    columns = ", ".join(f"LOWER(title || '{n}') AS c{n}" for n in range(100))
    found = await results(rule("bad", query=f"SELECT {columns} FROM RSS"), title=long)
    assert [each.rule for each in found.failures] == ["bad"]
    assert "characters in all" in found.failures[0].reason


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("REPLACE", ("a" * MOST_CHARACTERS, "a", "bc")),
        ("REPLACE", ("a" * 2_000_000, "a", "bc")),
    ],
)
def test_a_text_is_refused_before_it_is_made(function: str, arguments: tuple[Value, ...]) -> None:
    with pytest.raises(EvaluationError, match="the limit is"):
        FUNCTIONS[function](*arguments)


@pytest.mark.parametrize(
    ("function", "arguments", "length"),
    [
        ("REPLACE", ("a" * MOST_CHARACTERS, "a", "b"), MOST_CHARACTERS),
        ("REPLACE", ("a" * 2_000_000, "aa", "b"), 1_000_000),
        ("REPLACE", ("a" * 2_000_000, "", "b"), 2_000_000),
        ("LOWER", ("A" * 2_000_000,), 2_000_000),
        ("TRIM", (" " * 2_000_000 + "a",), 1),
    ],
)
def test_a_long_field_may_be_kept_or_shortened(function: str, arguments: tuple[Value, ...], length: int) -> None:
    assert len(str(FUNCTIONS[function](*arguments))) == length


def test_a_meter_counts_texts_alone() -> None:
    meter = Meter(Limits(0, 3))
    assert [meter.made(value) for value in (10, None, True, "abc")] == [10, None, True, "abc"]
    with pytest.raises(EvaluationError):
        meter.made("d")
