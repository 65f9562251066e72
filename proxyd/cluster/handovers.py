"""Sources that change planners: what other planners store is followed, and what comes to this one is taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Protocol, TypeVar

import structlog

from proxyd.base.ports import Clock
from proxyd.cluster.division import Division, division_of
from proxyd.cluster.sharing import Handover, Sharing
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.daemon.plan_loop import in_parts
from proxyd.daemon.rule_evaluation import StreamRecall
from proxyd.store import SqlStore
from proxyd.store.followed_rows import RememberedSources

_MANY = 0.05  # of all that are planned here
_PART = 200  # sources that are taken in at once, which takes some milliseconds
log = structlog.get_logger("planners")
K = TypeVar("K")
V = TypeVar("V")


class _Follower(Protocol):
    """What is stored of the sources, by whatever planner."""

    def catch_up(self, is_wanted: Callable[[str], bool]) -> Awaitable[RememberedSources]:
        """Return what was stored since the last look of the sources that are wanted; the first time all of that."""

    def records(self, sources: Iterable[str]) -> Mapping[str, SourceRecord]:
        """Return how the planners stood with some sources at the last look."""


class Handovers:
    """Keeps a decider in step with the planners that share its work."""

    def __init__(self, recall: StreamRecall, followed: _Follower, clock: Clock) -> None:
        self._recall = recall
        self._decider = recall.decider
        self._known = recall.decider.known
        self._sharing = Sharing(recall.decider)
        self._store: SqlStore = recall.store
        self._followed = followed
        self._clock = clock

    async def give_up(self, own: frozenset[int]) -> bool:
        """Leave the sources of all shards but ``own`` to other planners; return whether there were any.

        No more probes of these begin.
        """
        before = division_of(self._known)
        kept = replace(before, own=own if before.own is None else own & before.own)
        if kept == before:
            return False
        compiled = None
        while compiled is not self._known.compiled:  # another declaration may come meanwhile
            compiled = self._known.compiled
            lost = await asyncio.to_thread(_only_in, before, kept, self._known)
        self._sharing.release(replace(division_of(self._known), own=kept.own), lost)  # ties may be others by now
        await in_parts(self._decider.placing(self._clock.time_s))
        if lost:
            log.info("sources are another planner's now", sources=len(lost))
        return bool(lost)

    def release(self, division: Division, lost: Iterable[str]) -> None:
        """Leave sources to other planners; ``division`` says what is ours now."""
        self._sharing.release(division, lost)

    async def catch_up(self) -> None:
        """Take in, in parts, what other planners have stored."""
        found, now_s = await self._followed.catch_up(self._is_of_another), self._clock.time_s()
        for states in _parts(found.states):
            self._sharing.follow(states.values(), (), {}, now_s)
            await asyncio.sleep(0)
        for streams in _parts(found.streams):
            self._sharing.follow((), streams.values(), {}, now_s)
            await asyncio.sleep(0)
        for weeks in _parts(found.weeks):
            self._sharing.follow((), (), weeks, now_s)
            await asyncio.sleep(0)
        self._sharing.follow_moves()

    def _is_of_another(self, source_id: str) -> bool:
        return not self._known.has(source_id)

    def gains(self, own: frozenset[int]) -> bool:
        """Whether ``take`` would take sources of the shards ``own``, so that ``catch_up`` is needed before."""
        return self._with(own) != division_of(self._known)

    def _with(self, own: frozenset[int]) -> Division:
        before = division_of(self._known)
        return replace(before, own=own.union(before.own or ()), expected=frozenset())

    async def take(self, own: frozenset[int]) -> bool:
        """Plan the sources of the shards ``own`` too; ``catch_up`` must have read what their planners stored.

        Call it with no other change of the declaration under way. Returns whether so many have come that another plan
        is due.
        """
        before, wanted = division_of(self._known), self._with(own)
        if wanted == before:
            return False
        now_s, captures = self._clock.time_s(), self._decider.captures
        gained = await asyncio.to_thread(
            lambda: self._decider.neediest_first(_only_in(wanted, before, self._known), now_s)
        )
        await self._recall.pending_of(gained, now_s)
        captures.read_for(wanted)
        await self._recall.rows_of_queries()
        subscriptions = await self._store.subscriptions.load()
        joint = await self._store.load_joint_intervals()
        records = await asyncio.to_thread(self._followed.records, gained)
        handover = Handover(records, list(subscriptions.values()), joint)
        self._sharing.take_over(wanted, gained, handover)
        await in_parts(self._decider.placing(self._clock.time_s))
        if gained:
            log.info("sources have come from other planners", sources=len(gained))
        return len(gained) > _MANY * len(self._decider.planner.sources)


def _only_in(one: Division, other: Division, known: Knowledge) -> list[str]:
    """Return the sources that one division has and another one has not."""
    sources = known.compiled.declaration.sources
    return [name for name, source in sources.items() if one.has(source.url) and not other.has(source.url)]


def _parts(found: Mapping[K, V]) -> Iterable[dict[K, V]]:
    each = iter(found.items())
    while part := dict(islice(each, _PART)):
        yield part
