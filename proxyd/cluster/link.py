"""The connection to NATS: large messages in parts, and the state of the server.

Nothing is stored there, because only PostgreSQL is the record: a lost message is sent again, or its probe planned
again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from proxyd.base.clock import Signal
from proxyd.cluster.messages import OUTBOX
from proxyd.core.errors import ClusterError

_PART, _STATUS, _NOBODY = "Proxyd-Part", "Status", "503"
_HEADERS_BYTES = 1024
_MOST_PARTS = 256  # of a message
_MOST_UNFINISHED, _MOST_BYTES = 64, 2**29  # messages of which some parts have come, and their bytes
_PING_S = 2
_CLOSE_S = 5.0
_AGAIN_S = 0.5  # until a lost connection is tried again
log = structlog.get_logger("cluster")
_AWAY = "no NATS server is connected; check the servers of the setting nats"
Handler = Callable[["Received"], object]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The servers, and the name under which they list this connection."""

    servers: Sequence[str]
    name: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message; one that ``is_unheard`` is the server's: nobody received what was sent with this subject as reply."""

    subject: str
    data: bytes
    is_unheard: bool = False

    @property
    def last_word(self) -> str:
        """What follows the last point of the subject."""
        return self.subject.rpartition(".")[2]


@dataclass(slots=True)
class PartJoiner:
    """Joins messages that came in parts; the oldest unfinished ones are dropped, because their senders send them again.

    Examples
    --------
    >>> parts = PartJoiner()
    >>> parts.join("m 1 2", b"-b"), parts.join("m 0 2", b"a"), parts.join("no header", b"")
    (None, b'a-b', None)
    """

    _unfinished: OrderedDict[str, dict[int, bytes]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def join(self, header: str, data: bytes) -> bytes | None:
        """Return the whole message once all its parts are here."""
        message_id, _, numbers = header.partition(" ")
        number, _, count = numbers.partition(" ")
        if not (number.isdecimal() and count.isdecimal() and int(number) < int(count) <= _MOST_PARTS):
            return None
        found = self._unfinished.setdefault(message_id, {})
        self._bytes += len(data) - len(found.get(int(number), b""))
        found[int(number)] = data
        if len(found) < int(count):
            while len(self._unfinished) > _MOST_UNFINISHED or self._bytes > _MOST_BYTES:
                self._forget(next(iter(self._unfinished)))
            return None
        self._forget(message_id)
        return b"".join(found[each] for each in sorted(found))

    def _forget(self, message_id: str) -> None:
        self._bytes -= sum(map(len, self._unfinished.pop(message_id).values()))


class ServerState:
    """Whether a server is connected, and the trouble that it gives; ``connection`` counts its connections."""

    def __init__(self) -> None:
        self.connection = 0
        self.is_closing = False
        self.refused = asyncio.Event()
        self._found = asyncio.Event()
        self._changes = Signal()
        self._trouble = ""
        self._troubles: set[str] = set()

    async def until_up(self) -> None:
        """Return once a server is connected."""
        await self._found.wait()

    async def another_connection(self, than: int) -> int:
        """Return the number of the present connection, once it is another."""
        while self.connection == than or not self._found.is_set():
            await self._changes.next.wait()
        return self.connection

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
        """Note that a server is connected, perhaps again."""
        self.connection += 1
        self._trouble = ""
        self._troubles.clear()
        self._found.set()
        self._changes.notify()

    def note_lost(self) -> None:
        """Note that no server is connected."""
        self._found.clear()
        if not self.is_closing:
            log.warning("NATS is away")


class NatsConnection:
    """The NATS operations of planner and probers; errors are ``ClusterError``."""

    def __init__(self, client: Client, settings: ClusterSettings) -> None:
        self.server = ServerState()
        self.settings = settings
        self._client = client

    @property
    def is_up(self) -> bool:
        """Whether a server is connected."""
        return self._client.is_connected

    async def send(self, subject: str, data: bytes = b"", *, reply: str = "") -> None:
        """Send a message, in parts if it is too large for one; nobody may receive it.

        With a ``reply``, a server that knows nobody who receives the message says so at that subject. Raises
        ``ClusterError``: nothing was sent.
        """
        if not self.is_up:
            raise ClusterError(_AWAY)
        most = self._client.max_payload - _HEADERS_BYTES
        count = -(-len(data) // most)
        if count > _MOST_PARTS:
            raise ClusterError(f"a message of {len(data)} bytes is too large for NATS; raise its max_payload")
        message_id = uuid.uuid4().hex
        try:
            if count <= 1:
                await self._client.publish(subject, data, reply=reply)
            for number in range(count if count > 1 else 0):
                part = data[number * most : (number + 1) * most]
                headers = {_PART: f"{message_id} {number} {count}"}
                await self._client.publish(subject, part, reply=reply, headers=headers)
        except (NatsError, OSError) as error:
            raise ClusterError(f"NATS failed: {error!r}") from error
        _end_if_cancelled()

    @asynccontextmanager
    async def heeding(self, subject: str, heard: Handler) -> AsyncIterator[None]:
        """Call ``heard`` with each message while the context is open."""
        parts = PartJoiner()

        async def take(message: Msg) -> None:
            headers = message.headers or {}
            data: bytes | None = message.data
            if _PART in headers:
                data = parts.join(headers[_PART], message.data)
            if data is not None:
                heard(Received(message.subject, data, headers.get(_STATUS) == _NOBODY))

        try:
            subscription = await self._client.subscribe(subject, cb=take)
        except (NatsError, OSError) as error:
            raise ClusterError(f"NATS failed: {error!r}") from error
        try:
            yield
        finally:
            await _forget(subscription)

    async def listen(self, handlers: Mapping[str, Handler], greet: Callable[[], Awaitable[None]]) -> None:
        """Call the handlers with the messages of their subjects, until cancelled; ``greet`` at each new connection."""
        while True:
            await self.server.until_up()
            try:
                async with AsyncExitStack() as stack:
                    for subject, heard in handlers.items():
                        await stack.enter_async_context(self.heeding(subject, heard))
                    connection = 0
                    while True:
                        connection = await self.server.another_connection(connection)
                        await greet()
            except ClusterError as error:
                log.debug("nothing is heard yet", error=error.message)
                await asyncio.sleep(_AGAIN_S)

    async def ring(self) -> None:
        """Tell the notifier that the outbox has new deliveries; nothing is lost if it does not hear this."""
        if self.is_up:
            await self.send(OUTBOX)


async def _forget(subscription: Subscription) -> None:
    """End a subscription, even without a server: the client would renew it with the next one."""
    with suppress(NatsError):
        await subscription.unsubscribe()
    _end_if_cancelled()


def _end_if_cancelled() -> None:
    """Let a cancelled task end: in Python 3.11, ``wait_for`` hides a cancellation when an answer arrives with it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class _Client(Client):
    """The client; it loses a message that it cannot read, and leaves a server that is frozen."""

    async def _attempt_reconnect(self) -> None:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()  # it would wait until the server has taken what is written
        await super()._attempt_reconnect()

    async def _process_msg(self, *message: Any) -> None:
        try:
            await super()._process_msg(*message)
        except (ValueError, IndexError) as error:
            log.warning("a message of NATS cannot be read and is dropped", error=repr(error))


@asynccontextmanager
async def open_link(settings: ClusterSettings) -> AsyncIterator[NatsConnection]:
    """Yield a link at once, and keep it connected until the context ends, retrying forever."""
    client = _Client()
    link = NatsConnection(client, settings)
    connecting = asyncio.create_task(_connect(client, link), name="connect to NATS")
    try:
        yield link
    finally:
        link.server.is_closing = True
        connecting.cancel()
        if not link.server.refused.is_set():
            with suppress(TimeoutError):  # a frozen server may never take what is written
                async with asyncio.timeout(_CLOSE_S):
                    await client.close()


async def _connect(client: Client, link: NatsConnection) -> None:
    settings = link.settings

    async def lost() -> None:
        link.server.note_lost()

    async def found() -> None:
        link.server.note_found()
        log.info("NATS is back")

    async def note_failure(error: Exception) -> None:
        if link.is_up:
            log.warning("NATS", error=repr(error))
        else:
            link.server.note(error)

    async def note_refusal() -> None:
        link.server.refused.set()

    try:
        await client.connect(
            list(settings.servers),
            name=settings.name,
            max_reconnect_attempts=-1,
            reconnect_time_wait=_AGAIN_S,  # type: ignore[arg-type]
            ping_interval=_PING_S,
            max_outstanding_pings=2,
            disconnected_cb=lost,
            reconnected_cb=found,
            closed_cb=note_refusal,
            error_cb=note_failure,
        )
        link.server.note_found()
    except (NatsError, OSError, ValueError) as error:
        link.server.note(error)
        link.server.refused.set()
