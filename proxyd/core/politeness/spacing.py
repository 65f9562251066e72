"""The politeness budget of a source or host: least spacing, and most probes in a window."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class PolitenessBudget:
    """Probes start at least ``spacing_s`` apart, at most ``probes`` of them in any ``window_s``.

    ``probes`` is ``None`` if their number is not limited.
    """

    spacing_s: float
    probes: int | None = None
    window_s: float = 0.0

    @property
    def most_per_s(self) -> float:
        """How many probes a second it allows in the long run, infinity without a limit.

        >>> PolitenessBudget(spacing_s=1.0, probes=30, window_s=60.0).most_per_s
        0.5
        """
        spaced = 1.0 / self.spacing_s if self.spacing_s > 0 else inf
        return min(spaced, self.probes / self.window_s) if self.probes is not None and self.window_s > 0 else spaced


@dataclass(slots=True)
class ProbeLog:
    """The starts of a source's or host's recent probes, as many as its budget needs to remember.

    ``kept`` more are kept of the last ``kept_s`` seconds, because they count for others too.

    >>> log = ProbeLog(PolitenessBudget(spacing_s=10.0, probes=2, window_s=100.0))
    >>> log.record(0.0); log.record(10.0)
    >>> log.earliest_s()
    100.0
    """

    budget: PolitenessBudget
    starts_s: list[float] = field(default_factory=list)  # a deque takes 600 bytes, and a source mostly keeps one start
    kept: int = 0
    kept_s: float = 0.0

    def record(self, start_s: float) -> None:
        """Note a probe that started."""
        self.starts_s.append(start_s)
        least = max(1, self.budget.probes or 1)
        while len(self.starts_s) > least and not self._is_kept(start_s):
            self.starts_s.pop(0)

    def _is_kept(self, now_s: float) -> bool:
        """Whether the oldest start is remembered for others."""
        return len(self.starts_s) <= self.kept and self.starts_s[0] > now_s - self.kept_s

    def move_last(self, start_s: float) -> None:
        """Correct the last start: the probe was planned, and started later."""
        if self.starts_s:
            self.starts_s[-1] = max(self.starts_s[-1], start_s)

    def take_back(self) -> None:
        """Forget the last start: the probe was planned but not made."""
        if self.starts_s:
            self.starts_s.pop()

    def correct(self, planned_s: float, start_s: float | None) -> None:
        """Correct a planned start: the probe started at ``start_s``, or not at all."""
        if planned_s in self.starts_s:
            self.starts_s.remove(planned_s)
            if start_s is not None:
                self.starts_s = sorted([*self.starts_s, start_s])

    def earliest_s(self) -> float:
        """Return the earliest start of the next probe, minus infinity if it may start any time."""
        if not self.starts_s:
            return -inf
        earliest = self.starts_s[-1] + self.budget.spacing_s
        if self.budget.probes is not None and len(self.starts_s) >= self.budget.probes:
            earliest = max(earliest, self.starts_s[-self.budget.probes] + self.budget.window_s)
        return earliest
