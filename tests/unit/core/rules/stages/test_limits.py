"""Whose limit a notification counts toward: that of its rule, its source, or a value of its item."""

from __future__ import annotations

import pytest

from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0


async def made_by(clauses: str, *, query: str = "SELECT link FROM RSS") -> list[str]:
    """Return whose limit each notification of three items counts toward."""
    found = decider(declaration(source("a"), rule("r", query=query, clauses=clauses)), now_s=T0)
    drive = Drive(found)
    await drive.see(changed("a", [], T0 + 10.0))
    shown = [item(name, T0 + 20.0 + n) for n, name in enumerate(("one", "two", "x" * 500))]
    outcome = changed("a", shown[::-1], T0 + 60.0)
    observation = found.observe(outcome)
    assert observation is not None
    return [each.limited_by for each in observation.rules.notifications]


@pytest.mark.parametrize("clauses", ["", "SET LIMIT 1 PER DAY"])
async def test_all_of_a_rule_share_one_limit(clauses: str) -> None:
    assert await made_by(clauses) == ["", "", ""]


async def test_each_source_has_a_limit_of_its_own() -> None:
    assert await made_by("SET LIMIT 1 PER DAY PER SOURCE") == ["a", "a", "a"]


async def test_each_value_has_a_limit_of_its_own_also_where_the_query_does_not_read_it() -> None:
    first, second, long = await made_by("SET LIMIT 1 PER DAY PER title")
    assert (first, second) == ("'one'", "'two'")
    assert len(long) == 64
