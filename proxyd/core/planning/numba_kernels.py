"""Kernels are plain Python over arrays; numba (extra ``fast``), where installed, compiles them with equal results."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=np.generic)

try:
    from numba import njit

    HAS_NUMBA = True
except ImportError:
    HAS_NUMBA = False


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, compiled where that is possible; it must use numbers and arrays alone."""
    if not HAS_NUMBA:
        return function
    try:
        compiled: Callable[P, R] = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba finds no folder for its cache that can be written
        compiled = njit(nogil=True)(function)
    return compiled


def flat(array: NDArray[T]) -> NDArray[T]:
    """Return what a kernel works on fastest: the array itself where kernels are compiled, else a list of its entries.

    Kernels index and fill either; Python is several times faster on lists.
    """
    return array if HAS_NUMBA else cast("NDArray[T]", array.tolist())
