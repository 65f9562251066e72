"""Detection: when a probe of a source is worth its price."""

from __future__ import annotations

from math import inf, sqrt


def due_after_s(rate_per_s: float, *, price_item_s: float, weight: float = 1.0) -> float:
    """Return how long after the last probe the next one pays for itself, in seconds.

    Waiting tau leaves ``weight * rate * tau^2 / 2`` item-seconds of delay; the probe is due where that reaches the
    price: ``tau = sqrt(2 price / (weight rate))``.

    Parameters
    ----------
    price_item_s
        Item-seconds of delay a probe must save.

    Notes
    -----
    Source: ALGORITHMS 5 (the index with a price per probe).

    Examples
    --------
    >>> due_after_s(1 / 3600, price_item_s=1800.0)
    3600.0
    """
    return sqrt(2 * price_item_s / (weight * rate_per_s)) if rate_per_s > 0 and weight > 0 else inf


def index(rate_per_s: float, waited_s: float, weight: float = 1.0) -> float:
    """Return the expected delay that a probe now would end, in item-seconds; larger is more urgent.

    >>> index(0.5, 10.0)
    25.0
    """
    return weight * rate_per_s * waited_s * waited_s / 2
