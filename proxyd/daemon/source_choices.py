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
        keyed = [(-key(state), n, state.source_id) async for n, state in self._states(names)]
        return [name for _, _, name in await asyncio.to_thread(sorted, keyed)]

    async def _chosen(self, choice: SourceChoice, names: Sequence[str]) -> AsyncIterator[str]:
        text = choice.text.casefold()
        async for _, state in self._states([each for each in names if choice.among is None or each in choice.among]):
            name, url = state.source_id, self._sources[state.source_id].url
            if text and text not in name.casefold() and text not in url.casefold():
                continue
            if not choice.kinds or any(_KINDS[kind](state) for kind in choice.kinds):
                yield name

    async def _states(self, names: Sequence[str]) -> AsyncIterator[tuple[int, SourceState]]:
        """Yield the place and the state of each source that is still declared."""
        for number, name in enumerate(names):
            if number % _PART == 0:
                await asyncio.sleep(0)
            source = self._known.compiled.sources.get(name)
            if source is not None:
                yield number, self._known.state(source)


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
