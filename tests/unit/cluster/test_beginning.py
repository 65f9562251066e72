"""Planner and prober beside a link that answers late, or not at all: what begins when, and what a lost answer costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from proxyd.clock import SystemClock
from proxyd.cluster.batch_prober import BatchProber, ProberSettings
from proxyd.cluster.batches import BATCHES, Batch, ProbeReport
from proxyd.cluster.link import ClusterSettings, NatsServer, Taken
from proxyd.cluster.nats_transport import NatsTransport
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.errors import ClusterError
from proxyd.metrics import Metrics
from proxyd.ports import MaySend, always
from tests.fakes import FakeClock

LEASE_S = 4.0
CLOCK = SystemClock()


@dataclass
class Message:
    """A message as it was pulled for the first time."""

    data: bytes

    @property
    def metadata(self) -> Message:
        return self

    num_delivered = 1


@dataclass
class FakeLink:
    """A link that does what a test says."""

    settings: ClusterSettings = field(default_factory=lambda: ClusterSettings([], "test", LEASE_S, 30.0))
    is_up: bool = True
    server: NatsServer = field(default_factory=NatsServer)
    made: asyncio.Event = field(default_factory=asyncio.Event)
    said: list[str] = field(default_factory=list)
    lost: int = 0
    lost_after_s: float = 0.0
    extended: int = 0
    reports: list[ProbeReport] = field(default_factory=list)

    async def ensure(self) -> bool:
        self.said.append("ensure")
        await self.made.wait()
        return False

    async def announce(self, term: int) -> None:
        self.said.append(f"announce {term}")

    async def count_batches(self) -> int:
        return 0

    @asynccontextmanager
    async def pulling_reports(self) -> AsyncIterator[None]:
        self.said.append("pull")
        yield

    async def pull(self, *_: Any) -> list[Taken]:
        await asyncio.Future()
        return []

    async def extend(self, _taken: Taken) -> None:
        self.extended += 1
        if self.extended == self.lost:
            await asyncio.sleep(self.lost_after_s)
            raise ClusterError("nobody answers")

    async def report(self, report: ProbeReport) -> None:
        self.reports.append(report)

    async def done(self, _taken: Taken) -> None:
        self.said.append("done")


class Slow:
    """A prober that takes longer than a lease."""

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        now_s = CLOCK.time_s()
        await asyncio.sleep(1.2 * LEASE_S)
        return ProbeOutcome(request.source_id, OutcomeKind.NOT_MODIFIED, now_s, now_s)


async def never(outcome: ProbeOutcome, *, reading: str) -> None:
    raise AssertionError(outcome)


def transport(link: FakeLink) -> NatsTransport:
    return NatsTransport(link, FakeClock(), Metrics(), term=7, spacing_s=0.0, patience_s=9.0)  # type: ignore[arg-type]


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_reports_are_taken_as_soon_as_the_streams_are_made() -> None:
    link = FakeLink()
    planner = transport(link)
    async with asyncio.timeout(10.0), asyncio.TaskGroup() as tasks:
        tasks.create_task(planner.run(never))
        await settled()
        assert link.said == []
        link.server.note_found()
        await settled()
        assert link.said == ["ensure"]
        link.made.set()
        await settled()
        assert sorted(link.said) == ["announce 7", "ensure", "pull"]
        planner.stop()


async def test_a_stop_does_not_wait_for_streams_that_are_not_made() -> None:
    link = FakeLink()
    link.server.note_found()
    planner = transport(link)
    async with asyncio.timeout(10.0), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(planner.run(never))
        await settled()
        planner.stop()
        await running
    assert link.said == ["ensure"]


async def test_a_lost_answer_costs_no_lease() -> None:
    """The second question is lost after almost half a lease; asked again a quarter later it would be too late."""
    link = FakeLink(lost=2, lost_after_s=0.45 * LEASE_S)
    worker = BatchProber(link, Slow(), CLOCK, Metrics(), ProberSettings("p", 4, 0.0))  # type: ignore[arg-type]
    batch = Batch("b", 1, "a.example", CLOCK.time_s(), (ProbeRequest("s", "https://a.example/"),))
    taken = Taken(Message(BATCHES.write(batch)), 1)  # type: ignore[arg-type]
    await worker._work(taken, has_room=False)
    assert [report.outcome is not None for report in link.reports] == [True]
    assert link.said == ["done"]
