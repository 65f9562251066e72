"""Leader election for a role: the process that holds the role's lease does the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import structlog
from sqlalchemy import Connection, insert, inspect, select, text, update

from proxyd.store import tables as t
from proxyd.store.databases.connections import StoreConnections, is_newest, migrate
from proxyd.store.databases.lease import Lease, keep
from proxyd.store.databases.own_loops import on_own_loop
from proxyd.store.databases.postgresql import SessionConnection, answered, postgresql_connections, session_of

_LOOKS = 5  # tries of a standby process during one lease
_LONGEST_TURN = 2.0  # leases: the server ends what the last leader has begun within one
log = structlog.get_logger("roles")


@dataclass(frozen=True, slots=True)
class LastTerm:
    """What a leader has left behind: ``probers`` (ids; ``None`` if unknown) may work for ``rest_s`` more."""

    rest_s: float
    probers: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Leadership:
    """The connections of a role's leader, whose writes are refused once another machine leads, and its lease."""

    connections: StoreConnections
    lease: Lease
    last: LastTerm
    _renewing: asyncio.Task[None]

    async def lost(self) -> None:
        """Wait until another machine may lead; then raise ``NotLeadingError``, which says why."""
        await asyncio.shield(self._renewing)

    async def hand_over(self, rest_s: float) -> None:
        """Record for how long probers may still work, now that this leader sends nothing more."""
        await self._note({"rest_s": rest_s})

    async def keep_probers(self, probers: Collection[str]) -> None:
        """Record which probers may have work; the next leader waits for these."""
        await self._note({"probers": sorted(probers)})

    async def _note(self, values: Mapping[str, object]) -> None:
        note = partial(_note_in_term, lease=self.lease, values=values)
        await answered(session_of(self.connections).call(note), _LONGEST_TURN * self.lease.length_s)


async def wait_forever(_connections: StoreConnections) -> None:
    """Wait until cancelled."""
    await asyncio.Future()


@dataclass(frozen=True, slots=True)
class LeaderCandidate:
    """A machine that wants to lead in a role; times in seconds.

    ``hold_s`` is for how long its probers may work after it has ended; its successor waits for that. Other machines
    reach its listener at ``address``.
    """

    role: str
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
    meanwhile: Callable[[StoreConnections], Awaitable[None]] = wait_forever,
) -> AsyncIterator[Leadership]:
    """Wait until this process leads, and yield its connections and its lease.

    ``meanwhile`` runs until then; it must not return. The planner migrates the tables to the newest schema; the
    other roles wait for that.

    Raises
    ------
    StoreUnreachableError
        The database is unreachable.
    StoreError
        A newer proxyd made the tables.
    """
    role, lease_s = candidate.role, candidate.lease_s
    async with postgresql_connections(url, role=role, lease_s=lease_s) as connections:
        session = session_of(connections)
        if role != "planner":
            await _until_newest(session, role, lease_s, wait)
        lease, taken = Lease(role, lease_s), asyncio.Event()
        tell = partial(asyncio.get_running_loop().call_soon_threadsafe, taken.set)
        renewing = asyncio.create_task(on_own_loop(keep(lease, url, tell)), name=f"lease of the {role}")
        try:
            await _first(renewing, taken.wait(), wait(inf), meanwhile(connections))
            if role == "planner":
                await answered(session.call(partial(_end_terms, role=role)), _LONGEST_TURN * lease_s)
                await migrate(session)
            begin = partial(_begin_term, candidate=candidate, now_s=time_s())
            lease.term, last = await answered(session.call(begin), _LONGEST_TURN * lease_s)
            session.check = lease.must_be_ours
            yield Leadership(connections, lease, last, renewing)
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])


async def _until_newest(
    session: SessionConnection, role: str, lease_s: float, wait: Callable[[float], Awaitable[None]]
) -> None:
    looks = 0
    while not await answered(session.call(is_newest), lease_s):
        if looks == 0:
            log.info("waiting for a planner of this version to change the tables", role=role)
        looks += 1
        await wait(lease_s / _LOOKS)


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


def _end_terms(connection: Connection, role: str) -> None:
    """End the term of the last leader, before the tables change; it can write no more."""
    if inspect(connection).has_table(t.leaders.name):
        connection.execute(update(t.leaders).where(t.leaders.c.role == role).values(term=text("term + 1")))


def _begin_term(connection: Connection, candidate: LeaderCandidate, now_s: float) -> tuple[int, LastTerm]:
    """Begin a term and return its number, and what the last one has left behind."""
    c, role, hold_s = t.leaders.c, candidate.role, candidate.hold_s
    found = connection.execute(select(c.term, c.rest_s, c.probers).where(c.role == role)).one_or_none()
    if found is None:
        before, last = 0, LastTerm(0.0, frozenset())
    else:
        probers = None if found.probers is None else frozenset(found.probers)
        before, last = found.term, LastTerm(hold_s if found.rest_s is None else found.rest_s, probers)
    term = max(before, int(now_s)) + 1  # after a restore, a term must not repeat one that probers have seen
    rest_s = max(hold_s, last.rest_s)
    values: dict[str, object] = {"term": term, "name": candidate.name, "since_s": now_s, "rest_s": rest_s}
    if role == "planner":  # the user of notifiers must not be able to send tokens elsewhere
        values["address"] = candidate.address
    if found is None:
        connection.execute(insert(t.leaders), {"role": role, "probers": []} | values)
    else:
        connection.execute(update(t.leaders).where(c.role == role).values(**values))
    return term, last


async def load_leader(connections: StoreConnections, role: str) -> tuple[str, str] | None:
    """Return the name and the address of the machine that led last in a role; the address is empty if unknown.

    Raises ``StoreError`` if another version made the tables.
    """
    c = t.leaders.c
    query = select(c.name, c.address).where(c.role == role)
    found = await connections.readers.call(lambda connection: connection.execute(query).one_or_none())
    return None if found is None else (found.name, found.address or "")


def _note_in_term(connection: Connection, lease: Lease, values: Mapping[str, object]) -> None:
    """Write something about a leader, unless another one has begun."""
    c = t.leaders.c
    connection.execute(update(t.leaders).where(c.role == lease.role, c.term == lease.term).values(values))
