"""Probes before a large declaration is loaded: feeds that are due by the last plan are probed meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

import structlog

from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.early_feeds import EarlyFeeds, early_request
from proxyd.daemon.observer import Observer
from proxyd.daemon.remembered import early_digest, settings_of_plan
from proxyd.ports import Clock, Transport, Unmade
from proxyd.signals import Signal
from proxyd.store import SqlStore

_MOST_HELD, _MOST_ITEMS = 5_000, 50_000  # probes made or under way, and items found, that wait for the declaration
_MOST_BYTES = 64 << 20  # of their documents
_PART = 200  # feeds whose states are read at once
_AT_ONCE = 16  # outcomes that are taken in at once
log = structlog.get_logger("probes")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A probe that began at ``began_s``; ``noted_s`` is the start that was stored before it. In unix seconds."""

    request: ProbeRequest
    noted_s: float
    began_s: float
    probing: asyncio.Task[ProbeOutcome | Unmade]


class EarlyProbes:
    """Probes feeds that are due while a declaration is loaded; their outcomes are taken in afterwards.

    Each start is stored before its probe, so that the next process keeps the spacing even if this one is killed.
    """

    def __init__(self, decider: Decider, store: SqlStore, transport: Transport, clock: Clock) -> None:
        self._decider = decider
        self._settings = decider.settings.planner
        self._spacing_s = decider.settings.source_spacing_s
        self._plan = store.plan
        self._transport = transport
        self._clock = clock
        self._asked: deque[_Asked] = deque()
        self._items = self._bytes = 0
        self._asked_s = -inf
        self._asking: asyncio.Task[None] | None = None
        self._ending, self._is_ending = Signal(), False
        self._stopping = Signal()
        self._taken = asyncio.Event()

    async def begin(self, tasks: asyncio.TaskGroup, declared: str) -> bool:
        """Probe until ``end`` what is due, if the last plan was made for texts with the digest ``declared``.

        Returns whether that was so.
        """
        settings, now_s = self._decider.settings, self._clock.time_s()
        packed = await self._plan.load_early(settings_of_plan(settings), early_digest(declared, settings))
        if packed is None:
            return False
        last_s = await self._plan.last_start_s(now_s)
        since_s = -inf if last_s is None else last_s
        try:
            feeds = await asyncio.to_thread(EarlyFeeds.unpack, packed)
        except ValueError as error:
            log.warning("the stored feeds cannot be read; none is probed early", reason=str(error))
            return False
        log.info("feeds that are due are probed while the declaration is loaded", due=len(feeds.due(since_s, now_s)))
        self._asking = tasks.create_task(self._ask(feeds, since_s, tasks), name="early probes")
        return True

    async def _ask(self, feeds: EarlyFeeds, since_s: float, tasks: asyncio.TaskGroup) -> None:
        """Ask what has become due since a time and what becomes due, as many in a chronon as the budget allows."""
        while not self._is_ending:
            now_s = self._clock.time_s()
            names = feeds.due(since_s, now_s)
            for begin in range(0, len(names), _PART):
                requests = await self._requests(names[begin : begin + _PART], feeds.made_s)
                while requests:
                    if self._is_ending or self._holds_many:
                        return
                    await self._ask_some(requests, tasks)
            since_s = now_s
            if not self._is_ending:  # a pause above may have taken the notification
                await self._ending.sleep(self._clock, self._settings.grid.length_s)

    @property
    def _holds_many(self) -> bool:
        """Whether no more may wait for the declaration."""
        return len(self._asked) >= _MOST_HELD or self._items >= _MOST_ITEMS or self._bytes >= _MOST_BYTES

    async def _requests(self, names: Sequence[str], made_s: float) -> deque[ProbeRequest]:
        """Return the requests of those of some feeds that may be asked."""
        known, now_s, spacing_s = await self._plan.load_some(names), self._clock.time_s(), self._spacing_s
        asked = (early_request(*each, now_s, made_s=made_s, spacing_s=spacing_s) for each in known)
        return deque(request for request in asked if request is not None)

    async def _ask_some(self, requests: deque[ProbeRequest], tasks: asyncio.TaskGroup) -> None:
        """Ask as many as the budget allows within a second; what is stored as asked is asked, also while ending."""
        grid = self._settings.grid
        capacity = self._settings.capacity(grid.chronon_at(self._clock.time_s()))
        if capacity == 0:
            await self._ending.sleep(self._clock, grid.length_s)
            return
        pause_s = grid.length_s / capacity
        some = [requests.popleft() for _ in range(min(len(requests), max(1, int(1.0 / pause_s))))]
        noted_s = self._clock.time_s()
        await self._plan.note_start([each.source_id for each in some], noted_s)
        for request in some:
            probing = tasks.create_task(self._probe(request), name=f"probe {request.source_id}")
            self._asked_s = self._clock.time_s()
            self._asked.append(_Asked(request, noted_s, self._asked_s, probing))
            await self._ending.sleep(self._clock, pause_s)

    async def _probe(self, request: ProbeRequest) -> ProbeOutcome | Unmade:
        async with self._transport.probe(request) as outcome:
            if not isinstance(outcome, Unmade):
                self._items += len(outcome.items)
                self._bytes += outcome.body_bytes
            return outcome

    def stop(self) -> None:
        """Begin no more probes, because the daemon stops; returns at once."""
        self._is_ending = True
        self._ending.notify()
        self._stopping.notify()

    async def end(self) -> None:
        """Ask no more: the declaration is loaded, and its planner waits for what was asked."""
        self._is_ending = True
        self._ending.notify()
        if self._asking is not None:
            await self._asking
        for each in self._asked:
            self._decider.begun(each.request, each.began_s)

    async def wait_for_next_chronon(self) -> None:
        """Wait until the planner may choose, after ``end``, or until ``stop``: a chronon has its budget once."""
        grid, now_s = self._settings.grid, self._clock.time_s()
        if grid.chronon_at(max(self._asked_s, 0.0)) == grid.chronon_at(now_s):
            await self._stopping.sleep(self._clock, grid.start_s(grid.chronon_at(now_s) + 1) - now_s)

    async def take_in(self, observer: Observer) -> None:
        """Take in the outcomes of all that was asked, also of what is still under way; if cancelled, give that up."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(_AT_ONCE, len(self._asked))):
                    tasks.create_task(self._take_each(observer), name="early outcomes")
        finally:
            for each in self._asked:
                each.probing.cancel()
            self._taken.set()

    async def _take_each(self, observer: Observer) -> None:
        while self._asked:
            each = self._asked.popleft()
            name, outcome = each.request.source_id, await each.probing
            if isinstance(outcome, Unmade):
                self._decider.planner.finished(name, self._clock.time_s(), seen=False)
            else:
                self._decider.note_start(name, each.noted_s, outcome.started_s)
                await observer.take_in(outcome, reading=each.request.reading, probe=self._probe_of(each))

    def _probe_of(self, asked: _Asked) -> Probe:
        """Return what a probe was made for: to find changes."""
        name, chronon = asked.request.source_id, self._settings.grid.chronon_at(asked.began_s)
        source = self._decider.planner.sources.get(name)
        per_s = 0.0 if source is None else source.rate_per_s
        return Probe(name, chronon, Reason.DETECTION, rate_per_day=per_s * 86400.0)

    async def drain(self, timeout_s: float) -> None:
        """Wait until all outcomes are taken in, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._taken.wait()
