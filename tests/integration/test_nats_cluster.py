"""Planner and probers over a real NATS server: turns of hosts, dead probers, a server that restarts or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import structlog

from proxyd.base.clock import SystemClock
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Transport, Unmade
from proxyd.cluster.batch_prober import BatchProber, ProberSettings
from proxyd.cluster.link import ClusterSettings, NatsConnection, PartJoiner, Received, open_link
from proxyd.cluster.messages import ABSENT, CALL, HELLO, OUTBOX, REPORT, report_to, rights_of, work_of
from proxyd.cluster.nats_transport import NatsTransport, TransportSettings
from proxyd.cluster.nats_users import USERS
from proxyd.core.errors import ClusterError
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from tests.acceptance.support import eventually
from tests.contract.test_transports import Hosts
from tests.servers import NatsServer, nats_server, nats_servers
from tests.unit.cluster.bus import OnePlanner

HOLD_S = 6.0  # a busy machine may hold up all that runs here for a second or two
CLOCK = SystemClock()
REQUEST = ProbeRequest("s", "https://a.example/")


@dataclass
class Cluster:
    """A planner's transport, its server, and links for others."""

    server: NatsServer
    transport: NatsTransport
    link: NatsConnection
    metrics: Metrics
    stack: AsyncExitStack
    strays: list[tuple[ProbeOutcome, str]] = field(default_factory=list)

    async def prober(self, prober: Hosts) -> asyncio.Task[None]:
        """Run a prober that the planner knows; cancelling it is its sudden death."""
        before = self.transport.probers
        link = await self.stack.enter_async_context(open_link(self.link.settings))
        worker = BatchProber(link, prober, CLOCK, self.metrics, ProberSettings("p", 64, 0.0))
        task = asyncio.create_task(worker.run())

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        self.stack.push_async_callback(end)
        await eventually(lambda: self.transport.probers > before, "the planner knows it")
        return task


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with cluster_of() as found:
        yield found


@asynccontextmanager
async def cluster_of(hold_s: float = HOLD_S) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(nats_server())
        link = await stack.enter_async_context(open_link(ClusterSettings([server.url], "test")))
        metrics = Metrics()
        times = TransportSettings(1, hold_s, spacing_s=0.0, queue_s=30.0, patience_s=60.0)
        transport = NatsTransport(link, CLOCK, metrics, times, OnePlanner())
        found = Cluster(server, transport, link, metrics, stack)

        async def take(outcome: ProbeOutcome, *, reading: str, is_doubtful: bool) -> bool:
            found.strays.append((outcome, reading))
            return True

        running = asyncio.create_task(transport.run(take))
        stack.push_async_callback(asyncio.wait, [running])
        stack.callback(transport.stop)
        await eventually(lambda: link.is_up, "the server is there")
        yield found


async def ended(transport: Transport, request: ProbeRequest = REQUEST) -> ProbeOutcome | Unmade:
    async with transport.probe(request) as outcome:
        return outcome


async def test_a_host_is_asked_by_one_request_at_a_time_and_others_meanwhile(cluster: Cluster) -> None:
    prober = Hosts(CLOCK)
    prober.release.clear()
    for _ in range(2):
        await cluster.prober(prober)
    requests = [ProbeRequest(f"s{n}", f"https://h{n % 5}.example/{n}") for n in range(40)]
    asked = [asyncio.create_task(ended(cluster.transport, request)) for request in requests]
    await eventually(lambda: prober.begun.total() == 5, "every host is asked", state=lambda: prober.begun)
    prober.release.set()
    outcomes = await asyncio.gather(*asked)
    assert [each.source_id for each in outcomes if isinstance(each, ProbeOutcome)] == [r.source_id for r in requests]
    assert set(prober.most.values()) == {1}


async def test_a_prober_that_dies_loses_what_it_had_begun_and_gets_nothing_more(cluster: Cluster) -> None:
    dying, other = Hosts(CLOCK), Hosts(CLOCK)
    dying.release.clear()
    victim = await cluster.prober(dying)
    asked = asyncio.create_task(ended(cluster.transport))
    await eventually(lambda: dying.begun["a.example"] == 1, "the host is asked")
    victim.cancel()
    await asyncio.wait([victim])
    await cluster.prober(other)
    elsewhere = [await ended(cluster.transport, ProbeRequest("t", f"https://{n}.example/")) for n in range(4)]
    assert not asked.done()
    assert await asked is Unmade.LOST
    assert "a.example" not in other.most
    elsewhere += [await ended(cluster.transport) for _ in range(3)]
    unmade = [each for each in elsewhere if not isinstance(each, ProbeOutcome)]
    assert unmade in ([], [Unmade.NOT_BEGUN])  # the server says at once that it is gone


@pytest.mark.long
async def test_a_batch_that_takes_longer_than_its_hold_stays_where_it_is() -> None:
    slow, other = Hosts(CLOCK), Hosts(CLOCK)
    slow.release.clear()
    async with cluster_of(hold_s=12.0) as cluster:  # a loop that is held up for 3 s keeps it
        await cluster.prober(slow)
        asked = asyncio.create_task(ended(cluster.transport))
        await eventually(lambda: slow.begun["a.example"] == 1, "the host is asked")
        await cluster.prober(other)
        await asyncio.wait([asked], timeout=1.3 * 12.0)
        assert not asked.done()
        slow.release.set()
        assert isinstance(await asked, ProbeOutcome)
        assert not other.most


async def test_a_server_that_restarts_forgets_nothing_for_long(cluster: Cluster) -> None:
    prober = Hosts(CLOCK)
    await cluster.prober(prober)
    assert isinstance(await ended(cluster.transport), ProbeOutcome)
    cluster.server.stop()
    await eventually(lambda: not cluster.transport.is_up, "it is away")
    assert await ended(cluster.transport) is Unmade.NOT_BEGUN
    cluster.server.start()

    async def goes_on() -> bool:
        return isinstance(await ended(cluster.transport), ProbeOutcome)

    await eventually(goes_on, "work goes on")


async def test_messages_of_any_size_arrive_whole_and_in_order(cluster: Cluster) -> None:
    found: list[Received] = []
    sent = [bytes(size) + b"end" for size in (0, 10, 3_000_000, 5, 2_500_000)]
    async with cluster.link.heeding("some.*", found.append):
        for data in sent:
            await cluster.link.send("some.thing", data)
        await eventually(lambda: len(found) == len(sent), "all have come")
    assert [(each.last_word, each.data, each.is_unheard) for each in found] == [("thing", data, False) for data in sent]
    with pytest.raises(ClusterError, match="too large for NATS; raise its max_payload"):
        await cluster.link.send("some.thing", bytes(300 * 2**20))


async def test_the_server_says_that_nobody_has_received_a_message(cluster: Cluster) -> None:
    found: list[Received] = []
    async with cluster.link.heeding("nobody.*", found.append):
        await cluster.link.send("not.heeded", b"x", reply="nobody.here")
        await eventually(lambda: found, "the server says so")
    assert found == [Received("nobody.here", b"", is_unheard=True)]


def test_parts_that_never_become_whole_are_dropped() -> None:
    parts = PartJoiner()
    for number in range(1000):
        assert parts.join(f"m{number} 0 2", b"x") is None
    assert len(parts._unfinished) < 100
    part = bytes(2**20)
    for number in range(2000):
        assert parts.join(f"large{number // 200} {number % 200} 256", part) is None
    held = sum(len(each) for found in parts._unfinished.values() for each in found.values())
    assert 2**28 < held == parts._bytes <= 2**29
    for header in ("", "m", "m 1", "m 2 2", "m -1 2", "m 0 1000000", "m 0 x"):
        assert parts.join(header, b"x") is None


async def test_what_can_never_connect_says_why() -> None:
    async with open_link(ClusterSettings(["nats://127.0.0.1:none"], "test")) as link:
        with pytest.raises(ClusterError, match="invalid connect url"):
            await link.server.fail_if_refused()
        with pytest.raises(ClusterError, match="no NATS server is connected; check the servers of the setting nats"):
            await link.send("a")
        await link.ring()  # nothing is lost: the notifier looks for itself


async def test_a_server_that_is_frozen_is_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more written than the system's buffers take, the client would wait for the frozen one."""
    monkeypatch.setattr("nats.aio.client.shuffle", lambda servers: servers)
    frozen = asyncio.Event()

    async def freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"headers":true}\r\n')
        while not (await reader.readline()).startswith(b"PING"):
            continue
        writer.write(b"PONG\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await frozen.wait()
        writer.transport.abort()

    listening = await asyncio.start_server(freeze, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    with nats_server() as server:
        async with listening, open_link(ClusterSettings([f"nats://127.0.0.1:{port}", server.url], "test")) as link:
            await eventually(lambda: link.is_up, "the first server is connected")
            sending = asyncio.create_task(link.send("large", bytes(12_000_000)))
            await eventually(lambda: link.server.connection == 2, "the second server is connected")
            await asyncio.wait([sending])
            assert sending.exception() is None or isinstance(sending.exception(), ClusterError)
            frozen.set()


async def test_a_server_that_refuses_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with nats_server(password="right") as server, structlog.testing.capture_logs() as said:
        settings = ClusterSettings([server.url.replace("right", "wrong")], "test")
        async with open_link(settings) as link:
            note = Mock(wraps=link.server.note)
            monkeypatch.setattr(link.server, "note", note)
            await eventually(lambda: note.call_count > 6, "it was refused several times")
    assert sum("Authorization" in str(each) for each in said) == 1
    assert "wrong" not in str(said)


async def test_each_user_of_a_server_may_do_what_its_role_does_and_nothing_else(tmp_path: Path) -> None:
    said = [CALL, OUTBOX, HELLO, REPORT, report_to(7), f"{work_of('a')}.batch", f"{ABSENT}.a", "other"]
    heard: set[tuple[str, str, bytes]] = set()
    async with AsyncExitStack() as stack:
        stack.enter_context(nats_server(config=tmp_path))
        links: dict[str, NatsConnection] = {}
        for role in USERS:
            settings = ClusterSettings([(tmp_path / f"nats_url_{role}").read_text(encoding="utf-8")], role)
            link = links[role] = await stack.enter_async_context(open_link(settings))
            await eventually(partial(getattr, link, "is_up"), f"{role} is connected")
            for subject in ("proxyd.>", *rights_of(role).hear):
                await stack.enter_async_context(link.heeding(subject, partial(_note, heard, role)))
            await link._client.flush()

        async def are_heard(speaker: str, wanted: set[tuple[str, str, bytes]]) -> bool:
            """Say everything, perhaps again: a connection that is lost for a moment loses what is said then."""
            with suppress(ClusterError):
                for subject in said:
                    await links[speaker].send(subject, speaker.encode())
            return wanted <= heard

        for role in links:
            allowed = [subject for subject in said if _may(rights_of(role).publish, subject)]
            may_hear = {(to, subject) for to in USERS for subject in allowed if _may(rights_of(to).hear, subject)}
            wanted = {(to, subject, role.encode()) for to, subject in may_hear}
            await eventually(partial(are_heard, role, wanted), f"{role} is heard", state=partial(list, heard))
            await links[role]._client.flush()
            assert {each for each in heard if each[2] == role.encode()} == wanted


async def test_servers_that_are_prepared_together_are_one_cluster(tmp_path: Path) -> None:
    heard: set[tuple[str, str, bytes]] = set()
    async with AsyncExitStack() as stack:
        _, urls = stack.enter_context(nats_servers(tmp_path))
        opened = {}
        for role, number in (("planner", 0), ("prober", 2)):  # each knows one server only
            url = urls[role].split(",")[number]
            opened[role] = await stack.enter_async_context(open_link(ClusterSettings([url], role)))
            await eventually(partial(getattr, opened[role], "is_up"), f"{role} is connected")
        await stack.enter_async_context(opened["planner"].heeding(HELLO, partial(_note, heard, "planner")))

        async def is_heard() -> bool:
            with suppress(ClusterError):
                await opened["prober"].send(HELLO, b"hello")
            return ("planner", HELLO, b"hello") in heard

        await eventually(is_heard, "the planner hears the prober")


def _note(heard: set[tuple[str, str, bytes]], role: str, received: Received) -> None:
    heard.add((role, received.subject, received.data))


def _may(rights: Sequence[str], subject: str) -> bool:
    return any(fnmatchcase(subject, right.replace(">", "*")) for right in rights)
