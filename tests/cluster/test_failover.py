"""PostgreSQL's replica takes over without the last commits: what was lost is found again, under the same ids."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from tests.acceptance.support import eventually
from tests.cluster.hosts import Hosts, hosts
from tests.cluster.relay import Relay, relay
from tests.cluster.support import Cluster, cluster
from tests.cluster.test_machines import HOSTS, delivered, known
from tests.servers import PostgresServer, free_port, postgres_server

pytestmark = pytest.mark.long
ROLES = ("planner", "planner", "prober", "notifier")


def ids_of_items(machines: Cluster) -> dict[str, set[str]]:
    """Return the ids under which each item came."""
    found: dict[str, set[str]] = defaultdict(set)
    for arrival in machines.receiver.arrivals["each"]:
        for guid in arrival.guids:
            found[guid].add(arrival.webhook_id)
    return found


async def follows(primary: PostgresServer, replica: PostgresServer) -> None:
    """Wait until a replica has all that is there now."""
    at = primary.query("SELECT pg_current_wal_lsn()")
    await eventually(
        lambda: replica.query(f"SELECT pg_last_wal_replay_lsn() >= '{at}'") == "t", "the replica has followed"
    )


async def lose_commits(machines: Cluster, origin: Hosts, replication: Relay) -> list[str]:
    """Have items told of which the replica does not hear; return them."""
    replication.lead_to(None)
    lost = origin.publish()
    await eventually(lambda: set(lost) <= ids_of_items(machines).keys(), "they are told")
    return lost


async def test_a_replica_that_lost_the_last_commits_takes_over(tmp_path: Path) -> None:
    with postgres_server() as primary:
        async with relay(primary.port) as replication, relay(primary.port) as address, hosts(HOSTS) as origin:
            replica = PostgresServer(primary.folder.with_name("replica"), free_port())
            await asyncio.to_thread(primary.make_replica, replica, replication.port)
            await asyncio.to_thread(replica.start)
            try:
                async with cluster(tmp_path, primary) as machines:
                    own = f":{primary.port}/"
                    assert own in machines.database
                    machines.database = machines.database.replace(own, f":{address.port}/")
                    machines.declare(origin.texts(machines.receiver.url("each")))
                    for role in ROLES:
                        await machines.machine(role)
                    await delivered(machines, origin)
                    await asyncio.to_thread(primary.query, "CHECKPOINT")
                    await follows(primary, replica)
                    lost = await lose_commits(machines, origin, replication)
                    primary.stop()
                    address.lead_to(None)
                    unseen = origin.publish()
                    await asyncio.to_thread(replica.promote)
                    address.lead_to(replica.port)
                    await machines.receiver.received("each", len(origin.feeds[origin.names[0]].guids) * HOSTS)
                    await known(machines, origin)
                    unseen += origin.publish()
                    await eventually(lambda: set(unseen) <= ids_of_items(machines).keys(), "news are told")
                    assert machines.receiver.forged == []
                    counts = {guid: len(ids) for guid, ids in ids_of_items(machines).items()}
                    assert counts == dict.fromkeys([*counts], 1)
                    database = machines.database.rpartition("/")[2]
                    await stored(replica, database, [*lost, *unseen])
            finally:
                replica.stop()


async def stored(server: PostgresServer, database: str, guids: list[str]) -> None:
    """Wait until each of these items has a notification in a database."""

    def is_stored() -> bool:
        rows = server.query("SELECT convert_from(body, 'UTF8') FROM notifications", database)
        return all(guid in rows for guid in guids)

    await eventually(is_stored, "what was lost is found again")
