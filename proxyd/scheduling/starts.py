"""When within its chronon each probe starts."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from proxyd.model.schedule import Probe

# the part of a chronon in which probes start: the last ones must not fall out of it when the loop is late
_SPREAD = 0.9


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """A probe and when it starts, in unix seconds within its chronon.

    Examples
    --------
    >>> from proxyd.model.schedule import Reason
    >>> PlannedProbe(Probe("a", 3, Reason.DETECTION), start_s=30.5).probe.chronon
    3
    """

    probe: Probe
    start_s: float


class Pace:
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
        """Return the start of a probe that may start at ``at_s``; ``None`` where the budget is used up.

        It is in the first free part from then on; where none is left, one of the earlier parts pays for it.
        """
        if not self._free:
            return None
        index = bisect_left(self._free, int((at_s - self._start_s) / self._part_s))
        part = self._free.pop(min(index, len(self._free) - 1))
        return max(at_s, self._start_s + part * self._part_s)
