"""The choice of declared sources for a list: by words, state and membership, in the order that was asked for."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from itertools import compress
from math import inf
from operator import is_not
from typing import NoReturn, TypeAlias

import numpy as np

from proxyd.base.clock import Signal
from proxyd.base.ports import Clock
from proxyd.core.model.profile import Source
from proxyd.core.rules.known.compiled import Compiled
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import SourceState


class SourceKind(Enum):
    """What may be the matter with a source."""

    FAILING = "failing"
    SILENT = "silent"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """Which sources to list."""

    text: str = ""  # what their names or addresses must contain, whatever the case; empty for all
    kinds: frozenset[SourceKind] = frozenset()  # those of any of these kinds, or all if it is empty
    among: AbstractSet[str] | None = None  # the names from which to choose, or `None` for all
    # By `name`, or with the greatest first: the `newest` item, the last time they were `probed`, their `items`
    order: str = "name"

    @property
    def is_all(self) -> bool:
        """Whether it leaves no source out."""
        return not self.text and not self.kinds and self.among is None


_NUMBER = re.compile("0*([0-9]+)")
_MOST_DIGITS = 300
_KEPT_S = 5.0  # how long an order is kept
_Key: TypeAlias = Callable[[SourceState], float]


def natural_key(name: str) -> str:
    """Return the key by which people sort names: numbers by their value, capitals like small letters.

    A number is less than any letter, and a longer one is greater; a text sorts faster than pieces of it.

    >>> sorted(["b2", "B10", "a"], key=natural_key)
    ['a', 'b2', 'B10']
    """
    return f"{_NUMBER.sub(_by_length, name.casefold())}\0{name}"


def _by_length(number: re.Match[str]) -> str:
    digits = number[1][:_MOST_DIGITS]
    return f"\1{chr(len(digits))}{digits}"


@dataclass(frozen=True, slots=True)
class _Ordered:
    """All names in an order, those from which it was made, and when it is too old."""

    names: Sequence[str]
    of: Sequence[str]
    until_s: float


@dataclass(frozen=True, slots=True)
class _Named:
    """The sources of a declaration: their names in natural order, the keys of these, and the texts to search."""

    sources: Mapping[str, Source]
    names: Sequence[str]
    keys: Mapping[str, str]
    texts: Mapping[str, str]

    def following(self, sources: Mapping[str, Source]) -> _Named:
        """Return the same for another declaration; what it has in common with this one is not made again."""
        before = self.sources
        differ = map(is_not, sources.values(), map(before.get, sources))
        others = dict(compress(sources.items(), differ))
        new = [name for name in others if name not in before]
        gone = before.keys() - sources.keys() if len(before) + len(new) > len(sources) else frozenset[str]()
        keys = {**self.keys, **{name: natural_key(name) for name in new}}
        texts = {**self.texts, **{name: f"{name}\n{each.url}".casefold() for name, each in others.items()}}
        for name in gone:
            del keys[name], texts[name]
        names = [name for name in self.names if name not in gone] if gone else self.names
        return _Named(sources, _merge_names(names, new, keys) if new else names, keys, texts)


def _merge_names(names: Sequence[str], more: Iterable[str], keys: Mapping[str, str]) -> Sequence[str]:
    """Return sorted names and more of them, sorted."""
    found, place = list[str](), 0
    for name in sorted(more, key=keys.__getitem__):
        after = bisect(names, keys[name], lo=place, key=keys.__getitem__)
        found += [*names[place:after], name]
        place = after
    return [*found, *names[place:]]


class SourceChoices:
    """Chooses sources in threads, however many there are.

    Threads may read the states: the event loop replaces each of them whole.
    """

    def __init__(self, known: Knowledge, clock: Clock) -> None:
        self._known = known
        self._clock = clock
        self._named = _Named({}, (), {}, {})
        self._naming = asyncio.Lock()
        self._ordered: dict[str, _Ordered] = {}

    async def names(self) -> Sequence[str]:
        """Return the names of the declared sources in natural order."""
        return (await self._current()).names

    async def follow(self, declared: Signal) -> NoReturn:
        """Have the order ready before somebody asks; ``declared`` is notified of each declaration."""
        while True:
            changed = declared.next
            await self._current()
            await changed.wait()

    async def _current(self) -> _Named:
        async with self._naming:
            declared = self._known.compiled.declaration.sources
            if declared is not self._named.sources:
                self._named = await asyncio.to_thread(self._named.following, declared)
            return self._named

    async def choose(self, choice: SourceChoice) -> Sequence[str]:
        """Return the names of the chosen sources, in the order asked for, which may be that of some seconds ago."""
        named = await self._current()
        names, texts = named.names, named.texts
        if choice.order in _ORDERS:
            names = await self._in_order(choice.order, names)
        return names if choice.is_all else await asyncio.to_thread(self._chosen, choice, names, texts)

    async def _in_order(self, order: str, names: Sequence[str]) -> Sequence[str]:
        kept = self._ordered.get(order)
        if kept is None or kept.of is not names or self._clock.time_s() >= kept.until_s:
            ordered = await asyncio.to_thread(self._sort_names, _ORDERS[order], names)
            kept = self._ordered[order] = _Ordered(ordered, names, self._clock.time_s() + _KEPT_S)
        return kept.names

    def _sort_names(self, key: _Key, names: Sequence[str]) -> Sequence[str]:
        states = self._known.estimates.states
        values = (-inf if (state := states.get(name)) is None else key(state) for name in names)
        order = np.argsort(-np.fromiter(values, dtype=np.float64, count=len(names)), kind="stable")
        return [names[place] for place in order.tolist()]

    def _chosen(self, choice: SourceChoice, names: Sequence[str], texts: Mapping[str, str]) -> Sequence[str]:
        text, among = choice.text.casefold(), choice.among
        if among is not None:
            names = [name for name in names if name in among]
        if text:
            names = [name for name in names if text in texts[name]]
        if choice.kinds:
            compiled = self._known.compiled  # another declaration may come meanwhile
            found = {name for kind in choice.kinds for name in self._of_kind(kind, names, compiled)}
            names = [name for name in names if name in found]
        return names

    def _of_kind(self, kind: SourceKind, names: Sequence[str], compiled: Compiled) -> Iterator[str]:
        estimates, holds = self._known.estimates, _KINDS[kind]
        marked = {SourceKind.FAILING: estimates.failing, SourceKind.SILENT: estimates.silent}
        for name in marked[kind].copy() if kind in marked else _perhaps_new(names, estimates.states, compiled):
            source = compiled.sources.get(name)
            # the stored state may be that of another address
            if source is not None and holds(estimates.state(source, compiled.reading(name))):
                yield name


def _perhaps_new(names: Iterable[str], states: Mapping[str, SourceState], compiled: Compiled) -> Iterable[str]:
    """Return the names of the sources that were not probed, or not under their reading; nearly all others are left."""
    known, requests = states.get, compiled.requests.get
    pairs = ((name, known(name), requests(name)) for name in names)
    return [
        name
        for name, state, request in pairs
        if state is None or request is None or state.last_start_s is None or state.reading != request.reading
    ]


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
