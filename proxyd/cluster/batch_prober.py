"""The prober's side: makes the requests of batches, each host's one after the other, and reports each."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf

import structlog

from proxyd import __version__
from proxyd.base.clock import Signal, awake_or_asleep_s
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock, Prober
from proxyd.cluster.link import Handler, NatsConnection, Received
from proxyd.cluster.messages import (
    ANSWERS,
    BATCHES,
    CALL,
    HELLO,
    HELLOS,
    LIVING,
    MOST_PLANNERS,
    RECORDED,
    REPORT,
    REPORTS,
    TURN_ANSWERS,
    AnswerMessage,
    Batch,
    Hello,
    Living,
    ProbeReport,
    by_our_clock,
    report_to,
    work_of,
)
from proxyd.cluster.prober_roster import HELLO_EVERY_S
from proxyd.cluster.redirect_turns import RedirectTurns
from proxyd.core.errors import ClusterError, LeaseLostError, UnreadableError
from proxyd.core.model.outcome import ProbeOutcome

_ALONE_S = 10.0  # between hellos that no planner answers
_LOOKS = 16.0  # in a hold, for batches that are no longer ours
_FORGOTTEN_S = 3.0 * HELLO_EVERY_S
_MORE_HOSTS = 2  # times the setting: several planners do not know of each other's batches
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0  # until a report is sent again
_MOST_UNRECORDED = 10_000  # reports
_MOST_REMEMBERED = 100_000  # batches
log = structlog.get_logger("cluster")


@dataclass(frozen=True, slots=True)
class ProberSettings:
    """The prober's name, the most hosts at once, how long ``stop`` waits for unfinished ones, and a host's spacing."""

    name: str
    hosts: int
    drain_timeout_s: float
    spacing_s: float = 0.0


@dataclass(eq=False, slots=True)
class _Held:
    """A batch that is being made, and until when it is ours, by the planner's clock."""

    batch: Batch
    received_s: float
    until_s: float
    task: asyncio.Task[None] | None = None
    limit: asyncio.Timeout | None = None


@dataclass(slots=True)
class _Unrecorded:
    """A report that no planner has confirmed yet, and when and where it is sent next."""

    data: bytes
    subject: str
    again_s: float = inf
    wait_s: float = _SHORTEST_WAIT_S


class BatchProber:
    """Makes the probes of batches until ``stop``.

    A request is made only while its batch is ours by the clock of its planner (``_PlannerSession``). A report goes to
    this planner, and then to all, until one of them has recorded it.
    """

    def __init__(
        self,
        link: NatsConnection,
        prober: Prober,
        clock: Clock,
        metrics: Metrics,
        settings: ProberSettings,
        now_s: Callable[[], float] = awake_or_asleep_s,
    ) -> None:
        self.prober_id = uuid.uuid4().hex
        self.turns = RedirectTurns(link, self.prober_id, clock, settings.spacing_s)
        self._link = link
        self._prober = prober
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._now_s = now_s
        self._sessions: dict[int, _PlannerSession] = {}  # by term
        self._words: dict[str, frozenset[int]] = {}  # to say once all batches but those of some planners have ended
        self._held: dict[str, _Held] = {}
        self._known: OrderedDict[str, None] = OrderedDict()  # batches that have come, so that none is made twice
        self._unrecorded: OrderedDict[tuple[str, int], _Unrecorded] = OrderedDict()
        self._greeted_s = -inf  # when the last hello was sent
        self._is_called = False  # a planner asks who is there
        self._aside: set[int] = set()  # the planners that have put this prober aside
        self._to_greet, self._to_send, self._recorded = Signal(), Signal(), Signal()
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether work can arrive."""
        return self._link.is_up and not self._stopping.is_set()

    def stop(self) -> None:
        """Take no more batches and finish the current ones; returns at once."""
        self._stopping.set()

    async def run(self) -> None:
        """Make probes until ``stop``."""
        handlers: dict[str, Handler] = {CALL: self._hear_call, f"{work_of(self.prober_id)}.*": self._hear}
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            talking = [
                tasks.create_task(self._link.listen(handlers, self._greet), name="planner"),
                tasks.create_task(self._watch(), name="hellos"),
                tasks.create_task(self._send_again(), name="reports"),
            ]
            try:
                await self._stopping.wait()
                self._hear_call()
                await self._drain()
                with suppress(ClusterError):
                    await self._greet()  # the next planner need not wait for us
            finally:
                self._tasks = None  # nothing can be begun any more, also when an error ends this
            for task in talking:
                task.cancel()

    async def _drain(self) -> None:
        """Finish the batches that are ours, and wait until the planner has recorded the last reports."""
        until_s = self._clock.monotonic_s() + self._settings.drain_timeout_s
        making = [each.task for each in self._held.values() if each.task is not None]
        if making:
            _, late = await asyncio.wait(making, timeout=self._settings.drain_timeout_s)
            for task in late:
                task.cancel()
        while self._unrecorded and self._link.is_up:
            recorded = self._recorded.next
            try:
                async with asyncio.timeout(until_s - self._clock.monotonic_s()):
                    await recorded.wait()
            except TimeoutError:
                break

    # -- the planners

    async def _greet(self) -> None:
        """Say that this prober is there, and what it works on."""
        self._is_called, self._greeted_s = False, self._now_s()
        self._forget_silent(self._greeted_s)
        settings, working = self._settings, self._working()
        words = tuple(word for word, living in self._words.items() if working <= living)
        for word in words:
            del self._words[word]
        hello = Hello(
            self.prober_id,
            settings.name,
            __version__,
            settings.hosts,
            self._greeted_s,
            self._batches(),
            words,
            self._stopping.is_set(),
        )
        await self._link.send(HELLO, HELLOS.write(hello))
        self._to_greet.notify()

    def _batches(self) -> dict[int, tuple[str, ...]]:
        """Return the batches that are worked on, of each planner whose clock is known; at the end those of all."""
        held = [each.batch for each in self._held.values()]
        terms = {term for term, session in self._sessions.items() if session.is_known}
        if self._stopping.is_set():
            terms |= self._working()
        return {term: tuple(each.batch_id for each in held if each.term == term) for term in terms}

    def _working(self) -> set[int]:
        """Return the planners, by their terms, that have a batch here."""
        return {each.batch.term for each in self._held.values()}

    def _forget_silent(self, now_s: float) -> None:
        """Forget the planners that have ended, or are silent for long, and have no batch here."""
        working = self._working()
        for term, session in [*self._sessions.items()]:
            is_silent = now_s > session.heard_s + _FORGOTTEN_S
            if term not in working and (is_silent or session.is_over(now_s)):
                del self._sessions[term]
                self._aside.discard(term)

    async def _watch(self) -> None:
        """Say hello when a planner calls, while a batch takes long, and now and then; give up what is not ours."""
        while True:
            greeting_s = self._greeting_s() - self._now_s()
            await self._to_greet.sleep(self._clock, min([greeting_s, *map(self._look_s, self._held.values())]))
            for each in self._held.values():
                if self._left_s(each) <= self._look_s(each):  # it would be over before the next look
                    _end(each)
            if self._now_s() >= self._greeting_s():
                try:
                    await self._greet()
                except ClusterError as error:
                    log.debug("no planner can be asked yet", error=error.message)

    def _greeting_s(self) -> float:
        if self._is_called:
            return -inf
        if self._greeted_s == -inf:  # the first one is said once a server is connected
            return inf
        is_answered = any(each.heard_s >= self._greeted_s for each in self._sessions.values())
        idle_s = self._greeted_s + (HELLO_EVERY_S if is_answered else _ALONE_S)
        since_s: dict[int, float] = {}
        for each in self._held.values():
            since_s.setdefault(each.batch.term, each.received_s)  # they are in the order in which they came
        known = {term: session for term, session in self._sessions.items() if term in since_s and session.is_known}
        due_s = (session.next_hello_s(self._greeted_s, since_s[term]) for term, session in known.items())
        return min([idle_s, *due_s])

    def _look_s(self, held: _Held) -> float:
        """Return how often to look whether a batch is still ours."""
        session = self._sessions.get(held.batch.term)
        return inf if session is None else session.hold_s / _LOOKS

    def _hear_call(self, _received: Received | None = None) -> None:
        """Say hello soon, because a planner begins, or something has changed."""
        self._is_called = True
        self._to_greet.notify()

    def _hear(self, received: Received) -> None:
        try:
            if received.last_word == "batch":
                self._take(BATCHES.read(received.data))
            elif received.last_word == "answer":
                self._take_answer(ANSWERS.read(received.data))
            elif received.last_word == "living":
                self._watch_planners(LIVING.read(received.data))
            elif received.last_word == "turn":
                self.turns.take(TURN_ANSWERS.read(received.data))
            elif received.last_word == "recorded":
                told = RECORDED.read(received.data)
                self._unrecorded.pop((told.batch_id, told.number), None)
                self._recorded.notify()
        except UnreadableError as error:
            log.error("a message of a planner cannot be read", error=error.message)  # noqa: TRY400 - the message says everything

    def _take_answer(self, answer: AnswerMessage) -> None:
        session, now_s = self._sessions.get(answer.term, _PlannerSession()), self._now_s()
        was_known = session.is_known
        if (not was_known and len(self._sessions) >= MOST_PLANNERS) or not session.take(answer, now_s=now_s):
            return
        self._sessions[answer.term] = session
        if not was_known:
            self._report_again(now_s)
        answers_last = answer.echo_s is not None and answer.echo_s >= self._greeted_s
        is_late = session.is_vague and answers_last  # if any late answer caused a hello, there would be ever more
        if not was_known or is_late:  # it gives no work until it knows that we know its clock
            self._is_called = True
        self._to_greet.notify()
        theirs = {key: each for key, each in self._held.items() if each.batch.term == answer.term}
        for batch_id in theirs.keys() & answer.held:
            theirs[batch_id].until_s = max(theirs[batch_id].until_s, answer.now_s + answer.hold_s)
        for batch_id in theirs.keys() & answer.ended:
            _end(theirs[batch_id])
        if answer.aside and not self._aside:
            said = "put aside: this prober fails where others do not; check its network, clock and settings"
            log.warning(said, why=answer.aside)
        if answer.aside:
            self._aside.add(answer.term)
        else:
            self._aside.discard(answer.term)

    def _watch_planners(self, living: Living) -> None:
        """Break off the batches of planners that have ended, and say so once no request of them is under way."""
        now_s, terms = self._now_s(), frozenset(living.terms)
        for term in self._sessions.keys() - terms:
            self._sessions[term].end(now_s)
            self._aside.discard(term)
        for held in self._held.values():
            if held.batch.term not in terms:
                _end(held)
        if len(self._words) < MOST_PLANNERS:
            self._words[living.word] = terms
        self._report_again(now_s)
        self._hear_call()

    def _report_again(self, now_s: float) -> None:
        """Report soon what no planner has recorded: there is another one."""
        for report in self._unrecorded.values():
            report.again_s = now_s
        self._to_send.notify()

    # -- batches

    def _take(self, batch: Batch) -> None:
        """Begin a batch, unless it has come before; refuse one that is not for us, or came too late."""
        if self._tasks is None or batch.batch_id in self._known:
            return
        self._known[batch.batch_id] = None
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        held = _Held(batch, self._now_s(), batch.until_s)
        is_room = len(self._held) < _MORE_HOSTS * self._settings.hosts
        if self._stopping.is_set() or not is_room or not self._is_ours(held):
            self._tasks.create_task(self._refuse(batch), name="refuse")
            return
        self._held[batch.batch_id] = held
        held.task = self._tasks.create_task(self._work(held), name="batch")
        if len(self._held) == 1:
            self._to_greet.notify()

    async def _refuse(self, batch: Batch) -> None:
        """Say that a batch is not begun, and hello, because we may not know the planner's clock."""
        self._count("refused")
        self._hear_call()
        report = ProbeReport(batch.batch_id, 0, self.prober_id, "", batch.sent_s)
        with suppress(ClusterError):
            await self._link.send(report_to(batch.term), REPORTS.write(report))

    def _left_s(self, held: _Held) -> float:
        session = self._sessions.get(held.batch.term)
        return -inf if session is None else session.left_s(held.until_s, self._now_s())

    def _is_ours(self, held: _Held) -> bool:
        return self._left_s(held) > 0.0

    async def _work(self, held: _Held) -> None:
        """Complete a batch, or give it up when it is no longer ours."""
        batch, result = held.batch, "made"
        try:
            async with asyncio.timeout(-1.0 if held.until_s == -inf else None) as held.limit:
                with self._metrics.prober_hosts.track_inprogress(), self.turns.during(batch):
                    for number, request in enumerate(batch.requests):
                        outcome = await self._prober.probe(request, lambda: self._is_ours(held))
                        await self._report(batch, number, outcome)
        except (TimeoutError, LeaseLostError):
            result = "given_up"
            self._hear_call()  # we may get nothing more until the planner hears of us
            log.warning("a batch was given up: its planner has not extended it", host=batch.host)
        finally:
            held.limit = None
            del self._held[batch.batch_id]
            if self._words:
                self._hear_call()  # a planner may wait for that
        self._count(result)

    def _count(self, result: str) -> None:
        self._metrics.batches.labels(result).inc()

    # -- reports

    async def _report(self, batch: Batch, number: int, outcome: ProbeOutcome) -> None:
        reading, placed = batch.requests[number].reading, self._place_outcome(batch, outcome)
        report = ProbeReport(batch.batch_id, number, self.prober_id, reading, batch.sent_s, placed)
        key = (batch.batch_id, number)
        self._unrecorded[key] = unrecorded = _Unrecorded(REPORTS.write(report), report_to(batch.term))
        if len(self._unrecorded) > _MOST_UNRECORDED:
            self._unrecorded.popitem(last=False)
            log.warning("a report is dropped: no planner has recorded the last ones", most=_MOST_UNRECORDED)
        self._to_send.notify()
        await self._send(unrecorded)

    def _place_outcome(self, batch: Batch, outcome: ProbeOutcome) -> ProbeOutcome:
        """Return an outcome with times by the planner's clock, the same each time that its report is sent."""
        session = self._sessions.get(batch.term)
        if session is None or not session.is_known:
            return outcome
        passed_s = session.since_s(batch.until_s - session.hold_s, self._now_s())
        return by_our_clock(outcome, sent_s=batch.sent_s, arrived_s=batch.sent_s + passed_s)

    async def _send(self, report: _Unrecorded) -> None:
        report.again_s = self._now_s() + report.wait_s
        report.wait_s = min(_LONGEST_WAIT_S, 2.0 * report.wait_s)
        subject, report.subject = report.subject, REPORT
        try:
            await self._link.send(subject, report.data)
        except ClusterError as error:
            log.debug("a report cannot be sent yet", error=error.message)

    async def _send_again(self) -> None:
        while True:
            await self._to_send.sleep(self._clock, _SHORTEST_WAIT_S if self._unrecorded else inf)
            for report in [each for each in self._unrecorded.values() if each.again_s <= self._now_s()]:
                await self._send(report)


def _end(held: _Held) -> None:
    """Break off the requests of a batch, which is no longer ours."""
    held.until_s = -inf
    if held.limit is not None and not held.limit.expired():
        held.limit.reschedule(asyncio.get_running_loop().time())


_CLOCK_DRIFT = 2e-4  # by which two machines' clocks may run apart, in seconds a second
_BEATS = 4.0  # hellos in a hold, while a batch takes long


@dataclass(slots=True)
class _PlannerSession:
    """A planner whose batches a prober makes.

    An answer says what the planner's clock showed (``now_s``) at some time after the question. So the clock now shows
    at most ``now_s`` plus the time since the question, by a clock that also runs while the machine sleeps. The prober
    gives a batch up once that bound reaches its end: never later than the planner does, even if either is frozen or a
    message is late.

    Times are seconds of this machine's clock, except ``until_s`` and ``then_s``.

    Examples
    --------
    >>> session = _PlannerSession()
    >>> session.take(AnswerMessage(term=7, now_s=5000.0, hold_s=6.0, echo_s=10.0), now_s=10.5)
    True
    >>> session.left_s(5006.0, now_s=11.0) < 5.0
    True
    >>> session.end(now_s=11.0)
    >>> session.left_s(5006.0, now_s=11.0)
    -inf
    """

    hold_s: float = 0.0
    heard_s: float = -inf  # when it last answered
    is_vague: bool = False  # the last answer came so late that the planner's clock may be far behind
    _ended_until_s: float = -inf
    _shown_s: float = inf  # what its clock showed at most
    _as_of_s: float = 0.0

    def take(self, answer: AnswerMessage, *, now_s: float) -> bool:
        """Take in an answer; return whether it can be believed. The first one must answer a question."""
        is_first = self._shown_s == inf
        if now_s < self._ended_until_s or (is_first and answer.echo_s is None):
            return False
        if answer.echo_s is not None and answer.echo_s > now_s:
            return False
        self.hold_s = answer.hold_s
        if answer.echo_s is not None:
            self.heard_s = now_s
            self.is_vague = now_s - answer.echo_s > answer.hold_s / _BEATS
            if is_first or self._at_most_s(now_s) > answer.now_s + now_s - answer.echo_s:
                self._shown_s, self._as_of_s = answer.now_s, answer.echo_s
        return True

    def end(self, now_s: float) -> None:
        """Note that the planner has ended: no batch is made, until no old message of it can allow one."""
        self._ended_until_s, self._shown_s = now_s + 2.0 * self.hold_s, inf

    def is_over(self, now_s: float) -> bool:
        """Whether the planner has ended, and may be forgotten."""
        return self._shown_s == inf and now_s >= self._ended_until_s

    @property
    def is_known(self) -> bool:
        """Whether the planner's clock is known, so that batches of it may be made."""
        return self._shown_s < inf

    def next_hello_s(self, last_s: float, held_since_s: float) -> float:
        """Return when to say hello again after ``last_s``, while a batch is worked on since ``held_since_s``."""
        if self.heard_s < last_s:
            return last_s + self.hold_s / _LOOKS
        return max(last_s, held_since_s) + self.hold_s / _BEATS

    def left_s(self, until_s: float, now_s: float) -> float:
        """Return for how long, at least, the planner's clock does not show ``until_s``; a hold at most."""
        return min(self.hold_s, until_s - self._at_most_s(now_s))

    def since_s(self, then_s: float, now_s: float) -> float:
        """Return how long ago, at most, the planner's clock showed ``then_s``."""
        return max(0.0, self._at_most_s(now_s) - then_s)

    def _at_most_s(self, now_s: float) -> float:
        return self._shown_s + (now_s - self._as_of_s) * (1.0 + _CLOCK_DRIFT)
