"""The start of each probe within its chronon."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import inf

from proxyd.core.model.schedule import Probe

# The part of a chronon in which probes start; the last ones must still be inside it when the loop is late.
_SPREAD = 0.9
_LEAST = 16.0  # probes that a chronon may always plan


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """A probe and its start, in unix seconds within its chronon."""

    probe: Probe
    start_s: float


class SlotAllocator:
    """Spreads the starts over a chronon of ``capacity`` equal parts, so that the fleet never bursts."""

    def __init__(self, start_s: float, length_s: float, capacity: int) -> None:
        self._start_s = start_s
        self._part_s = _SPREAD * length_s / max(1, capacity)
        self._free = list(range(capacity))

    @property
    def has_room(self) -> bool:
        """Whether another probe may start."""
        return bool(self._free)

    def take(self, at_s: float) -> float | None:
        """Return the start of a probe that may start at ``at_s``, or ``None`` if the budget is used up.

        The start is in the first free part from then on; if none is left, one of the earlier parts pays for it.
        """
        if not self._free:
            return None
        index = bisect_left(self._free, int((at_s - self._start_s) / self._part_s))
        part = self._free.pop(min(index, len(self._free) - 1))
        return max(at_s, self._start_s + part * self._part_s)


class OverloadLimiter:
    """Limits the probes a chronon plans (``most``) when this machine falls behind; otherwise there is no limit.

    If a chronon reached fewer than half of its probes, the next one plans twice the number that was started. Each
    chronon that reached them doubles the limit again. A machine that stood still did not fall behind: its chronons do
    not follow each other.

    >>> limiter = OverloadLimiter()
    >>> limiter.after(started=100, dropped=900)
    >>> limiter.most
    216.0
    >>> limiter.after(started=216, dropped=0)
    >>> limiter.most
    432.0
    """

    def __init__(self) -> None:
        self.most = inf

    def after(self, started: int, dropped: int) -> None:
        """Note how many probes the previous chronon started, and how many it did not reach."""
        is_behind = dropped > max(started, _LEAST)
        self.most = 2.0 * started + _LEAST if is_behind else 2.0 * self.most
