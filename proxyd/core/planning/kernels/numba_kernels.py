"""Kernels are plain Python over arrays; numba (extra ``fast``), if installed, compiles them with equal results.

Numba takes half a second and 50 MiB to load: it is loaded with the first kernel that is called, which in a daemon only
plans of the week and advice do, in a process that ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=np.generic)

HAS_NUMBA = find_spec("numba") is not None


class Kernel(Generic[P, R]):
    """A function over numbers and arrays; ``py_func`` is the plain one.

    Examples
    --------
    >>> @Kernel
    ... def total(a: int, b: int) -> int:
    ...     return a + b
    >>> total(1, 2), total.py_func(1, 2)
    (3, 3)
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.py_func = cast("FunctionType", function)
        self._compiled: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function, or the plain one without numba."""
        if self._compiled is None:
            self._compiled = self.compile()
        return cast("R", self._compiled(*args, **kwargs))

    def compile(self) -> Callable[..., Any]:
        """Return the function compiled, with the kernels that it calls; threads that meet here get equal ones."""
        if self._compiled is not None:
            return self._compiled
        plain = self.py_func
        if not HAS_NUMBA:
            self._compiled = plain
            return plain
        from numba import njit

        names = {name: each for name, each in plain.__globals__.items() if name in plain.__code__.co_names}
        known = {name: each.compile() if isinstance(each, Kernel) else each for name, each in names.items()}
        clone = FunctionType(plain.__code__, known, plain.__name__, plain.__defaults__, plain.__closure__)
        update_wrapper(clone, plain)
        try:
            self._compiled = njit(cache=True, nogil=True)(clone)
        except RuntimeError:  # numba finds no writable folder for its cache
            self._compiled = njit(nogil=True)(clone)
        compiled: Callable[..., Any] = self._compiled
        return compiled


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Return ``function``, compiled when it is called if possible; it may use only numbers and arrays."""
    return Kernel(function)


def flat(array: NDArray[T]) -> NDArray[T]:
    """Return the fastest form for a kernel: the array if kernels are compiled, otherwise a list of its entries."""
    # Kernels index and fill both forms; Python is several times faster on lists.
    return array if HAS_NUMBA else cast("NDArray[T]", array.tolist())
