"""The prober's side: takes batches of hosts, makes their requests one after the other, and reports each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import inf

import structlog
from nats.js import JetStreamContext

from proxyd.clock import awake_or_asleep_s
from proxyd.cluster.batches import BATCHES, Batch, ProbeReport
from proxyd.cluster.link import ASIDE, PARTITIONS, TERM, NatsConnection, Taken
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.errors import ClusterError, LostLeaseError, NotLeadingError
from proxyd.metrics import Metrics
from proxyd.ports import Clock, Prober

_GLANCE_S = 0.02
_HELD = 0.8  # of the lease: a batch not extended by then is given up, before the server gives it to another prober
log = structlog.get_logger("cluster")


@dataclass(frozen=True, slots=True)
class ProberSettings:
    """The prober's name, the most hosts at once, and how long ``stop`` waits for unfinished ones."""

    name: str
    hosts: int
    drain_timeout_s: float


@dataclass(slots=True)
class _Room:
    """A batch's slot among those that run at once."""

    places: asyncio.Semaphore
    is_ours: bool

    async def enter(self) -> None:
        """Wait for a slot, unless the batch has one."""
        if not self.is_ours:
            await self.places.acquire()
            self.is_ours = True

    def leave(self) -> None:
        """Give the slot back."""
        if self.is_ours:
            self.places.release()


class _Hold:
    """Until when a batch is ours, also by what passes while this machine sleeps."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.until_s = awake_or_asleep_s() + length_s

    @property
    def left_s(self) -> float:
        """For how long it is still ours."""
        return self.until_s - awake_or_asleep_s()

    def is_held(self) -> bool:
        """Whether it is ours."""
        return self.left_s > 0.0


class BatchProber:
    """Makes the probes of batches until ``stop``.

    A batch that another prober began is not repeated, because its host may just have been asked. It is reported as
    lost, and the planner, which knows the host's spacing, plans it again. A batch whose lease cannot be extended is
    cancelled.
    """

    def __init__(
        self, link: NatsConnection, prober: Prober, clock: Clock, metrics: Metrics, settings: ProberSettings
    ) -> None:
        self._link = link
        self._prober = prober
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._term = 0
        self._aside_until_s = -inf
        self._busy: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(settings.hosts)
        self._stopping = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether work can arrive."""
        return self._link.is_up and not self._stopping.is_set()

    def stop(self) -> None:
        """Take no more batches and finish the current ones; returns at once."""
        self._stopping.set()

    async def run(self) -> None:
        """Make probes until ``stop``."""
        async with asyncio.TaskGroup() as tasks:
            terms = tasks.create_task(self._heed(TERM, self._hear_term), name="terms")
            aside = tasks.create_task(self._heed(ASIDE, self._hear_aside), name="aside")
            pulling = [
                tasks.create_task(self._serve(number, tasks), name=f"partition {number}")
                for number in range(PARTITIONS)
            ]
            await self._stopping.wait()
            for task in (terms, aside, *pulling):
                task.cancel()
            if self._busy:
                _, late = await asyncio.wait(list(self._busy), timeout=self._settings.drain_timeout_s)
                for task in late:
                    task.cancel()

    async def _heed(self, subject: str, heard: Callable[[bytes], None]) -> None:
        """Call ``heard`` with what the planner tells all probers."""
        while True:
            await self._link.server.until_up()
            try:
                async with self._link.heeding(subject, heard):
                    await asyncio.Future()
            except ClusterError as error:
                log.debug("the planner is not heard yet", subject=subject, error=error.message)
                await self._clock.sleep(self._link.settings.lease_s / 4.0)

    def _hear_term(self, data: bytes) -> None:
        """Learn at once that another planner leads; a prober that misses this learns it from the next batch."""
        if data.isdigit():
            self._term = max(self._term, int(data))

    def _hear_aside(self, data: bytes) -> None:
        """Take no work for a while if the planner has put this prober aside."""
        with suppress(ValueError, RecursionError):
            named = json.loads(data)
            if not isinstance(named, list) or self._settings.name not in named:
                return
            now_s = self._clock.monotonic_s()
            if self._aside_until_s < now_s:
                log.warning("put aside: this prober fails where others do not; check its network, clock and settings")
            self._aside_until_s = now_s + self._link.settings.lease_s / 2.0

    async def _until_wanted(self) -> None:
        """Wait while this prober is put aside."""
        while (left_s := self._aside_until_s - self._clock.monotonic_s()) > 0.0:
            await self._clock.sleep(left_s)

    async def _serve(self, number: int, tasks: asyncio.TaskGroup) -> None:
        """Take the batches of a partition, one after the other.

        With a free slot, it checks for a batch; otherwise it waits for one without holding a slot. So a busy prober
        takes no batch that another could begin, except one that arrives while it waits: it holds that until a slot is
        free.
        """
        while True:
            await self._link.server.until_up()
            try:
                async with self._link.pulling_batches(number) as pulled:
                    while True:
                        await self._serve_next(pulled, tasks)
            except ClusterError as error:
                log.debug("no work can be had", partition=number, error=error.message)
                await self._clock.sleep(self._link.settings.pull_s / 4.0)

    async def _serve_next(self, pulled: JetStreamContext.PullSubscription, tasks: asyncio.TaskGroup) -> None:
        await self._until_wanted()
        await self._room.acquire()
        is_given = False
        try:
            messages = await self._link.pull(pulled, _GLANCE_S)
            is_given = bool(messages)
        finally:
            if not is_given:
                self._room.release()
        if not messages:
            messages = await self._link.pull(pulled, self._link.settings.pull_s)
        for message in messages:
            await asyncio.shield(self._start(message, tasks, has_room=is_given))

    def _start(self, taken: Taken, tasks: asyncio.TaskGroup, *, has_room: bool) -> asyncio.Task[None]:
        task = tasks.create_task(self._work(taken, has_room=has_room), name="batch")
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        return task

    async def _work(self, taken: Taken, *, has_room: bool) -> None:
        """Complete one batch and give its slot back."""
        room = _Room(self._room, is_ours=has_room)
        try:
            await self._see_through(taken, room)
        finally:
            room.leave()

    async def _see_through(self, taken: Taken, room: _Room) -> None:
        try:
            batch = BATCHES.read(taken.message.data)
        except ClusterError as error:
            log.error("a batch cannot be read and is dropped", error=error.message)  # noqa: TRY400 - the message says everything
            await self._link.done(taken)
            return
        if batch.term < self._term:
            is_over = await self._report_lost(batch, "outdated")
        elif not taken.is_first:
            is_over = await self._report_lost(batch, "lost")
        else:
            is_over = await self._make(batch, taken, room)
        if is_over:
            await self._link.done(taken)

    async def _make(self, batch: Batch, taken: Taken, room: _Room) -> bool:
        """Make the requests of a batch; return whether all were made, or reported, while we held the batch."""
        self._term, hold = max(self._term, batch.term), _Hold(_HELD * self._link.settings.lease_s)
        try:
            await self._link.extend(taken)  # it may have waited here, and been given to another prober
            async with self._holding(taken, hold):
                await room.enter()
                with self._metrics.prober_hosts.track_inprogress():
                    is_whole = await self._make_all(batch, hold)
        except (TimeoutError, ClusterError) as error:
            why = str(error) or "its lease could not be extended in time"
            log.warning("a batch was given up: the other machines cannot be reached", host=batch.host, error=why)
            self._count("given_up")
            return False
        if not is_whole:
            return hold.is_held() and await self._report_lost(batch, "outdated")
        self._count("made")
        return True

    async def _make_all(self, batch: Batch, hold: _Hold) -> bool:
        """Make the requests of a batch; return ``False`` if it is no longer ours, or the term of its planner ends."""

        def may_send() -> bool:
            return hold.is_held() and batch.term >= self._term

        try:
            for number, request in enumerate(batch.requests):
                await self._report(batch, number, await self._prober.probe(request, may_send))
        except NotLeadingError:
            return False
        return True

    @asynccontextmanager
    async def _holding(self, taken: Taken, hold: _Hold) -> AsyncIterator[None]:
        """Hold a batch while the context is open; if it cannot be held, end with ``TimeoutError`` in time."""
        is_over = asyncio.Event()
        async with asyncio.timeout(hold.left_s) as limit, asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(self._extend(taken, hold, limit, is_over), name="lease")
            try:
                yield
            finally:
                is_over.set()  # an answer from NATS at this moment hides the cancellation
                keeper.cancel()

    async def _extend(self, taken: Taken, hold: _Hold, limit: asyncio.Timeout, is_over: asyncio.Event) -> None:
        wait_s = hold.length_s / 4.0
        while not is_over.is_set():
            await self._clock.sleep(wait_s)
            asked_s = awake_or_asleep_s()
            try:
                await self._link.extend(taken)
            except LostLeaseError:
                hold.until_s = asked_s
            except ClusterError as error:
                log.debug("a lease is not extended yet", error=error.message)
                wait_s = hold.length_s / 16.0
                continue
            else:
                hold.until_s, wait_s = asked_s + hold.length_s, hold.length_s / 4.0
            if not is_over.is_set() and not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time() + hold.left_s)

    async def _report(self, batch: Batch, number: int, outcome: ProbeOutcome | None) -> None:
        """Report the result of a request, repeatedly if necessary, until the lease ends."""
        reading = batch.requests[number].reading
        report = ProbeReport(batch.batch_id, number, self._settings.name, reading, batch.sent_s, outcome)
        while True:
            try:
                await self._link.report(report)
            except ClusterError as error:
                log.debug("a report cannot be sent yet", error=error.message)
                await self._clock.sleep(self._link.settings.lease_s / 8.0)
            else:
                return

    async def _report_lost(self, batch: Batch, result: str) -> bool:
        """Report a batch that another prober left unfinished, or one of a planner that no longer leads.

        Returns whether the report arrived.
        """
        try:
            async with asyncio.timeout(_HELD * self._link.settings.lease_s):
                for number in range(len(batch.requests)):
                    await self._report(batch, number, None)
        except TimeoutError:
            log.warning("a lost batch cannot be reported yet; it comes again", host=batch.host)
            return False
        self._count(result)
        return True

    def _count(self, result: str) -> None:
        self._metrics.batches.labels(result).inc()
