"""Lists of profiles and rules stay small, however many sources the rules have and however many rules there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import pytest

from proxyd.api import wire
from proxyd.api.listings import ProfileListings
from proxyd.api.peers import NO_PEERS
from proxyd.api.queries import Queries
from proxyd.core.model.profile import Declaration
from proxyd.core.rules.known.failing_rules import FailingRules
from proxyd.core.rules.known.rule_counts import CaptureCounts
from tests.fleets import declaration, rule, source

DECLARED = declaration(source("a"), rule("r"))
(RULE,) = DECLARED.rules.values()
(PROFILE,) = DECLARED.profiles.values()


@dataclass
class Known:
    """A declaration whose rules have no results, and of which nothing is suspended."""

    declaration: Declaration

    @property
    def shown(self) -> Declaration:
        return self.declaration

    def ready(self) -> Declaration:
        return self.declaration

    def capture_counts(self, _rules: object) -> CaptureCounts:
        return CaptureCounts()

    def of(self, *_named: object) -> None:
        return None

    mute_of = of
    failing: ClassVar = FailingRules()


def listings(profiles: int, rules: int, sources: int) -> ProfileListings:
    """Return the lists of profiles that have so many rules with so many sources each."""
    names = tuple(f"s{number}" for number in range(sources))
    made = {
        f"r{profile}-{number}": replace(RULE, name=f"r{profile}-{number}", profiles=(f"p{profile}",), source_ids=names)
        for profile in range(profiles)
        for number in range(rules)
    }
    own = {f"p{profile}": replace(PROFILE, name=f"p{profile}") for profile in range(profiles)}
    known = Known(replace(DECLARED, profiles=own, rules=made))
    queries: Any = type("Known", (), dict.fromkeys(["profiles", "suspensions", "plans", "choices", "reports"], known))
    return ProfileListings(cast("Queries", queries), NO_PEERS)


@pytest.mark.parametrize("rules", [3, 30, 500])
def test_an_answer_names_some_sources_of_its_rules_and_counts_them_all(rules: int) -> None:
    found = listings(1, rules, 5000).list_rules(wire.ListWindow(limit=500)).items
    assert {each.source_count for each in found} == {5000}
    assert len(found[0].sources) == 1000
    assert sum(bool(each.sources) for each in found) == min(rules, 20)
    assert sum(len(each.sources) for each in found) == min(rules, 20) * 1000


async def test_a_page_of_profiles_ends_where_they_have_many_rules() -> None:
    lists = listings(5, 9000, 1)
    window, pages = wire.ListWindow(limit=500), []
    while True:
        page = await lists.list_profiles(window)
        pages.append([each.name for each in page.items])
        if page.next_cursor is None:
            break
        window = wire.ListWindow(limit=500, cursor=page.next_cursor)
    assert pages == [["p0", "p1"], ["p2", "p3"], ["p4"]]


async def test_a_profile_has_its_rules_alone() -> None:
    found = await listings(2, 3, 1).get_profile("p1")
    assert [each.name for each in found.rules] == ["r1-0", "r1-1", "r1-2"]
    assert found.rules[0].sources == ["s0"]
