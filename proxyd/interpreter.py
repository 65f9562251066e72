"""How Python's interpreter is set for a daemon with many sources."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_MALLOC = {-8: 2, -3: 2**20, -1: 2**20}  # M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which no longer adapt
_YOUNG_OBJECTS = 10_000  # looked at in about 10 ms
_THREAD_TURN_S = 0.0002


def tune_interpreter() -> None:
    """Make garbage collection rarer and thread switches more frequent, and return freed arrays to the system at once.

    Each collection stops the event loop, and probes leave few cycles. What was imported stays and is not looked at
    again, nor are sources (``growing``). SQLite releases the interpreter's lock with every row: with the
    usual 5 ms, a commit of 64 rows took 200 ms next to a busy event loop. Plans are made in threads from arrays of
    megabytes; glibc keeps what each thread freed, and the process grew by that. The figures are in
    docs/decisions/large-fleets.md.
    """
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    sys.setswitchinterval(_THREAD_TURN_S)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        for option, value in _MALLOC.items():
            libc.mallopt(option, value)


@contextmanager
def growing() -> Iterator[None]:
    """While sources are added: have garbage collections look only once at each object that stays.

    Otherwise every twentieth one looks at all that was made since the last such one: 0.3 s for 50,000 sources. What is
    in use elsewhere meanwhile is left out too, so it is never freed if it becomes a cycle of garbage later: that is
    little.
    """
    gc.callbacks.append(_leave_out)
    try:
        yield
    finally:
        gc.callbacks.remove(_leave_out)


def _leave_out(phase: str, _info: Mapping[str, int]) -> None:
    """Have later collections leave out what is there after this one."""
    if phase == "stop":
        gc.freeze()
