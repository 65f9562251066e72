"""The division of the sources among several planners: which planner has which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from proxyd.core.model.outcome import host_of
from proxyd.core.model.profile import Declaration
from proxyd.core.rules.known.compiled import Swap
from proxyd.core.rules.known.knowledge import Knowledge, Ownership
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.store.databases.shards import FIRST_SHARD, shard_of


@dataclass(frozen=True, slots=True)
class Division(Ownership):
    """The shards that this planner has, and which addresses belong to them.

    What shares limits, or is needed by the same joint intervals, is in one shard: then one planner alone keeps to the
    limits, and sees all that decides the intervals. A source stays in the shard of its declared address when it moves.

    Parameters
    ----------
    own
        The shards that this planner has; ``None`` for all, if no other planner shares the work.
    ties
        For each scope that joint rules tie to others, the scope under which all of them count.
    scope_of
        Maps a host to the scope that shares limits.
    expected
        The scopes that a declaration has tied to our shards, and that another planner may still have.

    Examples
    --------
    >>> some = Division(frozenset({12}), ties={"b.example": "a.example"})
    >>> [some.shard_of(url) for url in ("https://a.example/", "https://b.example/x", "https://c.example/")]
    [12, 12, 10]
    >>> some.has("https://b.example/x"), some.has("https://c.example/")
    (True, False)
    """

    own: frozenset[int] | None = None
    ties: Mapping[str, str] = field(default_factory=dict)
    scope_of: Callable[[str], str] = str
    expected: frozenset[str] = frozenset()

    def shard_of(self, url: str) -> int:
        """Return the shard of a declared address."""
        return self.shard_of_scope(self.scope_of(host_of(url)))

    def shard_of_scope(self, scope: str) -> int:
        """Return the shard of a scope."""
        return shard_of(self.ties.get(scope, scope))

    @property
    def is_whole(self) -> bool:
        """Whether no other planner has any source."""
        return self.own is None

    @property
    def has_declaration(self) -> bool:
        """Whether this planner looks after the declaration."""
        return self.own is None or FIRST_SHARD in self.own

    def has(self, url: str) -> bool:
        """Whether this planner has the source that is declared with an address."""
        return self.has_host(host_of(url))

    def has_host(self, host: str) -> bool:
        """Whether this planner spaces the requests to a host."""
        if self.own is None:
            return True
        scope = self.scope_of(host)
        return scope not in self.expected and self.shard_of_scope(scope) in self.own

    def with_ties(self, ties: Mapping[str, str]) -> Division:
        """Return the division with other ties; what they bring to our shards is expected.

        >>> first, second = shard_of("a.example"), shard_of("b.example")
        >>> tied = Division(frozenset({first})).with_ties({"b.example": "a.example"})
        >>> tied.expected, tied.has("https://a.example/"), tied.has("https://b.example/")
        (frozenset({'b.example'}), True, False)
        >>> Division(frozenset({first, second})).with_ties({"b.example": "a.example"}).has("https://b.example/")
        True
        """
        if self.own is None or ties == self.ties:
            return self
        after = replace(self, ties=ties)
        other = (each for each in ties.keys() | self.ties.keys() if self.ties.get(each) != ties.get(each))
        gained = {
            each
            for each in other
            if self.shard_of_scope(each) not in self.own and after.shard_of_scope(each) in self.own
        }
        return replace(after, expected=self.expected | gained)


UNDIVIDED = Division()


def division_of(known: Knowledge) -> Division:
    """Return how planners divide the sources; before they do, all are here."""
    return known.owned if isinstance(known.owned, Division) else UNDIVIDED


def division_under(division: Division, swap: Swap) -> tuple[Division, list[str]] | None:
    """Return how planners divide the sources of a declaration, and those that this concerns; ``None`` if as before."""
    if division.own is None:
        return None
    declaration = swap.after.declaration
    after = division.with_ties(ties_of(declaration, swap.after.programs.values(), division.scope_of))
    if after is division:
        return None
    scopes = {name for name in (*after.ties, *division.ties) if after.ties.get(name) != division.ties.get(name)}
    sources = declaration.sources.values()
    return after, [source.source_id for source in sources if division.scope_of(host_of(source.url)) in scopes]


def ties_of(
    declaration: Declaration, programs: Iterable[RuleProgram], scope_of: Callable[[str], str]
) -> dict[str, str]:
    """Return, for each scope that a joint rule ties to others, the first scope of all that are tied together.

    This looks at every source of the joint rules, so large declarations take a thread.
    """
    towards: dict[str, str] = {}

    def first_of(scope: str) -> str:
        while (nearer := towards.get(scope, scope)) != scope:
            towards[scope] = towards.get(nearer, nearer)
            scope = nearer
        return scope

    for program in programs:
        if program.is_joint:
            scopes = {scope_of(host_of(declaration.sources[each].url)) for each in program.rule.source_ids}
            firsts = sorted({first_of(each) for each in scopes})
            for later in firsts[1:]:
                towards[later] = firsts[0]
    return {scope: first_of(scope) for scope in list(towards)}
