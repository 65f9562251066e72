"""The choice of declared sources for a list: by words, state and membership, in the order that was asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias

from proxyd.core.model.profile import Source
from proxyd.core.rules.knowledge import Knowledge
from proxyd.core.rules.state import SourceState
from proxyd.queries import SourceChoice, SourceKind

_PART = 2_000  # sources that are looked at before others may use the loop
_NUMBER = re.compile(r"(\d+)")
NaturalKey: TypeAlias = tuple[str | int, ...]


def natural_key(name: str) -> NaturalKey:
    """Return the key by which people sort names: numbers by their value, capitals like small letters.

    >>> sorted(["b2", "B10", "a"], key=natural_key)
    ['a', 'b2', 'B10']
    """
    pieces = _NUMBER.split(name.casefold())
    return (*(int(each[:300]) if k % 2 else each for k, each in enumerate(pieces)), name)


class SourceChoices:
    """Chooses sources without holding up the loop, however many there are."""

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
        names = await self.names()
        if not choice.is_all:
            names = [name async for name in self._chosen(choice, names)]
        key = _ORDERS.get(choice.order)
        if key is None:
            return names
        states = self._known.estimates.states
        keyed = [(-key(states[name]) if name in states else inf, n, name) async for n, name in _in_parts(names)]
        return [name for _, _, name in await asyncio.to_thread(sorted, keyed)]

    async def _chosen(self, choice: SourceChoice, names: Sequence[str]) -> AsyncIterator[str]:
        text = choice.text.casefold()
        async for _, name in _in_parts(names):
            if choice.among is not None and name not in choice.among:
                continue
            if text and text not in name.casefold() and text not in self._sources[name].url.casefold():
                continue
            if not choice.kinds or any(self._is_of(name, kind) for kind in choice.kinds):
                yield name

    def _is_of(self, name: str, kind: SourceKind) -> bool:
        """Return whether a source is of a kind; its stored state may be that of another address."""
        stored, source = self._known.estimates.states.get(name), self._known.compiled.sources.get(name)
        holds = _KINDS[kind]
        if source is None or (stored is None and kind is not SourceKind.NEW):
            return False
        if stored is not None and not holds(stored) and kind is not SourceKind.NEW:
            return False
        return holds(self._known.state(source))


async def _in_parts(names: Sequence[str]) -> AsyncIterator[tuple[int, str]]:
    """Yield names with their places, and let others use the loop now and then."""
    for number, name in enumerate(names):
        if number % _PART == 0:
            await asyncio.sleep(0)
        yield number, name


_KINDS: Mapping[SourceKind, Callable[[SourceState], bool]] = {
    SourceKind.FAILING: lambda state: state.failures > 0,
    SourceKind.SILENT: lambda state: bool(state.health.silent),
    SourceKind.NEW: lambda state: state.last_start_s is None,
}
_ORDERS: Mapping[str, Callable[[SourceState], Any]] = {
    "newest": lambda state: -inf if state.newest_s is None else state.newest_s,
    "probed": lambda state: -inf if state.last_start_s is None else state.last_start_s,
    "items": lambda state: float(state.items_seen),
}
