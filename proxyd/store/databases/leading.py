"""Who does a role's work, of several processes that could: the one whose session holds the role's lock."""

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

_LOOKS = 5  # of those that stand by, in the time of a lease
_BELIEF = 0.5  # of a lease: how long a leader that hears nothing believes in itself
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

    It leads as long as its writing session lives: whatever it commits, it commits as the leader. The planner brings the
    tables to the newest schema, the others wait for that.

    Raises
    ------
    StoreUnreachableError
        The database is away, or the session was ended: another one may lead now.
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
    """Keep a session that holds a lock alive; raises ``StoreUnreachableError`` once it may not be.

    That is before the server takes it for dead, so that no two lead at once. A leader of an older version gives up
    once a newer one has brought the tables to its own schema.
    """
    session = session_of(connections)
    while True:
        await wait(lease_s / _LOOKS)
        if not await answered(session.call(is_newest), _BELIEF * lease_s):
            raise StoreUnreachableError("another version of proxyd has changed the tables")


def _begin_term(connection: Connection, role: str, name: str, now_s: float) -> int:
    found = connection.execute(select(t.leaders.c.term).where(t.leaders.c.role == role)).scalar()
    term = max(found or 0, int(now_s)) + 1  # a restored database must not count what probers have seen before
    values = {"term": term, "name": name, "since_s": now_s}
    if found is None:
        connection.execute(insert(t.leaders), {"role": role} | values)
    else:
        connection.execute(update(t.leaders).where(t.leaders.c.role == role).values(**values))
    return term
