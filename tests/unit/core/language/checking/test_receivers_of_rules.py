"""Receivers with names stand for their deliveries everywhere, also where the rest was checked before."""

from __future__ import annotations

import pytest

from proxyd.core.language import parse
from proxyd.core.language.checking.checker import check_parsed
from proxyd.core.model.profile import Declaration

RULES = parse(
    """CREATE PROFILE "P" DELIVER TO "team" ON TROUBLE TELL "team";
    WATCH 'https://example.org/of-profile' INTO "P";
    WATCH 'https://example.org/own' AS "own" INTO "P" TELL "team", MAIL 'me@example.org';
    INSERT NOTIFICATION "rule" INTO "P" SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED"
    SET DELIVERY "team";"""
)
TEAM = [parse(f"CREATE RECEIVER \"team\" AS MAIL '{name}@example.org', LOG 'l'") for name in ("a", "b")]


def endpoints(declared: Declaration) -> dict[str, list[str]]:
    return {name: [each.endpoint for each in rule.deliveries] for name, rule in declared.rules.items()}


@pytest.mark.parametrize("is_first", [True, False], ids=["before those who use it", "after those who use it"])
def test_a_name_stands_for_its_deliveries_wherever_one_may_be(is_first: bool) -> None:
    declared = check_parsed([TEAM[0], RULES] if is_first else [RULES, TEAM[0]]).declaration
    assert declared is not None
    both = ["a@example.org", "log:l"]
    assert endpoints(declared) == {
        "example.org/of-profile": both,
        "own": [*both, "me@example.org"],
        "rule": both,
        "P: trouble": both,
    }
    receivers = [each.receiver for each in declared.rules["own"].deliveries]
    assert receivers == ["team", "team", ""]


def test_what_was_checked_before_follows_a_change_of_its_receiver() -> None:
    first = check_parsed([RULES, TEAM[0]])
    second = check_parsed([RULES, TEAM[1]], before=first)
    again = check_parsed([RULES, TEAM[1]], before=second)
    fresh = check_parsed([RULES, TEAM[1]])
    assert second.declaration is not None
    assert {each[0] for each in endpoints(second.declaration).values()} == {"b@example.org"}
    assert second.declaration == again.declaration == fresh.declaration
    without = check_parsed([RULES], before=again)
    assert len(without.errors) == 4
    assert {error.message for error in without.errors} == {
        "there is no receiver 'team'. Declare it with CREATE RECEIVER."
    }


def test_an_address_without_a_scheme_is_not_taken_for_a_receiver() -> None:
    (error,) = check_parsed([parse("WATCH 'https://example.org/feed' TELL \"hook.example/x\";")]).errors
    assert error.message.endswith("Declare it with CREATE RECEIVER, or write 'https://hook.example/x' for a webhook.")


def test_what_uses_no_receiver_is_not_checked_again_when_one_changes() -> None:
    others = parse("WATCH 'https://example.org/feed' AS \"r\" TELL MAIL 'me@example.org';")
    first = check_parsed([others, TEAM[0]])
    second = check_parsed([others, TEAM[1]], before=first)
    assert first.declaration is not None
    assert second.declaration is not None
    assert second.declaration.rules["r"] is first.declaration.rules["r"]


def test_a_receiver_that_could_not_be_read_is_not_unknown() -> None:
    broken = parse('CREATE RECEIVER "team" AS PIGEON')
    checked = check_parsed([RULES, broken])
    assert [error.message.partition(";")[0] for error in checked.errors] == [
        "expected one of: CHANNEL, LOG, MAIL, WEBHOOK"
    ]
