"""How Python's interpreter is set for a daemon with many sources."""

from __future__ import annotations

import ctypes
import gc
import sys

_MALLOC = {-8: 2, -3: 2**20, -1: 2**20}  # M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which no longer adapt
_YOUNG_OBJECTS = 50_000
_THREAD_TURN_S = 0.0002


def tune_interpreter() -> None:
    """Make garbage collection rarer and thread switches more frequent, and return freed arrays to the system at once.

    Each collection stops the event loop, and probes leave few cycles. What was imported stays and is not looked at
    again, nor are sources once many have been placed. SQLite releases the interpreter's lock with every row: with the
    usual 5 ms, a commit of 64 rows took 200 ms next to a busy event loop. Plans are made in threads from arrays of
    megabytes; glibc keeps what each thread freed, and the process grew by that. The figures are in
    docs/decisions/large-fleets.md.
    """
    leave_out_of_collections()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    sys.setswitchinterval(_THREAD_TURN_S)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        for option, value in _MALLOC.items():
            libc.mallopt(option, value)


def leave_out_of_collections() -> None:
    """Have garbage collections leave out what is there now, after the young garbage is collected."""
    gc.collect(1)
    gc.freeze()
