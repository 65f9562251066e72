"""DOE(n PROBES PER t): n probes of a source in each period t, at the times that leave items waiting least."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.one_source.optimal_schedule import optimal_cycle

Floats = NDArray[np.float64]

_WHOLE = 1e-6


def doe_slots(shape: Floats, importance: Floats, probes: int, period_slots: float) -> Floats | None:
    """Return the slots of a week at which ``probes`` a period cost least, or ``None`` if even spacing is as good.

    A period of some weeks is taken as its share of a week, rounded up. If a week holds a whole number of periods, their
    mean is used as the shape. Probes are even if a slot would hold more than one, or if the week is not a whole number
    of periods.

    Parameters
    ----------
    shape, importance
        Factors of the rate and the cost of waiting, by slot of the week, shape (slots,).
    period_slots
        Length of the period, in slots.

    Returns
    -------
    Ascending, in slots from Monday on, shape (probes of a week,).

    Notes
    -----
    Source: Eckstein, Gal and Reiner (the optimal cycle under a politeness constraint); ``docs/algorithms.md``.

    Examples
    --------
    >>> office = np.zeros(14); office[3] = 1.0
    >>> doe_slots(office, np.ones(14), probes=1, period_slots=14.0).tolist()
    [4.0]
    """
    slots = len(shape)
    periods = slots / period_slots
    if period_slots >= slots:
        periods, probes = 1.0, ceil(probes * periods - _WHOLE)
    length = round(slots / max(1.0, round(periods)))
    if abs(periods - round(periods)) > _WHOLE or length * round(periods) != slots or 2 * probes > length:
        return None
    folded = shape.reshape(-1, length).mean(axis=0)
    if not np.any(folded > 0) or np.ptp(folded) + np.ptp(importance) < _WHOLE:
        return None
    edges = np.arange(length + 1.0)
    weights = PiecewiseConstant(edges, importance.reshape(-1, length).mean(axis=0))
    cycle = optimal_cycle(PiecewiseConstant(edges, folded), weights, edges[:-1], probes)
    found: Floats = (np.sort(cycle.times)[None, :] + length * np.arange(round(periods))[:, None]).ravel()
    return found
