"""The planner's side: sends requests in batches, one for each host at a time, and receives reports."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import structlog

from proxyd.cluster.batches import Batch, ProbeReport, by_our_clock
from proxyd.cluster.link import NatsConnection, Sent, Taken
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.politeness import ProberTrust, may_be_its_own
from proxyd.errors import ClusterError, UnreadableError
from proxyd.metrics import Metrics
from proxyd.ports import Clock, MaySend, TakeStray, Unmade, always

_MOST_REQUESTS = 8  # in a batch: the host's partition waits for all of them
_MOST_REPORTS = 64
_REMEMBERED = 1000  # reports; there are never more on their way
log = structlog.get_logger("cluster")


@dataclass(eq=False, slots=True)
class _Asked:
    """A request on its way, and the future of its result; ``message`` is that of its report."""

    request: ProbeRequest
    answer: asyncio.Future[ProbeOutcome | Unmade]
    key: tuple[str, int] = ("", 0)
    message: Taken | None = None


@dataclass(slots=True)
class _HostQueue:
    """One host: its waiting requests, and the task that sends them."""

    waiting: deque[_Asked] = field(default_factory=deque)
    driver: asyncio.Task[None] | None = None


class NatsTransport:
    """The Transport port over NATS.

    The next batch of a host is sent ``spacing_s`` after the last request began, once every request of the last batch
    was reported or its prober must have given it up. ``patience_s`` is how long a report may take, including the wait
    in the queue. Batches carry their ``term``, so those of a planner that was taken for dead are not made; none is
    sent unless ``may_send`` allows it.
    """

    def __init__(
        self,
        link: NatsConnection,
        clock: Clock,
        metrics: Metrics,
        *,
        term: int,
        spacing_s: float,
        patience_s: float,
        may_send: MaySend = always,
    ) -> None:
        self._link = link
        self._clock = clock
        self._metrics = metrics
        self._term = term
        self._spacing_s = spacing_s
        self._patience_s = patience_s
        self._may_send = may_send
        self._lanes: dict[str, _HostQueue] = {}
        self._asked: dict[tuple[str, int], _Asked] = {}
        self._limits: set[asyncio.Timeout] = set()
        self._taking: set[tuple[str, int]] = set()  # reports that are not recorded yet
        self._recorded: deque[tuple[str, int]] = deque(maxlen=_REMEMBERED)
        self._trust = ProberTrust()
        self._aside: Mapping[str, str] = {}
        self._mending = asyncio.Lock()
        self._are_made = asyncio.Event()  # the streams
        self._tasks: asyncio.TaskGroup | None = None
        self._stopped = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether NATS is connected."""
        return self._link.is_up

    @property
    def aside(self) -> Mapping[str, str]:
        """The probers that have no work because they fail where others do not, and why."""
        return self._aside

    def stop(self) -> None:
        """End ``run``; returns at once. The next planner receives the outstanding reports."""
        self._stopped.set()

    async def run(self, take_stray: TakeStray) -> None:
        """Send batches and receive reports until ``stop``.

        Begins once the batches of an earlier planner are over, or after a lease.
        """
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(self._take_reports(take_stray), name="reports")
            beginning = tasks.create_task(self._begin(tasks), name="begin")
            telling = tasks.create_task(self._tell_aside(), name="aside")
            await self._stopped.wait()
            self._tasks = None
            beginning.cancel()
            telling.cancel()
            taking.cancel()
            for lane in self._lanes.values():
                if lane.driver is not None:
                    lane.driver.cancel()

    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._link.server.until_up()
            try:
                await self._link.ensure()
                self._are_made.set()
                await self._link.announce(self._term)
                await self._wait_for_batches(self._clock.monotonic_s() + self._link.settings.lease_s)
                break
            except ClusterError as error:
                self._warn("the streams cannot be made yet", error)
                await self._clock.sleep(self._link.settings.lease_s / 4.0)
        self._tasks = tasks
        for host, lane in self._lanes.items():
            self._drive(host, lane)

    def _warn(self, what: str, error: ClusterError) -> None:
        """Log what cannot be done, unless NATS is down, which was logged already."""
        if self._link.is_up:
            log.warning(what, error=error.message)

    async def _wait_for_batches(self, until_s: float) -> None:
        """Wait until the batches of an earlier planner are made or refused, but only until ``until_s``.

        A batch that takes longer keeps its partition: only one machine asks a host, but perhaps sooner than its
        spacing allows.
        """
        while await self._link.count_batches() and self._clock.monotonic_s() < until_s:
            await self._clock.sleep(self._link.settings.lease_s / 16.0)

    # -- requests

    @asynccontextmanager
    async def probe(self, request: ProbeRequest) -> AsyncIterator[ProbeOutcome | Unmade]:
        """Yield the outcome of a probe on any machine; its report is acknowledged when the context ends."""
        asked = _Asked(request, asyncio.get_running_loop().create_future())
        lane = self._lanes.setdefault(request.host, _HostQueue())
        lane.waiting.append(asked)
        self._drive(request.host, lane)
        yield await asked.answer
        if asked.message is not None:
            await self._acknowledge(asked.key, asked.message)

    def _drive(self, host: str, lane: _HostQueue) -> None:
        """Start a task for a host's requests, unless one runs."""
        if lane.driver is None and self._tasks is not None:
            lane.driver = self._tasks.create_task(self._see_to(host, lane), name=f"batches of {host}")

    async def _see_to(self, host: str, lane: _HostQueue) -> None:
        try:
            while lane.waiting:
                batch = [lane.waiting.popleft() for _ in range(min(_MOST_REQUESTS, len(lane.waiting)))]
                began_s = await self._make(host, batch)
                await self._clock.sleep(began_s + self._spacing_s - self._clock.time_s())
        finally:
            lane.driver = None
        del self._lanes[host]

    async def _make(self, host: str, asked: list[_Asked]) -> float:
        """Send a batch and wait for all its results; return when its last request began, at the latest."""
        if not self._link.is_up or not self._may_send():
            return self._end(asked, Unmade.NOT_BEGUN)
        sent_s = self._clock.time_s()
        batch = Batch(uuid.uuid4().hex, self._term, host, sent_s, tuple(each.request for each in asked))
        sent: Sent | None = None
        for place, each in enumerate(asked):
            each.key = (batch.batch_id, place)
            self._asked[each.key] = each
        try:
            async with asyncio.timeout(self._patience_s) as limit:
                self._limits.add(limit)
                sent = await self._send(batch)
                return await self._answered(asked, limit)
        except TimeoutError:
            if sent is not None:
                with suppress(ClusterError):
                    await self._link.withdraw(sent)
            return self._end(asked, Unmade.LOST) + self._link.settings.lease_s  # its prober may notice only then
        finally:
            self._limits.discard(limit)
            for each in asked:
                self._asked.pop(each.key, None)

    async def _answered(self, asked: list[_Asked], limit: asyncio.Timeout) -> float:
        """Wait for the report of each request; return when the last one began, at the latest."""
        began_s = self._clock.time_s()
        for each in asked:
            outcome = await asyncio.shield(each.answer)
            limit.reschedule(asyncio.get_running_loop().time() + self._patience_s)
            began_s = outcome.started_s if isinstance(outcome, ProbeOutcome) else self._clock.time_s()
        return began_s

    async def _send(self, batch: Batch) -> Sent | None:
        """Send a batch and return its place, or ``None`` if it may not have arrived; its reports are awaited anyway."""
        try:
            return await self._link.send(batch)
        except ClusterError as error:
            log.warning("a batch may not have arrived", host=batch.host, error=error.message)
            await self._mend()
            return None

    def _end(self, asked: list[_Asked], why: Unmade) -> float:
        """End the requests whose results are unknown."""
        for each in asked:
            if not each.answer.done():
                each.answer.set_result(why)
        return self._clock.time_s()

    # -- probers

    async def _tell_aside(self) -> None:
        """Tell the probers again and again which of them are to have no work; nothing if all are to have some."""
        try:
            while True:
                self._note_aside(self._trust.aside(self._clock.time_s()))
                if self._aside:
                    with suppress(ClusterError):
                        await self._link.tell_aside(self._aside)
                await self._clock.sleep(self._link.settings.lease_s / 8.0)
        finally:
            self._note_aside({})

    def _note_aside(self, aside: Mapping[str, str]) -> None:
        """Say which probers are put aside, and which have work again."""
        for prober in aside.keys() - self._aside.keys():
            said = "a prober is put aside: check its network, clock, version, secrets and settings"
            log.warning(said, prober=prober, why=aside[prober])
            self._metrics.prober_aside.labels(prober).set(1)
        for prober in self._aside.keys() - aside.keys():
            log.info("a prober may have work again", prober=prober)
            self._metrics.prober_aside.remove(prober)
        self._aside = aside

    # -- reports

    async def _take_reports(self, take_stray: TakeStray) -> None:
        await self._are_made.wait()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._link.server.until_up()
                try:
                    async with self._link.pulling_reports() as pulled:
                        while True:
                            for message in await self._link.pull(pulled, self._link.settings.pull_s, _MOST_REPORTS):
                                tasks.create_task(self._take(message, take_stray), name="report")
                except ClusterError as error:
                    self._warn("reports cannot be had", error)
                    await self._clock.sleep(self._link.settings.lease_s / 4.0)
                    await self._mend()

    async def _mend(self) -> None:
        """Recreate the streams if a server lost them: only its prober can still report a batch that was in them."""
        if self._mending.locked():  # another task is at it
            return
        try:
            async with self._mending:
                is_empty = await self._link.ensure()
        except ClusterError as error:
            log.debug("the streams cannot be made yet", error=error.message)
            return
        if is_empty:
            over_s = asyncio.get_running_loop().time() + self._link.settings.lease_s
            for limit in self._limits:
                if not limit.expired():
                    limit.reschedule(min(limit.when() or over_s, over_s))

    async def _take(self, message: Taken, take_stray: TakeStray) -> None:
        try:
            report = await self._link.read_report(message)
        except UnreadableError as error:
            log.error("a report cannot be read and is dropped", error=error.message)  # noqa: TRY400 - the message says everything
            await self._link.done(message)
            return
        except ClusterError as error:
            log.warning("a report cannot be had yet; it comes again", error=error.message)
            return
        key = (report.batch_id, report.number)
        if key in self._taking:  # delivered again because recording it takes long
            return
        if key in self._recorded:  # its acknowledgement was lost
            await self._link.done(message)
            return
        self._taking.add(key)
        asked = self._asked.get(key)
        if asked is not None and not asked.answer.done():
            asked.message = message
            asked.answer.set_result(self._found(report, asked.request.host))
            return
        if report.outcome is not None:
            await take_stray(self._placed(report, report.outcome), reading=report.reading)
        await self._acknowledge(key, message)

    async def _acknowledge(self, key: tuple[str, int], message: Taken) -> None:
        """Acknowledge a fully recorded report, and remember it for as long as it may be delivered again."""
        self._taking.discard(key)
        self._recorded.append(key)
        await self._link.done(message)

    def _found(self, report: ProbeReport, host: str) -> ProbeOutcome | Unmade:
        """Return the outcome of a report, unless its failure may be that of a prober that is not trusted."""
        outcome = report.outcome
        if outcome is None:
            return Unmade.LOST
        self._trust.take_in(report.prober, host, outcome.kind, now_s=self._clock.time_s())
        if may_be_its_own(outcome.kind) and not self._trust.is_trusted(report.prober):
            return Unmade.LOST
        return self._placed(report, outcome)

    def _placed(self, report: ProbeReport, outcome: ProbeOutcome) -> ProbeOutcome:
        return by_our_clock(outcome, sent_s=report.sent_s, arrived_s=self._clock.time_s())
