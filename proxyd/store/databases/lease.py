"""Leases: a lock that a session in a thread of its own renews, however busy the event loop is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any, TypeAlias

import structlog
from sqlalchemy import Connection, Select, select

from proxyd.base.clock import awake_or_asleep_s
from proxyd.core.errors import LeaseLostError, StoreUnreachableError
from proxyd.store.databases.connections import DATABASE_TIME, on_own_loop
from proxyd.store.databases.postgresql import SessionConnection, session_with_lease, wait_for_answer
from proxyd.store.databases.schema import is_newest

_RENEWALS = 5  # during one lease
_LOOKS = 20  # for the lock, during one lease
LONGEST_TURN = 2.0
"""The leases that a write may take: the server ends what the last holder has begun within one."""
_CLOSE_S, _DRIFT = 0.05, 1e-3
_BELIEF = 0.8  # the part of a lease for which its holder, if it hears nothing, still works
_TAKEN_OVER = "another machine has taken over"
log = structlog.get_logger("roles")
_Take: TypeAlias = Callable[[SessionConnection], Coroutine[Any, Any, bool]]


class DatabaseTime:
    """The time of the database, read now and then and carried on by a clock that never jumps.

    No machine's clock decides what several machines compare: one that was an hour ahead for three seconds wrote
    deliveries that were due in an hour, and 1,594 queued behind them.
    """

    def __init__(self, now_s: Callable[[], float] = awake_or_asleep_s) -> None:
        self._now_s = now_s
        self._ahead_s = -inf  # of our clock
        self._doubt_s = inf

    def note(self, time_s: float, asked_s: float) -> None:
        """Note what the database answered to a question of ``asked_s``, by our own clock."""
        doubt_s = (self._now_s() - asked_s) / 2.0
        self._doubt_s += _DRIFT * (self._now_s() - asked_s)
        if doubt_s <= max(_CLOSE_S, self._doubt_s):  # a slow answer tells less than an older, quick one
            self._ahead_s, self._doubt_s = time_s - (asked_s + doubt_s), doubt_s

    def time_s(self) -> float:
        """Return the unix seconds of the database."""
        return self._now_s() + self._ahead_s


class Lease:
    """The right to do a role's work, as long as the database confirms it.

    If it does not, the lease is over before the server gives the lock to another machine, even if this machine slept
    meanwhile. ``is_held`` may be asked in any thread.
    """

    def __init__(
        self,
        role: str,
        length_s: float,
        now_s: Callable[[], float] = awake_or_asleep_s,
        time: DatabaseTime | None = None,
    ) -> None:
        self.role = role
        self.length_s = length_s
        self.time = time or DatabaseTime(now_s)
        self._now_s = now_s
        self._until_s = -inf
        self._record: Select[*tuple[Any, ...]] | None = None

    def begin(self, record: Select[*tuple[Any, ...]]) -> None:
        """Begin to work; the query returns a row until another machine has taken over."""
        self._record = record

    def is_held(self) -> bool:
        """Whether this process may work."""
        return self.left_s > 0.0

    @property
    def left_s(self) -> float:
        """For how long this process may work if nothing more is heard."""
        return self._until_s - self._now_s()

    async def ask(self, question: Coroutine[Any, Any, bool], limit_s: float) -> bool:
        """Return the database's answer to whether the lease is ours; a yes counts from the time of the question."""
        asked_s = self._now_s()
        is_ours = await wait_for_answer(question, limit_s)
        if is_ours:
            self._until_s = asked_s + _BELIEF * self.length_s
        return is_ours

    def read_time(self, connection: Connection) -> None:
        """Read what time it is."""
        asked_s = self._now_s()
        self.time.note(float(connection.scalar(DATABASE_TIME) or 0.0), asked_s)

    def must_be_ours(self, connection: Connection) -> None:
        """Let nobody take over until the transaction ends; raise ``LeaseLostError`` if another machine has."""
        assert self._record is not None  # it has begun
        if connection.execute(self._record.with_for_update(read=True)).first() is None:
            raise LeaseLostError(_TAKEN_OVER)

    def is_ours(self, connection: Connection) -> bool:
        """Whether no other machine has taken over since we began; raises ``LeaseLostError`` after an upgrade."""
        if self._record is None:
            return connection.scalar(select(1)) == 1
        self.read_time(connection)
        if not is_newest(connection):
            raise LeaseLostError("another version of proxyd has changed the tables")
        return connection.execute(self._record).first() is not None

    def end(self) -> None:
        """Work no more: the lock may be another's."""
        self._until_s = -inf


@asynccontextmanager
async def renew_lease(
    lease: Lease, url: str, take: _Take, *meanwhile: Awaitable[Any]
) -> AsyncIterator[asyncio.Task[None]]:
    """Take a lease and renew it in a thread until the end; yield the task that fails once the lease is lost.

    ``meanwhile`` is awaited until the lease is taken; it must not return.
    """
    taken = asyncio.Event()
    tell = partial(asyncio.get_running_loop().call_soon_threadsafe, taken.set)
    renewing = asyncio.create_task(on_own_loop(_keep(lease, url, take, tell)), name=f"lease of the {lease.role}")
    try:
        await _first(renewing, taken.wait(), *meanwhile)
        yield renewing
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])


async def _keep(lease: Lease, url: str, take: _Take, taken: Callable[[], object]) -> None:
    """Wait for the lock, call ``taken``, and renew the lease; run it on an event loop that does nothing else.

    ``take`` tries to hold the lock in a session, and returns whether it does. Raises ``StoreUnreachableError``: the
    database was unreachable before the lock was taken; ``LeaseLostError``: the lease could not be renewed in time;
    ``StoreError``: a newer proxyd made the tables.
    """
    try:
        async with session_with_lease(url, lease.role, lease.length_s) as session:
            await _wait_for(lease, session, take)
            taken()
            while True:
                await session.wait(lease.length_s / _RENEWALS)
                await _renew(lease, session)
    finally:
        lease.end()


async def _wait_for(lease: Lease, session: SessionConnection, take: _Take) -> None:
    has_looked = False
    while not await lease.ask(take(session), lease.length_s):
        if not has_looked:
            log.info("waiting: another machine has the work alone", role=lease.role)
        has_looked = True
        await asyncio.sleep(lease.length_s / _LOOKS)


async def _renew(lease: Lease, session: SessionConnection) -> None:
    try:
        is_ours = await lease.ask(session.call(lease.is_ours), lease.left_s)
    except LeaseLostError:
        raise
    except StoreUnreachableError as error:
        why = "the database ended the session that holds the lease"
        if lease.left_s <= 0.0:
            why = f"the database did not answer for {_BELIEF * lease.length_s:g} s"
        raise LeaseLostError(why) from error
    if not is_ours:
        raise LeaseLostError(_TAKEN_OVER)


async def _first(renewing: asyncio.Task[None], *others: Awaitable[Any]) -> None:
    """Return once one of them has ended; raise its error."""
    waiting = [asyncio.ensure_future(each) for each in others]
    try:
        done, _ = await asyncio.wait([renewing, *waiting], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
