"""The choice of declared sources for a list: by words, state and membership, in the order that was asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TypeAlias

from proxyd.core.model.profile import Source
from proxyd.core.rules.compiled import Compiled
from proxyd.core.rules.knowledge import Knowledge
from proxyd.core.rules.state import SourceState
from proxyd.queries import SourceChoice, SourceKind

_NUMBER = re.compile(r"(\d+)")
NaturalKey: TypeAlias = tuple[str | int, ...]
_Key: TypeAlias = Callable[[SourceState], float]


def natural_key(name: str) -> NaturalKey:
    """Return the key by which people sort names: numbers by their value, capitals like small letters.

    >>> sorted(["b2", "B10", "a"], key=natural_key)
    ['a', 'b2', 'B10']
    """
    pieces = _NUMBER.split(name.casefold())
    return (*(int(each[:300]) if k % 2 else each for k, each in enumerate(pieces)), name)


class SourceChoices:
    """Chooses sources in threads, however many there are.

    Threads may read the states: the event loop replaces each of them whole.
    """

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._sources: Mapping[str, Source] = {}
        self._names: list[str] = []

    async def names(self) -> Sequence[str]:
        """Return the names of the declared sources in natural order; they are sorted when the declaration changes."""
        declared = self._known.compiled.declaration.sources
        if declared is not self._sources:
            names = await asyncio.to_thread(sorted, declared, key=natural_key)
            self._sources, self._names = declared, names
        return self._names

    async def choose(self, choice: SourceChoice) -> Sequence[str]:
        """Return the names of the chosen sources, in the order asked for."""
        names, key = await self.names(), _ORDERS.get(choice.order)
        if choice.is_all and key is None:
            return names
        return await asyncio.to_thread(self._chosen, choice, names, key)

    def _chosen(self, choice: SourceChoice, names: Sequence[str], key: _Key | None) -> Sequence[str]:
        compiled, states = self._known.compiled, self._known.estimates.states  # another declaration may come meanwhile
        chosen = list(names) if choice.is_all else [each for each in names if self._is_chosen(choice, each, compiled)]
        if key is None:
            return chosen
        placed = {name: -key(state) if (state := states.get(name)) is not None else inf for name in chosen}
        return sorted(chosen, key=placed.__getitem__)

    def _is_chosen(self, choice: SourceChoice, name: str, compiled: Compiled) -> bool:
        source, text = compiled.sources.get(name), choice.text.casefold()
        if source is None or (choice.among is not None and name not in choice.among):
            return False
        if text and text not in name.casefold() and text not in source.url.casefold():
            return False
        return not choice.kinds or any(self._is_of(source, kind, compiled) for kind in choice.kinds)

    def _is_of(self, source: Source, kind: SourceKind, compiled: Compiled) -> bool:
        """Return whether a source is of a kind; its stored state may be that of another address."""
        estimates, holds = self._known.estimates, _KINDS[kind]
        stored = estimates.states.get(source.source_id)
        if kind is not SourceKind.NEW and (stored is None or not holds(stored)):
            return False
        return holds(estimates.state(source, compiled.reading(source.source_id)))


_KINDS: Mapping[SourceKind, Callable[[SourceState], bool]] = {
    SourceKind.FAILING: lambda state: state.failures > 0,
    SourceKind.SILENT: lambda state: bool(state.health.silent),
    SourceKind.NEW: lambda state: state.last_start_s is None,
}
_ORDERS: Mapping[str, _Key] = {
    "newest": lambda state: -inf if state.newest_s is None else state.newest_s,
    "probed": lambda state: -inf if state.last_start_s is None else state.last_start_s,
    "items": lambda state: float(state.items_seen),
}
