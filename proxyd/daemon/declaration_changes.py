"""What changes when one declaration replaces another."""

from __future__ import annotations

from proxyd.core.language import restarted_counters, rule_counting
from proxyd.core.model.outcome import host_of
from proxyd.core.model.profile import Declaration
from proxyd.core.rules.compiled import Swap
from proxyd.core.rules.division import Division, ties_of
from proxyd.queries import DeclarationChanges


def changes_of(running: Declaration, wanted: Declaration) -> DeclarationChanges:
    """Return what changes if one declaration replaces another."""
    before, after = running.rules, wanted.rules
    both = sorted(before.keys() & after.keys())
    edited = [name for name in both if before[name].fingerprint != after[name].fingerprint]
    restarted = {name: restarted_counters(after[name], rule_counting(before[name])) for name in edited}
    return DeclarationChanges(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        {name: counters for name, counters in restarted.items() if counters},
    )


def edited_queries(running: Declaration, wanted: Declaration) -> frozenset[str]:
    """Return the rules whose query is edited."""
    both = running.rules.keys() & wanted.rules.keys()
    return frozenset(name for name in both if running.rules[name].query != wanted.rules[name].query)


def division_of(division: Division, swap: Swap) -> tuple[Division, list[str]] | None:
    """Return how planners divide the sources of a declaration, and those that this concerns; ``None`` if as before."""
    if division.own is None:
        return None
    declaration = swap.after.declaration
    after = division.retied(ties_of(declaration, swap.after.programs.values(), division.scope_of))
    if after is division:
        return None
    scopes = {each for each in (*after.ties, *division.ties) if after.ties.get(each) != division.ties.get(each)}
    sources = declaration.sources.values()
    return after, [each.source_id for each in sources if division.scope_of(host_of(each.url)) in scopes]
