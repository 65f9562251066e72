"""A database of the proxyd before, taken over while origins and receivers are busy: nothing is lost or comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection

from proxyd.store.backups import open_connections, owner_lock
from proxyd.store.databases.schema import migration_config
from tests.acceptance.support import Daemon, World, eventually, world
from tests.acceptance.test_faults import one_id_for_each_item
from tests.cluster.support import cluster
from tests.servers import PostgresServer

BEFORE = "0015"
SOURCES = [f"s{number}" for number in range(20)]
MIGRATED = '"tables are brought to the newest schema"'


async def put_back(database: str | Path) -> None:
    """Make the tables those of the proxyd before; no daemon runs."""

    def down(connection: Connection) -> None:
        command.downgrade(migration_config(connection), BEFORE)

    with owner_lock(database):
        async with open_connections(database) as connections:
            await connections.writer.call(down)


def in_order(w: World, published: dict[str, list[str]]) -> None:
    """Fail where an item did not come, or not in the order of its source, or by two ids."""
    for source, guids in published.items():
        arrived = [guid for a in w.receiver.accepted("each") if a.data["source"] == source for guid in a.guids]
        assert arrived == guids
    one_id_for_each_item(w.receiver, "each")


def publish(w: World, published: dict[str, list[str]]) -> int:
    """Publish on every source and return how many items there are now."""
    for source in SOURCES:
        published.setdefault(source, []).extend(w.origin.feeds[source].add(2))
    return sum(map(len, published.values()))


async def known(w: World, daemon: Daemon) -> None:
    for source in SOURCES:
        w.origin.feed(source, "atom").add(1, age_s=3600.0)
    await daemon.start()
    await daemon.knows(*SOURCES)


@pytest.mark.long
async def test_an_upgrade_under_load_loses_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.daemon.declare(w.text(SOURCES, {"each": 1}))
        await known(w, w.daemon)
        published: dict[str, list[str]] = {}
        await w.receiver.received("each", publish(w, published))
        w.receiver.scripts["each"].extend(["503"] * 3)  # what waits in the outbox is taken over too
        publish(w, published)
        await w.daemon.metric_reaches('proxyd_deliveries_total{result="retry"}', 1)
        await w.daemon.kill()
        await put_back(w.daemon.database)

        publish(w, published)
        w.daemon.forget_log()
        await w.daemon.start()
        assert w.daemon.log.count(MIGRATED) == 1
        count = publish(w, published)
        await w.receiver.received("each", count)
        in_order(w, published)
        await w.daemon.stop()


@pytest.mark.long
async def test_of_two_machines_one_upgrades(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with cluster(tmp_path, postgresql) as machines:
        w = World(machines.origin, machines.receiver, Daemon(tmp_path))
        machines.declare([w.text(SOURCES, {"each": 1})])
        for source in SOURCES:
            w.origin.feed(source, "atom").add(1, age_s=3600.0)
        first = await machines.machine("all")
        await eventually(lambda: all(w.origin.asked[s] > 2 for s in SOURCES), "every source is known")
        published: dict[str, list[str]] = {}
        await w.receiver.received("each", publish(w, published))
        await first.stop()
        await put_back(machines.database)

        publish(w, published)
        both = [await machines.machine("all") for _ in range(2)]
        count = publish(w, published)
        await w.receiver.received("each", count)
        assert sum(machine.log.count(MIGRATED) for machine in both) == 1
        in_order(w, published)
        for machine in both:
            await machine.stop()
