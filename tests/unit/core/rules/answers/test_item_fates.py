"""Why was I not told of this? What the rules say of an item that they left out."""

from __future__ import annotations

import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.item import Item
from proxyd.core.rules.answers.item_fates import ItemFate, SourceSince, item_fate
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.rule_program import compile_rule

URL = "https://example.org/feed"
ACCEPTED_S, LATER_S = 1_000_000_000.0, 1_000_003_600.0


def fate(
    options: str,
    *,
    seen_s: float = LATER_S,
    seed: bool = False,
    published_s: float | None = None,
    first_contact_s: float = LATER_S,
) -> ItemFate:
    """Return what a WATCH with these options makes of an item."""
    checked = check([SourceText("t", f"WATCH '{URL}' {options};")])
    assert checked.declaration is not None, checked.errors
    (rule,) = checked.declaration.rules.values()
    program = compile_rule(rule, checked.declaration, accepted_s=ACCEPTED_S, chronon_s=10.0)
    item = Item("1", {"channel.item.title": "Harbour closed"}, published_s, "1")
    event = StoredEvent(1, item, seen_s, seen_s, exact=False, seed=seed)
    return item_fate(program, event, rule.source_ids[0], SourceSince(ACCEPTED_S, first_contact_s))


def test_nothing_speaks_against_an_item_that_fits() -> None:
    assert fate("WHERE title ILIKE '%harbour%'").why == ()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("WHERE title ILIKE '%ferry%'", "its condition does not hold: title ILIKE '%ferry%'"),
        ("WITHOUT 'harbour', 'ferry'", "its condition does not hold: WITHOUT 'harbour', 'ferry'"),
        ("ON UPDATE", "it tells of changes, and this is a new item"),
    ],
)
def test_the_part_that_does_not_hold_is_named(options: str, why: str) -> None:
    assert fate(options).why == (why,)


def test_of_several_parts_only_those_that_fail_are_named() -> None:
    (why,) = fate("WHERE title ILIKE '%harbour%' AND LENGTH(title) > 99").why
    assert why == "its condition does not hold: LENGTH(title) > 99"


def test_what_was_there_before_is_said_to_be_older() -> None:
    assert fate("", seen_s=ACCEPTED_S - 60.0).why[0].startswith("it is older than the rule")
    assert fate("", seed=True).why[0].startswith("it was there when the source was first asked")
    (why,) = fate("", seed=True, published_s=ACCEPTED_S + 86400.0).why
    assert why == "it was there when the source was first asked, and its date was still to come"


def test_what_came_later_without_being_news_was_not_there_at_first() -> None:
    (why,) = fate("", seed=True, first_contact_s=LATER_S - 60.0).why
    assert why.endswith("it is taken for an old one")
