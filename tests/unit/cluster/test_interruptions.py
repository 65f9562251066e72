"""What planner and probers do while NATS answers nothing: they ask again, and say what was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import structlog
from nats.js.errors import NotFoundError, ObjectNotFoundError

from proxyd.cluster.batch_prober import BatchProber, ProberSettings
from proxyd.cluster.batches import BATCHES, REPORTS, Batch, ProbeReport, without_picture
from proxyd.cluster.link import ASIDE, TERM, ClusterSettings, NatsConnection, Sent, Taken
from proxyd.cluster.nats_transport import NatsTransport
from proxyd.core.model.outcome import OutcomeKind, Picture, ProbeOutcome, ProbeRequest
from proxyd.errors import ClusterError, LostLeaseError, NotLeadingError, UnreadableError
from proxyd.metrics import Metrics
from proxyd.ports import MaySend, Unmade, always
from tests.fakes import FakeClock, settle
from tests.unit.cluster.test_beginning import LEASE_S, FakeLink, Message, never

REQUEST = ProbeRequest("s", "https://a.example/")
BATCH = Batch("b", 3, "a.example", 1e9, (REQUEST,))
OUTCOME = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, 1e9, 1e9)


@dataclass
class Again(Message):
    """A message that another prober was given before."""

    num_delivered = 2


@dataclass
class Faulty(FakeLink):
    """A link on which the first calls of some names fail."""

    fails: dict[str, int] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    messages: asyncio.Queue[Taken] = field(default_factory=asyncio.Queue)
    hear: dict[str, Callable[[bytes], None]] = field(default_factory=dict)
    aside: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made.set()
        self.server.note_found()

    def _asked(self, name: str) -> None:
        self.said.append(name)
        if self.fails.get(name, 0):
            self.fails[name] -= 1
            raise ClusterError("nobody answers")

    async def ensure(self) -> bool:
        self._asked("ensure")
        return "send" in self.said

    async def count_batches(self) -> int:
        return self.batches.pop(0) if self.batches else 0

    async def send(self, _batch: Batch) -> Sent:
        self._asked("send")
        return Sent(1, b"")

    async def withdraw(self, _sent: Sent) -> None:
        self._asked("withdraw")

    async def report(self, report: ProbeReport) -> None:
        self._asked("report")
        self.reports.append(report)

    async def read_report(self, taken: Taken) -> ProbeReport:
        return REPORTS.read(taken.message.data)

    async def pull(self, *_: Any) -> list[Taken]:
        return [await self.messages.get()]

    @asynccontextmanager
    async def heeding(self, subject: str, heard: Callable[[bytes], None]) -> AsyncIterator[None]:
        self._asked("heed")
        self.hear[subject] = heard
        yield

    async def tell_aside(self, probers: Iterable[str]) -> None:
        self.aside.append(list(probers))

    @asynccontextmanager
    async def pulling_batches(self, number: int) -> AsyncIterator[None]:
        if number:
            await asyncio.Future()
        self._asked("pull batches")
        yield


class Answering:
    """A prober that answers at once, or never."""

    def __init__(self, *, hangs: bool = False) -> None:
        self._hangs = hangs
        self.asked: list[str] = []
        self.before_each: Callable[[], object] = lambda: None

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.before_each()
        if not may_send():
            raise NotLeadingError
        self.asked.append(request.source_id)
        if self._hangs:
            await asyncio.Future()
        return OUTCOME


def worker(link: FakeLink, clock: FakeClock, prober: Answering | None = None) -> BatchProber:
    settings = ProberSettings("p", 4, 0.0)
    return BatchProber(link, prober or Answering(), clock, Metrics(), settings)  # type: ignore[arg-type]


def planner(link: FakeLink, clock: FakeClock, may_send: MaySend = always) -> NatsTransport:
    return NatsTransport(
        link,  # type: ignore[arg-type]
        clock,
        Metrics(),
        term=7,
        spacing_s=0.0,
        patience_s=1e6,
        may_send=may_send,
    )


def taken(message: Message) -> Taken:
    return Taken(message, 1)  # type: ignore[arg-type]


async def test_a_report_that_cannot_be_sent_is_sent_again() -> None:
    link, clock = Faulty(fails={"report": 2}), FakeClock()
    working = asyncio.create_task(worker(link, clock)._work(taken(Message(BATCHES.write(BATCH))), has_room=False))
    for _ in range(2):
        await clock.advance(LEASE_S / 8.0)
    await working
    assert link.said == ["report", "report", "report", "done"]
    assert [report.outcome for report in link.reports] == [OUTCOME]


async def test_a_lost_batch_that_cannot_be_reported_within_a_lease_comes_again() -> None:
    link, clock = Faulty(fails={"report": 99}), FakeClock()
    link.settings = ClusterSettings([], "test", 0.0, 30.0)
    with structlog.testing.capture_logs() as logged:
        await worker(link, clock)._work(taken(Again(BATCHES.write(BATCH))), has_room=False)
    assert "done" not in link.said
    assert [each["event"] for each in logged if each["log_level"] == "warning"] == [
        "a lost batch cannot be reported yet; it comes again"
    ]


async def test_a_prober_asks_again_for_terms_and_work_and_gives_up_what_hangs_at_its_stop() -> None:
    link, clock, prober = Faulty(fails={"heed": 1, "pull batches": 1}), FakeClock(), Answering(hangs=True)
    probing = worker(link, clock, prober)
    running = asyncio.create_task(probing.run())
    await clock.advance(LEASE_S)
    assert sorted(link.said) == ["heed", "heed", "heed", "pull batches", "pull batches"]
    link.hear[TERM](b"no number")
    link.hear[TERM](b"4")
    link.messages.put_nowait(taken(Message(BATCHES.write(BATCH))))
    await clock.advance(0.0)
    assert [report.outcome for report in link.reports] == [None]  # its planner no longer leads
    link.messages.put_nowait(taken(Message(BATCHES.write(Batch("c", 4, "a.example", 1e9, (REQUEST,))))))
    await clock.advance(0.0)
    assert prober.asked == ["s"]
    assert probing.is_up
    probing.stop()
    assert not probing.is_up
    await running
    assert len(link.reports) == 1


async def test_a_prober_that_is_put_aside_takes_no_work_for_half_a_lease_after_each_word_of_it() -> None:
    link, clock, prober = Faulty(), FakeClock(), Answering()
    running = asyncio.create_task(worker(link, clock, prober).run())
    await settle()
    link.messages.put_nowait(taken(Message(BATCHES.write(BATCH))))  # taken by a pull that was already open
    link.hear[ASIDE](b'["q", "p"]')
    await settle()
    assert prober.asked == ["s"]
    for said in (b"no list", b'{"p": 1}', b'["q"]', b"[" * 100_000, b'["p"]'):
        link.hear[ASIDE](said)
    link.messages.put_nowait(taken(Message(BATCHES.write(replace(BATCH, batch_id="c")))))
    await clock.advance(0.4 * LEASE_S)
    link.hear[ASIDE](b'["p"]')
    await clock.advance(0.4 * LEASE_S)
    assert prober.asked == ["s"]
    await clock.advance(0.1 * LEASE_S)
    assert prober.asked == ["s", "s"]
    running.cancel()


async def test_the_failures_of_a_prober_that_is_put_aside_are_not_those_of_sources() -> None:
    link, clock = Faulty(), FakeClock()
    planning = planner(link, clock)
    running = asyncio.create_task(planning.run(never))
    await settle()

    async def asked(prober: str, kind: OutcomeKind, host: str) -> ProbeOutcome | Unmade:
        request = ProbeRequest("s", f"https://{host}/")
        asking = asyncio.create_task(ended_of(planning, request))
        await settle()
        ((batch, number),) = planning._asked
        report = ProbeReport(batch, number, prober, "r", clock.time_s(), replace(OUTCOME, kind=kind))
        link.messages.put_nowait(taken(Message(REPORTS.write(report))))
        found = await asking
        await clock.advance(0.0)
        return found

    for number in range(5):
        failed = await asked("bad", OutcomeKind.BLOCKED, f"{number}.example")
        assert isinstance(failed, ProbeOutcome)
        await asked("good", OutcomeKind.SAME_BODY, f"{number}.example")
    assert link.aside == []
    with structlog.testing.capture_logs() as logged:
        await clock.advance(LEASE_S / 8.0)
    assert [(each["event"].split(":")[0], each["prober"]) for each in logged] == [("a prober is put aside", "bad")]
    assert (list(planning.aside), link.aside) == (["bad"], [["bad"]])
    assert await asked("bad", OutcomeKind.BLOCKED, "x.example") is Unmade.LOST
    assert isinstance(await asked("bad", OutcomeKind.SAME_BODY, "x.example"), ProbeOutcome)
    assert isinstance(await asked("good", OutcomeKind.BLOCKED, "y.example"), ProbeOutcome)
    planning.stop()
    await running
    assert planning.aside == {}


async def test_a_planner_asks_for_the_streams_again_and_lets_earlier_batches_end() -> None:
    link, clock = Faulty(fails={"ensure": 1}, batches=[2, 1]), FakeClock()
    planning = planner(link, clock)
    running = asyncio.create_task(planning.run(never))
    with structlog.testing.capture_logs() as logged:
        await settle()
    assert [each["event"] for each in logged] == ["the streams cannot be made yet"]
    asking = asyncio.create_task(ended(planning))
    await clock.advance(LEASE_S / 4.0)
    assert "send" not in link.said
    await clock.advance(LEASE_S / 16.0)
    assert "send" not in link.said
    await clock.advance(LEASE_S / 16.0)
    assert link.said.count("send") == 1
    asking.cancel()
    planning.stop()
    await running


async def ended(planning: NatsTransport) -> ProbeOutcome | Unmade:
    return await ended_of(planning, REQUEST)


async def ended_of(planning: NatsTransport, request: ProbeRequest) -> ProbeOutcome | Unmade:
    async with planning.probe(request) as outcome:
        return outcome


@pytest.mark.parametrize("ensures", [True, False])
async def test_a_batch_that_a_restarted_server_lost_is_awaited_for_a_lease_alone(ensures: bool) -> None:
    link, clock = Faulty(), FakeClock()
    link.settings = ClusterSettings([], "test", 0.01, 30.0)
    planning = planner(link, clock)
    running = asyncio.create_task(planning.run(never))
    await settle()
    link.fails = {"send": 1} if ensures else {"send": 1, "ensure": 1}
    asking = asyncio.create_task(ended(planning))
    await settle()
    assert link.said[-2:] == ["send", "ensure"]
    if ensures:
        assert await asking is Unmade.LOST
    else:  # the streams may still be there, and with them the batch
        (limit,) = planning._limits
        assert (limit.when() or 0.0) > asyncio.get_running_loop().time() + 1e5
        asking.cancel()
    planning.stop()
    await running


async def test_a_report_that_comes_twice_is_recorded_once() -> None:
    link, clock = Faulty(), FakeClock()
    planning = planner(link, clock)
    strays, go = [], asyncio.Event()

    async def take(outcome: ProbeOutcome, *, reading: str) -> None:
        strays.append((outcome.source_id, reading))
        await go.wait()

    running = asyncio.create_task(planning.run(take))
    report = taken(Message(REPORTS.write(ProbeReport("b", 0, "p", "r", 1e9, OUTCOME))))
    for _ in range(2):
        link.messages.put_nowait(report)
        await settle()
    assert (strays, link.said.count("done")) == ([("s", "r")], 0)
    go.set()
    await settle()
    link.messages.put_nowait(report)  # its acknowledgement was lost
    await settle()
    assert (strays, link.said.count("done")) == ([("s", "r")], 2)
    planning.stop()
    await running


@dataclass
class Streams:
    """The streams of a server that holds one message, or answers with an error."""

    answer: bytes | Exception
    published: list[bytes] = field(default_factory=list)

    async def publish(self, _subject: str, data: bytes, **_: object) -> None:
        self.published.append(data)

    async def get_msg(self, *_: object) -> Message:
        if isinstance(self.answer, Exception):
            raise self.answer
        return Message(self.answer)

    async def object_store(self, _name: str) -> Streams:
        return self

    async def get(self, _name: str) -> Message:
        return await self.get_msg()


@dataclass
class Server:
    """The client of a server with these streams, which is connected or not."""

    streams: Streams
    is_connected: bool = True
    max_payload: int = 2**20

    def jetstream(self, **_: float) -> Streams:
        return self.streams

    async def request(self, *_: object, **__: float) -> None:
        """Confirm everything, as the server does."""


class Held(Message):
    """A batch as a prober holds it."""

    reply = "ack"
    sequence = type("Sequence", (), {"stream": 5})
    headers = {"Proxyd-Object": "x"}  # noqa: RUF012 - read only


def connection(answer: bytes | Exception, *, is_connected: bool = True) -> NatsConnection:
    client: Any = Server(Streams(answer), is_connected)
    return NatsConnection(client, ClusterSettings([], "test", LEASE_S, 30.0))


@pytest.mark.parametrize("answer", [b"another batch", NotFoundError()], ids=["replaced", "gone"])
async def test_a_lease_of_a_batch_that_left_the_queue_is_lost(answer: bytes | Exception) -> None:
    await connection(b"mine").extend(taken(Held(b"mine")))
    with pytest.raises(LostLeaseError):
        await connection(answer).extend(taken(Held(b"mine")))


async def test_a_lease_is_not_lost_because_the_server_does_not_answer() -> None:
    with pytest.raises(ClusterError, match="NATS failed") as caught:
        await connection(TimeoutError()).extend(taken(Held(b"mine")))
    assert not isinstance(caught.value, LostLeaseError)


async def test_without_a_server_every_question_ends_at_once_and_says_which_setting_to_look_at() -> None:
    away = connection(b"", is_connected=False)
    nowhere: Any = None
    for asked in (away.extend(taken(Held(b"mine"))), away.pull(nowhere, 1.0)):
        with pytest.raises(ClusterError, match="no NATS server is connected; check the servers of the setting nats"):
            await asked
    await away.ring()  # nothing is lost: the notifier looks for itself


async def test_a_large_report_whose_stored_part_expired_cannot_be_read() -> None:
    with pytest.raises(UnreadableError, match="the stored part of a large message has expired"):
        await connection(ObjectNotFoundError()).read_report(taken(Held(b"")))
    with pytest.raises(ClusterError, match="NATS failed"):
        await connection(TimeoutError()).read_report(taken(Held(b"")))


@pytest.mark.parametrize(("size", "has_picture"), [(512 * 1024, True), (2**20, False)])
async def test_a_report_that_is_too_large_with_its_picture_goes_without_it(size: int, *, has_picture: bool) -> None:
    picture = Picture("image/png", np.random.default_rng(1).bytes(size))
    report = ProbeReport("b", 0, "p", "r", 1e9, replace(OUTCOME, detail="304", picture=picture))
    client: Any = Server(Streams(b""))
    await NatsConnection(client, ClusterSettings([], "test", LEASE_S, 30.0)).report(report)
    (data,) = client.streams.published
    assert len(data) < client.max_payload
    found = REPORTS.read(data)
    assert found == (report if has_picture else without_picture(report))
    assert found.outcome is not None
    assert ("no screenshot: it does not fit into a message" in found.outcome.detail) is not has_picture


async def test_a_planner_that_no_longer_leads_sends_nothing() -> None:
    link, clock = Faulty(), FakeClock()
    planning = planner(link, clock, may_send=lambda: False)
    running = asyncio.create_task(planning.run(never))
    await settle()
    assert await ended(planning) is Unmade.NOT_BEGUN
    assert "send" not in link.said
    planning.stop()
    await running


async def test_a_prober_makes_no_request_of_a_term_that_ends_while_it_works() -> None:
    link, clock, prober = Faulty(), FakeClock(), Answering()
    probing = worker(link, clock, prober)
    prober.before_each = lambda: setattr(probing, "_term", BATCH.term + 1)
    await probing._work(taken(Message(BATCHES.write(BATCH))), has_room=False)
    assert prober.asked == []
    assert [report.outcome for report in link.reports] == [None]
    assert link.said[-1] == "done"
