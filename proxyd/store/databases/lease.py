"""The lease of a role: a lock that a session in a thread of its own renews, however busy the event loop is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

import structlog
from sqlalchemy import Connection, Select, select

from proxyd.clock import awake_or_asleep_s
from proxyd.errors import NotLeadingError, StoreUnreachableError
from proxyd.store import tables as t
from proxyd.store.databases.connections import is_newest
from proxyd.store.databases.postgresql import LOCK_OF, SessionConnection, answered, leased_session

_RENEWALS = 5  # during one lease
_LOOKS = 20  # of a standby during one lease
_BELIEF = 0.8  # the part of a lease for which a leader that hears nothing still leads
log = structlog.get_logger("roles")


class Lease:
    """The right to do a role's work, as long as the database confirms it.

    If it does not, the lease is over before the server gives the lock to another machine, even if this machine slept
    meanwhile. ``is_held`` may be asked in any thread. ``term`` counts the role's leaders, once this one has begun.
    """

    def __init__(self, role: str, length_s: float, now_s: Callable[[], float] = awake_or_asleep_s) -> None:
        self.role = role
        self.length_s = length_s
        self.term: int | None = None
        self._now_s = now_s
        self._until_s = -inf

    def is_held(self) -> bool:
        """Whether this process leads."""
        return self.left_s > 0.0

    @property
    def left_s(self) -> float:
        """For how long this process still leads if nothing more is heard."""
        return self._until_s - self._now_s()

    async def asked(self, question: Coroutine[Any, Any, bool], limit_s: float) -> bool:
        """Return the database's answer to whether we lead; a yes counts from the time of the question."""
        asked_s = self._now_s()
        is_ours = await answered(question, limit_s)
        if is_ours:
            self._until_s = asked_s + _BELIEF * self.length_s
        return is_ours

    def must_be_ours(self, connection: Connection) -> None:
        """Let nobody else lead until the transaction ends; raise ``NotLeadingError`` if another machine has led."""
        if connection.execute(term_of(self.role).with_for_update(read=True)).scalar() != self.term:
            raise NotLeadingError("another machine leads now")

    def is_ours(self, connection: Connection) -> bool:
        """Whether no other machine has led since our term began; raises ``NotLeadingError`` after an upgrade."""
        if self.term is None:
            return connection.scalar(select(1)) == 1
        if not is_newest(connection):
            raise NotLeadingError("another version of proxyd has changed the tables")
        return connection.execute(term_of(self.role)).scalar() == self.term


def term_of(role: str) -> Select[int]:
    """Return the query for the term of a role's last leader."""
    return select(t.leaders.c.term).where(t.leaders.c.role == role)


async def keep(lease: Lease, url: str, taken: Callable[[], object]) -> None:
    """Wait for the lock, call ``taken``, and renew the lease; run it on an event loop that does nothing else.

    Raises
    ------
    StoreUnreachableError
        The database was unreachable before the lock was taken.
    NotLeadingError
        The lease could not be renewed in time.
    StoreError
        A newer proxyd made the tables.
    """
    async with leased_session(url, lease.role, lease.length_s) as session:
        await _take(lease, session)
        taken()
        while True:
            await asyncio.sleep(lease.length_s / _RENEWALS)
            await _renew(lease, session)


async def _take(lease: Lease, session: SessionConnection) -> None:
    has_looked = False
    while not await lease.asked(session.take_lock(LOCK_OF[lease.role]), lease.length_s):
        if not has_looked:
            log.info("standing by: another machine leads", role=lease.role)
        has_looked = True
        await asyncio.sleep(lease.length_s / _LOOKS)


async def _renew(lease: Lease, session: SessionConnection) -> None:
    try:
        is_ours = await lease.asked(session.call(lease.is_ours), lease.left_s)
    except NotLeadingError:
        raise
    except StoreUnreachableError as error:
        why = "the database ended the session that holds the lease"
        if lease.left_s <= 0.0:
            why = f"the database did not answer for {_BELIEF * lease.length_s:g} s"
        raise NotLeadingError(why) from error
    if not is_ours:
        raise NotLeadingError("another machine leads now")
