"""PostgreSQL: one session that writes and holds its role's lock, and pools of sessions that read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import structlog
from sqlalchemy import URL, Connection, NullPool, func, make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from proxyd.core.errors import StoreBusyError, StoreError, StoreUnreachableError
from proxyd.store.databases.connections import LOCKS, StoreConnections, on_own_loop, store_errors
from proxyd.store.databases.schema import copy_to_file
from proxyd.store.databases.tables import metadata

LOCK_OF = {"planner": 2, "notifier": 3}
_READERS, _PEOPLE = 4, 2
_NAMED, _FOR_PEOPLE = "proxyd ", " people"  # around a name, in the sessions that the server lists
_CONNECT_S = 5.0
_SAY_S = 1.0  # after which a wait for a session of a pool is said
_PATIENCE_S = 3600.0  # for a session of a pool; at 30 s a planner under load took that for a failure, and ended
_KEEPALIVE = {"idle": 30, "interval": 10, "count": 3}  # a peer that vanished is noticed within a minute
_UNHEARD_MS = 60_000  # the same for sent data: no keepalive goes out while data is unacknowledged
_AWAY = ("08", "40", "53", "57P", "25P03")  # SQLSTATEs of a server that is unreachable, full, or ended the session
_END_SESSIONS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = ANY(:names) AND state <> 'idle'"
    " AND datname = current_database() AND usename = current_user"
)

_T = TypeVar("_T")
log = structlog.get_logger("store")


class _WatchedConnection(asyncpg.Connection):  # type: ignore[misc]  # it has no types
    """A connection that fails once the server's machine is gone, however long an answer may take."""

    __slots__ = ()

    def __init__(self, protocol: object, transport: asyncio.Transport, *others: object) -> None:
        super().__init__(protocol, transport, *others)
        opened = transport.get_extra_info("socket")
        if opened.family != socket.AF_UNIX:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE["idle"])
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE["interval"])
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE["count"])
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD_MS)


def _connect_args(name: str, **settings: str) -> dict[str, object]:
    """Return the arguments for opening a session: with a time limit, and with keepalives on both sides."""
    kept = {f"tcp_keepalives_{key}": str(value) for key, value in _KEEPALIVE.items()}
    return {
        "timeout": _CONNECT_S,
        "connection_class": _WatchedConnection,
        "server_settings": {"application_name": _NAMED + name} | kept | settings,
    }


class SessionConnection:
    """A single session, never replaced by another: its locks are ours as long as its commits succeed.

    ``check``, if given, is called first in every transaction, and refuses it by raising an error.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self.check: Callable[[Connection], None] | None = None
        self._connection = connection
        self._turn = asyncio.Lock()
        self._ended: asyncio.Event | None = None

    async def call(self, function: Callable[[Connection], _T]) -> _T:
        """Return ``function(connection)``, run in a transaction after all earlier calls.

        Raises ``StoreUnreachableError`` once the session is over, and on every later call.
        """
        async with self._turn:
            if self._connection.invalidated or self._connection.closed:
                raise StoreUnreachableError("the session with the database has ended")
            with _errors():
                async with self._connection.begin():
                    if self.check is not None:
                        await self._connection.run_sync(self.check)
                    return await self._connection.run_sync(function)

    async def close(self) -> None:
        """End the session after its current call; do not wait for a server that does not answer."""
        with suppress(TimeoutError, StoreError):
            async with asyncio.timeout(_CONNECT_S), self._turn:
                with _errors():
                    await self._connection.close()

    async def wait(self, seconds: float) -> None:
        """Wait so long, but not for longer than the session lasts."""
        if self._ended is None:
            self._ended = ended = asyncio.Event()
            driver: Any = (await self._connection.get_raw_connection()).driver_connection
            driver.add_termination_listener(lambda _: ended.set())
            if driver.is_closed():
                ended.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def take_lock(self, number: int, *, of: int = LOCKS, is_shared: bool = False) -> bool:
        """Try to hold a lock of a class of locks; return whether this session has it now."""
        try_lock = func.pg_try_advisory_lock_shared if is_shared else func.pg_try_advisory_lock
        return await self.call(lambda c: bool(c.scalar(select(try_lock(of, number)))))

    async def give_lock(self, number: int, *, of: int = LOCKS) -> None:
        """Hold a lock no more."""
        await self.call(lambda c: c.execute(select(func.pg_advisory_unlock(of, number))))


def session_of(connections: StoreConnections) -> SessionConnection:
    """Return the writing session."""
    assert isinstance(connections.writer, SessionConnection)
    return connections.writer


async def wait_for_answer(asked: Coroutine[Any, Any, _T], limit_s: float) -> _T:
    """Return the server's answer; raise ``StoreUnreachableError`` if it takes longer than ``limit_s``."""
    # The request is then abandoned, not awaited: ending a session that hangs takes seconds
    asking = asyncio.create_task(asked, name="answer of the database")  # a task group would wait for its end
    try:
        await asyncio.wait([asking], timeout=limit_s)
        if asking.done():
            return asking.result()
        raise StoreUnreachableError(f"the database did not answer within {limit_s:g} s")
    finally:
        asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody else reads the result
        asking.cancel()


class _PooledConnections:
    """Sessions from a pool that open and close as needed; who waits for one for long says so, and is counted."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._waiting: dict[object, float] = {}  # since when, by the loop's clock, the longest first
        self._says = False

    @property
    def waits_s(self) -> float:
        """For how long somebody has waited for a session, in seconds; 0 if nobody does."""
        since_s = next(iter(self._waiting.values()), None)
        return 0.0 if since_s is None else asyncio.get_running_loop().time() - since_s

    async def call(self, function: Callable[[Connection], _T]) -> _T:
        """Return ``function(connection)``, run in a transaction."""
        async with AsyncExitStack() as stack:
            stack.enter_context(_errors())
            with self._wait():
                connection = await stack.enter_async_context(self._engine.connect())
            async with connection.begin():
                return await connection.run_sync(function)

    @contextmanager
    def _wait(self) -> Iterator[None]:
        waiting, loop = object(), asyncio.get_running_loop()
        self._waiting[waiting] = loop.time()
        saying = loop.call_later(_SAY_S, self._say)
        try:
            yield
        finally:
            saying.cancel()
            after_s = loop.time() - self._waiting.pop(waiting)
            if self._says and not self.waits_s > _SAY_S:
                log.info("sessions of the database are free again", after_s=round(after_s, 1))
                self._says = False

    def _say(self) -> None:
        if not self._says:
            log.warning("all sessions of the database are in use: others wait", waiting=len(self._waiting))
        self._says = True


class PostgresUpkeep:
    """Maintenance of PostgreSQL, whose log needs none; a copy is a SQLite database, so every proxyd can restore it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def checkpoint(self) -> None:
        """Do nothing: the server checkpoints by itself."""

    async def vacuum(self, *, whole: bool = False) -> None:
        """Vacuum and analyse every table while other work continues; if ``whole`` is set, it waits."""
        how = "FULL, ANALYZE" if whole else "ANALYZE, SKIP_LOCKED"
        with _errors():
            async with self._engine.connect() as connection:
                bare = await connection.execution_options(isolation_level="AUTOCOMMIT")
                await bare.execute(text(f"VACUUM ({how}) {', '.join(metadata.tables)}"))

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to ``target``, which must not exist; other work continues."""
        # The copy runs on a loop of its own, because its SQLite side would block this one
        await on_own_loop(_copy(self._engine.url, target))


async def _copy(url: URL, target: Path) -> None:
    arguments = _connect_args("backup")
    engine = create_async_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    with _errors():
        async with engine.connect() as connection:
            still = await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            await still.run_sync(lambda source: copy_to_file(source, target))


@asynccontextmanager
async def postgresql_connections(
    url: str, *, name: str, lease_s: float, statement_s: float = 0.0
) -> AsyncIterator[StoreConnections]:
    """Yield the writing session and those that read; close them at the end.

    The server lists them with ``name``, by which ``end_sessions`` finds those that write. It ends the writing session
    if a transaction does nothing for ``lease_s``, unless that is 0, and breaks off its statements after
    ``statement_s``.
    """
    parsed = postgresql_url(url)
    async with AsyncExitStack() as stack:

        def open_session(called: str, size: int, **settings: str) -> AsyncEngine:
            engine = create_async_engine(
                parsed,
                pool_size=size,
                max_overflow=0,
                pool_timeout=_PATIENCE_S,
                pool_pre_ping=True,
                hide_parameters=True,
                connect_args=_connect_args(called, **settings),
            )
            stack.push_async_callback(_dispose, engine)
            return engine

        kept = {"idle_session_timeout": "0", "idle_in_transaction_session_timeout": _milliseconds(lease_s)}
        kept["statement_timeout"] = _milliseconds(statement_s)
        writing = open_session(name, 1, **kept)
        with _errors():
            session = SessionConnection(await writing.connect())
        stack.push_async_callback(session.close)
        people = open_session(name + _FOR_PEOPLE, _PEOPLE, idle_in_transaction_session_timeout=_milliseconds(lease_s))
        pools = _PooledConnections(open_session(f"{name} readers", _READERS)), _PooledConnections(people)
        yield StoreConnections(session, *pools, PostgresUpkeep(people), lambda: max(each.waits_s for each in pools))


@asynccontextmanager
async def session_with_lease(url: str, role: str, lease_s: float) -> AsyncIterator[SessionConnection]:
    """Yield a session for the lock of a role; the server ends it, and frees the lock, after a lease of silence."""
    lease_ms = _milliseconds(lease_s)
    arguments = _connect_args(
        f"{role} lease", idle_session_timeout=lease_ms, idle_in_transaction_session_timeout=lease_ms
    )
    engine = create_async_engine(postgresql_url(url), poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    with _errors():
        session = SessionConnection(await engine.connect())
    try:
        yield session
    finally:
        await session.close()


def end_sessions(connection: Connection, names: Collection[str]) -> None:
    """End the writing sessions of these names that are in a transaction, if our own database user opened them."""
    # One whose process was frozen in the middle of a statement would otherwise keep its locks for ever
    listed = [_NAMED + name + use for name in names for use in ("", _FOR_PEOPLE)]
    connection.execute(_END_SESSIONS, {"names": listed})


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))


async def _dispose(engine: AsyncEngine) -> None:
    """Close an engine; do not wait for a server that does not answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CONNECT_S):
            await engine.dispose()


def postgresql_url(url: str) -> URL:
    """Return the database's URL with the driver that proxyd uses.

    >>> postgresql_url("postgresql://me:x@db.example/proxyd").drivername
    'postgresql+asyncpg'
    """
    return make_url(url).set(drivername="postgresql+asyncpg")


@contextmanager
def _errors() -> Iterator[None]:
    """Distinguish a server that is unreachable from one that rejects a request."""
    try:
        with store_errors():
            yield
    except StoreError as error:
        if isinstance(error, StoreBusyError | StoreUnreachableError) or not _is_away(error.__cause__):
            raise
        raise StoreUnreachableError(str(error)) from error.__cause__


def _is_away(cause: BaseException | None) -> bool:
    if isinstance(cause, OSError):
        return True
    state: Any = getattr(getattr(cause, "orig", cause), "sqlstate", None)
    return (isinstance(cause, DBAPIError) and cause.connection_invalidated) or str(state or "").startswith(_AWAY)
