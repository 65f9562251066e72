"""The planner's side: gives probers requests in batches, one for each host at a time, and takes in their reports."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf

import structlog

from proxyd.base.clock import awake_or_asleep_s
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock, MaySend, TakeStray, Unmade, always
from proxyd.cluster.link import NatsConnection, Received
from proxyd.cluster.messages import (
    ABSENT,
    ANSWERS,
    BATCHES,
    CALL,
    HELLO,
    HELLOS,
    LIVING,
    RECORDED,
    REPORT,
    REPORTS,
    TURN,
    TURNS,
    AnswerMessage,
    Batch,
    Hello,
    Living,
    ProbeReport,
    Recorded,
    by_our_clock,
    is_plausible,
    report_to,
    work_of,
)
from proxyd.cluster.prober_roster import MOST_PROBERS, ProberRoster
from proxyd.cluster.redirect_turns import Asked, GivenTurns, HostQueue, Key, Sent, WaitingBatch
from proxyd.core.errors import ClusterError, StoreUnreachableError, UnreadableError
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.politeness.faults import ProberTrust, may_be_its_own
from proxyd.store.databases.membership import Shares

_AGAIN_S = 0.5


class _KnownProbers:
    """The roster, and what is recorded of it; ``absent`` are probers that may still work for planners that have ended.

    Probers get into the roster once they are recorded. ``living`` is what the absent ones are to be told.
    """

    def __init__(self, roster: ProberRoster, planners: Shares) -> None:
        self.roster = roster
        self.absent: set[str] = set()
        self.living = Living((), uuid.uuid4().hex)
        self._absent_until_s = -inf
        self._planners = planners
        self._recorded: set[str] = set()
        self._joining: dict[str, Hello] = {}
        self._left: set[str] = set()  # since the last record was begun
        self._changed = asyncio.Event()

    def wait_for(self, probers: Iterable[str], living: Iterable[int], until_s: float) -> None:
        """Wait until some probers say that they make batches of the living planners alone, or ``until_s``."""
        self.absent.update(probers)
        self.living = Living(tuple(living), uuid.uuid4().hex)
        self._absent_until_s = max(self._absent_until_s, until_s)
        self._changed.set()

    def check_free(self, now_s: float) -> bool:
        """Stop waiting once the time is over; return whether no prober can make batches of ended planners."""
        if now_s >= self._absent_until_s:
            self.absent.clear()
        return not self.absent

    def hear(self, hello: Hello, *, term: int, now_s: float) -> None:
        """Take in a hello; ``term`` is that of this planner."""
        has_ended = hello.is_leaving and not any(hello.planners.values())
        if has_ended or self.living.word in hello.words:
            self.absent.discard(hello.prober_id)
        if hello.is_leaving:
            self.leave(hello.prober_id)
        elif term in hello.planners and hello.prober_id in self._recorded:
            self.roster.hear(hello, now_s)
        elif term in hello.planners and len(self._joining) < MOST_PROBERS:  # or it says hello once it knows our clock
            self._joining[hello.prober_id] = hello
            self._changed.set()

    def leave(self, prober_id: str) -> None:
        """Give a prober no more work until it says hello."""
        self.roster.leave(prober_id)
        self._joining.pop(prober_id, None)
        self._left.add(prober_id)
        self._changed.set()

    async def follow(
        self, busy: Callable[[], Iterable[str]], clock: Clock, now_s: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        """Record who may have work whenever that changes, without an end; ``busy`` returns who has some."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            joining, self._joining, self._left = self._joining, {}, set()

            def known(joining: Mapping[str, Hello] = joining) -> set[str]:
                return {*joining, *self.absent, *self.roster, *busy()}

            try:
                if known() != self._recorded:
                    self._recorded &= known()
                    self._recorded = {*await self._planners.keep_probers(known)}
            except StoreUnreachableError as error:  # the lease is lost too, unless this passes soon
                log.warning("the probers cannot be recorded at the moment", error=str(error))
                self._joining = joining | self._joining
                self._changed.set()
                await clock.sleep(_AGAIN_S)
                continue
            for prober_id in joining.keys() - self._left:
                self.roster.hear(joining[prober_id], now_s())
            changed()


_MOST_REQUESTS = 8  # in a batch: the host waits for all of them
_REMEMBERED = 10_000  # reports that may be sent again
_LOOKS = 16.0  # at the batches in a hold, for those that are over
_SILENCE = 0.5  # of a hold: a prober that is silent for longer while it works has no more work
log = structlog.get_logger("cluster")


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """The planner's term, a number that no other has, and times in seconds.

    A silent prober works on a batch for ``hold_s`` at most. Requests to a host are ``spacing_s`` apart. A request that
    is not sent within ``queue_s`` is planned again, so that no more are made at once later than the budget allows. Each
    report may take ``patience_s``.
    """

    term: int
    hold_s: float
    spacing_s: float
    queue_s: float
    patience_s: float


class NatsTransport:
    """The Transport port over NATS.

    The planner sends each batch to one prober, the emptiest, which makes its requests until the hold of the batch ends.
    While it works for long it says hello now and then, and the answer extends the hold. So a probe that is made soon
    costs three messages: batch, report, and the word that it is recorded.

    The next batch of a host is sent ``spacing_s`` after the last request began, once every request of the last batch
    was reported, or its hold is over. None is sent unless ``may_send`` allows it. Hosts of planners that have ended may
    be asked once ``check_free`` says so after ``succeed``.
    """

    def __init__(
        self,
        link: NatsConnection,
        clock: Clock,
        metrics: Metrics,
        settings: TransportSettings,
        planners: Shares,
        may_send: MaySend = always,
        now_s: Callable[[], float] = awake_or_asleep_s,
    ) -> None:
        self._link = link
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._may_send = may_send
        self._planners = planners
        self._now_s = now_s
        self._probers = _KnownProbers(ProberRoster(_SILENCE * settings.hold_s), planners)
        self._host_queues: dict[str, HostQueue] = {}
        self._waiting_batches: deque[WaitingBatch] = deque()
        self._turns = GivenTurns(partial(self._tell, kind="turn"), may_send, clock, settings.spacing_s)
        self._sent: dict[str, Sent] = {}
        self._taking: set[Key] = set()  # reports that are not recorded yet
        self._recorded: OrderedDict[Key, None] = OrderedDict()
        self._trust = ProberTrust()
        self._aside: Mapping[str, str] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._rest_until_s = -inf  # the end of the last hold
        self._must_call = False  # a prober may not know that it has no more work
        self._called_s = -inf
        self._is_alone = False  # probes waited, and there was no prober
        self._stopped = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether NATS is connected."""
        return self._link.is_up

    @property
    def aside(self) -> Mapping[str, str]:
        """The probers that have no work because they fail where others do not, and why."""
        return self._aside

    @property
    def busy_s(self) -> float:
        """For how long, once this has ended, probers may work on its batches."""
        return max(0.0, self._rest_until_s - self._now_s())

    @property
    def can_probe(self) -> bool:
        """Whether a server is connected, and some prober has been heard of."""
        return self._link.is_up and self.probers > 0

    @property
    def probers(self) -> int:
        """How many probers the planner knows."""
        return len(self._probers.roster)

    def stop(self) -> None:
        """End ``run``; returns at once. Other planners receive the outstanding reports."""
        self._stopped.set()

    async def run(self, take_stray: TakeStray) -> None:
        """Send batches and take in reports until ``stop``."""

        def hear_report(received: Received) -> None:
            self._start(self._take_report(received.data, take_stray), "report")

        own = {REPORT: hear_report, report_to(self._settings.term): hear_report}
        handlers = {HELLO: self._hear_hello, TURN: self._hear_turn, f"{ABSENT}.*": self._hear_absent, **own}
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            working = [
                tasks.create_task(self._link.listen(handlers, self._call), name="probers"),
                tasks.create_task(
                    self._probers.follow(self._busy, self._clock, self._now_s, self._give_waiting), name="known"
                ),
                tasks.create_task(self._watch(), name="watch"),
            ]
            for host, queue in self._host_queues.items():
                self._start_serving(host, queue)
            try:
                await self._stopped.wait()
            finally:
                self._tasks = None  # nothing can be begun any more, also when an error ends this
                if self._stopped.is_set():  # otherwise what was sent is forgotten already
                    self._rest_until_s = max([-inf, *(each.until_s for each in self._sent.values())])
            for task in (*working, *(queue.server for queue in self._host_queues.values())):
                if task is not None:
                    task.cancel()

    async def _call(self) -> None:
        self._called_s = self._now_s()
        await self._link.send(CALL)
        self._must_call = False

    def succeed(self, probers: Collection[str], living: Collection[int], rest_s: float) -> None:
        """Let probers break off, in ``rest_s`` at most, what planners have begun that are not among the living."""
        self._probers.wait_for(probers, living, self._now_s() + rest_s)
        self._start(self._tell_living(), "living")

    def give_turns(self, has_host: Callable[[str], bool]) -> None:
        """Give probers that follow redirects turns at the hosts that this planner has."""
        self._turns.has_host = has_host

    def check_free(self) -> bool:
        """Return whether no prober works for planners that have ended, so that others may ask their hosts."""
        return self._probers.check_free(self._now_s())

    async def _tell_living(self) -> None:
        """Tell the probers that have not heard it yet which planners live."""
        data = LIVING.write(self._probers.living)
        for prober_id in tuple(self._probers.absent):
            await self._tell(prober_id, data, "living")

    def _start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None] | None:
        """Run something as long as the transport runs; it does not begin if that has ended."""
        if self._tasks is None:
            work.close()
            return None
        return self._tasks.create_task(work, name=name)

    def _busy(self) -> list[str]:
        return [each.prober_id for each in self._sent.values()]

    # -- requests

    @asynccontextmanager
    async def probe(self, request: ProbeRequest) -> AsyncIterator[ProbeOutcome | Unmade]:
        """Yield the outcome of a probe on any machine; its prober may forget it when the context ends."""
        until_s = self._now_s() + self._settings.queue_s
        asked = Asked(request, until_s, asyncio.get_running_loop().create_future())
        queue = self._host_queues.setdefault(request.host, HostQueue())
        queue.waiting.append(asked)
        self._start_serving(request.host, queue)
        outcome = await asyncio.shield(asked.answer)
        try:
            yield outcome
            if asked.reported is not None and asked.prober_id is not None:
                await self._tell_recorded(asked.reported, asked.prober_id)
        finally:
            if asked.reported is not None:
                self._taking.discard(asked.reported)

    def _start_serving(self, host: str, queue: HostQueue) -> None:
        """Start a task for a host's requests, unless one runs."""
        if queue.server is None:
            queue.server = self._start(self._serve_host(host, queue), f"batches of {host}")

    async def _serve_host(self, host: str, queue: HostQueue) -> None:
        """Send a host's requests in batches, one after the other, until none waits."""
        try:
            while queue.waiting:
                if (turn := queue.take_turn()) is not None:
                    await self._turns.give(turn)
                    continue
                taken = queue.take_requests(_MOST_REQUESTS)
                batch = [each for each in taken if not each.end_if_late(self._now_s())]
                if batch:
                    await self._run_batch(host, queue, batch)
                    began_s = min(self._clock.time_s(), max(self._turns.given_s(host), *map(self._began_s, batch)))
                    await self._clock.sleep(began_s + self._settings.spacing_s - self._clock.time_s())
        finally:
            queue.server = None
        del self._host_queues[host]

    def _hear_turn(self, received: Received) -> None:
        """Let a prober's turn wait at its host, if this planner has that, and others pass while a batch waits."""
        try:
            turn = TURNS.read(received.data)
        except UnreadableError as error:
            log.error("a prober cannot be understood", error=error.message)  # noqa: TRY400 - the message says everything
            return
        waits = self._sent.get(turn.batch_id)
        if waits is not None and (queue := self._host_queues.get(waits.asked[0].request.host)) is not None:
            self._start(self._turns.let_pass(queue), "turn")
        if self._turns.takes(turn):
            is_given = self._turns.has_given(turn)
            self._start(self._turns.tell(turn, is_given=is_given), "turn")
            queue = self._host_queues.setdefault(turn.host, HostQueue())
            if not is_given and self._turns.note(turn):
                queue.waiting.append(turn)
            self._start(self._turns.let_own_pass(queue, turn), "turn")
            self._start_serving(turn.host, queue)

    def _began_s(self, asked: Asked) -> float:
        """Return when a request that has ended began, at the latest."""
        outcome = asked.answer.result()
        if isinstance(outcome, ProbeOutcome):
            return outcome.started_s
        return self._clock.time_s() if outcome is Unmade.LOST else 0.0

    async def _run_batch(self, host: str, queue: HostQueue, asked: list[Asked]) -> None:
        """Send a batch and wait until each of its requests has ended."""
        batch_id, prober_id = uuid.uuid4().hex, None
        try:
            if self._link.is_up and self._may_send():
                prober_id = await self._prober_for(batch_id, min(each.until_s for each in asked))
                self._note_whether_alone()
            if prober_id is not None and self._may_send():
                queue.prober_id = prober_id
                await self._send(host, batch_id, prober_id, asked)
                await self._await_results(self._sent[batch_id])
        except ClusterError as error:
            log.warning("a batch cannot be sent", host=host, error=error.message)
        finally:
            self._sent.pop(batch_id, None)
            queue.prober_id = ""
            if prober_id is not None:
                self._probers.roster.free(prober_id, batch_id)
            self._give_waiting()
            for each in asked:
                each.end(Unmade.NOT_BEGUN)

    async def _send(self, host: str, batch_id: str, prober_id: str, asked: list[Asked]) -> None:
        """Send a batch; it is known to be sent before it is, so that no report comes too early."""
        now_s, sent_s = self._now_s(), self._clock.time_s()
        until_s = self._rest_until_s = now_s + self._settings.hold_s
        self._sent[batch_id] = Sent(batch_id, prober_id, asked, until_s, now_s + self._settings.patience_s, sent_s)
        requests = tuple(each.request for each in asked)
        is_ours = self._turns.has_host(host)
        batch = Batch(batch_id, self._settings.term, host, sent_s, until_s, requests, needs_turns=not is_ours)
        reply = f"{ABSENT}.{batch_id}"
        await self._link.send(f"{work_of(prober_id)}.batch", BATCHES.write(batch), reply=reply)

    async def _await_results(self, sent: Sent) -> None:
        """Wait for the result of each request; each shows that its prober works on."""
        for each in sent.asked:
            await asyncio.shield(each.answer)
            sent.patient_until_s = self._now_s() + self._settings.patience_s

    def _hear_absent(self, received: Received) -> None:
        """Take note that a prober is gone, which a batch did not reach, or that it is aside."""
        sent = self._sent.get(received.last_word)
        if received.is_unheard and sent is not None:
            self._lose(sent, Unmade.NOT_BEGUN)
        elif received.is_unheard:
            self._probers.leave(received.last_word)

    def _lose(self, sent: Sent, why: Unmade) -> None:
        """End a batch whose prober is silent or gone; it gets no more until it says hello, for which it is called."""
        self._probers.leave(sent.prober_id)
        self._must_call = True
        sent.end(why)

    # -- probers

    async def _prober_for(self, batch_id: str, until_s: float) -> str | None:
        """Return the prober that a batch is given to, or ``None`` if none has room in time."""
        if not self._waiting_batches:
            given = self._given(batch_id)
            if given is not None:
                return given
        prober_id: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting_batches.append(WaitingBatch(batch_id, until_s, prober_id))
        self._metrics.batches_waiting.set(len(self._waiting_batches))
        return await prober_id

    def _given(self, batch_id: str) -> str | None:
        roster, planners = self._probers.roster, self._planners.members
        return roster.give(batch_id, now_s=self._now_s(), aside=self._aside, planners=planners)

    def _give_waiting(self) -> None:
        """Give the batches that wait to probers, as long as there is room, and none to those that waited too long."""
        while self._waiting_batches:
            first = self._waiting_batches[0]
            if not first.prober_id.done():
                given = self._given(first.batch_id)
                if given is None and self._now_s() < first.until_s:
                    break
                first.prober_id.set_result(given)
            self._waiting_batches.popleft()
        self._metrics.batches_waiting.set(len(self._waiting_batches))
        self._metrics.probers.set(self.probers)

    def _note_whether_alone(self) -> None:
        """Say once that there is no prober, and nothing is probed."""
        is_alone, self._is_alone = self._is_alone, self.probers == 0
        if self._is_alone and not is_alone:
            log.warning(
                "no prober is connected to NATS: nothing is probed; start one, or see why it does not reach NATS"
            )

    def _hear_hello(self, received: Received) -> None:
        """Answer a prober, and extend the batches that it works on."""
        try:
            hello = HELLOS.read(received.data)
        except UnreadableError as error:
            log.error("a prober cannot be understood", error=error.message)  # noqa: TRY400 - the message says everything
            return
        if not self._may_send():
            return
        now_s = self._now_s()
        self._probers.hear(hello, term=self._settings.term, now_s=now_s)
        held, ended = self._extend(hello.prober_id, hello.planners.get(self._settings.term, ()), now_s)
        answer = self._answer(hello.name, now_s, echo_s=hello.sent_s, held=held, ended=ended)
        self._start(self._tell(hello.prober_id, ANSWERS.write(answer), "answer"), "answer")
        self._give_waiting()

    def _extend(self, prober_id: str, batches: Iterable[str], now_s: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Extend a prober's batches; return those that are still its own, and those that are not."""
        held, ended = [], []
        for batch_id in batches:
            sent = self._sent.get(batch_id)
            if sent is None or sent.prober_id != prober_id or now_s > min(sent.until_s, sent.patient_until_s):
                ended.append(batch_id)
            else:
                sent.until_s = self._rest_until_s = now_s + self._settings.hold_s
                held.append(batch_id)
        return tuple(held), tuple(ended)

    def _answer(
        self,
        prober: str,
        now_s: float,
        *,
        echo_s: float | None = None,
        held: tuple[str, ...] = (),
        ended: tuple[str, ...] = (),
    ) -> AnswerMessage:
        aside = self._aside.get(prober, "")
        return AnswerMessage(self._settings.term, now_s, self._settings.hold_s, echo_s, held, ended, aside)

    async def _tell(self, prober_id: str, data: bytes, kind: str, *, reply: str = "") -> None:
        """Tell a prober something that it does without, or asks for again, if it does not hear it."""
        with suppress(ClusterError):
            await self._link.send(f"{work_of(prober_id)}.{kind}", data, reply=reply)

    async def _watch(self) -> None:
        """Look again and again which batches are over, and which probers are to have no work."""
        try:
            while True:
                now_s = self._now_s()
                for sent in [each for each in self._sent.values() if each.until_s <= now_s]:
                    self._lose(sent, Unmade.LOST)
                self._note_aside(self._trust.aside(self._clock.time_s()))
                self._give_waiting()
                if not self.check_free():
                    await self._tell_living()
                if (self._must_call or self._waiting_batches) and now_s > self._called_s + self._settings.hold_s:
                    with suppress(ClusterError):
                        await self._call()
                await self._clock.sleep(self._settings.hold_s / _LOOKS)
        finally:
            for prober in self._aside:
                self._metrics.prober_aside.remove(prober)
            self._aside = {}

    def _note_aside(self, aside: Mapping[str, str]) -> None:
        """Say which probers are put aside, also to them, and which have work again; one that has ended is neither."""
        roster = self._probers.roster
        before, self._aside = self._aside, {name: why for name, why in aside.items() if roster.ids(name)}
        aside = self._aside
        for prober in aside.keys() - before.keys():
            said = "a prober is put aside: check its network, clock, version, secrets and settings"
            log.warning(said, prober=prober, why=aside[prober])
            self._metrics.prober_aside.labels(prober).set(1)
        for prober in before.keys() - aside.keys():
            if roster.ids(prober):
                log.info("a prober may have work again", prober=prober)
            self._metrics.prober_aside.remove(prober)
        for prober in aside.keys() | before.keys():  # again and again: the server says which of them have ended
            data = ANSWERS.write(self._answer(prober, self._now_s()))
            for prober_id in roster.ids(prober):
                self._start(self._tell(prober_id, data, "answer", reply=f"{ABSENT}.{prober_id}"), "aside")

    # -- reports

    async def _take_report(self, data: bytes, take_stray: TakeStray) -> None:
        try:
            report = await asyncio.to_thread(REPORTS.read, data) if REPORTS.is_long(data) else REPORTS.read(data)
        except UnreadableError as error:
            log.error("a report cannot be read and is dropped", error=error.message)  # noqa: TRY400 - the message says everything
            return
        self._probers.roster.hear_of(report.prober_id, self._now_s())
        sent = self._sent.get(report.batch_id)
        if sent is not None and sent.prober_id != report.prober_id:
            log.warning("a report of a batch that another prober has is dropped", prober=report.prober_id)
        elif report.outcome is None:
            if sent is not None:
                sent.end(Unmade.NOT_BEGUN)
        elif is_plausible(report.outcome):
            await self._take_outcome(report, report.outcome, sent, take_stray)
        else:
            log.warning("a report with impossible numbers is dropped", prober=report.prober_id)

    async def _take_outcome(
        self, report: ProbeReport, found: ProbeOutcome, sent: Sent | None, take_stray: TakeStray
    ) -> None:
        """Take in an outcome, once, for whoever waits for it, or as a stray one."""
        key = (report.batch_id, report.number)
        if key in self._taking:  # sent again because recording it takes long
            return
        if key in self._recorded:  # word of that was lost
            await self._tell_recorded(key, report.prober_id)
            return
        asked = sent.asked[report.number] if sent is not None and report.number < len(sent.asked) else None
        if asked is not None and asked.request.source_id != found.source_id:
            log.warning("a report on another source than was asked for is dropped", prober=report.prober_id)
            return
        self._taking.add(key)
        sent_s = report.sent_s if sent is None else sent.sent_s
        outcome = by_our_clock(found, sent_s=sent_s, arrived_s=self._clock.time_s())
        if asked is not None and not asked.answer.done():
            asked.reported, asked.prober_id = key, report.prober_id
            prober = self._probers.roster.name(report.prober_id)
            self._trust.take_in(prober, asked.request.host, found.kind, now_s=self._clock.time_s())
            asked.end(Unmade.LOST if self._is_doubtful(report.prober_id, found) else outcome)
            return
        is_doubtful = self._is_doubtful(report.prober_id, found)
        is_taken = await take_stray(outcome, reading=report.reading, is_doubtful=is_doubtful)
        self._taking.discard(key)
        if is_taken:
            await self._tell_recorded(key, report.prober_id)

    async def _tell_recorded(self, key: Key, prober_id: str) -> None:
        """Let a prober forget a report that is recorded, and remember it for as long as it may come again."""
        self._recorded[key] = None
        if len(self._recorded) > _REMEMBERED:
            self._recorded.popitem(last=False)
        await self._tell(prober_id, RECORDED.write(Recorded(*key)), "recorded")

    def _is_doubtful(self, prober_id: str, outcome: ProbeOutcome) -> bool:
        """Whether the failure of a probe may be that of its prober, which is not trusted."""
        return may_be_its_own(outcome.kind) and not self._trust.is_trusted(self._probers.roster.name(prober_id))
