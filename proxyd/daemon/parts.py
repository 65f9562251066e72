"""What somebody sees of the declaration who reads and writes only some profiles.

The answers of the API ask for the declaration here, so that what is of others is not there, like what does not exist.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from proxyd.core.model.profile import Declaration, owner_of

_MOST_KEPT = 50


class Parts:
    """The parts of the running declaration, each computed once for some profiles."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], tuple[Declaration, Declaration]] = OrderedDict()

    async def prepare(self, declaration: Declaration, profiles: tuple[str, ...]) -> None:
        """Compute a part in a thread, unless it is there already: there may be many rules."""
        if self._find(declaration, profiles) is None:
            self._keep(declaration, profiles, await asyncio.to_thread(part_of, declaration, profiles))

    def of(self, declaration: Declaration, profiles: tuple[str, ...]) -> Declaration:
        """Return a part; it is computed here only if there was another declaration since ``prepare``."""
        found = self._find(declaration, profiles)
        return self._keep(declaration, profiles, part_of(declaration, profiles)) if found is None else found

    def _find(self, declaration: Declaration, profiles: tuple[str, ...]) -> Declaration | None:
        whole, part = self._kept.get(profiles, (None, None))
        return part if whole is declaration else None

    def _keep(self, declaration: Declaration, profiles: tuple[str, ...], part: Declaration) -> Declaration:
        self._kept[profiles] = declaration, part
        self._kept.move_to_end(profiles)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return part


def part_of(declaration: Declaration, profiles: Sequence[str]) -> Declaration:
    """Return the rules of some profiles, each as if it were in these only, their sources, and what these profiles own.

    Of the domains, those that such sources are read by, that these profiles name, or that belong to them.
    """
    known = frozenset(profiles)
    rules = {
        name: rule if known.issuperset(rule.profiles) else replace(rule, profiles=_among(rule.profiles, known))
        for name, rule in declaration.rules.items()
        if not known.isdisjoint(rule.profiles)
    }
    read = {source_id for rule in rules.values() for source_id in rule.source_ids}
    sources = {name: each for name, each in declaration.sources.items() if name in read or owner_of(name) in known}
    own = {name: each for name, each in declaration.profiles.items() if name in known}
    named = {each.domain for each in sources.values()}.union(*(each.domains for each in own.values()))
    domains = {name: each for name, each in declaration.domains.items() if name in named or owner_of(name) in known}
    return Declaration(domains, sources, own, rules)


def _among(profiles: Sequence[str], known: frozenset[str]) -> tuple[str, ...]:
    return tuple(each for each in profiles if each in known)
