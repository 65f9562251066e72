"""The retry ladder of deliveries: when to try again, and when to stop."""

from __future__ import annotations

import numpy as np

LADDER_S = (1.0, 3.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)
JITTER = 0.1


def retry_after_s(attempts: int, *, asked_s: float | None, rng: np.random.Generator) -> float | None:
    """Return how long to wait after the ``attempts``-th failed attempt, ``None`` where the ladder ends.

    A receiver's Retry-After lengthens a step but never shortens one; up to 10 % of jitter comes on top.
    """
    if attempts > len(LADDER_S):
        return None
    wait = max(LADDER_S[attempts - 1], min(asked_s or 0.0, LADDER_S[-1]))
    return wait * (1.0 + JITTER * float(rng.random()))
