"""The start of each probe within its chronon."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Probe

# The part of a chronon in which probes start; the last ones must still be inside it when the loop is late.
_SPREAD = 0.9
_LEAST, _MORE = 16.0, 0.25  # probes that a chronon may always plan, and the part that may be more than was started
_ON_TIME_S = 0.25  # a start that is later than that has to wait for its turn
_LATE_AT_ONCE = 4  # probes


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """A probe and its start, in unix seconds within its chronon."""

    probe: Probe
    start_s: float


class SlotAllocator:
    """Spreads the starts over a chronon of ``capacity`` equal parts, so that the fleet never bursts."""

    def __init__(self, start_s: float, length_s: float, capacity: int, *, from_s: float = -inf) -> None:
        self._start_s = start_s
        self._part_s = _SPREAD * length_s / max(1, capacity)
        # Who begins in the middle of a chronon has what is left of it.
        ended = int(max(0.0, from_s - start_s) / self._part_s)
        self._free = list(range(ended, capacity))

    @property
    def room(self) -> int:
        """How many more probes may start."""
        return len(self._free)

    @property
    def has_room(self) -> bool:
        """Whether another probe may start."""
        return bool(self._free)

    def take(self, at_s: float) -> float | None:
        """Return the start of a probe that may start at ``at_s``, or ``None`` if the budget is used up."""
        if not self._free:
            return None
        index = bisect_left(self._free, int((at_s - self._start_s) / self._part_s))
        # If no part is free from then on, one of the earlier parts pays for it.
        part = self._free.pop(min(index, len(self._free) - 1))
        return max(at_s, self._start_s + part * self._part_s)

    def spend(self, units: int) -> int:
        """Use up so many parts more, or all that are left; returns how many units they did not pay."""
        if not units:
            return 0
        paid = min(units, len(self._free))
        del self._free[len(self._free) - paid :]
        return units - paid


class LateStarts:
    """Says when the next late probe may start, so that the budget holds by the second after a machine stood still.

    Each start uses a part of the chronon, and a render several. A late one waits until there is a part that no other
    start used. Up to four, or a quarter of a second's worth if that is more, need not wait.

    >>> late = LateStarts()
    >>> late.use_parts(9.0, 10)
    >>> for _ in range(6):
    ...     late.note_start(100.0, units=1)
    >>> round(late.next_s, 2)
    101.62
    """

    def __init__(self) -> None:
        self._part_s = 0.0
        self._used_s = -inf  # the end of the parts that are used

    @staticmethod
    def is_late(due_s: float, now_s: float) -> bool:
        """Whether a probe that was due then starts late now."""
        return now_s - due_s > _ON_TIME_S

    def use_parts(self, length_s: float, capacity: int) -> None:
        """Divide a chronon of that length into ``capacity`` parts."""
        self._part_s = _SPREAD * length_s / max(1, capacity)

    def note_start(self, now_s: float, units: int) -> None:
        """Note the start of a probe, late or not, that costs so many units of the budget."""
        self._used_s = max(self._used_s, now_s) + units * self._part_s

    @property
    def next_s(self) -> float:
        """When a late probe may start, in unix seconds."""
        return self._used_s - max(_ON_TIME_S, _LATE_AT_ONCE * self._part_s)


class UnitDebt:
    """The units of the budget that a render, begun earlier, still costs. Each chronon pays them before it plans.

    Only one render at a time is owed for, so the probes that start exceed the budget by less than one render.

    >>> debt = UnitDebt()
    >>> debt.owe(9)
    >>> [debt.pay(now, 4, lambda _: 4) for now in range(3)], debt.is_owed
    ([0, 0, 3], False)
    """

    def __init__(self) -> None:
        self._owed = 0
        self._next: Chronon | None = None

    @property
    def is_owed(self) -> bool:
        """Whether a render is not paid for yet."""
        return self._owed > 0

    def owe(self, units: int) -> None:
        """Note what the present chronon could not pay."""
        self._owed += units

    def forgive(self, units: int) -> None:
        """Take back units that were not needed."""
        self._owed = max(0, self._owed - units)

    def pay(self, now: Chronon, whole: int, capacity: Callable[[Chronon], int]) -> int:
        """Pay with the ``capacity`` of chronons before ``now`` and the ``whole`` of it; return what it has left."""
        begin, self._next = now if self._next is None else self._next, now + 1
        for chronon in range(begin, now):
            if not self._owed:
                break
            self.forgive(capacity(chronon))
        left = max(0, whole - self._owed)
        self.forgive(whole)
        return left

    def copy(self) -> UnitDebt:
        """Return an independent copy."""
        copied = UnitDebt()
        copied._owed, copied._next = self._owed, self._next
        return copied


class OverloadLimiter:
    """Limits the probes a chronon plans (``most``) when this machine falls behind; otherwise there is no limit.

    If a choice left more than a quarter of what it started, and 16, the next one plans a quarter more than was started.
    Each choice that left none doubles the limit again. A machine that stood still beyond a chronon did not fall behind:
    its chronons do not follow each other. One that stood still for most of a chronon counts as behind in the next one.

    >>> limiter = OverloadLimiter()
    >>> limiter.after(started=100, dropped=900)
    >>> limiter.most
    141.0
    >>> limiter.after(started=100, dropped=41)  # it goes on like that
    >>> limiter.most
    141.0
    >>> limiter.after(started=141, dropped=0)
    >>> limiter.most
    282.0
    """

    def __init__(self) -> None:
        self.most = inf

    def after(self, started: int, dropped: int) -> None:
        """Note how many probes of the previous choice were started, and how many were not reached."""
        if dropped > _MORE * started + _LEAST:
            self.most = started + _MORE * started + _LEAST
        elif not dropped:
            self.most *= 2.0
