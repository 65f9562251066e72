"""What every transport keeps: outcomes arrive as they were, a host's requests one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxyd.base.clock import SystemClock
from proxyd.base.metrics import Metrics
from proxyd.base.ports import MaySend, Prober, Transport, always
from proxyd.cluster.batch_prober import BatchProber, ProberSettings
from proxyd.cluster.link import ClusterSettings, open_link
from proxyd.cluster.nats_transport import NatsTransport, TransportSettings
from proxyd.core.model.item import Item, Value
from proxyd.core.model.outcome import HubLinks, OutcomeKind, ProbeOutcome, ProbeRequest, Validators
from proxyd.probing.prober import LocalTransport
from tests.acceptance.support import eventually
from tests.servers import nats_server
from tests.unit.cluster.bus import OnePlanner

FULL = {
    "status": 200,
    "validators": Validators('W/"é"', "Sun, 22 Nov 2026 09:00:00 GMT"),
    "body_hash": "abc",
    "retry_after_s": 3.5,
    "fresh_for_s": 60.0,
    "period_s": 3600.0,
    "permanent_url": "https://b.example/",
    "hub_links": HubLinks(("https://hub.example/",), "https://a.example/feed"),
    "answered_by": "a.example",
    "crawl_delay_s": 2.0,
    "misfits": 1,
    "detail": "Žluťoučký",
    "requests": 2,
    "body_bytes": 12,
}


class Hosts:
    """A prober that answers with what it is told to, and counts how many requests a host has at once."""

    def __init__(self, clock: SystemClock, item_bytes: int = 5) -> None:
        self._clock = clock
        self._item_bytes = item_bytes
        self.release = asyncio.Event()
        self.release.set()
        self.begun: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.begun[request.host] += 1
        self.most[request.host] = max(self.most[request.host], self.begun[request.host])
        started_s = self._clock.time_s()
        try:
            await self.release.wait()
            await asyncio.sleep(0)
        finally:
            self.begun[request.host] -= 1
        fields: dict[str, Value] = {
            "title": "x" * self._item_bytes,
            "price": 1.5,
            "count": 2,
            "is_new": True,
            "none": None,
        }
        items = (Item("guid:1", fields, started_s, "hash"), Item("guid:2", {}, None, "h2"))
        return ProbeOutcome(
            request.source_id,
            OutcomeKind.CHANGED,
            started_s,
            self._clock.time_s(),
            items=items,
            **FULL,  # type: ignore[arg-type]
        )


async def no_strays(outcome: ProbeOutcome, *, reading: str, is_doubtful: bool) -> bool:
    raise AssertionError(outcome)


@asynccontextmanager
async def local(prober: Prober, clock: SystemClock, folder: Path) -> AsyncIterator[Transport]:
    transport = LocalTransport(prober)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(transport.run(no_strays))
        yield transport
        transport.stop()


@asynccontextmanager
async def distant(prober: Prober, clock: SystemClock, folder: Path) -> AsyncIterator[Transport]:
    with nats_server() as server:
        settings = ClusterSettings([server.url], "test")
        async with open_link(settings) as ours, open_link(settings) as theirs, asyncio.TaskGroup() as tasks:
            times = TransportSettings(1, hold_s=15.0, spacing_s=0.0, queue_s=30.0, patience_s=60.0)
            transport = NatsTransport(ours, clock, Metrics(), times, OnePlanner())
            tasks.create_task(transport.run(no_strays))
            worker = BatchProber(theirs, prober, clock, Metrics(), ProberSettings("p", 64, 1.0))
            tasks.create_task(worker.run())
            await eventually(lambda: transport.probers == 1, "the planner knows it")
            yield transport
            transport.stop()
            worker.stop()


@pytest.fixture(params=[local, distant], ids=["local", "NATS"])
def carried(request: pytest.FixtureRequest) -> object:
    return request.param


async def outcome_of(transport: Transport, request: ProbeRequest) -> ProbeOutcome:
    async with transport.probe(request) as outcome:
        assert isinstance(outcome, ProbeOutcome)
        return outcome


@pytest.mark.parametrize("item_bytes", [5, 3_000_000], ids=["small", "larger than a message"])
async def test_an_outcome_arrives_as_it_was(carried: object, tmp_path: Path, item_bytes: int) -> None:
    clock = SystemClock()
    prober = Hosts(clock, item_bytes)
    expected = await prober.probe(ProbeRequest("s", "https://a.example/feed"))
    async with carried(prober, clock, tmp_path) as transport:  # type: ignore[operator]
        found = await outcome_of(transport, ProbeRequest("s", "https://a.example/feed", reading="r"))
    times = {"started_s": 0.0, "finished_s": 0.0}
    assert [dict(item.fields) for item in found.items] == [dict(item.fields) for item in expected.items]
    assert {type(value) for value in found.items[0].fields.values()} == {str, float, int, bool, type(None)}
    fields = set(ProbeOutcome.__dataclass_fields__) - {"items", *times}
    assert {name: getattr(found, name) for name in fields} == {name: getattr(expected, name) for name in fields}
    assert 0.0 <= found.finished_s - found.started_s < 10.0


async def test_every_request_gets_its_own_outcome(carried: object, tmp_path: Path) -> None:
    clock = SystemClock()
    requests = [ProbeRequest(f"s{n}", f"https://h{n % 4}.example/{n}") for n in range(24)]
    async with carried(Hosts(clock), clock, tmp_path) as transport:  # type: ignore[operator]
        found = await asyncio.gather(*(outcome_of(transport, request) for request in requests))
    assert [each.source_id for each in found] == [request.source_id for request in requests]


async def test_whoever_leaves_with_an_error_ends_nothing_else(carried: object, tmp_path: Path) -> None:
    clock = SystemClock()
    async with carried(Hosts(clock), clock, tmp_path) as transport:  # type: ignore[operator]
        with pytest.raises(ZeroDivisionError):
            async with transport.probe(ProbeRequest("s", "https://a.example/feed")):
                raise ZeroDivisionError
        assert (await outcome_of(transport, ProbeRequest("t", "https://a.example/t"))).source_id == "t"
