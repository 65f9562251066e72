"""A bus in memory in place of NATS, and machines over it: messages come at once, late, twice or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from proxyd.base.metrics import Metrics
from proxyd.base.ports import MaySend, Unmade, always
from proxyd.cluster.batch_prober import BatchProber, ProberSettings
from proxyd.cluster.link import Handler, Received, ServerState
from proxyd.cluster.nats_transport import NatsTransport, TransportSettings
from proxyd.core.errors import ClusterError, LeaseLostError, StoreUnreachableError
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.store.databases.membership import Shares
from tests.fakes import FakeClock, settle

HOLD_S = 8.0
REQUEST = ProbeRequest("s", "https://a.example/")


@dataclass
class Bus:
    """Carries messages to whoever heeds their subject, as ``fate`` says: how often, and how many seconds late."""

    clock: FakeClock
    fate: Callable[[str], list[float]] = lambda _: [0.0]
    links: list[BusLink] = field(default_factory=list)
    sent: list[tuple[str, bytes]] = field(default_factory=list)

    def link(self) -> BusLink:
        """Return the link of one more machine."""
        link = BusLink(self)
        link.server.note_found()
        self.links.append(link)
        return link

    def kinds(self) -> list[str]:
        """Return what kinds of messages were sent so far."""
        return [subject.rpartition(".")[2] for subject, _ in self.sent]

    async def carry(self, sender: BusLink, subject: str, data: bytes, reply: str) -> None:
        """Bring a message to everybody who can be reached; the sender hears if nobody does, however often it comes."""
        self.sent.append((subject, data))
        fate, is_heard = self.fate(subject), False
        for late_s in fate:
            await self.clock.sleep(late_s)
            heard = [each.deliver(subject, data) for each in self.links if sender.reaches(each)]
            is_heard = is_heard or any(heard)
        if reply and fate and not is_heard:
            sender.deliver(reply, b"", is_unheard=True)


@dataclass
class BusLink:
    """The link of one machine."""

    bus: Bus
    is_up: bool = True
    server: ServerState = field(default_factory=ServerState)
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    _sending: set[asyncio.Task[None]] = field(default_factory=set)

    async def send(self, subject: str, data: bytes = b"", *, reply: str = "") -> None:
        if not self.is_up:
            raise ClusterError("no server is connected")
        task = asyncio.create_task(self.bus.carry(self, subject, data, reply))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def listen(self, handlers: Mapping[str, Handler], greet: Callable[[], Awaitable[None]]) -> None:
        self.handlers = handlers
        connection = 0
        try:
            while True:
                connection = await self.server.another_connection(connection)
                await greet()
        finally:
            self.handlers = {}

    def reaches(self, other: BusLink) -> bool:
        """Whether both are connected."""
        return self.is_up and other.is_up

    def deliver(self, subject: str, data: bytes, *, is_unheard: bool = False) -> bool:
        """Hand a message to those who heed its subject; return whether there is one."""
        heeding = [handler for pattern, handler in self.handlers.items() if fnmatchcase(subject, pattern)]
        for handler in heeding:
            handler(Received(subject, data, is_unheard))
        return bool(heeding)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Let nothing through while the context is open."""
        self.is_up = False
        self.server.note_lost()
        yield
        self.is_up = True
        self.server.note_found()


class Origin:
    """Makes probes that take a time, and notes which machine asks a host when."""

    def __init__(
        self, clock: FakeClock, takes_s: float | Callable[[], float] = 0.0, kind: OutcomeKind = OutcomeKind.SAME_BODY
    ) -> None:
        self.clock = clock
        self.takes_s = takes_s if callable(takes_s) else lambda: takes_s
        self.kind = kind
        self.ahead_s = self.ends_s = 0.0
        self.asked: list[str] = []
        self.now = 0
        self.most = 0
        self.at_once: Counter[str] = Counter()
        self.most_of_a_host = 0

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        if not may_send():
            raise LeaseLostError
        self.asked.append(request.source_id)
        self.now += 1
        self.most = max(self.most, self.now)
        self.at_once[request.host] += 1
        self.most_of_a_host = max(self.most_of_a_host, self.at_once[request.host])
        began_s = self.clock.time_s() + self.ahead_s
        try:
            await self.clock.sleep(self.takes_s())
        except asyncio.CancelledError:
            await self.clock.sleep(self.ends_s)
            raise
        finally:
            self.now -= 1
            self.at_once[request.host] -= 1
        return ProbeOutcome(request.source_id, self.kind, began_s, self.clock.time_s() + self.ahead_s)


class OnePlanner(Shares):
    """The only planner, which nobody succeeds."""

    members = 1

    def __init__(self) -> None:
        """Share nothing."""

    async def keep_probers(self, probers: Callable[[], Collection[str]]) -> Collection[str]:
        return probers()


@dataclass
class Planners:
    """So many planners, of which each keeps its probers by its term."""

    members: int
    term: int
    kept: dict[int, frozenset[str]]
    fails: list[str]  # why the next times, the last first

    async def keep_probers(self, probers: Callable[[], Collection[str]]) -> Collection[str]:
        if self.fails:
            raise StoreUnreachableError(self.fails.pop())
        self.kept[self.term] = frozenset(probers())
        return self.kept[self.term]


@dataclass
class Machines:
    """Planners and probers over a bus; ``strays`` are outcomes that no planner waited for."""

    clock: FakeClock = field(default_factory=FakeClock)
    bus: Bus = field(init=False)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    strays: list[tuple[str, str]] = field(default_factory=list)
    kept: dict[int, frozenset[str]] = field(default_factory=dict)  # the probers of each planner, by term
    fails: list[str] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.bus = Bus(self.clock)

    def planner(
        self,
        term: int = 7,
        *,
        queue_s: float = 30.0,
        may_send: MaySend = always,
        planners: int = 1,
        spacing_s: float = 0.0,
        has: Callable[[str], bool] = lambda _source_id: True,
    ) -> NatsTransport:
        """Return a planner that runs, one of so many, with some sources; ``kept`` is what others know of it."""
        clock, link = self.clock, self.bus.link()
        times = TransportSettings(term, HOLD_S, spacing_s=spacing_s, queue_s=queue_s, patience_s=60.0)

        sharing = Planners(planners, term, self.kept, self.fails)
        parts = (link, clock, self.metrics, times, sharing, may_send, clock.monotonic_s)
        made = NatsTransport(*parts)  # type: ignore[arg-type]

        async def take(outcome: ProbeOutcome, *, reading: str, is_doubtful: bool) -> bool:
            if has(outcome.source_id) and not is_doubtful:
                self.strays.append((outcome.source_id, reading))
            return has(outcome.source_id)

        self.tasks.append(asyncio.create_task(made.run(take)))
        return made

    async def succeed(self, planner: NatsTransport, term: int, *others: str) -> None:
        """Wait until a planner of a term may ask hosts of planners that have ended; ``others`` are probers of these."""
        planner.succeed({*others, *(each for kept in self.kept.values() for each in kept)}, [term], HOLD_S)
        while not planner.check_free():
            await self.clock.advance(0.1)

    def prober(self, origin: Origin, name: str = "p", *, hosts: int = 4, ahead_s: float = 0.0) -> BatchProber:
        """Return a prober that runs, whose clock is so far ahead of the planner's."""
        settings, link = ProberSettings(name, hosts, 5.0), self.bus.link()

        def now_s() -> float:
            return self.clock.monotonic_s() + ahead_s

        made = BatchProber(link, origin, self.clock, Metrics(), settings, now_s)  # type: ignore[arg-type]
        self.tasks.append(asyncio.create_task(made.run()))
        return made

    async def end(self) -> None:
        """Let every machine die."""
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def ended(planner: NatsTransport, request: ProbeRequest = REQUEST) -> ProbeOutcome | Unmade:
    """Return the result of a request."""
    async with planner.probe(request) as outcome:
        return outcome


def asked_of(planner: NatsTransport, request: ProbeRequest = REQUEST) -> asyncio.Task[ProbeOutcome | Unmade]:
    """Ask without waiting."""
    return asyncio.create_task(ended(planner, request))


async def settled() -> None:
    """Let everything happen that takes no time."""
    await settle(60)
