"""Sessions with PostgreSQL end when they should: not while a copy takes hours, soon where a machine is gone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, NullPool, func, select, text
from sqlalchemy.ext.asyncio import create_async_engine
from structlog.testing import capture_logs

from proxyd.base.clock import SystemClock
from proxyd.core.errors import StoreUnreachableError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.backups import connect_alone, open_connections
from proxyd.store.databases import postgresql as module
from proxyd.store.databases.connections import LOCKS, NEWS
from proxyd.store.databases.postgresql import PostgresUpkeep, postgresql_url
from proxyd.store.databases.schema import upgrade
from proxyd.store.sql_store import SqlStore
from tests.acceptance.support import eventually
from tests.servers import PostgresServer

TIMEOUTS = ("idle_session_timeout", "idle_in_transaction_session_timeout")
KEEPALIVES = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")


def shown(connection: Connection, *names: str) -> list[str]:
    """Return what settings of the session are in force."""
    return [str(connection.scalar(text(f"SHOW {name}"))) for name in names]


def watched(server: PostgresServer) -> list[bool]:
    """Return of each connection of this process to a server whether the kernel sees to it that both ends are there."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    open_to = [line for line in lines if line[2].endswith(f":{server.port:04X}") and line[3] == "01"]
    own = {each.resolve().name for each in Path("/proc/self/fd").iterdir()}
    return [line[5].startswith("02:") for line in open_to if f"socket:[{line[9]}]" in own]


async def test_a_session_that_holds_locks_while_others_copy_is_not_ended(postgresql: PostgresServer) -> None:
    address = postgresql.create()
    for name in TIMEOUTS:
        postgresql.query(f"ALTER DATABASE {address.rpartition('/')[2]} SET {name} = '7s'")
    async with connect_alone(address) as connections:
        assert await connections.writer.call(lambda c: shown(c, *TIMEOUTS)) == ["0", "0"]
    async with open_connections(address, lease_s=30.0) as connections:
        assert await connections.writer.call(lambda c: shown(c, *TIMEOUTS)) == ["0", "30s"]


async def test_who_waits_for_a_session_says_so_and_is_counted_and_nothing_fails(
    postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SAY_S", 0.1)
    address, key = postgresql.create(), 7
    async with open_connections(address) as connections:
        assert connections.waits_s() == 0.0
        await connections.writer.call(lambda c: c.execute(select(func.pg_advisory_lock(key))))
        with capture_logs() as said:
            query = text(f"SELECT pg_advisory_lock_shared({key}), pg_advisory_unlock_shared({key}), 1")
            asked = [
                asyncio.create_task(connections.readers.call(lambda c: c.execute(query).scalars(2).one()))
                for _ in range(3 * module._READERS)
            ]
            await eventually(lambda: said, "it is said")
            assert connections.waits_s() >= 0.1
            assert await connections.people.call(lambda c: c.scalar(select(1))) == 1  # another pool
            await connections.writer.call(lambda c: c.execute(select(func.pg_advisory_unlock(key))))
            assert await asyncio.gather(*asked) == [1] * len(asked)
        assert connections.waits_s() == 0.0
    begun, ended = "all sessions of the database are in use: others wait", "sessions of the database are free again"
    events = [each["event"] for each in said]
    assert events[0] == begun
    assert events.count(begun) == events.count(ended) == len(events) / 2  # a slow machine waits again, in both pools


async def test_planners_record_notifications_one_after_the_other(postgresql: PostgresServer) -> None:
    """Streams go on after the highest position, so none may be committed after a higher one."""
    address = postgresql.create_migrated()
    sent = Notification("n", "r", "s", 1.0, 2.0, False, b"{}", ())
    engine = create_async_engine(postgresql_url(address), poolclass=NullPool)
    async with open_connections(address) as connections, engine.connect() as other, engine.connect() as asking:
        store = SqlStore(connections, ChrononGrid(10.0), lambda: {0})
        async with store.writer.running():
            await other.execute(select(func.pg_advisory_xact_lock(LOCKS, NEWS)))
            recording = asyncio.create_task(store.record_results(RuleResults(notifications=(sent,))))
            while not await asking.scalar(text("SELECT 1 FROM pg_locks WHERE NOT granted")):
                await SystemClock().sleep(0.01)
            assert await store.history.newest_position() == 0
            assert not recording.done()
            await other.commit()
            await recording
            assert await store.history.newest_position() > 0


@pytest.mark.parametrize(("lease_s", "kept"), [(30.0, ["1min"]), (0.0, ["0"])], ids=["leased", "kept"])
async def test_a_migration_may_pause_for_longer_than_a_lease(
    postgresql: PostgresServer, lease_s: float, kept: list[str]
) -> None:
    async with open_connections(postgresql.create(), lease_s=lease_s) as connections:

        def migrated(connection: Connection) -> str:
            upgrade(connection)
            return shown(connection, TIMEOUTS[1])[0]

        before = await connections.writer.call(lambda c: shown(c, *TIMEOUTS))
        assert await connections.writer.call(migrated) in kept
        assert await connections.writer.call(lambda c: shown(c, *TIMEOUTS)) == before


async def test_both_sides_of_every_session_notice_when_the_other_machine_is_gone(
    postgresql: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    def look(connection: Connection, *_: object) -> None:
        found.append(shown(connection, *KEEPALIVES))
        kept = watched(postgresql)
        assert len(kept) >= len(found)
        assert all(kept)

    monkeypatch.setattr(module, "copy_to_file", look)
    async with open_connections(postgresql.create()) as connections:
        for each in (connections.writer, connections.readers, connections.people):
            await each.call(look)
        await connections.upkeep.backup(tmp_path / "copy.db")
    assert found == [["30", "10", "3"]] * 4


async def test_a_backup_that_is_cancelled_has_ended_then(
    postgresql: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def take_long(source: Connection, _target: Path) -> None:
        try:
            loop.call_soon_threadsafe(begun.set)
            source.execute(text("SELECT pg_sleep(300)"))
        finally:
            ended.set()

    monkeypatch.setattr(module, "copy_to_file", take_long)
    async with open_connections(postgresql.create()) as connections:
        copying = asyncio.create_task(connections.upkeep.backup(tmp_path / "copy.db"))
        await begun.wait()
        copying.cancel()
        begun_s = loop.time()
        await asyncio.wait([copying])
    assert copying.cancelled()
    assert ended.is_set()
    assert loop.time() - begun_s < 100.0


async def test_a_backup_does_not_wait_for_a_server_that_takes_connections_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    monkeypatch.setattr(module, "_CONNECT_S", 0.2)
    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        engine = create_async_engine(f"postgresql+asyncpg://proxyd@127.0.0.1:{port}/p")
        async with asyncio.timeout(20.0):
            with pytest.raises(StoreUnreachableError):
                await PostgresUpkeep(engine).backup(tmp_path / "copy.db")
        over.set()
