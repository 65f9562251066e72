"""Kernels are plain Python over arrays; numba (extra ``fast``), where installed, compiles them with equal results."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

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
