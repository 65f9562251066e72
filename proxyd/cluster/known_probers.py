"""The probers that may have work, which who takes over must know of."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from math import inf
from typing import Protocol

import structlog

from proxyd.base.ports import Clock
from proxyd.cluster.messages import Hello, Living
from proxyd.cluster.prober_roster import MOST_PROBERS, ProberRoster
from proxyd.core.errors import StoreUnreachableError

_AGAIN_S = 0.5
log = structlog.get_logger("cluster")


class PlannersOfProbers(Protocol):
    """The planners that share the probers."""

    @property
    def members(self) -> int:
        """How many they are; this one at least."""

    def keep_probers(self, probers: Callable[[], Collection[str]]) -> Awaitable[Collection[str]]:
        """Record the ids of the probers that may have work of this one, for those that take over; return them."""


class _OnePlanner:
    """The only one."""

    members = 1

    async def keep_probers(self, probers: Callable[[], Collection[str]]) -> Collection[str]:
        """Record nothing: nobody takes over."""
        return probers()


ONE_PLANNER = _OnePlanner()


class KnownProbers:
    """The roster, and what is recorded of it; ``absent`` are probers that may still work for planners that have ended.

    Probers get into the roster once they are recorded. ``living`` is what the absent ones are to be told.
    """

    def __init__(self, roster: ProberRoster, planners: PlannersOfProbers) -> None:
        self.roster = roster
        self.absent: set[str] = set()
        self.living = Living((), uuid.uuid4().hex)
        self._absent_until_s = -inf
        self._planners = planners
        self._recorded: set[str] = set()
        self._joining: dict[str, Hello] = {}
        self._left: set[str] = set()  # since the last record was begun
        self._changed = asyncio.Event()

    def wait_for(self, probers: Iterable[str], living: Iterable[int], until_s: float) -> None:
        """Wait until some probers say that they make batches of the living planners alone, or ``until_s``."""
        self.absent.update(probers)
        self.living = Living(tuple(living), uuid.uuid4().hex)
        self._absent_until_s = max(self._absent_until_s, until_s)
        self._changed.set()

    def are_free(self, now_s: float) -> bool:
        """Whether no prober can make batches of planners that have ended."""
        if now_s >= self._absent_until_s:
            self.absent.clear()
        return not self.absent

    def hear(self, hello: Hello, *, term: int, now_s: float) -> None:
        """Take in a hello; ``term`` is that of this planner."""
        has_ended = hello.is_leaving and not any(hello.planners.values())
        if has_ended or self.living.word in hello.words:
            self.absent.discard(hello.prober_id)
        if hello.is_leaving:
            self.leave(hello.prober_id)
        elif term in hello.planners and hello.prober_id in self._recorded:
            self.roster.hear(hello, now_s)
        elif term in hello.planners and len(self._joining) < MOST_PROBERS:  # or it says hello once it knows our clock
            self._joining[hello.prober_id] = hello
            self._changed.set()

    def leave(self, prober_id: str) -> None:
        """Give a prober no more work until it says hello."""
        self.roster.leave(prober_id)
        self._joining.pop(prober_id, None)
        self._left.add(prober_id)
        self._changed.set()

    async def follow(
        self, busy: Callable[[], Iterable[str]], clock: Clock, now_s: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        """Record who may have work whenever that changes, without an end; ``busy`` returns who has some."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            joining, self._joining, self._left = self._joining, {}, set()

            def known(joining: Mapping[str, Hello] = joining) -> set[str]:
                return {*joining, *self.absent, *self.roster, *busy()}

            try:
                if known() != self._recorded:
                    self._recorded &= known()
                    self._recorded = {*await self._planners.keep_probers(known)}
            except StoreUnreachableError as error:  # the lease is lost too, unless this passes soon
                log.warning("the probers cannot be recorded at the moment", error=str(error))
                self._joining = joining | self._joining
                self._changed.set()
                await clock.sleep(_AGAIN_S)
                continue
            for prober_id in joining.keys() - self._left:
                self.roster.hear(joining[prober_id], now_s())
            changed()
