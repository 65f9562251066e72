"""The probers that may have work, which the next planner must know of before they get some."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

from proxyd.cluster.messages import Hello
from proxyd.cluster.prober_roster import ProberRoster

KeepProbers = Callable[[Collection[str]], Awaitable[None]]
"""Records the ids of the probers that may have work, for the next planner."""
_UNKNOWN = "unknown"


async def keep_nothing(_probers: Collection[str]) -> None:
    """Record nothing: there is no other planner."""


class KnownProbers:
    """The roster, and what is recorded of it; ``absent`` are probers of the last planner that may not know of this one.

    Parameters
    ----------
    roster
        Probers get into it once they are recorded.
    last
        The ids of the last planner's probers; ``None`` if they are unknown.
    keep
        Records the ids.
    """

    def __init__(self, roster: ProberRoster, last: frozenset[str] | None, keep: KeepProbers) -> None:
        self.roster = roster
        self.absent = {_UNKNOWN} if last is None else set(last)
        self._keep = keep
        self._recorded: set[str] = set()
        self._joining: dict[str, Hello] = {}
        self._left: set[str] = set()  # since the last record was begun
        self._changed = asyncio.Event()

    def hear(self, hello: Hello, *, term: int, now_s: float) -> None:
        """Take in a hello; ``term`` is that of this planner."""
        if hello.is_leaving:
            self.leave(hello.prober_id)
        if hello.term != term:  # it says hello again once it follows this planner
            return
        self.absent.discard(hello.prober_id)
        if hello.is_leaving:
            return
        if hello.prober_id in self._recorded:
            self.roster.hear(hello, now_s)
        else:
            self._joining[hello.prober_id] = hello
            self._changed.set()

    def leave(self, prober_id: str) -> None:
        """Give a prober no more work until it says hello."""
        self.roster.leave(prober_id)
        self._joining.pop(prober_id, None)
        self._left.add(prober_id)
        self._changed.set()

    async def follow(
        self, busy: Callable[[], Iterable[str]], now_s: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        """Record who may have work whenever that changes, without an end; ``busy`` returns who has some."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            joining, self._joining, self._left = self._joining, {}, set()
            known = {*joining, *self.absent, *self.roster, *busy()}
            if known != self._recorded:
                self._recorded &= known
                await self._keep(known)
                self._recorded = known
            for prober_id in joining.keys() - self._left:
                self.roster.hear(joining[prober_id], now_s())
            changed()
