"""What a process holds, read from /proc, and how fast that grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import theilslopes

MIB = 2.0**20
_PAGE = 4096
_WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process and its children hold at one moment."""

    at_s: float
    bytes: int
    children: int
    files: int


def sample(pid: int, at_s: float) -> Sample:
    """Return what a process holds now; a child that has just ended holds nothing."""
    return Sample(
        at_s, resident(pid), sum(map(resident, _descendants(pid))), len(list(Path(f"/proc/{pid}/fd").iterdir()))
    )


def resident(pid: int) -> int:
    """Return the bytes of memory of a process; one that has ended has none."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        return found
    return [*found, *(below for child in found for below in _descendants(child))]


def growth_per_h(times_s: ArrayLike, sizes: ArrayLike) -> float:
    """Return by how much a size grows in an hour, at least: what cannot be told from noise counts as none.

    It is Theil and Sen's slope, at the lower end of its 95 % interval, over the least size of each 10 s: what is held
    for a moment is no growth, and a single step is not taken for a slope.

    >>> round(growth_per_h(range(200), [5.0 + second / 3600.0 for second in range(200)]), 2)
    1.0
    """
    at_s, held = np.asarray(times_s, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    window = ((at_s - at_s[0]) / _WINDOW_S).astype(int)
    least = [(float(at_s[window == each].mean()), float(held[window == each].min())) for each in np.unique(window)]
    x, y = np.array(least).T
    return float(theilslopes(y, x, alpha=0.95).low_slope) * 3600.0


def grows(sizes: Sequence[float]) -> bool:
    """Return whether a size was larger each time, but for at most one time in five."""
    steps = np.diff(sizes)
    return bool(np.count_nonzero(steps > 0) >= 0.8 * len(steps))


def share_ms(late_ms: Sequence[int], share: float) -> int:
    """Return the milliseconds that a share of the turns was not later than.

    >>> share_ms([98, 1, 1], 0.99)
    1
    """
    return int(np.searchsorted(np.cumsum(late_ms), share * sum(late_ms)))
