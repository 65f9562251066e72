"""Election of the leader: the planner that holds the lease plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import inf

from sqlalchemy import Connection, Select, insert, inspect, select, text, update

from proxyd.store import tables as t
from proxyd.store.databases.connections import StoreConnections, migrate
from proxyd.store.databases.lease import LONGEST_TURN, Lease, Leased, renewed
from proxyd.store.databases.postgresql import LOCK_OF, SessionConnection, answered, postgresql_connections, session_of

_PLANNER = "planner"


@dataclass(frozen=True, slots=True)
class LastTerm:
    """What a leader has left behind: ``probers`` (ids; ``None`` if unknown) may work for ``rest_s`` more."""

    rest_s: float
    probers: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Leadership(Leased):
    """What the leader has; ``term`` counts the leaders."""

    term: int
    last: LastTerm

    async def hand_over(self, rest_s: float) -> None:
        """Record for how long probers may still work, now that this leader sends nothing more."""
        await self._note({"rest_s": rest_s})

    async def keep_probers(self, probers: Collection[str]) -> None:
        """Record which probers may have work; the next leader waits for these."""
        await self._note({"probers": sorted(probers)})

    async def _note(self, values: Mapping[str, object]) -> None:
        note = partial(_note_in_term, term=self.term, values=values)
        await answered(session_of(self.connections).call(note), LONGEST_TURN * self.lease.length_s)


@dataclass(frozen=True, slots=True)
class LeaderCandidate:
    """A planner that wants to lead; times in seconds.

    ``hold_s`` is for how long its probers may work after it has ended; its successor waits for that. Other machines
    reach its listener at ``address``.
    """

    name: str
    lease_s: float
    hold_s: float = 0.0
    address: str = ""


@asynccontextmanager
async def leading(
    url: str,
    candidate: LeaderCandidate,
    *,
    time_s: Callable[[], float],
    wait: Callable[[float], Awaitable[None]],
    meanwhile: Callable[[StoreConnections], Awaitable[None]],
) -> AsyncIterator[Leadership]:
    """Wait until this process leads, and yield its connections and its lease.

    ``meanwhile`` runs until then; it must not return. The leader migrates the tables to the newest schema.

    Raises
    ------
    StoreUnreachableError
        The database is unreachable.
    StoreError
        A newer proxyd made the tables.
    """
    lease = Lease(_PLANNER, candidate.lease_s)
    limit_s = LONGEST_TURN * lease.length_s
    async with AsyncExitStack() as stack:
        opened = postgresql_connections(url, role=_PLANNER, lease_s=lease.length_s)
        connections = await stack.enter_async_context(opened)
        renewing = await stack.enter_async_context(renewed(lease, url, _take, wait(inf), meanwhile(connections)))
        session = session_of(connections)
        await answered(session.call(_end_terms), limit_s)
        await migrate(session)
        begin = partial(_begin_term, candidate=candidate, now_s=time_s())
        term, last = await answered(session.call(begin), limit_s)
        lease.begin(_record_of(term))
        session.check = lease.must_be_ours
        yield Leadership(connections, lease, renewing, term, last)


async def _take(session: SessionConnection) -> bool:
    return await session.take_lock(LOCK_OF[_PLANNER])


def _end_terms(connection: Connection) -> None:
    """End the term of the last leader, before the tables change; it can write no more."""
    if inspect(connection).has_table(t.leaders.name):
        connection.execute(update(t.leaders).where(t.leaders.c.role == _PLANNER).values(term=text("term + 1")))


def _begin_term(connection: Connection, candidate: LeaderCandidate, now_s: float) -> tuple[int, LastTerm]:
    """Begin a term and return its number, and what the last one has left behind."""
    c, hold_s = t.leaders.c, candidate.hold_s
    found = connection.execute(select(c.term, c.rest_s, c.probers).where(c.role == _PLANNER)).one_or_none()
    if found is None:
        before, last = 0, LastTerm(0.0, frozenset())
    else:
        probers = None if found.probers is None else frozenset(found.probers)
        before, last = found.term, LastTerm(hold_s if found.rest_s is None else found.rest_s, probers)
    term = max(before, int(now_s)) + 1  # after a restore, a term must not repeat one that probers have seen
    rest_s = max(hold_s, last.rest_s)
    values = {"term": term, "name": candidate.name, "since_s": now_s, "rest_s": rest_s, "address": candidate.address}
    if found is None:
        connection.execute(insert(t.leaders), {"role": _PLANNER, "probers": []} | values)
    else:
        connection.execute(update(t.leaders).where(c.role == _PLANNER).values(**values))
    return term, last


async def load_leader(connections: StoreConnections) -> tuple[str, str] | None:
    """Return the name and the address of the planner that led last; the address is empty if unknown.

    Raises ``StoreError`` if another version made the tables.
    """
    c = t.leaders.c
    query = select(c.name, c.address).where(c.role == _PLANNER)
    found = await connections.readers.call(lambda connection: connection.execute(query).one_or_none())
    return None if found is None else (found.name, found.address or "")


def _record_of(term: int) -> Select[str]:
    """Return the query for what is recorded of a leader until another one begins."""
    return select(t.leaders.c.role).where(t.leaders.c.role == _PLANNER, t.leaders.c.term == term)


def _note_in_term(connection: Connection, term: int, values: Mapping[str, object]) -> None:
    """Write something about a leader, unless another one has begun."""
    c = t.leaders.c
    connection.execute(update(t.leaders).where(c.role == _PLANNER, c.term == term).values(values))
