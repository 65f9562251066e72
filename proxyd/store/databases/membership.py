"""Sharing of the planners' work: each has some of its shards, and takes those of a planner that has ended."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

import structlog
from sqlalchemy import Connection, delete, func, insert, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_new

from proxyd.core.errors import OtherSettingsError, StoreError, StoreUnreachableError
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import MEMBERS, StoreConnections
from proxyd.store.databases.lease import LONGEST_TURN, Lease, renew_lease
from proxyd.store.databases.postgresql import (
    LOCK_OF,
    SessionConnection,
    end_sessions,
    postgresql_connections,
    session_of,
    wait_for_answer,
)
from proxyd.store.databases.schema import is_newest, migrate
from proxyd.store.databases.shards import FIRST_SHARD, SHARDS, Turnover, shard_of, turnover

_PLANNER = "planner"
_LOOKS = 20  # for free shards, during one lease
_SOON_S = 0.2  # between looks while shards change hands: nobody asks their hosts
_WAITS = 5  # for the tables, during one lease
_LEAVING = 0.2  # of a lease, for which who leaves waits for the database
_MOST_MEMBERS = 2**31 - 1  # the number of a lock has 32 bits
_AT_ONE_TIME = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
_LOCKED = text(
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = :locks AND objsubid = 2"
    " AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
log = structlog.get_logger("roles")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Member:
    """A planner that shares the work.

    ``number`` is that of its lock. It is reached at ``address``, which may be empty, is asked with ``secret`` by
    others, and ``runs`` the declaration with this digest, which is empty while it cannot probe. Once it has ended, its
    probers may work for ``rest_s``. All planners have the same ``settings``.
    """

    name: str
    number: int
    address: str = ""
    secret: str = field(default="", repr=False)
    runs: str = ""
    rest_s: float = 0.0
    settings: Mapping[str, object] = field(default_factory=dict)


class _Successor(Protocol):
    """Ends what others do for processes that have ended, before this one does it."""

    def succeed(self, probers: Collection[str], living: Collection[int], rest_s: float) -> None:
        """Let probers break off what they do for processes that are not among the living, in ``rest_s`` at most."""

    def check_free(self) -> bool:
        """Whether all of them have."""

    @property
    def busy_s(self) -> float:
        """For how long, once this process has ended, others may work for it."""


class _View(NamedTuple):
    """Who has each shard, and which of the processes that share them are alive, by number, or dead."""

    holders: dict[int, int | None]
    alive: dict[int, Member]
    dead: frozenset[int]

    def turnover_of(self, me: int, *, has_run: bool) -> Turnover:
        """Return what a process should take and give up; one that cannot probe has no sources if another can.

        Half of a fleet was not probed for 35 s because a planner that had no prober yet took it. One that is only
        starting keeps what it has. One that ``has_run`` keeps the first shard, and so the declaration: to look after
        that needs no prober.
        """
        ready = {number for number, each in self.alive.items() if each.runs} or self.alive.keys()
        if me not in ready:
            own = frozenset(shard for shard, holder in self.holders.items() if holder == me)
            return Turnover(give=own - {FIRST_SHARD} if has_run else frozenset(), lacks=1)
        idle = self.alive.keys() - ready
        return turnover({s: holder for s, holder in self.holders.items() if holder not in idle}, ready, me)


class _Taken(NamedTuple):
    """Shards that a process has taken, and which probers may work for how long for those that had them."""

    shards: frozenset[int]
    probers: frozenset[str]
    rest_s: float


class Shares:
    """The shards that a planner has, while ``follow`` runs."""

    def __init__(self, connections: StoreConnections, lease: Lease, member: Member) -> None:
        self.own: frozenset[int] = frozenset()
        self.has_looked = asyncio.Event()
        self._view = _View({}, {}, frozenset())
        self._successor: _Successor | None = None
        self._resting: frozenset[int] = frozenset()  # shards of a process that has ended, for which others may work
        self._must_succeed = False  # they are to be told, perhaps since a look that failed in the middle
        self._is_changing = False  # whether shards come or go soon
        self._has_run = False
        self._turn = asyncio.Lock()  # of what changes which probers are recorded
        self._connections = connections
        self._lease = lease
        self._member = member

    @property
    def number(self) -> int:
        """The number of this process, which no other has."""
        return self._member.number

    @property
    def secret(self) -> str:
        """What the others ask this process with."""
        return self._member.secret

    @property
    def members(self) -> int:
        """How many processes shared the work at the last look; this one at least."""
        return max(1, len(self._view.alive))

    @property
    def others(self) -> list[Member]:
        """The other processes that shared the work at the last look."""
        return [each for number, each in self._view.alive.items() if number != self._member.number]

    def let_succeed(self, successor: _Successor) -> None:
        """Have the shards of a process that has ended only once nobody works for it any more."""
        self._successor = successor

    def has(self, key: str) -> bool:
        """Whether the shard of ``key`` is our own."""
        return shard_of(key) in self.own

    def holder_of(self, shard: int) -> Member | None:
        """Return the process that had a shard at the last look; ``None`` if none had it."""
        holder = self._view.holders.get(shard)
        return None if holder is None else self._view.alive.get(holder)

    def all_run(self, digest: str) -> bool:
        """Whether all processes that may have sources ran this declaration at the last look."""
        holders = {*self._view.holders.values()}
        return all(m.runs == digest for number, m in self._view.alive.items() if m.runs or number in holders)

    @property
    def lease_s(self) -> float:
        """How long a process that falls silent is taken to be alive."""
        return self._lease.length_s

    async def note_runs(self, digest: str) -> None:
        """Let the others know which declaration this process runs; none if it cannot probe."""
        self._has_run = self._has_run or bool(digest)
        await self._ask(partial(_note, self._lease, self._member, {"runs": digest}))

    async def keep_probers(self, probers: Callable[[], Collection[str]]) -> Collection[str]:
        """Record which probers may work for this process, and return them."""
        async with self._turn:
            found = probers()
            await self._ask(partial(_note, self._lease, self._member, {"probers": sorted(found)}))
        return found

    async def follow(
        self,
        sleep: Callable[[float], Awaitable[None]],
        changed: Callable[[], object],
        busy: Callable[[], Awaitable[Collection[int]]],
    ) -> None:
        """Take free shards, and give some up to processes that have fewer, until cancelled.

        ``changed`` is called after each change of ``own``. ``busy`` returns in which shards something is still under
        way; these are given up later.
        """
        said = ""
        while True:
            try:
                await self._step(changed, busy)
                said = ""
            except StoreUnreachableError as error:  # the lease is lost too, unless this passes soon
                if said != str(error):
                    said = str(error)
                    log.warning("shards are not shared at the moment", role=_PLANNER, error=said)
            pause_s = self._lease.length_s / _LOOKS
            await sleep(min(pause_s, _SOON_S) if self._is_changing else pause_s)

    async def _step(self, changed: Callable[[], object], busy: Callable[[], Awaitable[Collection[int]]]) -> None:
        view = self._view = await self._ask(_look)
        if self._member.number not in view.alive:
            return
        due = view.turnover_of(self._member.number, has_run=self._has_run)
        own = frozenset(shard for shard, holder in view.holders.items() if holder == self._member.number)
        if self._successor is not None:
            left = frozenset(shard for shard in due.take if view.holders[shard] is not None)
            self._resting |= left
            self._must_succeed = self._must_succeed or bool(left)
        if due.take or view.dead or self._must_succeed:
            own |= await self._taken(view, due.take)
        if self._successor is None or self._successor.check_free():
            self._resting = frozenset()
        self._is_changing = bool(due.give or due.lacks or self._resting)
        self._note(own - due.give - self._resting, changed)
        self.has_looked.set()
        if due.give and (quiet := due.give.difference(await busy(), self._resting)):
            await self._ask(partial(_give_up, self._lease, self._member, quiet))

    async def _taken(self, view: _View, shards: Collection[int]) -> frozenset[int]:
        """Take shards that nobody has, and return them; let nobody work for processes that had some and have ended."""
        async with self._turn:
            taken = await self._ask(partial(_take_over, self._lease, self._member, shards, view.dead))
            if self._successor is not None and self._must_succeed:
                self._successor.succeed(taken.probers, view.alive.keys(), taken.rest_s)
                self._must_succeed = False
        return taken.shards

    def _note(self, own: frozenset[int], changed: Callable[[], object]) -> None:
        if own != self.own:
            log.info("this machine has other shards now", role=_PLANNER, before=len(self.own), now=len(own))
            self.own = own
            changed()

    async def _ask(self, function: Callable[[Connection], _T], turns: float = LONGEST_TURN) -> _T:
        return await wait_for_answer(self._connections.people.call(function), turns * self._lease.length_s)

    async def leave(self) -> None:
        """Let others have our shards at once, because we do nothing more; later if probers still work for us."""
        if self._successor is not None and (self._resting or self._successor.busy_s > 0.0):
            return
        with suppress(StoreError):
            await self._ask(partial(_leave, self._lease, self._member), _LEAVING)


@dataclass(frozen=True, slots=True)
class Tenure:
    """What a process has that does a role's work as long as the database confirms its lease."""

    connections: StoreConnections
    lease: Lease
    renewing: asyncio.Task[None]

    async def lost(self) -> None:
        """Wait until the lease is lost; then raise ``LeaseLostError``, which says why."""
        await asyncio.shield(self.renewing)


@dataclass(frozen=True, slots=True)
class Membership(Tenure):
    """What a planner has: its writes are refused once another machine has taken over."""

    shares: Shares


@asynccontextmanager
async def working_as(
    url: str,
    lease: Lease,
    name: str,
    *,
    wait: Callable[[float], Awaitable[None]],
    number: int | None = None,
) -> AsyncIterator[Tenure]:
    """Do the work of the lease's role next to other processes.

    ``name`` is that of the sessions, ``number`` that of a lock of its own. The database's time is known from then on,
    and read again with the lease.

    The first planner makes the tables, or brings them to the newest schema once no other version works on them. Others
    wait for that. Raises ``StoreUnreachableError``: the database is unreachable; ``StoreError``: a newer proxyd made
    the tables.
    """
    role, lease_s = lease.role, lease.length_s

    async def take(session: SessionConnection) -> bool:
        is_shared = await session.take_lock(LOCK_OF[role], is_shared=True)
        return is_shared and (number is None or await session.take_lock(number, of=MEMBERS))

    async with AsyncExitStack() as stack:
        # A process may be frozen in the middle of a statement. Nobody takes over from one without a number, and ends
        # its session, so the server must not wait for it: planners would wait for the lanes that it has locked.
        limit_s = lease_s if number is None else 0.0
        opened = postgresql_connections(url, name=name, lease_s=lease_s, statement_s=limit_s)
        connections = await stack.enter_async_context(opened)
        session = session_of(connections)
        await _until_newest(session, role, lease_s, wait)
        renewing = await stack.enter_async_context(renew_lease(lease, url, take, wait(inf)))
        await wait_for_answer(session.call(lease.read_time), lease_s)
        lease.begin(select(literal(1)))
        yield Tenure(connections, lease, renewing)


@asynccontextmanager
async def sharing(
    url: str,
    lease: Lease,
    name: str,
    *,
    wait: Callable[[float], Awaitable[None]],
    address: str = "",
    rest_s: float = 0.0,
    settings: Mapping[str, object] = MappingProxyType({}),
) -> AsyncIterator[Membership]:
    """Share the planners' work; ``name`` is that of this machine, and the other arguments are those of a ``Member``.

    Raises what ``working_as`` does; ``StoreError``: a version that divides work otherwise is at work;
    ``OtherSettingsError``: another planner has other settings.
    """
    number, secret = secrets.randbelow(_MOST_MEMBERS) + 1, secrets.token_urlsafe(32)
    member = Member(name, number, address, secret, rest_s=rest_s, settings=dict(settings))
    async with working_as(url, lease, _session_name(number), wait=wait, number=number) as held:
        session = session_of(held.connections)
        await wait_for_answer(session.call(partial(_join, member)), LONGEST_TURN * lease.length_s)
        lease.begin(select(t.members.c.member).where(t.members.c.member == member.number))
        session.check = lease.must_be_ours
        shares = Shares(held.connections, lease, member)
        try:
            yield Membership(held.connections, lease, held.renewing, shares)
        finally:
            await shares.leave()


def _session_name(number: int) -> str:
    return f"{_PLANNER} {number}"


async def _until_newest(
    session: SessionConnection, role: str, lease_s: float, wait: Callable[[float], Awaitable[None]]
) -> None:
    """Wait until a planner has made or changed the tables; a planner does it itself once no other one works."""
    looks = 0
    while not await wait_for_answer(session.call(is_newest), lease_s):
        if role == _PLANNER and await session.take_lock(LOCK_OF[role]):
            await migrate(session)
            await session.give_lock(LOCK_OF[role])
            return
        if looks == 0:
            log.info("waiting for a planner of this version to change the tables", role=role)
        looks += 1
        await wait(lease_s / _WAITS)


def _join(member: Member, connection: Connection) -> None:
    count = connection.scalar(select(func.count()).select_from(t.shards))
    if count == 0:
        fresh = [{"role": _PLANNER, "shard": shard} for shard in range(SHARDS)]
        connection.execute(insert_new(t.shards).on_conflict_do_nothing(), fresh)
    elif count != SHARDS:
        raise StoreError(f"the work of the planners is divided into {count} shards, by this version into {SHARDS}")
    # One joins after the other: two with differing settings that joined at the same moment did not see each other
    connection.execute(select(func.pg_advisory_xact_lock(MEMBERS, 0)))
    _check_agreement(member, connection)
    connection.execute(insert(t.members), {"member": member.number, "role": _PLANNER, "name": member.name})
    row = {name: getattr(member, name) for name in ("address", "secret", "runs", "rest_s", "settings")}
    connection.execute(insert(t.planners), row | {"member": member.number, "probers": []})


def _check_agreement(member: Member, connection: Connection) -> None:
    """Raise ``OtherSettingsError`` if a planner that is alive has other settings."""
    # One with another budget and lease joined in silence: 1,010 requests where 600 were allowed
    held = frozenset(connection.scalars(_LOCKED, {"locks": MEMBERS}))
    p, m = t.planners.c, t.members.c
    others = select(m.name, p.member, p.settings).join_from(t.planners, t.members, p.member == m.member)
    for name, number, settings in connection.execute(others.order_by(m.name)):
        differing = [each for each in member.settings if each in settings and settings[each] != member.settings[each]]
        if number in held and differing:
            said = ", ".join(
                f"{each} is {settings[each]!r} there and {member.settings[each]!r} here" for each in differing
            )
            raise OtherSettingsError(
                f"the planner {name} has other settings: {said}; give both the same, or end it first"
            )


def _look(connection: Connection) -> _View:
    """Return who has what; a process takes its lock before it is among the members, so those without are dead."""
    # All rows are read as they were at one time: who leaves meanwhile would seem to have ended with its shards
    s, m = t.shards.c, t.members.c
    connection.execute(_AT_ONE_TIME)
    held = frozenset(connection.scalars(_LOCKED, {"locks": MEMBERS}))
    holders = {row.shard: row.member for row in connection.execute(select(s.shard, s.member))}
    found = connection.execute(select(m.name, t.planners).join(t.planners, t.planners.c.member == m.member))
    members = {
        each.member: Member(each.name, each.member, each.address, each.secret, each.runs, each.rest_s) for each in found
    }
    alive = {number: each for number, each in members.items() if number in held}
    return _View(holders, alive, frozenset(members.keys() - held))


def _take_over(
    lease: Lease, member: Member, shards: Collection[int], dead: Collection[int], connection: Connection
) -> _Taken:
    """Refuse all writes of dead processes from now on, and take some shards that nobody has."""
    lease.must_be_ours(connection)
    s, m = t.shards.c, t.members.c
    locked = (func.pg_try_advisory_xact_lock(MEMBERS, number) for number in dead)
    gone = [number for number, lock in zip(dead, locked, strict=True) if connection.scalar(select(lock))]
    if gone:
        end_sessions(connection, [_session_name(number) for number in gone])
    connection.execute(delete(t.members).where(m.member.in_(gone)))
    probers, rest_s = _inherit(member, gone, connection)
    is_free = or_(s.member.is_(None), s.member.not_in(select(m.member)))
    taking = update(t.shards).where(s.shard.in_(shards), is_free).values(member=member.number)
    return _Taken(frozenset(connection.scalars(taking.returning(s.shard))), probers, rest_s)


def _inherit(member: Member, gone: Collection[int], connection: Connection) -> tuple[frozenset[str], float]:
    """Return who may work for planners that have ended, and for how long."""
    # These count as our own from now on, because who takes other shards of the dead does not find them any more
    p = t.planners.c
    known = connection.execute(select(p.member, p.rest_s, p.probers).with_for_update()).all()
    probers = {prober for each in known for prober in each.probers}
    inherited = {prober for each in known if each.member in {*gone, member.number} for prober in each.probers}
    connection.execute(update(t.planners).where(p.member == member.number).values(probers=sorted(inherited)))
    connection.execute(delete(t.planners).where(p.member.in_(gone)))
    return frozenset(probers), max((each.rest_s for each in known), default=0.0)


def _note(lease: Lease, member: Member, values: Mapping[str, object], connection: Connection) -> None:
    lease.must_be_ours(connection)
    connection.execute(update(t.planners).where(t.planners.c.member == member.number).values(**values))


def _give_up(lease: Lease, member: Member, shards: Collection[int], connection: Connection) -> None:
    lease.must_be_ours(connection)
    s = t.shards.c
    connection.execute(update(t.shards).where(s.member == member.number, s.shard.in_(shards)).values(member=None))


def _leave(lease: Lease, member: Member, connection: Connection) -> None:
    _give_up(lease, member, range(SHARDS), connection)
    connection.execute(delete(t.members).where(t.members.c.member == member.number))
    connection.execute(delete(t.planners).where(t.planners.c.member == member.number))
