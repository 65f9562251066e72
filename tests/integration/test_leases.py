"""Who shares the work knows in time that it does not any more, and leaves tables of other versions alone."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text

from proxyd.app.wiring import create_token
from proxyd.base.clock import SystemClock
from proxyd.config.settings import Settings
from proxyd.core.errors import LeaseLostError, OtherSettingsError, StoreError, StoreUnreachableError
from proxyd.store.backups import open_connections
from proxyd.store.databases import membership
from proxyd.store.databases.lease import DatabaseTime, Lease
from proxyd.store.databases.membership import Member, Membership, sharing, working_as
from proxyd.store.databases.postgresql import session_of, wait_for_answer
from proxyd.store.databases.schema import is_newest, migration_config
from tests.servers import PostgresServer

CLOCK = SystemClock()
LEASE_S = 20.0
LEASES = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%lease'"
END_LEASES = f"SELECT pg_terminate_backend(pid) {LEASES}"  # those of other tests on the server stay


def planning(database: str, lease_s: float = LEASE_S) -> AbstractAsyncContextManager[Membership]:
    return sharing(database, Lease("planner", lease_s), "m", wait=CLOCK.sleep)


def test_a_lease_counts_from_the_question_and_ends_before_the_server_gives_it_away() -> None:
    now_s = [100.0]

    async def answer_late() -> bool:
        now_s[0] += 3.0
        return True

    lease = Lease("planner", 10.0, lambda: now_s[0])
    assert not lease.is_held()
    assert asyncio.run(lease.ask(answer_late(), 10.0))
    assert lease.left_s == 5.0
    now_s[0] = 108.0
    assert not lease.is_held()


@pytest.mark.alone
async def test_who_plans_still_plans_after_the_event_loop_was_busy_for_longer_than_the_lease(
    postgresql: PostgresServer,
) -> None:
    async with planning(postgresql.create_migrated(), 3.0) as planner:
        losing = asyncio.create_task(planner.lost())
        end_s = CLOCK.monotonic_s() + 3.5
        while CLOCK.monotonic_s() < end_s:
            sum(range(10_000))
        assert planner.lease.is_held()
        assert await session_of(planner.connections).call(lambda c: c.scalar(text("SELECT 1"))) == 1
        assert not losing.done()
        losing.cancel()


async def test_who_loses_its_session_stops_and_says_why(postgresql: PostgresServer) -> None:
    database = postgresql.create_migrated()
    async with planning(database) as planner, open_connections(database) as other:
        await other.writer.call(lambda c: c.execute(text(END_LEASES)))
        with pytest.raises(LeaseLostError, match="the database ended the session"):
            await planner.lost()


async def test_what_does_not_answer_is_not_waited_for_either_when_it_is_given_up() -> None:
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Future()
        finally:
            await ended.wait()

    with pytest.raises(StoreUnreachableError, match="did not answer within"):
        await wait_for_answer(hang(), 0.01)
    ended.set()


async def test_who_plans_gives_up_once_a_newer_version_has_changed_the_tables(postgresql: PostgresServer) -> None:
    database = postgresql.create_migrated()
    async with planning(database) as planner, open_connections(database) as other:
        await other.writer.call(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '0015'")))
        with pytest.raises(LeaseLostError, match="another version"):
            await planner.lost()


async def test_who_finds_the_tables_of_a_newer_version_says_so_and_ends(postgresql: PostgresServer) -> None:
    database = postgresql.create_migrated()
    async with planning(database) as planner:
        await session_of(planner.connections).call(
            lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        )
    for role in ("planner", "notifier"):
        begins = working_as(database, Lease(role, LEASE_S), "m", wait=CLOCK.sleep)
        with pytest.raises(StoreError, match="a newer proxyd created the"):
            async with begins:
                pass


async def test_a_token_is_not_worth_changing_the_tables_under_a_daemon(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    database = postgresql.create_migrated()
    settings = Settings(database=database, profiles=tmp_path)
    async with planning(database, 60.0) as planner:
        connections = planner.connections
        await session_of(connections).call(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '0015'")))
        with pytest.raises(StoreError, match="a daemon uses this database as planner"):
            await create_token(settings, "t", "read", expires_in_s=None)
        assert not await session_of(connections).call(is_newest)
        await session_of(connections).call(lambda c: command.stamp(migration_config(c), "head", purge=True))
        assert await create_token(settings, "t", "read", expires_in_s=None)


@pytest.mark.parametrize("off_s", [3600.0, -3600.0])
async def test_a_machine_with_a_wrong_clock_goes_by_the_time_of_the_database(
    postgresql: PostgresServer, off_s: float
) -> None:
    clock = SystemClock(lambda: time.time() + off_s)
    lease = Lease("planner", LEASE_S)
    async with sharing(postgresql.create_migrated(), lease, "m", wait=clock.sleep):
        clock.follow(lease.time.time_s)
        assert clock.time_s() == pytest.approx(time.time(), abs=0.5)
        assert clock.wall_s() == pytest.approx(time.time(), abs=0.5)
        assert clock.off_s == pytest.approx(off_s, abs=0.5)
        before_s = clock.time_s()
        clock.follow(lease.time.time_s)  # after a lease was lost, and taken again
        assert 0.0 <= clock.time_s() - before_s < 0.5


def test_a_slow_answer_tells_less_of_the_time_than_a_quick_one_did() -> None:
    now_s = [100.0]
    database = DatabaseTime(lambda: now_s[0])
    now_s[0] = 100.02
    database.note(5000.0, 100.0)
    assert database.time_s() == pytest.approx(5000.01)
    now_s[0] = 110.0
    database.note(5004.0, 102.0)  # between 102 and 110
    assert database.time_s() == pytest.approx(5009.99)
    now_s[0] = 111.0
    database.note(5011.2, 111.0)
    assert database.time_s() == pytest.approx(5011.2)


async def test_a_planner_with_other_settings_is_refused_by_name_until_the_first_has_ended(
    postgresql: PostgresServer,
) -> None:
    database = postgresql.create_migrated()

    def planning_with(name: str, **settings: object) -> AbstractAsyncContextManager[Membership]:
        return sharing(database, Lease("planner", LEASE_S), name, wait=CLOCK.sleep, settings=settings)

    async with planning_with("first", budget="60/min", lease="30s"):
        with pytest.raises(OtherSettingsError, match=r"planner first .* budget is '60/min' there and '90/min' here"):
            await planning_with("second", budget="90/min", lease="30s").__aenter__()
        async with planning_with("second", budget="60/min", lease="30s"), planning_with("of a version before"):
            pass
    async with planning_with("second", budget="90/min", lease="30s"):
        pass


async def test_of_two_with_other_settings_that_join_at_once_one_is_refused(
    postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, check = postgresql.create(), membership._check_agreement

    def check_slowly(member: Member, connection: Connection) -> None:
        check(member, connection)
        connection.execute(text("SELECT pg_sleep(0.3)"))  # the other one looks meanwhile

    async with sharing(database, Lease("planner", LEASE_S), "makes the tables", wait=CLOCK.sleep):
        pass
    monkeypatch.setattr(membership, "_check_agreement", check_slowly)
    async with AsyncExitStack() as stack:
        joining = [
            stack.enter_async_context(
                sharing(database, Lease("planner", LEASE_S), budget, wait=CLOCK.sleep, settings={"budget": budget})
            )
            for budget in ("60/min", "90/min")
        ]
        found = await asyncio.gather(*joining, return_exceptions=True)
        assert sorted(isinstance(each, OtherSettingsError) for each in found) == [False, True]
