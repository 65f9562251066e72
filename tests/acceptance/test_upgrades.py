"""A database of 0.1, and one of the version before, taken over while origins and receivers are busy."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, World, eventually, world
from tests.acceptance.test_faults import one_id_for_each_item
from tests.cluster.support import cluster
from tests.former import V0_1, former_file
from tests.next_version import make_next_version
from tests.servers import PostgresServer

SOURCES = [f"s{number}" for number in range(20)]
MIGRATED = '"tables are brought to the newest schema"'


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


def of_0_1(w: World) -> dict[str, list[str]]:
    """Put the database and the profiles of 0.1 in place; return the ids of what each receiver has not accepted."""
    database = w.daemon.database
    database.unlink()
    addresses = {"origin": f"127.0.0.1:{w.origin.port}", "receiver": f"127.0.0.1:{w.receiver.port}"}
    with closing(sqlite3.connect(former_file(V0_1, database, **addresses))) as connection, connection:
        since_s = time.time() - connection.execute("SELECT max(created_s) FROM notifications").fetchone()[0]
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:  # it ended a moment ago, whenever this runs
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                if column.endswith("_s"):  # a duration is less
                    later = f"UPDATE {table} SET {column} = {column} + ? WHERE {column} > 1e9"
                    connection.execute(later, (since_s,))
        (text,) = connection.execute("SELECT text FROM texts WHERE origin = 'file'").fetchone()
        waiting: dict[str, list[str]] = {}
        for endpoint, notification_id in connection.execute(
            "SELECT endpoint, notification_id FROM outbox WHERE state = 'pending' ORDER BY position"
        ):
            waiting.setdefault(endpoint.rpartition("/")[2], []).append(notification_id)
    w.daemon.declare(text)
    return waiting


async def test_data_of_0_1_is_taken_over_what_waited_is_sent_and_nothing_comes_twice(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        waiting = of_0_1(w)
        published = {"s1": w.origin.feed("s1", "atom"), "s2": w.origin.feed("s2")}
        published["s1"].add(10, age_s=3600.0)  # what 0.1 has seen
        published["s2"].add(5, age_s=3600.0)
        await w.daemon.start()
        assert w.daemon.log.count(MIGRATED) == 1
        await w.receiver.received("down", len(waiting["down"]))
        assert [arrival.webhook_id for arrival in w.receiver.accepted("down")] == waiting["down"]
        new = [*published["s1"].add(2), *published["s2"].add(2) * 2]  # two of its sources read s2
        assert sorted(await w.receiver.received("each", len(new))) == sorted(new)
        w.receiver.check()
        await w.daemon.stop()


@pytest.mark.long
async def test_of_two_machines_one_upgrades(tmp_path: Path, postgresql: PostgresServer) -> None:
    code = make_next_version(tmp_path / "next")
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

        publish(w, published)
        both = [await machines.machine("all", code=code) for _ in range(2)]
        count = publish(w, published)
        await w.receiver.received("each", count)
        assert sum(machine.log.count(MIGRATED) for machine in both) == 1
        in_order(w, published)
        for machine in both:
            await machine.stop()
