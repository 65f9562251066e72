"""Leader election for a role: the process whose session holds the role's lock does the work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog
from sqlalchemy import Connection, insert, select, update

from proxyd.errors import StoreUnreachableError
from proxyd.store import tables as t
from proxyd.store.databases.connections import StoreConnections, is_newest, migrate
from proxyd.store.databases.postgresql import LOCK_OF, answered, postgresql_connections, session_of

_LOOKS = 5  # tries of a standby process during one lease
_BELIEF = 0.5  # the part of a lease for which a leader that hears nothing still leads
log = structlog.get_logger("roles")


@asynccontextmanager
async def leading(
    url: str,
    role: str,
    *,
    lease_s: float,
    name: str,
    time_s: Callable[[], float],
    wait: Callable[[float], Awaitable[None]],
) -> AsyncIterator[tuple[StoreConnections, int]]:
    """Wait until this process leads, and yield its connections and its term, which counts the leaders.

    It leads as long as its writing session lives, so it commits only while it leads. The planner migrates the tables to
    the newest schema; the other roles wait for that.

    Raises
    ------
    StoreUnreachableError
        The database is unreachable or the session ended: another process may lead now.
    StoreError
        A newer proxyd made the tables.
    """
    async with postgresql_connections(url, role=role, lease_s=lease_s) as connections:
        session = session_of(connections)

        async def until(ask: Callable[[], Coroutine[Any, Any, bool]], waiting: str) -> None:
            looks = 0
            while not await answered(ask(), lease_s):
                if looks == 0:
                    log.info(waiting, role=role)
                looks += 1
                await wait(lease_s / _LOOKS)

        if role != "planner":
            await until(lambda: session.call(is_newest), "waiting for a planner of this version to change the tables")
        await until(lambda: session.take_lock(LOCK_OF[role]), "standing by: another machine leads")
        if role == "planner":
            await migrate(session)
        yield connections, await answered(session.call(lambda c: _begin_term(c, role, name, time_s())), lease_s)


async def hold(connections: StoreConnections, *, lease_s: float, wait: Callable[[float], Awaitable[None]]) -> None:
    """Keep alive a session that holds a lock; raise ``StoreUnreachableError`` once it may have lost the lock.

    It raises before the server gives up the session, so two processes never lead at once. A leader of an older version
    gives up once a newer one has migrated the tables.
    """
    session = session_of(connections)
    while True:
        await wait(lease_s / _LOOKS)
        if not await answered(session.call(is_newest), _BELIEF * lease_s):
            raise StoreUnreachableError("another version of proxyd has changed the tables")


def _begin_term(connection: Connection, role: str, name: str, now_s: float) -> int:
    found = connection.execute(select(t.leaders.c.term).where(t.leaders.c.role == role)).scalar()
    term = max(found or 0, int(now_s)) + 1  # after a restore, a term must not repeat one that probers have seen
    values = {"term": term, "name": name, "since_s": now_s}
    if found is None:
        connection.execute(insert(t.leaders), {"role": role} | values)
    else:
        connection.execute(update(t.leaders).where(t.leaders.c.role == role).values(**values))
    return term
