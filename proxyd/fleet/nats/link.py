"""The connection to NATS: its streams, and what goes through them.

Two streams of JetStream, both in memory, for PostgreSQL alone is the record: what is lost on its way is planned again.
``PROXYD_PROBES`` is a work queue with a consumer for each of 512 partitions of the hosts, and one unacknowledged batch
at a time: so a host is never on two machines. ``PROXYD_REPORTS`` brings the outcomes back, which the planner
acknowledges once they are recorded.
"""

from __future__ import annotations

import asyncio
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import nats
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    ObjectStoreConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, NotFoundError
from nats.js.object_store import ObjectStore

from proxyd.errors import FleetError
from proxyd.fleet.nats.wire import BATCHES, REPORTS, Batch, Report

PARTITIONS = 512
_PROBES, _REPORTS, _LARGE = "PROXYD_PROBES", "PROXYD_REPORTS", "PROXYD_LARGE"
_OUTBOX = "proxyd.outbox"
_OBJECT = "Proxyd-Object"
_HEADERS_BYTES = 1024
_LONGEST_PULL_S = 30.0
_SHORTEST_WAIT_S = 2.0
_REPORTS_S = 3600.0
log = structlog.get_logger("fleet")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Servers, and times in seconds.

    ``lease_s`` is how long a prober holds a batch without being heard of, ``queue_s`` how long a batch waits for one.
    """

    servers: Sequence[str]
    name: str
    lease_s: float
    queue_s: float

    @property
    def pull_s(self) -> float:
        """How long a request for work is open: after a server was away it is made anew within this time."""
        return min(_LONGEST_PULL_S, self.lease_s / 2.0)


class Link:
    """What planner and probers ask of NATS; its errors are ``FleetError``."""

    def __init__(self, client: Client, settings: FleetSettings) -> None:
        self._client = client
        self._streams = client.jetstream(timeout=max(_SHORTEST_WAIT_S, settings.lease_s / 2.0))
        self._made: datetime | None = None
        self.settings = settings

    @property
    def is_up(self) -> bool:
        """Whether a server is connected."""
        return self._client.is_connected

    async def ensure(self) -> bool:
        """Make the streams and consumers that are not there, for a server that was restarted has none.

        Returns whether the queue is another one than before: whatever was in it is gone.
        """
        settings = self.settings
        streams = (
            StreamConfig(_PROBES, subjects=["proxyd.probe.*"], max_age=settings.queue_s),
            StreamConfig(_REPORTS, subjects=["proxyd.report"], max_age=_REPORTS_S),
        )
        for each in streams:
            each.retention, each.storage = RetentionPolicy.WORK_QUEUE, StorageType.MEMORY
            await _checked(self._streams.add_stream(each))
        one = [self._add_consumer(_PROBES, f"p{n}", _subject(n), pending=1) for n in range(PARTITIONS)]
        await asyncio.gather(*one, self._add_consumer(_REPORTS, "planner", "proxyd.report", pending=1000))
        before, self._made = self._made, (await _checked(self._streams.stream_info(_PROBES))).created
        return before != self._made

    async def _add_consumer(self, stream: str, name: str, subject: str, *, pending: int) -> None:
        config = ConsumerConfig(
            durable_name=name,
            filter_subject=subject,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self.settings.lease_s,
            max_ack_pending=pending,
        )
        await _checked(self._streams.add_consumer(stream, config))

    # -- batches

    async def send(self, batch: Batch) -> None:
        """Put a batch in the queue of its host's partition."""
        await _checked(self._streams.publish(_subject(partition(batch.host)), BATCHES.write(batch), stream=_PROBES))

    async def drop_batches(self) -> None:
        """Take away the batches that no prober has begun."""
        await _checked(self._streams.purge_stream(_PROBES))

    async def pull_batches(self, number: int) -> JetStreamContext.PullSubscription:
        """Return what the batches of a partition are pulled with."""
        return await _checked(self._streams.pull_subscribe_bind(f"p{number}", _PROBES))

    async def extend(self, message: Msg) -> None:
        """Hold a batch for another ``lease_s``; returns once the server agreed."""
        await _checked(self._client.request(message.reply, b"+WPI", timeout=self.settings.lease_s / 4.0))

    # -- reports

    async def report(self, report: Report) -> None:
        """Send a report; one that is too large for a message goes as an object beside it."""
        data, headers = REPORTS.write(report), {"Nats-Msg-Id": f"{report.batch_id} {report.number}"}
        if len(data) > self._client.max_payload - _HEADERS_BYTES:
            name = uuid.uuid4().hex
            await _checked((await self._large()).put(name, data))
            data, headers = b"", headers | {_OBJECT: name}
        await _checked(self._streams.publish("proxyd.report", data, stream=_REPORTS, headers=headers))

    async def pull_reports(self) -> JetStreamContext.PullSubscription:
        """Return what reports are pulled with."""
        return await _checked(self._streams.pull_subscribe_bind("planner", _REPORTS))

    async def read_report(self, message: Msg) -> Report:
        """Return the report of a message; raises ``FleetError`` where it cannot be read."""
        name = (message.headers or {}).get(_OBJECT)
        if name is None:
            return REPORTS.read(message.data)
        found = await _checked((await self._large()).get(name))
        return REPORTS.read(found.data or b"")

    async def done(self, message: Msg) -> None:
        """Acknowledge a message: it is taken away. If that fails it comes again."""
        with suppress(FleetError):
            await _checked(message.ack())
            name = (message.headers or {}).get(_OBJECT)
            if name is not None:
                await _checked((await self._large()).delete(name))

    async def _large(self) -> ObjectStore:
        try:
            return await _checked(self._streams.object_store(_LARGE))
        except FleetError:
            config = ObjectStoreConfig(_LARGE, ttl=_REPORTS_S, storage=StorageType.MEMORY)
            return await _checked(self._streams.create_object_store(_LARGE, config))

    # -- both

    async def pull(self, subscription: JetStreamContext.PullSubscription, wait_s: float, most: int = 1) -> list[Msg]:
        """Return the next messages, none where none came within ``wait_s``."""
        try:
            found = await subscription.fetch(most, timeout=wait_s)
        except TimeoutError:
            found = []
        except (NatsError, APIError) as error:
            raise FleetError(f"NATS failed: {error!r}") from error
        _end_if_cancelled()
        return found

    # -- hints

    async def ring(self) -> None:
        """Tell the notifier that there is something in the outbox; nothing is lost where it does not hear that."""
        if self.is_up:
            await _checked(self._client.publish(_OUTBOX))

    async def heed(self, wake: asyncio.Event) -> None:
        """Set ``wake`` whenever somebody rings."""

        async def heard(message: Msg) -> None:
            wake.set()

        await _checked(self._client.subscribe(_OUTBOX, cb=heard))


def partition(host: str) -> int:
    """Return the partition of a host: the same on every machine, for ever.

    >>> partition("example.org")
    223
    """
    return zlib.crc32(host.encode()) % PARTITIONS


def _subject(number: int) -> str:
    return f"proxyd.probe.{number}"


async def _checked(asked: Awaitable[T]) -> T:
    try:
        found = await asked
    except (NatsError, APIError, NotFoundError, TimeoutError, OSError) as error:
        raise FleetError(f"NATS failed: {error!r}") from error
    _end_if_cancelled()
    return found


def _end_if_cancelled() -> None:
    """Let a cancelled task end: where an answer comes at the same moment, ``wait_for`` of Python 3.11 hides that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@asynccontextmanager
async def open_link(settings: FleetSettings) -> AsyncIterator[Link]:
    """Connect, however long that takes, and stay connected until the context ends."""
    closing = asyncio.Event()

    async def lost() -> None:
        if not closing.is_set():
            log.warning("NATS is away")

    async def found() -> None:
        log.info("NATS is back")

    async def failed(error: Exception) -> None:
        log.debug("NATS", error=repr(error))

    client = await nats.connect(
        list(settings.servers),
        name=settings.name,
        max_reconnect_attempts=-1,
        reconnect_time_wait=min(1.0, settings.lease_s / 8.0),
        ping_interval=max(1, round(settings.lease_s / 4.0)),
        max_outstanding_pings=2,
        disconnected_cb=lost,
        reconnected_cb=found,
        error_cb=failed,
    )
    try:
        yield Link(client, settings)
    finally:
        closing.set()
        await client.close()
