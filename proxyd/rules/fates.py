"""What became of execution intervals: completeness and utility of streams, rules and profiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proxyd.rules.state import StreamState


@dataclass(frozen=True, slots=True)
class Fates:
    """Captured and missed execution intervals, and the utility ``gained``, of 1 for each of them.

    Examples
    --------
    >>> both = Fates(captured=1, gained=1.0) + Fates(missed=1, gained=0.5)
    >>> both.completeness, both.utility
    (0.5, 0.75)
    >>> Fates().completeness is None
    True
    """

    captured: int = 0
    missed: int = 0
    gained: float = 0.0

    def __add__(self, other: Fates) -> Fates:
        return Fates(self.captured + other.captured, self.missed + other.missed, self.gained + other.gained)

    @property
    def completeness(self) -> float | None:
        """Captured over all; ``None`` without any."""
        return self.captured / self._all if self._all else None

    @property
    def utility(self) -> float | None:
        """Gained over possible; ``None`` without any interval."""
        return self.gained / self._all if self._all else None

    @property
    def _all(self) -> int:
        return self.captured + self.missed


def fates_of(streams: Iterable[StreamState]) -> Fates:
    """Return the fates of all intervals of some streams."""
    found = list(streams)
    return Fates(
        sum(stream.captured for stream in found),
        sum(stream.missed for stream in found),
        sum(stream.utility for stream in found),
    )
