"""What a planner keeps of its requests: those that wait for their host or a prober, and those that a prober has."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from proxyd.base.ports import Unmade
from proxyd.cluster.messages import Turn
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest

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

    waiting: deque[Asked | Turn] = field(default_factory=deque)
    server: asyncio.Task[None] | None = None
    prober_id: str = ""  # that makes the present batch

    def take_requests(self, most: int) -> list[Asked]:
        """Take the first requests, up to the next turn."""
        taken: list[Asked] = []
        while self.waiting and len(taken) < most and isinstance(first := self.waiting[0], Asked):
            taken.append(first)
            self.waiting.popleft()
        return taken

    def take_turn(self) -> Turn | None:
        """Take the turn that is first, if one is."""
        first = self.waiting[0] if self.waiting else None
        if not isinstance(first, Turn):
            return None
        self.waiting.popleft()
        return first
