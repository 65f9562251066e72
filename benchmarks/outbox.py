"""Speed of the outbox with many delivered rows in it: deliveries over many receivers and to one, and what they cost.

Run ``python benchmarks/outbox.py`` (two minutes); ``--postgresql URL`` measures an empty database there too,
``--quick`` takes few rows, ``--json`` is for machines. The dispatcher is the real one; its channel answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sqlalchemy import Connection, text

from proxyd.base import log
from proxyd.base.clock import SystemClock
from proxyd.base.interpreter import tune_interpreter
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Message
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import ChannelDelivery
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.store.backups import open_store
from proxyd.store.sql_store import SqlStore

Line = dict[str, object]

BODY = b'{"type": "proxyd.notification", "data": {"items": [{"title": "' + b"x" * 300 + b'"}]}}'
TOGETHER = 500  # notifications that one probe makes
FEW, MANY = 1, 100  # receivers
RULES = 10  # of a receiver


class Taking:
    """A channel that accepts at once, and says when it has accepted enough."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self.is_done = asyncio.Event()

    async def deliver(self, _message: Message) -> str:
        """Accept a message."""
        self.left -= 1
        if not self.left:
            self.is_done.set()
        return "taken"


def insert_delivered(connection: Connection, receivers: int, first: int, many: int) -> None:
    """Insert notifications that were delivered, spread over the lanes that are measured."""
    numbers = f"WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {first + many})"
    rule, endpoint = f"'r' || (i / {receivers} % {RULES})", f"'log://' || (i % {receivers})"
    connection.execute(
        text(
            "INSERT INTO notifications (notification_id, rule, source_id, event_s, created_s, late, body) "
            f"{numbers} SELECT 'old' || i, {rule}, 's', 1.0, 1.0, false, :body FROM n"
        ),
        {"body": BODY},
    )
    connection.execute(
        text(
            "INSERT INTO outbox (notification_id, endpoint, secret_kind, secret_name, lane, state, attempts, next_s,"
            f" done_s, kind) {numbers} SELECT 'old' || i, {endpoint}, '', '', {rule} || '\n' || {endpoint},"
            " 'delivered', 1, 1.0, 2.0, 'channel' FROM n"
        )
    )


async def fill(store: SqlStore, receivers: int, delivered: int) -> None:
    """Insert delivered notifications, in parts that the server takes."""
    part = 50_000
    for first in range(0, delivered, part):
        many = min(part, delivered - first)
        await store.writer.submit(lambda on, a=(receivers, first, many): insert_delivered(on, *a))  # type: ignore[misc]
    if delivered:
        await store.writer.submit(lambda on: on.execute(text("ANALYZE")))


def notifications(receivers: int, many: int, now_s: float) -> Iterator[Notification]:
    """Return new notifications of each rule for each receiver in turn."""
    for number in range(many):
        rule, receiver = f"r{number // receivers % RULES}", ChannelDelivery(f"log://{number % receivers}")
        yield Notification(f"new{number}", rule, "s", now_s, now_s, False, BODY, (receiver,))


async def deliveries(database: str | Path, *, receivers: int, delivered: int, many: int) -> tuple[float, float]:
    """Return how many deliveries a second are made, and the seconds of our processor for each."""
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await store.writer.submit(
            lambda on: [on.execute(text(f"DELETE FROM {each}")) for each in ("lanes", "notifications")]
        )
        await fill(store, receivers, delivered)
        clock, channel = SystemClock(), Taking(many)
        made = list(notifications(receivers, many, clock.time_s()))
        for first in range(0, many, TOGETHER):
            await store.record_results(RuleResults(notifications=tuple(made[first : first + TOGETHER])))
        settings, rng = DispatcherSettings(600.0), np.random.default_rng(1)
        dispatcher = Dispatcher(store, channel, lambda _: None, clock, rng, Metrics(), settings)
        began_s, used_s = time.perf_counter(), time.process_time()
        running = asyncio.create_task(dispatcher.run())
        await asyncio.wait(
            [running, waiting := asyncio.create_task(channel.is_done.wait())], return_when="FIRST_COMPLETED"
        )
        await dispatcher.drain(60.0)
        await running
        await waiting
        seconds, used_s = time.perf_counter() - began_s, time.process_time() - used_s
        assert (await store.outbox_depth()).pending == 0
    return many / seconds, used_s / many


async def measure(database: str | Path, name: str, delivered: int, many: int) -> list[Line]:
    """Return a line for many receivers and for one, with and without delivered rows."""
    lines = []
    for receivers in (MANY, FEW):
        count = many if receivers == MANY else many // 3
        bare_per_s, _ = await deliveries(database, receivers=receivers, delivered=0, many=count)
        per_s, used_s = await deliveries(database, receivers=receivers, delivered=delivered, many=count)
        lines.append(
            {
                "what": f"{name}, receivers: {receivers}, rules: {RULES}, delivered: {delivered}",
                "per_s": round(per_s, 1),
                "seconds": count / per_s,
                "processor_ms": round(1000.0 * used_s, 3),
                "ratio": round(per_s / bare_per_s, 3),
            }
        )
    return lines


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delivered", type=int, default=1_000_000, help="delivered rows in the outbox")
    parser.add_argument("--deliveries", type=int, default=10_000, help="deliveries to measure")
    parser.add_argument("--postgresql", default="", help="address of an empty database")
    parser.add_argument("--quick", action="store_true", help="few rows")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    many, delivered = (300, 1000) if given.quick else (given.deliveries, given.delivered)
    tune_interpreter()
    log.configure("console", "error")
    with TemporaryDirectory() as folder:
        lines = asyncio.run(measure(Path(folder) / "p.db", "SQLite", delivered, many))
    if given.postgresql:
        lines += asyncio.run(measure(given.postgresql, "PostgreSQL", delivered, many))
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(
            f"{line['what']}: {line['per_s']} deliveries/s, {line['processor_ms']} ms of our processor each,"
            f" {line['ratio']} of the speed without delivered rows"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
