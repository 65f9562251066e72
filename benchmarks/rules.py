"""Speed of rules and deliveries: from a response to its webhook, the outbox alone, and a receiver that is stuck.

Run ``python benchmarks/rules.py`` (about a minute); ``--quick`` for few sources, ``--json`` for machines. Origin and
receiver are one process of their own on loopback; the daemon is the real one. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from proxyd.app import wiring as app
from proxyd.app.wiring import Built
from proxyd.base import log
from proxyd.base.interpreter import tune_interpreter
from proxyd.config.loading import SecretStore
from proxyd.config.settings import Settings
from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.backups import owner_lock
from proxyd.store.sql_store import SqlStore

Line = dict[str, object]

ITEMS_A_SECOND = 10.0
SHOWN = 5
WANTED_PER_S = 2000.0
PACED = "400/s"  # about what the sources need: starts are spread over the chronon
AT_ONCE = "10000/s"  # all that is due in a chronon starts in its first moments
SECRET = "SECRET_BENCH"
_CLASSES = """CREATE DOMAIN "Bench" AS CLASS::RSS(channel.item.guid:String, channel.item.pubDate:Timestamp);
CREATE PROFILE "Bench" AS (DOMAIN "Bench", LANGUAGE "SQL", USER "bench");
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    sources: int = 1000
    seconds: float = 20.0
    deliveries: int = 6000


QUICK = Scale(sources=20, seconds=1.5, deliveries=200)


# -- the world in a process of its own


class World(asyncio.Protocol):
    """Serves ``/feed/N``, which gains an item every now and then, and takes webhooks at ``/hook`` and ``/stuck``."""

    sources = 1
    began_s = time.time()
    late_s: list[float] = []  # noqa: RUF012 - one world in a process
    taken = 0

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            length = _content_length(head)
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._answer(head, rest[:length])

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        path = head.split(b" ", 2)[1].decode()
        if path.startswith("/feed/"):
            self._transport.write(_response(feed(int(path.rpartition("/")[2]))))
        elif path.startswith("/hook"):
            event = json.loads(body)["data"].get("event")
            if event is not None:  # a ping has none
                World.taken += 1
                World.late_s.append(time.time() - datetime.fromisoformat(event["seen"]).timestamp())
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        elif path == "/figures":
            figures = json.dumps({"taken": World.taken, "late_s": World.late_s}).encode()
            World.taken, World.late_s = 0, []
            self._transport.write(_response(figures))


def _content_length(head: bytes) -> int:
    lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return int(lengths[0]) if lengths else 0


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def feed(number: int) -> bytes:
    """Return a source's feed now: with all sources together there are ``ITEMS_A_SECOND`` new items."""
    every_s = World.sources / ITEMS_A_SECOND
    newest = int((time.time() - World.began_s - number / ITEMS_A_SECOND) // every_s)
    items = "".join(f"<item><guid>{number}-{each}</guid></item>" for each in range(newest, newest - SHOWN, -1))
    return f"<rss version='2.0'><channel><title>{number}</title>{items}</channel></rss>".encode()


async def serve_world(sources: int) -> None:
    """Listen and say on which port; for ever."""
    World.sources = sources
    server = await asyncio.get_running_loop().create_server(World, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def world(sources: int) -> Iterator[int]:
    """Run the world while the context is open; yields its port."""
    command = [sys.executable, __file__, "--world", str(sources)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def figures(port: int) -> tuple[int, list[float]]:
    """Return what the receiver took since it was asked last: how many, and how late each was."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /figures HTTP/1.1\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    body = json.loads(await reader.readexactly(_content_length(head)))
    writer.close()
    return body["taken"], body["late_s"]


# -- the daemon


def _settings(folder: Path, budget: str) -> Settings:
    return Settings.model_validate(
        {
            "profiles": folder / "profiles",
            "database": str(folder / "bench.db"),
            "chronon": 1.0,
            "budget": budget,
            "source_spacing": 1.0,
            "host_spacing": 0.0,
            "host_concurrency": 64,
            "allow_networks": ["127.0.0.0/8"],
            "delivery_timeout": 300.0,
            "drain_timeout": 0.5,
        }
    )


def _profiles(port: int, sources: int, *, stuck: int) -> Sequence[str]:
    """Return texts of a rule for each source; the first ``stuck`` deliver to a receiver that never answers."""
    lines = [_CLASSES]
    for number in range(sources):
        hook = "stuck" if number < stuck else "hook"
        lines.append(
            f"CREATE SOURCE \"s{number}\" OF RSS AT 'http://127.0.0.1:{port}/feed/{number}';\n"
            f'INSERT NOTIFICATION "r{number}" INTO "Bench" FROM SOURCES "s{number}" SET QUERY "SELECT guid FROM RSS"\n'
            'SET TRIGGER "ON INSERT TO RSS" START NOW END NEVER SET UTILITY STRICT SET POLICY UNIFORM(3 SECONDS)\n'
            f"SET DELIVERY WEBHOOK 'http://127.0.0.1:{port}/{hook}' SECRET ENV '{SECRET}';\n"
        )
    return ["".join(lines[first : first + 50]) for first in range(0, len(lines), 50)]


@asynccontextmanager
async def daemon(texts: Sequence[str], budget: str = PACED) -> AsyncIterator[Built]:
    """Run a daemon on these texts while the context is open."""
    with TemporaryDirectory(prefix="proxyd-bench-") as name:
        settings = _settings(Path(name), budget)
        settings.profiles.mkdir()
        for number, text in enumerate(texts):
            (settings.profiles / f"{number:04d}.profile").write_text(text, encoding="utf-8")
        with owner_lock(settings.database):
            async with app.open_parts(settings) as opened, asyncio.TaskGroup() as tasks:
                built = app.build(settings, _with_secret(opened, settings))
                tasks.create_task(built.daemon.run(), name="daemon")
                yield built
                built.daemon.stop()


def _with_secret(parts: app.Resources, settings: Settings) -> app.Resources:
    return replace(parts, secrets=SecretStore(settings, {SECRET: "benchmark"}))


def value(control: Built, name: str, **labels: str) -> float:
    """Return a metric."""
    return control.metrics.registry.get_sample_value(name, labels) or 0.0


async def until(is_so: Callable[[], bool], within_s: float = 120.0) -> None:
    """Wait until ``is_so()``."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - the daemon tells nobody what it has done
            await asyncio.sleep(0.02)


# -- what is measured


async def to_the_webhook(port: int, scale: Scale, *, stuck: int = 0, budget: str = PACED) -> Line:
    """Return how long it takes from a response read to its webhook at the receiver."""
    texts = _profiles(port, scale.sources, stuck=stuck)
    async with daemon(texts, budget) as control:
        await until(lambda: value(control, "proxyd_probes_total", outcome="changed") >= scale.sources)
        await asyncio.sleep(1.0)
        await figures(port)
        began = perf_counter()
        await asyncio.sleep(scale.seconds)
        taken, late_s = await figures(port)
        seconds = perf_counter() - began
    late = sorted(late_s)
    quantiles = {f"p{part}_ms": 1000.0 * late[int(part / 100 * (len(late) - 1))] if late else 0.0 for part in (50, 99)}
    expected = ITEMS_A_SECOND * (scale.sources - stuck) / scale.sources * seconds
    what = f"response to webhook, budget {budget}" + (f", {stuck} receivers stuck" if stuck else "")
    return {"what": what, "seconds": seconds, "taken": taken, "ratio": taken / expected, **quantiles}


async def from_the_outbox(port: int, scale: Scale, *, endpoints: int, rules: int = 200) -> Line:
    """Return how many deliveries a second the outbox gives out: each signed, accepted and noted."""
    async with daemon([_CLASSES]) as control:
        await until(lambda: control.declarations.has_started)
        await _fill(control.resources.store, port, scale.deliveries, endpoints, rules)
        began = perf_counter()
        control.loops.notifier.wake()
        await until(lambda: value(control, "proxyd_deliveries_total", result="accepted") >= scale.deliveries)
        seconds = perf_counter() - began
    per_s = scale.deliveries / seconds
    what = f"outbox, endpoints: {endpoints}, rules: {rules}"
    return {"what": what, "seconds": seconds, "per_s": per_s, "ratio": per_s / WANTED_PER_S}


async def _fill(store: SqlStore, port: int, count: int, endpoints: int, rules: int) -> None:
    """Put notifications of many rules into the outbox: a lane takes one at a time."""
    body = json.dumps({"data": {"event": {"seen": "2026-01-01T00:00:00.000Z"}}}).encode()
    hooks = [WebhookDelivery(f"http://127.0.0.1:{port}/hook{n}", SecretRef("env", SECRET)) for n in range(endpoints)]
    sent = [
        Notification(f"n{n}", f"r{n % rules}", "s", 0.0, 0.0, False, body, (hooks[n % endpoints],))
        for n in range(count)
    ]
    await store.record_results(RuleResults(notifications=tuple(sent)))


async def lines(scale: Scale) -> list[Line]:
    """Return all figures."""
    tune_interpreter()
    with world(scale.sources) as port:
        measured = [await to_the_webhook(port, scale), await to_the_webhook(port, scale, budget=AT_ONCE)]
        measured.append(await to_the_webhook(port, scale, stuck=scale.sources // 10))
        measured.extend([await from_the_outbox(port, scale, endpoints=many) for many in (1, 40)])
        measured.append(await from_the_outbox(port, scale, endpoints=1, rules=1))
    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sources, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--world", type=int, help="only serve the feeds and the receiver; the benchmark starts it so")
    options = parser.parse_args()
    if options.world:
        asyncio.run(serve_world(options.world))
        return
    log.configure("json", "error")
    measured = asyncio.run(lines(QUICK if options.quick else Scale()))
    if options.json:
        print(json.dumps(measured))
        return
    for line in measured:
        shown = (f"{name} {each:.4g}" if isinstance(each, float) else f"{each}" for name, each in line.items())
        print(", ".join(shown))


if __name__ == "__main__":
    main()
