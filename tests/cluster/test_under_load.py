"""Faults while items come: nothing is lost or told twice, no budget is exceeded, and no delivery stands still."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.acceptance.support import eventually
from tests.cluster.load import BUDGET_PER_S, come, load
from tests.cluster.support import LEASE_S
from tests.cluster.test_machines import working
from tests.servers import PostgresServer, nats_servers

pytestmark = pytest.mark.alone  # requests that a busy machine delays come bunched, as if over the budget
BUDGET = f"{BUDGET_PER_S:g}/s"
_HOLD = """DO $$ BEGIN
    LOCK TABLE notifications, tokens;
    WHILE NOT EXISTS (SELECT FROM pg_class WHERE relname = 'released') LOOP PERFORM pg_sleep(0.1); END LOOP;
END $$"""


async def test_one_of_three_nats_servers_is_killed(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "planner", "prober", "prober", "notifier")
    with nats_servers(tmp_path) as (servers, urls):
        async with (
            working(tmp_path, postgresql, *roles, budget=BUDGET, nats_of=urls) as (machines, origin),
            load(machines, origin, budget_per_s=BUDGET_PER_S) as published,
        ):
            for victim in servers[:2]:
                await come(published, 5)
                victim.stop()
                await come(published, 10)
                victim.start()
            await come(published, 5)


async def test_two_notifiers_one_is_killed_and_one_frozen_for_longer_than_its_lease(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    roles = ("planner", "prober", "notifier", "notifier")
    async with working(tmp_path, postgresql, *roles, budget=BUDGET, many_endpoints=True) as (machines, origin):
        killed, frozen = machines.machines[2:]
        async with load(machines, origin, budget_per_s=BUDGET_PER_S) as published:
            await come(published, 5)
            await killed.kill()
            machines.machines.remove(killed)
            await come(published, 10)
            await machines.machine("notifier")
            await come(published, 5)
            frozen.signal(signal.SIGSTOP)
            await asyncio.sleep(2.0 * LEASE_S)
            frozen.signal(signal.SIGCONT)
            await eventually(lambda: "lost its lease" in frozen.log, "it has noticed", state=lambda: frozen.log[-2000:])
            await come(published, 5)


async def test_all_sessions_with_the_database_are_in_use(tmp_path: Path, postgresql: PostgresServer) -> None:
    roles = ("planner", "planner", "prober", "notifier")
    leases = ["60s"] * len(roles)
    async with working(tmp_path, postgresql, *roles, budget=BUDGET, leases=leases) as (machines, origin):
        database = machines.database.rpartition("/")[2]
        # the first to have come leads, and the other one only answers
        planners = machines.machines[:2]
        made = [await each.cli("token", "create", "--name", "me", "--scope", "read") for each in planners]
        asked, token = next((each, done.out) for each, done in zip(planners, made, strict=True) if done.code == 0)
        async with load(machines, origin, budget_per_s=BUDGET_PER_S) as published:
            await come(published, 5)
            holding = asyncio.create_task(asyncio.to_thread(postgresql.query, _HOLD, database))
            try:
                path = "/api/v1/notifications?limit=1"
                asking = [asyncio.create_task(asked.request("GET", path, token=token.strip())) for _ in range(8)]
                await asked.metric_reaches("proxyd_session_waits_seconds", 1)
            finally:
                await asyncio.to_thread(postgresql.query, "CREATE TABLE released ()", database)
                await holding
            assert [status for status, *_ in await asyncio.gather(*asking)] == [200] * 8
            await come(published, 5)
        assert "all sessions of the database are in use" in asked.log
        assert not any("lost leadership" in each.log for each in machines.machines)
