"""The state of a rule has a limit in bytes: a rule that reaches it fails by name, and nothing is dropped in silence."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from proxyd.core.errors import WorkLimitError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.expression import Aggregate
from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import MOST_DISTINCT, MOST_IN_WINDOW, StreamState, Total, Window
from proxyd.core.rules.programs.trigger_program import Tally
from proxyd.core.rules.stages.payload import ProbeFacts
from proxyd.core.rules.stages.rule_tasks import RuleTask, advance, recall_stream
from proxyd.store.rows import stream_row, stream_state
from tests.fleets import decider, declaration, rule, source

T0 = 1_000_000_000.0
LONG = 60_000


def program(when: str) -> RuleProgram:
    return decider(declaration(source("s"), rule("r", when=when)), now_s=T0).known.compiled.programs["r"]


def stored(number: int, title: str) -> StoredEvent:
    item = Item(str(number), {"channel.item.title": title}, None, "h")
    return StoredEvent(number, item, T0 + number, T0 + number, exact=False, seed=False)


def long_text(number: int) -> str:
    return f"{number}".ljust(LONG, "x")


def after(rule_program: RuleProgram, texts: int) -> StreamState:
    found = [stored(number, long_text(number)) for number in range(1, texts + 1)]
    step = advance(RuleTask(rule_program, rule_program.new_stream("s"), found, ProbeFacts("", ChrononGrid(10.0))))
    assert step.failures == ()
    return step.streams[0]


@pytest.mark.parametrize(
    "when",
    [
        "COUNT(DISTINCT title) > 9000",
        "COUNT(title) > 9000",
        "COUNT(title) OVER 24 HOURS > 9000",
        "COUNT(DISTINCT title) OVER 24 HOURS > 9000",
    ],
)
def test_what_a_rule_only_counts_is_not_kept(when: str) -> None:
    stream = after(program(when), 300)
    assert len(pickle.dumps((stream.totals, stream.windows))) < 30_000
    assert len(stream_row(stream)["counts"]) < 10_000


def test_distinct_values_are_the_same_after_a_restart() -> None:
    stream = after(program("COUNT(DISTINCT title) > 9000"), 20)
    row = stream_row(stream)
    names = ("rule", "source_id", "counts", "fired_seq", "captured", "missed", "fired_s", "utility", "seen", "counting")
    found = stream_state(tuple(row[name] for name in names))  # type: ignore[arg-type]
    assert found.totals == stream.totals


def test_distinct_values_of_an_earlier_version_are_known_again() -> None:
    names = ("r", "s", '[3, [2, 0, "a", "b", ["a", "b"]]]', 0, 0, 0, 0.0, 0.0, 0, "")
    total = stream_state(names).totals[1]  # type: ignore[arg-type]
    assert total.add("a") is total
    assert total.add("c").count == 3


def test_a_window_of_texts_has_a_limit() -> None:
    rule_program = program("MAX(title) OVER 24 HOURS = 'x'")
    found = [stored(number, long_text(number)) for number in range(1, 101)]
    step = advance(RuleTask(rule_program, rule_program.new_stream("s"), found, ProbeFacts("", ChrononGrid(10.0))))
    assert [each.rule for each in step.failures] == ["r"]
    assert "4,000,000 characters" in step.failures[0].reason
    assert step.streams[0].count == 66


def test_a_full_window_fails_its_rule_until_its_values_are_too_old() -> None:
    window = Window(60.0, tuple((1.0, 1) for _ in range(MOST_IN_WINDOW)))
    with pytest.raises(WorkLimitError, match="its OVER has more than 10,000 values"):
        window.add(2.0, 1)
    assert window.add(62.0, 5).values == ((62.0, 5),)


def test_more_distinct_values_than_the_limit_fail_the_rule() -> None:
    total = Total(seen=frozenset(range(MOST_DISTINCT)))
    with pytest.raises(WorkLimitError, match="its DISTINCT has more than 10,000 values"):
        total.add("another")


def test_a_limit_that_is_reached_while_a_stream_is_recalled_ends_the_recall() -> None:
    rule_program = program("MAX(title) OVER 24 HOURS = 'x'")
    stream = rule_program.new_stream("s")
    found = [
        UpdateEvent("s", n, EventKind.INSERT, stored(n, long_text(n)).item, T0 + n, T0 + n, exact=True)
        for n in range(100)
    ]
    taken = []

    def take(*given: Any) -> Tally:
        taken.append(given)
        return rule_program.trigger.take(*given)

    trigger = SimpleNamespace(
        passes=rule_program.trigger.passes,
        take=take,
        zero=rule_program.trigger.zero,
        longest_s=86_400.0,
    )
    counted = SimpleNamespace(trigger=trigger, rule=rule_program.rule)
    assert recall_stream(counted, stream, found, T0 + 200.0) is stream  # type: ignore[arg-type]
    assert len(taken) == 67


def test_extremes_are_of_the_texts_themselves() -> None:
    assert Total.of(Aggregate("MAX", distinct=True)).add("a").add("b").value("MAX") == "b"
