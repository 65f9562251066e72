"""Who does a role's work, of several processes that could: the one whose session holds the role's lock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sqlalchemy import Connection, insert, select, update

from proxyd.store import tables as t
from proxyd.store.engine import StoreConnections, is_newest, migrate
from proxyd.store.postgresql import SessionConnection, postgresql_connections

_LOCKS = {"planner": 2, "notifier": 3}
_LOOKS = 5  # of those that stand by, in the time of a lease


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
    """
    async with postgresql_connections(url, role=role, lease_s=lease_s) as connections:
        session = connections.writer
        assert isinstance(session, SessionConnection)
        while not await session.take_lock(_LOCKS[role]):
            await wait(lease_s / _LOOKS)
        if role == "planner":
            await migrate(session)
        while not await session.call(is_newest):
            await wait(lease_s / _LOOKS)
        yield connections, await session.call(lambda c: _begin_term(c, role, name, time_s()))


async def hold(connections: StoreConnections, *, lease_s: float, wait: Callable[[float], Awaitable[None]]) -> None:
    """Keep a session that holds a lock alive; raises ``StoreUnreachableError`` once it is not.

    A long statement of its own is no silence: the server knows that it is at work.
    """
    session = connections.writer
    assert isinstance(session, SessionConnection)
    while True:
        await wait(lease_s / _LOOKS)
        await session.prove_alive(2.0 * lease_s)


def _begin_term(connection: Connection, role: str, name: str, now_s: float) -> int:
    found = connection.execute(select(t.leaders.c.term).where(t.leaders.c.role == role)).scalar()
    values = {"term": (found or 0) + 1, "name": name, "since_s": now_s}
    if found is None:
        connection.execute(insert(t.leaders), {"role": role} | values)
    else:
        connection.execute(update(t.leaders).where(t.leaders.c.role == role).values(**values))
    return (found or 0) + 1
