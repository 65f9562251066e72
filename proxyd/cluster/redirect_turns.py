"""Turns at the hosts to which redirects lead: a prober waits for them, and the planner of the host gives them."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

import structlog

from proxyd.base.clock import Signal
from proxyd.base.ports import Clock, MaySend, Unmade
from proxyd.cluster.link import NatsConnection
from proxyd.cluster.messages import MOST_SPACING_S, TURN, TURN_ANSWERS, TURNS, Batch, TurnAnswer, TurnMessage
from proxyd.core.errors import ClusterError
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest

_T = TypeVar("_T")
_AGAIN_S = 1.0  # between two questions for the same turn
_MOST_UNHEARD = 3  # questions: then no planner of the host is there
_LONGEST_S = 45.0  # two such waits, for robots.txt and the page, fit into the patience of a batch's planner
_SILENT_S, _MOST_SILENT = 60.0, 10_000  # hosts whose planner did not hear are not asked about for so long
_MOST_REMEMBERED, _KEPT_S = 10_000, 5.0  # turns, and for how long after each question they are asked for
_PASS_S = 10.0  # between turns of a prober that pass its own batch
_batch: ContextVar[tuple[str, str]] = ContextVar("batch", default=("", ""))  # its host, if no turn is needed; its id
log = structlog.get_logger("cluster")


@dataclass(eq=False, slots=True)
class _Awaited:
    """A turn that was asked for."""

    given: Signal = field(default_factory=Signal)
    is_given: bool = False
    unheard: int = 0  # the last questions

    @property
    def is_over(self) -> bool:
        """Whether nothing is waited for any more."""
        return self.is_given or self.unheard >= _MOST_UNHEARD


class RedirectTurns:
    """Spaces requests to other hosts than their batch's together with the batches that the planner of the host sends.

    A planner that hears of a turn says so at once, and again when the turn has come. If no planner hears three
    questions in a row, or the turn has not come within 45 s and twice the spacing, the request is made without.

    Parameters
    ----------
    spacing_s
        The usual time between two requests to a host.
    """

    def __init__(self, link: NatsConnection, prober_id: str, clock: Clock, spacing_s: float) -> None:
        self._link = link
        self._prober_id = prober_id
        self._clock = clock
        self._spacing_s = spacing_s
        self._awaited: dict[str, _Awaited] = {}
        self._silent_until_s: dict[str, float] = {}  # by host

    @contextmanager
    def during(self, batch: Batch) -> Iterator[None]:
        """While the context is open: requests are of this batch, and those to its host need no turn."""
        token = _batch.set(("" if batch.needs_turns else batch.host, batch.batch_id))
        try:
            yield
        finally:
            _batch.reset(token)

    async def wait(self, host: str, spacing_s: float) -> None:
        """Wait until a request to a host may start, ``spacing_s`` after the last one if that is more than usual."""
        (batch_host, batch_id), now_s = _batch.get(), self._clock.monotonic_s()
        if host == batch_host or now_s < self._silent_until_s.get(host, -inf):
            return
        until_s = now_s + _LONGEST_S + 2.0 * max(spacing_s, self._spacing_s)
        turn = TurnMessage(uuid.uuid4().hex, self._prober_id, batch_id, host, min(spacing_s, MOST_SPACING_S))
        awaited = self._awaited[turn.turn_id] = _Awaited()
        try:
            while not awaited.is_over and self._clock.monotonic_s() < until_s:
                await self._ask(turn, awaited)
        finally:
            del self._awaited[turn.turn_id]
        if awaited.unheard >= _MOST_UNHEARD:
            self._note_silent(host)

    async def _ask(self, turn: TurnMessage, awaited: _Awaited) -> None:
        awaited.unheard += 1
        with suppress(ClusterError):
            await self._link.send(TURN, TURNS.write(turn))
        await awaited.given.sleep(self._clock, _AGAIN_S)

    def take(self, answer: TurnAnswer) -> None:
        """Take in what a planner says of a turn."""
        awaited = self._awaited.get(answer.turn_id)
        if awaited is not None:
            awaited.unheard = 0
            if answer.is_given:
                awaited.is_given = True
                awaited.given.notify()

    def _note_silent(self, host: str) -> None:
        log.debug("no planner gives turns at a host", host=host)
        now_s = self._clock.monotonic_s()
        if len(self._silent_until_s) >= _MOST_SILENT:
            self._silent_until_s = {name: s for name, s in self._silent_until_s.items() if s > now_s}
        if len(self._silent_until_s) < _MOST_SILENT:
            self._silent_until_s[host] = now_s + _SILENT_S


class GivenTurns:
    """The turns that probers wait for at the hosts for which ``has_host`` is true; ``may_send`` as for batches.

    Turns are at least ``spacing_s`` apart, or as far as they ask for; ``tell`` tells a prober.
    """

    def __init__(
        self,
        tell: Callable[[str, bytes], Awaitable[None]],
        may_send: MaySend,
        clock: Clock,
        spacing_s: float,
    ) -> None:
        self.has_host: Callable[[str], bool] = lambda _host: True
        self._tell = tell
        self._may_send = may_send
        self._clock = clock
        self._spacing_s = spacing_s
        self._asked_s: dict[str, float] = {}  # when each that waits was last asked for, by its id
        self._given: OrderedDict[str, None] = OrderedDict()  # the last ones, by id
        self._given_s: OrderedDict[str, float] = OrderedDict()  # when the last one was given, by host

    def takes(self, turn: TurnMessage) -> bool:
        """Whether a turn is given here, and there is room for it."""
        is_room = len(self._asked_s) < _MOST_REMEMBERED or turn.turn_id in self._asked_s
        return is_room and self._are_of(turn.host)

    def has_given(self, turn: TurnMessage) -> bool:
        """Whether a turn was given, and its prober has not heard it."""
        return turn.turn_id in self._given

    def note(self, turn: TurnMessage) -> bool:
        """Note that a turn was asked for; return whether it is a new one."""
        is_new = turn.turn_id not in self._asked_s
        self._asked_s[turn.turn_id] = self._clock.monotonic_s()
        return is_new

    def given_s(self, host: str) -> float:
        """Return when the last turn at a host was given, in unix seconds."""
        return self._given_s.get(host, -inf)

    async def tell(self, turn: TurnMessage, *, is_given: bool) -> None:
        """Tell a prober of its turn."""
        await self._tell(turn.prober_id, TURN_ANSWERS.write(TurnAnswer(turn.turn_id, is_given)))

    async def give(self, turn: TurnMessage) -> None:
        """Give a turn when it has come, unless its prober no longer asks, and wait until the next one may come."""
        due_s = self.given_s(turn.host) + turn.spacing_s
        while self._is_asked_for(turn) and (left_s := due_s - self._clock.time_s()) > 0.0:
            await self._clock.sleep(min(left_s, _KEPT_S))
        if await self._give(turn):
            await self._clock.sleep(self._spacing_s)

    async def let_pass(self, queue: HostQueue) -> None:
        """Give the first turn of a host although a batch of the host has not ended: it waits for a turn itself."""
        # Otherwise two hosts whose redirects lead to each other would wait for each other
        first = next((each for each in queue.waiting if isinstance(each, TurnMessage)), None)
        if first is not None and self._may_pass(first, self._spacing_s):
            queue.waiting.remove(first)
            await self._give(first)

    async def let_own_pass(self, queue: HostQueue, turn: TurnMessage) -> None:
        """Give a turn to the prober that makes the batch of the host, now and then."""
        # The batch may wait for what the turn is for, such as a robots.txt
        least_s = max(_PASS_S, self._spacing_s)
        if queue.prober_id == turn.prober_id and self._may_pass(turn, least_s) and turn in queue.waiting:
            queue.waiting.remove(turn)
            await self._give(turn)

    def _may_pass(self, turn: TurnMessage, least_s: float) -> bool:
        return self._clock.time_s() >= self.given_s(turn.host) + max(turn.spacing_s, least_s)

    async def _give(self, turn: TurnMessage) -> bool:
        is_given = self._is_asked_for(turn) and self._are_of(turn.host)
        del self._asked_s[turn.turn_id]
        if is_given:
            _remember(self._given, turn.turn_id, None)
            _remember(self._given_s, turn.host, self._clock.time_s())
            await self.tell(turn, is_given=True)
        return is_given

    def _is_asked_for(self, turn: TurnMessage) -> bool:
        return self._clock.monotonic_s() <= self._asked_s[turn.turn_id] + _KEPT_S

    def _are_of(self, host: str) -> bool:
        return self._may_send() and self.has_host(host)


def _remember(last: OrderedDict[str, _T], key: str, value: _T) -> None:
    """Set a value; forget the one that was set longest ago if there are too many."""
    last[key] = value
    last.move_to_end(key)
    if len(last) > _MOST_REMEMBERED:
        last.popitem(last=False)


Key = tuple[str, int]
"""A request: its batch, and its place there."""


@dataclass(eq=False, slots=True)
class Asked:
    """A request on its way, and the future of its result; ``reported`` is the key of the report that ended it."""

    request: ProbeRequest
    until_s: float  # when it is given back if it has not been sent
    answer: asyncio.Future[ProbeOutcome | Unmade]
    reported: Key | None = None
    prober_id: str | None = None

    def end(self, result: ProbeOutcome | Unmade) -> None:
        """Set the result, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(result)

    def end_if_late(self, now_s: float) -> bool:
        """Give a request back that has waited too long, and return whether it has."""
        is_late = now_s > self.until_s
        if is_late:
            self.end(Unmade.NOT_BEGUN)
        return is_late


@dataclass(eq=False, slots=True)
class Sent:
    """A batch that a prober has until ``until_s``; it is not extended after ``patient_until_s``."""

    batch_id: str
    prober_id: str
    asked: list[Asked]
    until_s: float
    patient_until_s: float
    sent_s: float

    def end(self, result: Unmade) -> None:
        """End the requests that are not reported."""
        for each in self.asked:
            each.end(result)


@dataclass(eq=False, slots=True)
class WaitingBatch:
    """A batch that waits for a prober with room, and the future of its id; ``None`` if there is none in time."""

    batch_id: str
    until_s: float
    prober_id: asyncio.Future[str | None]


@dataclass(slots=True)
class HostQueue:
    """One host: its waiting requests and turns, in the order in which they came, and the task that serves them."""

    waiting: deque[Asked | TurnMessage] = field(default_factory=deque)
    server: asyncio.Task[None] | None = None
    prober_id: str = ""  # that makes the present batch

    def take_requests(self, most: int) -> list[Asked]:
        """Take the first requests, up to the next turn."""
        taken: list[Asked] = []
        while self.waiting and len(taken) < most and isinstance(first := self.waiting[0], Asked):
            taken.append(first)
            self.waiting.popleft()
        return taken

    def take_turn(self) -> TurnMessage | None:
        """Take the turn that is first, if one is."""
        first = self.waiting[0] if self.waiting else None
        if not isinstance(first, TurnMessage):
            return None
        self.waiting.popleft()
        return first
