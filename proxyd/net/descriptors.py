"""Open files: each connection is one, and those of slow origins stay open for long."""

from __future__ import annotations

import resource
from contextlib import suppress

RESERVED = 256  # the database, the parsers, the API and whatever the interpreter opens
_MOST = 1 << 20  # where the system sets no limit


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, if that may be done, and return what holds then."""
    soft, hard = (_MOST if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    if soft < hard:
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, _limits()[1]))
            return hard
    return soft


def room_for_connections(open_files: int) -> int:
    """Return how many connections may be open at once, so that something is left for everything else.

    >>> room_for_connections(20_000), room_for_connections(300)
    (19744, 64)
    """
    return max(open_files - RESERVED, 64)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
