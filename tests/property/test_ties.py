"""Pages that a rule needs together have one shard, and all that are not tied have the shard of their own scope."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxyd.cluster.division import Division, ties_of
from proxyd.store.databases.shards import SHARDS, shard_of
from tests.examples import examples

SCOPES = [f"h{number}.example" for number in range(12)]


@dataclass(frozen=True)
class Rule:
    """What ties reads of a rule."""

    source_ids: tuple[str, ...]
    is_joint: bool

    @property
    def rule(self) -> Rule:
        return self


RULES = st.lists(
    st.builds(Rule, st.lists(st.sampled_from(SCOPES), min_size=1, max_size=4).map(tuple), st.booleans()), max_size=9
)


def ties(rules: list[Rule]) -> dict[str, str]:
    declaration: Any = SimpleNamespace(sources={name: SimpleNamespace(url=f"https://{name}/") for name in SCOPES})
    programs: Any = rules
    return ties_of(declaration, programs, str)


def reached(scope: str, rules: list[Rule]) -> set[str]:
    """Return all scopes that joint rules lead to from one, step by step."""
    found, new = {scope}, {scope}
    while new:
        new = {e for r in rules if r.is_joint and found & {*r.source_ids} for e in r.source_ids} - found
        found |= new
    return found


@given(RULES)
@examples(150)
def test_what_is_tied_counts_as_the_first_of_all_that_are(rules: list[Rule]) -> None:
    found = ties(rules)
    assert {scope: found.get(scope, scope) for scope in SCOPES} == {each: min(reached(each, rules)) for each in SCOPES}


@given(RULES, RULES, st.sets(st.integers(0, SHARDS - 1)))
@examples(150)
def test_other_ties_bring_nothing_before_it_is_given(before: list[Rule], after: list[Rule], own: set[int]) -> None:
    first = Division(frozenset(own), ties(before))
    second = first.with_ties(ties(after))
    for scope in SCOPES:
        url = f"https://{scope}/"
        had, is_ours = first.has(url), shard_of(second.ties.get(scope, scope)) in own
        assert second.has(url) == (had and is_ours)
        assert (scope in second.expected) == (is_ours and not had)
