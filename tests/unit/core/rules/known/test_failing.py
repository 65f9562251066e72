"""A rule that fails five times in a row is suspended, until it is edited or resumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxyd.core.model.item import Item
from proxyd.core.rules.known.failing_rules import MOST_FAILURES, FailingRules, rule_meaning
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0
BAD = "LENGTH(REPLACE(title, 'a', '" + "b" * 1000 + "')) > 0"


def long(number: int) -> Item:
    """Return an item on which the rule fails."""
    return item("a" * 2_000 + str(number), T0 + number)


async def drive_of(*rules: str) -> Drive:
    drive = Drive(decider(declaration(source("s"), *rules), now_s=T0))
    await drive.see(changed("s", [], T0))
    return drive


async def fail(drive: Drive, times: int, begin: int = 1) -> list[int]:
    """Return how often the rule had failed in a row after each probe."""
    counts = []
    for number in range(begin, begin + times):
        found = await drive.see(changed("s", [long(number)], T0 + number))
        counts += [each.failures for each in found.rules.failing]
    return counts


async def test_five_failures_in_a_row_suspend_a_rule_and_no_other() -> None:
    drive = await drive_of(rule("bad", where=BAD), rule("sound"))
    assert await fail(drive, MOST_FAILURES + 2) == [1, 2, 3, 4, 5]
    failing = drive.decider.known.failing
    assert failing.is_suspended("bad")
    assert failing.suspended == 1
    assert not failing.is_suspended("sound")
    found = failing.all()["bad"]
    assert (found.source_id, found.suspended_s) == ("s", T0 + MOST_FAILURES)
    assert "the limit is 1000000" in found.reason
    assert drive.decider.known.streams["sound", "s"].count == MOST_FAILURES + 2
    assert drive.decider.known.streams["bad", "s"].seen == MOST_FAILURES


async def test_a_success_between_them_begins_the_count_again() -> None:
    drive = await drive_of(rule("bad", where=BAD))
    assert await fail(drive, 4) == [1, 2, 3, 4]
    well = await drive.see(changed("s", [item("b", T0 + 50)], T0 + 50))
    assert [each.failures for each in well.rules.failing] == [0]
    assert await fail(drive, 4, begin=60) == [1, 2, 3, 4]
    assert drive.decider.known.failing.suspended == 0


async def test_an_edit_of_what_is_evaluated_starts_it_again_and_others_do_not() -> None:
    drive = await drive_of(rule("bad", where=BAD))
    await fail(drive, MOST_FAILURES)
    same = declaration(source("s"), source("t"), "\n\n" + rule("bad", where=BAD))
    drive.decider.declare(same, {"bad": T0}, T0 + 100)
    assert drive.decider.known.failing.is_suspended("bad")
    drive.decider.declare(declaration(source("s"), rule("bad", where=f"NOT {BAD}")), {"bad": T0}, T0 + 100)
    assert drive.decider.known.failing.all() == {}


async def test_resuming_starts_it_again() -> None:
    drive = await drive_of(rule("bad", where=BAD))
    await fail(drive, MOST_FAILURES)
    drive.decider.known.failing.resume("bad")
    assert await fail(drive, 1, begin=50) == [1]


async def test_a_query_of_several_sources_fails_and_succeeds_by_its_notification() -> None:
    query = f"SELECT a.title FROM RSS a, RSS b OVER 1 HOUR WHERE {BAD.replace('title', 'a.title')}"
    drive = await drive_of(rule("bad", query=query))
    assert await fail(drive, 2) == [1, 2]


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"name": "other"}, True),
        ({"source_ids": ("x",)}, True),
        ({"file": "x"}, True),
        ({"message": None}, True),
        ({"trigger": None}, False),
    ],
)
def test_what_of_a_rule_is_evaluated(change: dict[str, object], *, is_same: bool) -> None:
    declared = declaration(source("s"), rule("r", where="title LIKE 'a'")).rules["r"]
    assert (rule_meaning(replace(declared, **change)) == rule_meaning(declared)) is is_same  # type: ignore[arg-type]


def test_a_rule_that_is_gone_is_forgotten() -> None:
    failing = FailingRules()
    failing.restore({})
    failing.keep({})
    assert failing.of("r") is None
