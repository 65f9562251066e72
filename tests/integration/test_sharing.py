"""Notifiers share the endpoints: each shard has one at any time, and who is gone writes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from sqlalchemy import text

from proxyd.clock import SystemClock
from proxyd.core.model.shards import SHARDS
from proxyd.errors import NotLeadingError, StoreError
from proxyd.store.databases.connections import MEMBERS
from proxyd.store.databases.opening import open_connections
from proxyd.store.databases.postgresql import session_of
from proxyd.store.databases.sharing import Membership, sharing
from tests.databases import migrate
from tests.servers import PostgresServer

CLOCK = SystemClock()
LEASE_S = 20.0  # longer than this machine is ever kept from renewing it
LOOKS = 20  # for shards, in a second
_END_LEASE = """
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND classid::bigint = :locks AND objid = (SELECT member FROM members WHERE name = :name)
"""


@dataclass
class Party:
    """The notifiers of a test; whenever one has other shards, it is checked that no shard has two."""

    database: str
    members: list[Membership] = field(default_factory=list)
    following: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)  # the shards in which something is under way
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def join(self, name: str) -> AsyncIterator[Membership]:
        async with sharing(self.database, "notifier", name, lease_s=LEASE_S, wait=CLOCK.sleep) as joined:
            self.members.append(joined)
            task = asyncio.create_task(joined.shares.follow(self._soon, self._changed, self._busy))
            self.following[name] = task
            try:
                yield joined
            finally:
                self.members.remove(joined)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _soon(self, _after_s: float) -> None:
        await CLOCK.sleep(1.0 / LOOKS)

    async def _busy(self) -> set[int]:
        return self.busy

    def _changed(self) -> None:
        own = [shard for joined in self.members for shard in joined.shares.own]
        assert len(own) == len(set(own))
        self.news.set()

    async def have(self, *counts: int) -> None:
        """Wait until the notifiers have so many shards, fewest first."""
        while tuple(sorted(len(joined.shares.own) for joined in self.members)) != counts:
            self.news.clear()
            await self.news.wait()
            for task in self.following.values():
                if task.done() and not task.cancelled():
                    task.result()


@pytest.fixture
def party(postgresql: PostgresServer) -> Party:
    made = Party(postgresql.create())
    migrate(made.database)
    return made


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


async def test_some_that_begin_at_once_share(party: Party) -> None:
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(party.join(name)) for name in "abcd"))
        await party.have(16, 16, 16, 16)


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
        with pytest.raises(NotLeadingError, match="the database ended the session"):
            await first.lost()
        assert not first.lease.is_held()
        party.members.remove(first)
        async with party.join("b") as second:
            await party.have(SHARDS)
            with pytest.raises(NotLeadingError, match="another machine has taken over"):
                await write(first)
            await write(second)
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
        left = "SELECT (SELECT count(*) FROM members), (SELECT count(member) FROM shards)"
        assert await other.writer.call(lambda c: tuple(c.execute(text(left)).one())) == (0, 0)
