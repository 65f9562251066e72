"""Reads files whose end nobody promises: a device has none, a pipe may have no writer, and a file may be too large."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from proxyd.core.errors import ConfigError


def read_at_most(path: Path, most_bytes: int, *, may_be_pipe: bool = False) -> bytes:
    """Return all bytes of a regular file; if ``may_be_pipe`` is set, also of a pipe or a device that ends.

    Raises ``ConfigError``: it is larger, no regular file, or a pipe through which nothing came; ``OSError``: it cannot
    be read.
    """
    with open(path, "rb", opener=_open_pipe if may_be_pipe else _open_regular) as file:
        status = os.fstat(file.fileno())
        is_too_large = status.st_size > most_bytes
        body = b"" if is_too_large else file.read(most_bytes + 1)
    if is_too_large or len(body) > most_bytes:  # it may have grown since
        raise ConfigError([f"{path}: a file may have {most_bytes} bytes at most; split it into several files"])
    if not body and stat.S_ISFIFO(status.st_mode):
        raise ConfigError([f"{path}: nothing came through this pipe; start what writes to it first"])
    return body


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; refuse what could block or never end, such as a pipe or a device."""
    opened = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise ConfigError([f"{path}: this is not a regular file; move it elsewhere, or write its text to a file"])


def _open_pipe(path: str, flags: int) -> int:
    """Open whatever can be read, without waiting until somebody writes to it; then wait for the end of what comes."""
    opened = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(opened, True)
    return opened
