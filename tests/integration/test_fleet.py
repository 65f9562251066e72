"""Planner and probers over a real NATS server: turns of hosts, lost batches, terms, strays, what cannot be read."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import structlog
from nats.js.object_store import ObjectStore

from proxyd.clock import SystemClock
from proxyd.cluster.batch_prober import BatchProber, ProberSettings
from proxyd.cluster.batches import BATCHES, REPORTS, Batch, ProbeReport
from proxyd.cluster.link import ClusterSettings, NatsConnection, open_link, partition
from proxyd.cluster.nats_transport import NatsTransport
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.errors import ClusterError
from proxyd.metrics import Metrics
from proxyd.ports import Transport, Unmade
from tests.acceptance.support import eventually
from tests.contract.test_transports import Hosts
from tests.servers import nats_server

LEASE_S = 6.0  # a busy machine may hold up all that runs here for a second or two
CLOCK = SystemClock()


@dataclass
class Fleet:
    """A planner's transport, and links for others."""

    settings: ClusterSettings
    transport: NatsTransport
    link: NatsConnection
    metrics: Metrics
    stack: AsyncExitStack
    strays: list[tuple[ProbeOutcome, str]] = field(default_factory=list)

    async def prober(self, prober: Hosts) -> asyncio.Task[None]:
        """Run a prober; cancelling it is its sudden death."""
        link = await self.stack.enter_async_context(open_link(self.settings))
        worker = BatchProber(link, prober, CLOCK, self.metrics, ProberSettings("p", 64, 0.0))
        task = asyncio.create_task(worker.run())

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        self.stack.push_async_callback(end)
        return task

    def made(self, result: str) -> float:
        """Return how many batches ended so."""
        return float(self.metrics.registry.get_sample_value("proxyd_batches_total", {"result": result}) or 0.0)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_of(tmp_path) as found:
        yield found


@asynccontextmanager
async def fleet_of(folder: Path, *, lease_s: float = LEASE_S, patience_s: float = 20.0) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(nats_server(folder))
        settings = ClusterSettings([server.url], "test", lease_s, 30.0)
        link = await stack.enter_async_context(open_link(settings))
        metrics = Metrics()
        transport = NatsTransport(link, CLOCK, metrics, term=1, spacing_s=0.0, patience_s=patience_s)
        found = Fleet(settings, transport, link, metrics, stack)

        async def take(outcome: ProbeOutcome, *, reading: str) -> None:
            found.strays.append((outcome, reading))

        running = asyncio.create_task(transport.run(take))
        stack.push_async_callback(asyncio.wait, [running])
        stack.callback(transport.stop)
        yield found


async def ended(transport: Transport, request: ProbeRequest) -> ProbeOutcome | Unmade:
    async with transport.probe(request) as outcome:
        return outcome


async def test_a_host_is_asked_by_one_request_at_a_time_and_others_meanwhile(fleet: Fleet) -> None:
    prober = Hosts(CLOCK)
    prober.release.clear()
    for _ in range(2):
        await fleet.prober(prober)
    requests = [ProbeRequest(f"s{n}", f"https://h{n % 5}.example/{n}") for n in range(40)]
    asked = [asyncio.create_task(ended(fleet.transport, request)) for request in requests]
    await eventually(lambda: prober.begun.total() == 5, "every host is asked", state=lambda: prober.begun)
    prober.release.set()
    outcomes = await asyncio.gather(*asked)
    assert [each.source_id for each in outcomes if isinstance(each, ProbeOutcome)] == [r.source_id for r in requests]
    assert set(prober.most.values()) == {1}


async def test_a_batch_whose_prober_dies_is_reported_lost_and_not_made_again(fleet: Fleet) -> None:
    dying, other = Hosts(CLOCK), Hosts(CLOCK)
    dying.release.clear()
    victim = await fleet.prober(dying)
    asked = asyncio.create_task(ended(fleet.transport, ProbeRequest("s", "https://a.example/")))
    await eventually(lambda: dying.begun["a.example"] == 1, "the host is asked")
    await fleet.prober(other)
    victim.cancel()
    assert await asked is Unmade.LOST
    await eventually(lambda: fleet.made("lost") == 1, "it is counted")  # its report may be here before it knows so
    assert not other.most
    assert isinstance(await ended(fleet.transport, ProbeRequest("s", "https://a.example/")), ProbeOutcome)
    assert other.most["a.example"] == 1


async def test_a_batch_that_takes_longer_than_its_lease_stays_where_it_is(tmp_path: Path) -> None:
    slow, other = Hosts(CLOCK), Hosts(CLOCK)
    slow.release.clear()
    async with fleet_of(tmp_path, lease_s=15.0, patience_s=60.0) as fleet:  # a loop that is held up for 3 s keeps it
        await fleet.prober(slow)
        asked = asyncio.create_task(ended(fleet.transport, ProbeRequest("s", "https://a.example/")))
        await eventually(lambda: slow.begun["a.example"] == 1, "the host is asked")
        await fleet.prober(other)
        await asyncio.wait([asked], timeout=1.3 * fleet.settings.lease_s)
        assert not asked.done()
        slow.release.set()
        assert isinstance(await asked, ProbeOutcome)
        assert not other.most


async def test_a_host_whose_batch_was_withdrawn_rests_until_its_prober_must_know(fleet: Fleet) -> None:
    slow, other = Hosts(CLOCK), Hosts(CLOCK)
    await fleet.prober(slow)
    request = ProbeRequest("s", "https://a.example/")
    assert isinstance(await ended(fleet.transport, request), ProbeOutcome)
    slow.release.clear()
    fleet.transport._patience_s = LEASE_S / 2.0
    asked = asyncio.create_task(ended(fleet.transport, request))
    await eventually(lambda: slow.begun["a.example"] == 1, "the host is asked")
    await fleet.prober(other)
    assert await asked is Unmade.LOST
    lost_s = CLOCK.time_s()
    fleet.transport._patience_s = 20.0
    again = asyncio.create_task(ended(fleet.transport, request))
    await eventually(lambda: slow.begun["a.example"] == 0, "it was broken off")
    slow.release.set()
    outcome = await again
    assert isinstance(outcome, ProbeOutcome)
    assert outcome.started_s - lost_s > 0.9 * LEASE_S


async def test_a_prober_that_ends_leaves_nothing_asked_for(fleet: Fleet) -> None:
    """Else the server would give the next batch to nobody, and who gets it then would take it for lost."""
    first, second = Hosts(CLOCK), Hosts(CLOCK)
    ending = await fleet.prober(first)
    request = ProbeRequest("s", "https://a.example/")
    assert isinstance(await ended(fleet.transport, request), ProbeOutcome)
    ending.cancel()
    await asyncio.wait([ending])
    await fleet.prober(second)
    assert isinstance(await ended(fleet.transport, request), ProbeOutcome)
    assert second.most["a.example"] == 1


async def test_what_an_earlier_planner_asks_for_is_not_done(fleet: Fleet) -> None:
    prober = Hosts(CLOCK)
    await fleet.prober(prober)
    fleet.transport._term = 2  # a prober learns the newest term from what it is sent
    request = ProbeRequest("s", "https://a.example/")
    while not isinstance(await ended(fleet.transport, request), ProbeOutcome):  # it is lost where the machine is busy
        continue
    await fleet.link.send(Batch("old", 1, "b.example", 0.0, (ProbeRequest("t", "https://b.example/"),)))
    await eventually(lambda: fleet.made("outdated") == 1, "the batch is refused")
    assert "b.example" not in prober.most


async def test_a_report_that_nobody_waits_for_is_taken_in_with_what_it_speaks_of(fleet: Fleet) -> None:
    await eventually(_is_there(fleet), "the streams are made")
    now_s = CLOCK.time_s()
    outcome = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, now_s - 1.0, now_s)
    await fleet.link.report(ProbeReport("batch of another", 0, "p", "reading", now_s - 2.0, outcome))
    await fleet.link.report(ProbeReport("batch of another", 1, "p", "reading", now_s - 2.0, None))
    await eventually(lambda: fleet.strays, "it is taken in")
    assert fleet.strays == [(outcome, "reading")]


async def test_a_report_that_comes_again_is_taken_in_once(fleet: Fleet) -> None:
    await eventually(_is_there(fleet), "the streams are made")
    now_s = CLOCK.time_s()
    ahead = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, now_s + 60.0, now_s + 61.0)  # by its prober's clock
    for _ in range(2):
        data = REPORTS.write(ProbeReport("batch of another", 0, "p", "reading", now_s - 2.0, ahead))
        await fleet.link._streams.publish("proxyd.report", data)
        await eventually(_is_acknowledged(fleet), "it is acknowledged")
    assert len(fleet.strays) == 1


async def test_a_report_that_cannot_be_had_now_comes_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await eventually(_is_there(fleet), "the streams are made")
    find, failures = fleet.link._large, [ClusterError("NATS failed")]

    async def large() -> ObjectStore:
        if failures:
            raise failures.pop()
        return await find()

    now_s = CLOCK.time_s()
    outcome = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, now_s, now_s, detail=secrets.token_hex(2**20))
    sender = await fleet.stack.enter_async_context(open_link(fleet.settings))
    await eventually(lambda: sender.is_up, "the prober is connected")
    monkeypatch.setattr(fleet.link, "_large", large)
    await sender.report(ProbeReport("batch of another", 0, "p", "reading", now_s - 2.0, outcome))
    await eventually(lambda: fleet.strays, "it is taken in")
    assert fleet.strays == [(outcome, "reading")]
    assert failures == []


def _is_acknowledged(fleet: Fleet) -> Callable[[], Awaitable[object]]:
    async def found() -> bool:
        return (await fleet.link._streams.stream_info("PROXYD_REPORTS")).state.messages == 0

    return found


def _is_there(fleet: Fleet) -> Callable[[], Awaitable[object]]:
    async def found() -> bool:
        return fleet.transport._tasks is not None

    return found


async def test_messages_that_cannot_be_read_are_dropped_and_the_next_ones_are_not(fleet: Fleet) -> None:
    await fleet.prober(Hosts(CLOCK))
    await eventually(_is_there(fleet), "the streams are made")
    streams = fleet.link._streams
    for subject in (f"proxyd.probe.{partition('a.example')}", "proxyd.report"):
        for data in (b"", b"no message", BATCHES.write(Batch("b", 1, "h", 0.0, ()))[:-3]):
            await streams.publish(subject, data)
    assert isinstance(await ended(fleet.transport, ProbeRequest("s", "https://a.example/")), ProbeOutcome)


async def test_without_a_server_nothing_is_begun(tmp_path: Path) -> None:
    async with fleet_of(tmp_path) as fleet:
        await fleet.prober(Hosts(CLOCK))
        assert isinstance(await ended(fleet.transport, ProbeRequest("s", "https://a.example/")), ProbeOutcome)
        await fleet.link._client.close()
        assert await ended(fleet.transport, ProbeRequest("s", "https://a.example/")) is Unmade.NOT_BEGUN


async def test_what_was_pulled_with_is_forgotten_also_without_a_server(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        async with open_link(ClusterSettings([server.url], "test", LEASE_S, 30.0)) as link:
            await eventually(lambda: link.is_up, "the server is there")
            await link.ensure()
            before = len(link._client._subs)
            async with link.pulling_batches(0):
                assert len(link._client._subs) == before + 1
                server.stop()
                await eventually(lambda: not link.is_up, "the server is away")
            assert len(link._client._subs) == before


async def test_what_can_never_connect_says_why() -> None:
    async with open_link(ClusterSettings(["nats://127.0.0.1:none"], "test", LEASE_S, 30.0)) as link:
        with pytest.raises(ClusterError, match="invalid connect url"):
            await link.server.fail_if_refused()


async def test_a_server_that_refuses_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nats_server(tmp_path, password="right") as server, structlog.testing.capture_logs() as said:
        settings = ClusterSettings([server.url.replace("right", "wrong")], "test", 1.0, 30.0)
        async with open_link(settings) as link:
            note = Mock(wraps=link.server.note)
            monkeypatch.setattr(link.server, "note", note)
            await eventually(lambda: note.call_count > 6, "it was refused several times")
    assert sum("Authorization" in str(each) for each in said) == 1
    assert "wrong" not in str(said)


def test_a_request_is_the_same_on_the_other_side() -> None:
    request = replace(ProbeRequest("s", "https://a.example/"), headers=(("Accept", "text/html"),), obeys_robots=True)
    batch = Batch("b", 3, "a.example", 1.5, (request, request))
    assert BATCHES.read(BATCHES.write(batch)) == batch
