"""Even spreading: staggers what would otherwise be in step, by the golden ratio and without randomness."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

GOLDEN = 0.6180339887498949


def turns(numbers: ArrayLike) -> NDArray[np.float64]:
    """Return a position in [0, 1) for each number; the positions of any run of numbers are nearly even.

    >>> turns([0, 1, 2]).round(3).tolist()
    [0.618, 0.236, 0.854]
    """
    places: NDArray[np.float64] = (np.asarray(numbers) + 1) * GOLDEN % 1.0
    return places


def turn(number: int) -> float:
    """Return the same as ``turns`` for one number.

    >>> turn(2) == turns(2)
    np.True_
    """
    return (number + 1) * GOLDEN % 1.0
