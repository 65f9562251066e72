"""Every attack of ``tests/hostile.py`` on one real daemon: it goes on, and what it took is printed."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.acceptance.support import DOMAIN, PROFILE, Daemon, World, eventually, rule_text, world
from tests.hostile import ANSWERS, LISTS, REQUESTS, Sent

PING = """
import http.client, sys, threading, time
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
longest, count = 0.0, 0
while not stop.wait(0.005):
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b'{"alive":true}'
    connection.close()
    longest, count = max(longest, time.perf_counter() - began), count + 1
print(longest, count)
"""


@dataclass
class Attacker:
    """An origin and a receiver that answers each path as ``ANSWERS`` says."""

    port: int = 0
    asked: Counter[str] = field(default_factory=Counter)

    def url(self, name: str) -> str:
        """Return an address whose host is of this attack alone."""
        return f"http://127.0.1.{list(ANSWERS).index(name) + 1}:{self.port}/{quote(name)}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            name = unquote(head.split()[1].decode()).strip("/").partition("?")[0]
            self.asked[name] += 1
            if name == "robots.txt":
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                await send(ANSWERS[name], writer)
                await reader.read()


async def send(sent: Sent, writer: asyncio.StreamWriter) -> None:
    """Send the beginning, and then the piece until the other end has enough."""
    writer.write(sent.begin)
    await writer.drain()
    while sent.piece:
        writer.write(sent.piece)
        await writer.drain()
        await asyncio.sleep(0.1 if sent.slow else 0)


@asynccontextmanager
async def attacking() -> AsyncIterator[Attacker]:
    attacker, running = Attacker(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        task.add_done_callback(running.discard)
        try:
            await attacker.answer(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "0.0.0.0", 0, limit=1 << 20)
    attacker.port = server.sockets[0].getsockname()[1]
    try:
        yield attacker
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@dataclass
class Siege:
    """The daemon of a world under attack."""

    world: World
    attacker: Attacker
    token: str

    @property
    def daemon(self) -> Daemon:
        return self.world.daemon

    async def ask(self, sent: Sent) -> None:
        """Send a request, and read nothing of its answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.daemon.port)
        try:
            with suppress(ConnectionError):
                await send(sent, writer)
                await reader.read(1)
        finally:
            writer.transport.abort()

    async def use(self, number: int) -> None:
        """Do what the holder of a token may: import bombs, declare much, ask for much."""
        name, body = list(LISTS.items())[number % len(LISTS)]
        kind = {"Content-Type": "text/plain" if name == "many" else "text/x-opml"}
        path, sent = "/api/v1/import?dry_run=true", BytesIO(body)
        status, _, _ = await self.daemon.request("POST", path, token=self.token, data=sent, headers=kind)
        assert status in {200, 413, 422, 503}
        many = "".join(source_text(f"m{n}", f"https://m{n}.example/") for n in range(60))
        many += "".join(rule_text(f"m{n}", 1 + n, "https://m.example/") for n in range(40))
        assert (await self.daemon.post_profile(many, self.token, query="?dry_run=true"))[0] in {200, 503}
        assert (await self.daemon.post_profile("(" * 100_000, self.token))[0] == 422
        for path in ("sources?limit=500", "plan?limit=500", "notifications?limit=500", "advice", "export"):
            assert (await self.daemon.request("GET", f"/api/v1/{path}", token=self.token))[0] == 200


def source_text(name: str, url: str) -> str:
    return f"CREATE SOURCE \"{name}\" OF RSS AT '{url}';\n"


@asynccontextmanager
async def besieged(folder: Path, **settings: str) -> AsyncIterator[Siege]:
    async with attacking() as attacker, world(folder, api_rate="", **settings) as w:
        w.origin.feed("honest").add()
        text = DOMAIN + PROFILE + source_text("honest", w.origin.url("honest"))
        text += "".join(source_text(name, attacker.url(name)) for name in ANSWERS)
        text += rule_text("each", 1, w.receiver.url("each"))
        text += "".join(rule_text(name, 1, attacker.url(name)) for name in ANSWERS)
        w.daemon.declare(text)
        await w.daemon.start()
        await w.daemon.knows("honest")
        token = (await w.daemon.cli("token", "create", "--name", "me", "--scope", "write")).out.split()[-1]
        yield Siege(w, attacker, token)


async def besiege(siege: Siege, rounds: int, at_once: int) -> None:
    """Attack in rounds; in each, what is published on the honest feed arrives."""
    daemon, pid, published = siege.daemon, siege.daemon.pid, 0
    for number in range(rounds):
        async with asyncio.TaskGroup() as attacks:
            asking = [attacks.create_task(siege.ask(sent)) for sent in REQUESTS.values() for _ in range(at_once)]
            using = [attacks.create_task(siege.use(number * at_once + each)) for each in range(at_once)]
            await siege.world.origin.was_asked("honest")
            siege.world.origin.feeds["honest"].add()
            published += 1
            await siege.world.receiver.received("each", published)
            await asyncio.gather(*using)
            for task in asking:
                task.cancel()
    names = set(ANSWERS)
    await eventually(lambda: names <= set(siege.attacker.asked), "every attack was asked for")
    await eventually(lambda: tried(siege, names), "every attack has an outcome", timeout_s=180.0)
    status, _, checks = await daemon.request("GET", "/readyz")
    assert (status, daemon.pid, daemon.has_ended) == (200, pid, False), checks
    assert "Traceback" not in daemon.log


async def tried(siege: Siege, names: set[str]) -> bool:
    found = await siege.daemon.sources()
    return all(found[name]["last_outcome"] for name in names)


@asynccontextmanager
async def measured(siege: Siege) -> AsyncIterator[dict[str, float]]:
    """Measure, from a process of its own, how long the daemon takes to say that it is alive, and its peak memory."""
    pipe = asyncio.subprocess.PIPE
    pinging = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PING, str(siege.daemon.port), stdin=pipe, stdout=pipe
    )
    found: dict[str, float] = {}
    try:
        yield found
    finally:
        told, _ = await pinging.communicate(b"")
        longest_s, count = told.split()
        found |= {"longest_s": float(longest_s), "pings": float(count), "peak_mib": peak_mib(siege.daemon.pid)}
        figures = "; ".join(f"{name} {value:.3f}" for name, value in found.items())
        print(figures, end=" ")  # noqa: T201 - the figures are what the run is for


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process, without those that it started."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


@pytest.mark.long
async def test_every_attack_once(tmp_path: Path) -> None:
    async with besieged(tmp_path, probe_timeout="1s", delivery_timeout="1s") as siege:
        await besiege(siege, rounds=1, at_once=1)


@pytest.mark.alone
@pytest.mark.timeout(900)
async def test_every_attack_at_once_and_again(tmp_path: Path) -> None:
    """Prints the longest stall of the event loop, as a client sees it, and the peak memory of the daemon."""
    async with besieged(tmp_path, probe_timeout="5s", delivery_timeout="5s", source_spacing="2s") as siege:
        async with measured(siege) as found:
            await besiege(siege, rounds=3, at_once=4)
        assert found["pings"] > 100
        assert found["longest_s"] < 3.0
        assert found["peak_mib"] < 1024
