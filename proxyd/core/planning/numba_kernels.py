"""Kernels are plain Python over arrays; numba (extra ``fast``), if installed, compiles them with equal results."""

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
    """Return ``function``, compiled if possible; it may use only numbers and arrays."""
    if not HAS_NUMBA:
        return function
    try:
        compiled: Callable[P, R] = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba finds no writable folder for its cache
        compiled = njit(nogil=True)(function)
    return compiled


def flat(array: NDArray[T]) -> NDArray[T]:
    """Return the fastest form for a kernel: the array itself if kernels are compiled, otherwise a list of its entries.

    Kernels index and fill both forms; Python is several times faster on lists.
    """
    return array if HAS_NUMBA else cast("NDArray[T]", array.tolist())
