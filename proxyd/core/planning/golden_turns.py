"""Turns that spread evenly: what comes in step otherwise is staggered by the golden ratio, without randomness."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = 0.6180339887498949


def turns(numbers: ArrayLike) -> NDArray[np.float64]:
    """Return a place in [0, 1) for each number; those of any run of numbers lie about evenly.

    >>> turns([0, 1, 2]).round(3).tolist()
    [0.618, 0.236, 0.854]
    """
    places: NDArray[np.float64] = (np.asarray(numbers) + 1) * _GOLDEN % 1.0
    return places


def turn(number: int) -> float:
    """Return the same for one number.

    >>> turn(2) == turns(2)
    np.True_
    """
    return (number + 1) * _GOLDEN % 1.0
