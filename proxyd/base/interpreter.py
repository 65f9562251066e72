"""How Python's interpreter is set for a daemon with many sources."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let imports in the context find some modules missing, unless these are loaded already.

    >>> with without("antigravity"):
    ...     import antigravity
    Traceback (most recent call last):
    ...
    ModuleNotFoundError: import of antigravity halted; None in sys.modules
    """
    loaded = cast("MutableMapping[str, ModuleType | None]", sys.modules)
    hidden = [name for name in names if name not in loaded]
    loaded.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del loaded[name]


_MALLOC = {-8: 2, -3: 2**20, -1: 2**20}  # M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which no longer adapt
_COLLECTIONS = 10_000, 50, 40  # thresholds of the three generations: new objects, young collections, middle ones
_THREAD_TURN_S = 0.0002


def tune_interpreter() -> None:
    """Collect garbage less often, switch threads more often, and return freed arrays to the system at once."""
    # Each collection stops the event loop for a time that grows with the objects it looks at, and probes leave few
    # cycles. What was imported stays and is not looked at again, nor are sources (`growing`). SQLite releases the
    # interpreter's lock with every row: with the usual 5 ms, a commit of 64 rows took 200 ms next to a busy event loop.
    # Plans are made in threads from arrays of megabytes; glibc keeps what each thread freed, and the process grew by
    # that from 400 to 550 MB in 20 minutes.
    _leave_out()
    gc.set_threshold(*_COLLECTIONS)
    sys.setswitchinterval(_THREAD_TURN_S)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        for option, value in _MALLOC.items():
            libc.mallopt(option, value)


@contextmanager
def growing() -> Iterator[None]:
    """While this is open, each garbage collection excludes from all later ones what it has found in use."""
    # Garbage that an earlier collection found in use is never freed. So this is not done for every full collection:
    # connections that are open then would never be freed.
    _leave_out()
    gc.callbacks.append(_leave_out_after)
    try:
        yield
    finally:
        gc.callbacks.remove(_leave_out_after)


def _leave_out() -> None:
    """Have collections leave out what is there now, after the younger garbage is freed."""
    gc.collect(1)
    gc.freeze()


def _leave_out_after(phase: str, _info: Mapping[str, int]) -> None:
    """Have collections leave out what is there after this one."""
    if phase == "stop":
        gc.freeze()
