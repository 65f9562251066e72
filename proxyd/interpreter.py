"""How Python's interpreter is set for a daemon with many sources."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_MALLOC = {-8: 2, -3: 2**20, -1: 2**20}  # M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which no longer adapt
_YOUNG_OBJECTS = 10_000  # looked at in about 10 ms
_FULL = 2  # the generation of a full collection
_THREAD_TURN_S = 0.0002


def tune_interpreter() -> None:
    """Make garbage collection rarer and thread switches more frequent, and return freed arrays to the system at once.

    Each collection stops the event loop, for a time that grows with what it looks at, and probes leave few cycles. So
    none looks again at what was imported, at sources (``growing``), or at what a full collection has found in use: a
    cycle that becomes garbage after that is never freed, which is rare. SQLite releases the interpreter's lock with
    every row: with the usual 5 ms, a commit of 64 rows took 200 ms next to a busy event loop. Plans are made in threads
    from arrays of megabytes; glibc keeps what each thread freed, and the process grew by that. The figures are in
    docs/decisions/large-fleets.md.
    """
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 5, 10)
    gc.callbacks.append(_leave_out_old)
    sys.setswitchinterval(_THREAD_TURN_S)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        for option, value in _MALLOC.items():
            libc.mallopt(option, value)


@contextmanager
def growing() -> Iterator[None]:
    """While sources are added: have garbage collections look only once at each object that stays.

    Otherwise some of them look at all that was made since the last such one: for 0.3 s while 50,000 are loaded.
    """
    gc.callbacks.append(_leave_out)
    try:
        yield
    finally:
        gc.callbacks.remove(_leave_out)


def _leave_out_old(phase: str, info: Mapping[str, int]) -> None:
    """Have later collections leave out what is there after a full one."""
    if info["generation"] == _FULL:
        _leave_out(phase, info)


def _leave_out(phase: str, _info: Mapping[str, int]) -> None:
    """Have later collections leave out what is there after this one."""
    if phase == "stop":
        gc.freeze()
