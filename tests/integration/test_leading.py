"""Who leads knows in time that it does not any more, and who does not lead changes nothing."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text

from proxyd.app.wiring import create_token
from proxyd.clock import SystemClock
from proxyd.config import Settings
from proxyd.errors import StoreError, StoreUnreachableError
from proxyd.store.databases.connections import StoreConnections, is_newest, migration_config
from proxyd.store.databases.leading import hold, leading
from proxyd.store.databases.opening import open_connections
from proxyd.store.databases.postgresql import answered, session_of
from tests.servers import PostgresServer

CLOCK = SystemClock()
LEASE_S = 5.0


def leads(database: str, role: str) -> AbstractAsyncContextManager[tuple[StoreConnections, int]]:
    return leading(database, role, lease_s=LEASE_S, name="m", time_s=CLOCK.time_s, wait=CLOCK.sleep)


async def test_what_does_not_answer_is_not_waited_for_either_when_it_is_given_up() -> None:
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Future()
        finally:
            await ended.wait()

    with pytest.raises(StoreUnreachableError, match="did not answer within"):
        await answered(hang(), 0.01)
    ended.set()


async def test_who_leads_gives_up_once_a_newer_version_has_changed_the_tables(postgresql: PostgresServer) -> None:
    database = postgresql.create()
    async with leads(database, "planner"):
        pass
    async with leads(database, "notifier") as (connections, _), open_connections(database) as other:
        holding = asyncio.create_task(hold(connections, lease_s=LEASE_S, wait=CLOCK.sleep))
        await other.writer.call(lambda c: command.stamp(migration_config(c), "0015"))
        with pytest.raises(StoreUnreachableError, match="another version"):
            await holding


async def test_who_finds_the_tables_of_a_newer_version_says_so_and_ends(postgresql: PostgresServer) -> None:
    database = postgresql.create()
    async with leads(database, "planner") as (connections, _):
        await session_of(connections).call(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    for role in ("planner", "notifier"):
        with pytest.raises(StoreError, match="a newer proxyd created the"):
            async with leads(database, role):
                pass


async def test_a_token_is_not_worth_changing_the_tables_under_a_daemon(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    database = postgresql.create()
    settings = Settings(database=database, profiles=tmp_path)
    async with leads(database, "planner") as (connections, _):
        await session_of(connections).call(lambda c: command.stamp(migration_config(c), "0015"))
        with pytest.raises(StoreError, match="a daemon uses this database as planner"):
            await create_token(settings, "t", "read", expires_in_s=None)
        assert not await session_of(connections).call(is_newest)
        await session_of(connections).call(lambda c: command.stamp(migration_config(c), "head"))
        assert await create_token(settings, "t", "read", expires_in_s=None)
