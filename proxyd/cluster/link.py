"""The connection to NATS and its streams.

It has two JetStream streams, both in memory, because only PostgreSQL is the record: lost messages are planned again.
``PROXYD_PROBES`` is a work queue with a consumer for each of 512 partitions of the hosts, and at most one
unacknowledged batch in each, so a host is never on two machines. ``PROXYD_REPORTS`` returns the outcomes, which the
planner acknowledges once they are recorded.
"""

from __future__ import annotations

import asyncio
import json
import uuid
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ObjectStoreConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError, ObjectNotFoundError
from nats.js.object_store import ObjectStore

from proxyd.cluster.batches import BATCHES, REPORTS, Batch, ProbeReport, without_picture
from proxyd.errors import ClusterError, LostLeaseError, UnreadableError

PARTITIONS = 512
_PROBES, _REPORTS, _LARGE = "PROXYD_PROBES", "PROXYD_REPORTS", "PROXYD_LARGE"
OUTBOX, TERM, ASIDE = "proxyd.outbox", "proxyd.term", "proxyd.aside"
_OBJECT = "Proxyd-Object"
_HEADERS_BYTES = 1024
_LONGEST_PULL_S = 30.0
_SHORTEST_WAIT_S = 2.0
_FORGOTTEN_S = 3600.0  # its sender is long gone
log = structlog.get_logger("cluster")
_AWAY = "no NATS server is connected; check the servers of the setting nats"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Servers, and times in seconds.

    ``lease_s`` is how long a silent prober keeps a batch, ``queue_s`` how long a batch waits for a prober.
    """

    servers: Sequence[str]
    name: str
    lease_s: float
    queue_s: float

    @property
    def pull_s(self) -> float:
        """How long a request for work stays open: after an outage of the server it is repeated within this time."""
        return min(_LONGEST_PULL_S, self.lease_s / 2.0)


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch in the queue: its number, and its bytes, because a restarted server counts from the start."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """A pulled message, and the number of the connection that it came over."""

    message: Msg
    connection: int

    @property
    def is_first(self) -> bool:
        """Whether this is its first delivery."""
        return self.message.metadata.num_delivered == 1


class NatsServer:
    """Whether a server is connected, and the trouble that it gives; ``connection`` counts its connections."""

    def __init__(self) -> None:
        self.connection = 0
        self.is_closing = False
        self.refused = asyncio.Event()
        self._found = asyncio.Event()
        self._trouble = ""
        self._troubles: set[str] = set()

    async def until_up(self) -> None:
        """Return once a server is connected."""
        await self._found.wait()

    async def fail_if_refused(self) -> None:
        """Raise ``ClusterError`` once the server rejects us; nothing else ends this."""
        await self.refused.wait()
        why = f" ({self._trouble})" if self._trouble else ""
        raise ClusterError(
            f"NATS has closed the connection for good{why}: check the credentials of the setting nats, and its limits"
        )

    def note(self, error: Exception) -> None:
        """Log a problem of the connection, once until a server is connected again."""
        self._trouble = repr(error)
        if self._trouble not in self._troubles:
            log.warning("NATS cannot be used", error=self._trouble)
        self._troubles.add(self._trouble)

    def note_found(self) -> None:
        """Note that a server is connected, perhaps again: earlier numbers are invalid."""
        self.connection += 1
        self._trouble = ""
        self._troubles.clear()
        self._found.set()

    def note_lost(self) -> None:
        """Note that no server is connected."""
        self._found.clear()
        if not self.is_closing:
            log.warning("NATS is away")


class NatsConnection:
    """The NATS operations of planner and probers; errors are ``ClusterError``."""

    def __init__(self, client: Client, settings: ClusterSettings) -> None:
        self.server = NatsServer()
        self.settings = settings
        self._client = client
        self._streams = client.jetstream(timeout=max(_SHORTEST_WAIT_S, settings.lease_s / 2.0))
        self._leases = client.jetstream(timeout=settings.lease_s / 4.0)  # leaves time to ask again
        self._made: datetime | None = None

    @property
    def is_up(self) -> bool:
        """Whether a server is connected."""
        return self._client.is_connected

    async def ensure(self) -> bool:
        """Create missing streams and consumers: a restarted server has none.

        Returns whether the queue is a new one, which means that its batches are lost.
        """
        streams = (
            StreamConfig(_PROBES, subjects=["proxyd.probe.*"], max_age=_FORGOTTEN_S),
            StreamConfig(_REPORTS, subjects=["proxyd.report"], max_age=_FORGOTTEN_S),
        )
        for each in streams:
            each.retention, each.storage = RetentionPolicy.WORK_QUEUE, StorageType.MEMORY
            await self._checked(self._streams.add_stream(each))
        one = [self._add_consumer(_PROBES, f"p{n}", _subject(n), pending=1) for n in range(PARTITIONS)]
        await asyncio.gather(*one, self._add_consumer(_REPORTS, "planner", "proxyd.report", pending=1000))
        before, self._made = self._made, (await self._checked(self._streams.stream_info(_PROBES))).created
        return before != self._made

    async def _add_consumer(self, stream: str, name: str, subject: str, *, pending: int) -> None:
        config = ConsumerConfig(
            durable_name=name,
            filter_subject=subject,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self.settings.lease_s,
            max_ack_pending=pending,
        )
        await self._checked(self._streams.add_consumer(stream, config))

    # -- batches

    async def send(self, batch: Batch) -> Sent:
        """Put a batch into the queue of its host's partition."""
        subject, data = _subject(partition(batch.host)), BATCHES.write(batch)
        return Sent((await self._checked(self._streams.publish(subject, data, stream=_PROBES))).seq, data)

    async def withdraw(self, sent: Sent) -> None:
        """Remove a batch from the queue; a prober that has begun it notices within a lease."""
        found = await self._checked(self._streams.get_msg(_PROBES, sent.number))
        if found.data == sent.data:
            await self._checked(self._streams.delete_msg(_PROBES, sent.number))

    async def count_batches(self) -> int:
        """Return how many batches wait or run."""
        return (await self._checked(self._streams.stream_info(_PROBES))).state.messages

    def pulling_batches(self, number: int) -> AbstractAsyncContextManager[JetStreamContext.PullSubscription]:
        """Yield the subscription that pulls the batches of a partition."""
        return self._pulling(f"p{number}", _PROBES)

    async def extend(self, taken: Taken) -> None:
        """Hold a batch for another ``lease_s``; raises ``ClusterError`` if the server does not answer.

        Raises
        ------
        LostLeaseError
            The batch is no longer in the queue. The server confirms every extension, even of a prober that it took
            for dead, so this looks at the queue itself.
        """
        message, wait_s = taken.message, self.settings.lease_s / 4.0
        await self._checked(self._client.request(message.reply, b"+WPI", timeout=wait_s))
        number = message.metadata.sequence.stream
        try:
            found = await self._checked(self._leases.get_msg(_PROBES, number))
        except ClusterError as error:
            if isinstance(error.__cause__, NotFoundError):
                raise LostLeaseError from error
            raise
        if found.data != message.data:
            raise LostLeaseError

    # -- reports

    async def report(self, report: ProbeReport) -> None:
        """Send a report: without its picture if it is too large for a message, or else stored as an object."""
        data, headers = REPORTS.write(report), {"Nats-Msg-Id": f"{report.batch_id} {report.number}"}
        most = self._client.max_payload - _HEADERS_BYTES
        if len(data) > most and (smaller := without_picture(report)) is not report:
            data = REPORTS.write(smaller)
        if len(data) > most:
            name = uuid.uuid4().hex
            await self._checked((await self._large()).put(name, data))
            data, headers = b"", headers | {_OBJECT: name}
        await self._checked(self._streams.publish("proxyd.report", data, stream=_REPORTS, headers=headers))

    def pulling_reports(self) -> AbstractAsyncContextManager[JetStreamContext.PullSubscription]:
        """Yield the subscription that pulls reports."""
        return self._pulling("planner", _REPORTS)

    async def read_report(self, taken: Taken) -> ProbeReport:
        """Return the report in a message; raises ``UnreadableError`` if it has none."""
        name = (taken.message.headers or {}).get(_OBJECT)
        if name is None:
            return REPORTS.read(taken.message.data)
        try:
            found = await self._checked((await self._large()).get(name))
        except ClusterError as error:
            if isinstance(error.__cause__, (NotFoundError, ObjectNotFoundError)):
                raise UnreadableError("the stored part of a large message has expired") from error
            raise
        return REPORTS.read(found.data or b"")

    async def done(self, taken: Taken) -> None:
        """Acknowledge a message, which removes it; if that fails it is delivered again.

        A restarted server counts from the start, so an earlier message's number would name another one.
        """
        if taken.connection != self.server.connection:
            return
        with suppress(ClusterError):
            await self._checked(taken.message.ack())
            name = (taken.message.headers or {}).get(_OBJECT)
            if name is not None:
                await self._checked((await self._large()).delete(name))

    async def _large(self) -> ObjectStore:
        try:
            return await self._checked(self._streams.object_store(_LARGE))
        except ClusterError:
            config = ObjectStoreConfig(_LARGE, ttl=_FORGOTTEN_S, storage=StorageType.MEMORY)
            return await self._checked(self._streams.create_object_store(_LARGE, config))

    # -- both

    @asynccontextmanager
    async def _pulling(self, consumer: str, stream: str) -> AsyncIterator[JetStreamContext.PullSubscription]:
        """Cancel unanswered pulls at the end: otherwise a message could go to nobody, for a lease."""
        subscription = await self._checked(self._streams.pull_subscribe_bind(consumer, stream))
        try:
            yield subscription
        finally:
            await _forget(subscription)

    async def pull(self, subscription: JetStreamContext.PullSubscription, wait_s: float, most: int = 1) -> list[Taken]:
        """Return the next messages, or none if none arrives within ``wait_s``."""
        if not self.is_up:
            raise ClusterError(_AWAY)
        connection = self.server.connection
        try:
            found = await subscription.fetch(most, timeout=wait_s)
        except TimeoutError:
            found = []
        except (NatsError, APIError) as error:
            raise ClusterError(f"NATS failed: {error!r}") from error
        _end_if_cancelled()
        return [Taken(message, connection) for message in found]

    async def _checked(self, asked: Coroutine[Any, Any, T]) -> T:
        """Return the answer or raise ``ClusterError``: at once while no server is connected."""
        if not self.is_up:
            asked.close()
            raise ClusterError(_AWAY)
        try:
            found = await asked
        except (NatsError, APIError, TimeoutError, OSError) as error:
            raise ClusterError(f"NATS failed: {error!r}") from error
        _end_if_cancelled()
        return found

    # -- hints

    async def ring(self) -> None:
        """Tell the notifier that the outbox has new deliveries; nothing is lost if it does not hear this."""
        if self.is_up:
            await self._checked(self._client.publish(OUTBOX))

    @asynccontextmanager
    async def heeding(self, subject: str, heard: Callable[[bytes], None]) -> AsyncIterator[None]:
        """Call ``heard`` with each message while the context is open."""

        async def take(message: Msg) -> None:
            heard(message.data)

        subscription = await self._checked(self._client.subscribe(subject, cb=take))
        try:
            yield
        finally:
            await _forget(subscription)

    async def announce(self, term: int) -> None:
        """Tell the probers that a new planner leads."""
        await self._checked(self._client.publish(TERM, str(term).encode()))

    async def tell_aside(self, probers: Iterable[str]) -> None:
        """Tell which probers are to take no work; each believes it for half a lease."""
        await self._checked(self._client.publish(ASIDE, json.dumps(list(probers)).encode()))


def partition(host: str) -> int:
    """Return the partition of a host, which is the same on every machine, forever.

    >>> partition("example.org")
    223
    """
    return zlib.crc32(host.encode()) % PARTITIONS


def _subject(number: int) -> str:
    return f"proxyd.probe.{number}"


async def _forget(subscription: Subscription | JetStreamContext.PullSubscription) -> None:
    """End a subscription, even without a server: the client would renew it with the next one."""
    with suppress(NatsError):
        await subscription.unsubscribe()
    _end_if_cancelled()


def _end_if_cancelled() -> None:
    """Let a cancelled task end: in Python 3.11, ``wait_for`` hides a cancellation when an answer arrives with it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@asynccontextmanager
async def open_link(settings: ClusterSettings) -> AsyncIterator[NatsConnection]:
    """Yield a link at once, and keep it connected until the context ends, retrying forever."""
    client = Client()
    link = NatsConnection(client, settings)
    connecting = asyncio.create_task(_connect(client, link), name="connect to NATS")
    try:
        yield link
    finally:
        link.server.is_closing = True
        connecting.cancel()
        if not link.server.refused.is_set():
            await client.close()


async def _connect(client: Client, link: NatsConnection) -> None:
    settings = link.settings

    async def lost() -> None:
        link.server.note_lost()

    async def found() -> None:
        link.server.note_found()
        log.info("NATS is back")

    async def failed(error: Exception) -> None:
        if link.is_up:
            log.warning("NATS", error=repr(error))
        else:
            link.server.note(error)

    async def refused() -> None:
        link.server.refused.set()

    try:
        await client.connect(
            list(settings.servers),
            name=settings.name,
            max_reconnect_attempts=-1,
            reconnect_time_wait=min(1.0, settings.lease_s / 8.0),  # type: ignore[arg-type]
            ping_interval=max(1, round(settings.lease_s / 4.0)),
            max_outstanding_pings=2,
            disconnected_cb=lost,
            reconnected_cb=found,
            closed_cb=refused,
            error_cb=failed,
        )
        link.server.note_found()
    except (NatsError, OSError, ValueError) as error:
        link.server.note(error)
        link.server.refused.set()
