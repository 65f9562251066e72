"""Notifiers share the endpoints: each shard has one at any time, and who is gone writes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from sqlalchemy import Engine, event, text

from proxyd.base.clock import SystemClock
from proxyd.core.errors import LeaseLostError, StoreError, StoreUnreachableError
from proxyd.store.backups import open_connections
from proxyd.store.databases.connections import MEMBERS
from proxyd.store.databases.lease import Lease
from proxyd.store.databases.membership import Membership, sharing
from proxyd.store.databases.postgresql import session_of
from proxyd.store.databases.shards import SHARDS
from tests.servers import PostgresServer

CLOCK = SystemClock()
LEASE_S = 20.0  # longer than this machine is ever kept from renewing it
LOOKS = 20  # for shards, in a second
_END_LEASE = """
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND classid::bigint = :locks AND objid = (SELECT member FROM members WHERE name = :name)
"""
_LEAVE = """
    WITH leaving AS (DELETE FROM members WHERE name = 'b' RETURNING member),
         gone AS (DELETE FROM planners WHERE member IN (SELECT member FROM leaving))
    UPDATE shards SET member = NULL WHERE member IN (SELECT member FROM leaving)
"""
_IS_SLEEPING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"


@dataclass
class Probers:
    """What ends the work of probers for planners that have ended, once it is told to."""

    free: bool = False
    busy_s: float = 0.0  # for the planner itself, once it has ended
    told: list[tuple[set[str], set[int], float]] = field(default_factory=list)
    repeated: int = 0

    def succeed(self, probers: Collection[str], living: Collection[int], rest_s: float) -> None:
        news = (set(probers), set(living), rest_s)
        if self.told[-1:] != [news]:  # it is told again if shards were left over at its last look
            self.told.append(news)
        else:
            self.repeated += 1

    def check_free(self) -> bool:
        return self.free


@dataclass
class Party:
    """The processes of a test; whenever one has other shards, it is checked that no shard has two."""

    database: str
    members: list[Membership] = field(default_factory=list)
    following: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)  # the shards in which something is under way
    news: asyncio.Event = field(default_factory=asyncio.Event)
    looked: list[float] = field(default_factory=list)  # for how long each process wants to rest after a look

    @asynccontextmanager
    async def join(self, name: str) -> AsyncIterator[Membership]:
        lease = Lease("planner", LEASE_S)
        async with sharing(self.database, lease, name, wait=CLOCK.sleep, rest_s=3.0) as joined:
            self.members.append(joined)
            task = asyncio.create_task(joined.shares.follow(self._soon, self._changed, self._busy))
            self.following[name] = task
            try:
                yield joined
            finally:
                if joined in self.members:  # it has not died
                    self.members.remove(joined)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def looks(self) -> None:
        """Wait until each has looked several times."""
        self.looked.clear()
        while len(self.looked) < 5 * len(self.members):
            await CLOCK.sleep(1.0 / LOOKS)

    async def _soon(self, after_s: float) -> None:
        self.looked.append(after_s)
        await CLOCK.sleep(1.0 / LOOKS)

    async def _busy(self) -> set[int]:
        return self.busy

    def _changed(self) -> None:
        own = [shard for joined in self.members for shard in joined.shares.own]
        assert len(own) == len(set(own))
        self.news.set()

    async def have(self, *counts: int) -> None:
        """Wait until they have so many shards, fewest first."""
        while tuple(sorted(len(joined.shares.own) for joined in self.members)) != counts:
            self.news.clear()
            await self.news.wait()
            for task in self.following.values():
                if task.done() and not task.cancelled():
                    task.result()


@pytest.fixture
def party(postgresql: PostgresServer) -> Party:
    return Party(postgresql.create_migrated())


async def write(joined: Membership) -> None:
    await session_of(joined.connections).call(lambda c: c.execute(text("UPDATE outbox SET attempts = 0")))


async def test_each_has_a_fair_share_and_the_others_take_over_that_of_one_that_ends(party: Party) -> None:
    async with party.join("a"):
        await party.have(SHARDS)
        async with party.join("b"):
            await party.have(32, 32)
            async with party.join("c"):
                await party.have(21, 21, 22)
            await party.have(32, 32)
        await party.have(SHARDS)


async def test_one_that_cannot_probe_yet_has_nothing_while_another_can(party: Party) -> None:
    async with party.join("a") as first:
        await party.have(SHARDS)
        await first.shares.note_runs("digest")
        async with party.join("b") as second:
            await party.looks()
            assert (len(first.shares.own), len(second.shares.own)) == (SHARDS, 0)
            assert first.shares.all_run("digest")
            await second.shares.note_runs("another")
            await party.have(32, 32)
            assert not first.shares.all_run("digest")
            async with party.join("c") as third:
                await party.looks()
                assert not third.shares.own
        await party.have(SHARDS)


async def test_some_that_begin_at_once_share(party: Party) -> None:
    async with AsyncExitStack() as stack:
        found = await asyncio.gather(*(stack.enter_async_context(party.join(name)) for name in "abcd"))
        await party.have(16, 16, 16, 16)
        assert sorted(each.name for each in found[0].shares.others) == ["b", "c", "d"]


async def test_a_shard_is_given_up_only_once_nothing_more_is_done_in_it(party: Party) -> None:
    async with party.join("a") as first:
        await party.have(SHARDS)
        party.busy |= set(range(60))
        async with party.join("b") as second:
            await party.have(4, 32)
            await write(first)
            assert second.shares.own == {60, 61, 62, 63}
            party.busy.clear()
            await party.have(32, 32)


async def test_who_loses_its_session_says_so_and_writes_nothing_once_another_has_its_shards(party: Party) -> None:
    async with party.join("a") as first, open_connections(party.database) as other:
        await party.have(SHARDS)
        await write(first)
        party.following["a"].cancel()  # it is frozen, but for the renewal, so that we see what that says
        await other.writer.call(lambda c: c.execute(text(_END_LEASE), {"name": "a", "locks": MEMBERS}))
        with pytest.raises(LeaseLostError, match="the database ended the session"):
            await first.lost()
        assert not first.lease.is_held()
        party.members.remove(first)
        async with party.join("b") as second:
            await party.have(SHARDS)
            with pytest.raises(LeaseLostError, match="another machine has taken over"):
                await write(first)
            await write(second)
        party.members.append(first)


async def test_who_ended_in_the_middle_of_a_statement_holds_up_nobody(party: Party) -> None:
    async with party.join("a") as first, open_connections(party.database) as other:
        await party.have(SHARDS)
        party.following["a"].cancel()
        sleep = text("SELECT pg_sleep(86400)")
        writing = asyncio.create_task(session_of(first.connections).call(lambda c: c.execute(sleep)))
        while not await other.writer.call(lambda c: c.scalar(text(_IS_SLEEPING))):
            await CLOCK.sleep(1.0 / LOOKS)
        await other.writer.call(lambda c: c.execute(text(_END_LEASE), {"name": "a", "locks": MEMBERS}))
        party.members.remove(first)
        async with party.join("b") as second:
            await party.have(SHARDS)
            await write(second)
        with pytest.raises(StoreUnreachableError):
            await writing
        party.members.append(first)


async def test_a_database_that_is_divided_otherwise_is_refused(party: Party) -> None:
    async with party.join("a"):
        await party.have(SHARDS)
    async with open_connections(party.database) as other:
        await other.writer.call(lambda c: c.execute(text("DELETE FROM shards WHERE shard > 31")))
    with pytest.raises(StoreError, match="divided into 32 shards, by this version into 64"):
        async with party.join("b"):
            pass


async def test_who_leaves_leaves_nothing_behind(party: Party) -> None:
    async with party.join("a"):
        await party.have(SHARDS)
    async with open_connections(party.database) as other:
        left = (
            "SELECT (SELECT count(*) FROM members), (SELECT count(*) FROM planners), (SELECT count(member) FROM shards)"
        )
        assert await other.writer.call(lambda c: tuple(c.execute(text(left)).one())) == (0, 0, 0)


async def die(party: Party, joined: Membership, name: str) -> None:
    """End the lease of a process, which then does nothing more."""
    party.following[name].cancel()
    async with open_connections(party.database) as other:
        await other.writer.call(lambda c: c.execute(text(_END_LEASE), {"name": name, "locks": MEMBERS}))
    with pytest.raises(LeaseLostError):
        await joined.lost()
    party.members.remove(joined)


async def test_shards_of_a_planner_that_has_ended_rest_until_nobody_works_for_it(party: Party) -> None:
    async with AsyncExitStack() as stack:
        first, second, third = [await stack.enter_async_context(party.join(name)) for name in "abc"]
        probers = [Probers(), Probers()]
        for joined, each in zip((second, third), probers, strict=True):
            joined.shares.let_succeed(each)
        await party.have(21, 21, 22)
        await first.shares.keep_probers(lambda: ["p", "q"])
        await second.shares.keep_probers(lambda: ["q", "r"])
        before = [second.shares.own, third.shares.own]
        await die(party, first, "a")
        while not all(each.told for each in probers):
            await CLOCK.sleep(1.0 / LOOKS)
        living = {second.shares.number, third.shares.number}
        assert [each.told for each in probers] == [[({"p", "q", "r"}, living, 3.0)]] * 2
        assert [second.shares.own, third.shares.own] == before
        await die(party, second, "b")  # whose own successor must know of the probers of the first
        while len(probers[1].told) == 1:
            await CLOCK.sleep(1.0 / LOOKS)
        assert probers[1].told[1:] == [({"p", "q", "r"}, {third.shares.number}, 3.0)]
        assert third.shares.own == before[1]
        probers[1].free = True
        await party.have(SHARDS)
        assert 2 * max(each.repeated for each in probers) < len(party.looked)  # not at every look


async def test_a_planner_that_ends_while_probers_work_for_it_leaves_its_shards_to_be_found(party: Party) -> None:
    async with AsyncExitStack() as stack:
        staying = await stack.enter_async_context(party.join("a"))
        probers = Probers()
        staying.shares.let_succeed(probers)
        for busy_s, told in ((0.0, 0), (1.0, 1)):
            async with party.join("b") as leaving:
                leaving.shares.let_succeed(Probers(busy_s=busy_s))
                await party.have(32, 32)
                await leaving.shares.keep_probers(lambda: ["p"])
            probers.free = True
            await party.have(SHARDS)
            assert len(probers.told) == told


async def test_a_planner_that_leaves_during_a_look_has_not_ended(party: Party, postgresql: PostgresServer) -> None:
    database = party.database.rpartition("/")[2]
    left: list[str] = []

    def leave(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "JOIN planners" in statement and not left:  # the shards have been read
            left.append(postgresql.query(_LEAVE, database))

    async with party.join("a") as staying, party.join("b") as leaving:
        probers = Probers(free=True)
        staying.shares.let_succeed(probers)
        await party.have(32, 32)
        party.following["b"].cancel()
        party.members.remove(leaving)
        event.listen(Engine, "before_cursor_execute", leave)
        try:
            await party.have(SHARDS)
        finally:
            event.remove(Engine, "before_cursor_execute", leave)
            party.members.append(leaving)
        assert left
        assert probers.told == []


@pytest.mark.parametrize("ends", [False, True])
async def test_shards_that_rest_go_to_nobody_who_would_not_let_them_rest(party: Party, ends: bool) -> None:
    probers = Probers(free=True)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(party.join("a"))
        await first.shares.keep_probers(lambda: ["p"])
        await party.have(SHARDS)  # so that the first keeps the lower half, and the second may give up the upper one
        async with party.join("b") as second:
            second.shares.let_succeed(Probers())
            await party.have(32, 32)
            await die(party, first, "a")
            while second.shares.holder_of(0) != second.shares.holder_of(63):
                await CLOCK.sleep(1.0 / LOOKS)
            third = None if ends else await stack.enter_async_context(party.join("c"))
            if third is not None:
                third.shares.let_succeed(probers)
                while len(second.shares.own) + len(third.shares.own) < 32 or len(second.shares.own) == 32:
                    await CLOCK.sleep(1.0 / LOOKS)
                assert len(second.shares.own) + len(third.shares.own) == 32
        if third is None:
            (await stack.enter_async_context(party.join("d"))).shares.let_succeed(probers)
        await party.have(SHARDS)
        assert "p" in set().union(*(told for told, _, _ in probers.told))
        party.members.append(first)
