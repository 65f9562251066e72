"""Parsing of server-sent events. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A notification of a stream; a stream opened with its ``position`` continues after it."""

    position: int
    body: dict[str, Any]


class EventReader:
    r"""Reads a stream in pieces of any size.

    >>> reader = EventReader()
    >>> list(reader.read(b': hello\nid: 6\n\nid: 7\nevent: notification\ndata: {"a"'))
    []
    >>> list(reader.read(b": 1}\n\n")), reader.last
    ([StreamEvent(position=7, body={'a': 1})], 7)
    """

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self._pieces: list[bytes] = []
        self._next = last
        self._data: list[bytes] = []

    def restart(self) -> None:
        """Forget a partly read event, because a new connection begins."""
        self._pieces.clear()
        self._data.clear()
        self._next = self.last

    def read(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events that end in ``piece``."""
        *whole, rest = piece.split(b"\n")
        for line in whole:
            text = b"".join([*self._pieces, line])
            self._pieces.clear()
            yield from self._line(text)
        self._pieces.append(rest)

    def _line(self, line: bytes) -> Iterator[StreamEvent]:
        name, _, value = line.removesuffix(b"\r").partition(b":")
        value = value.removeprefix(b" ")
        if not line.strip(b"\r"):
            yield from self._dispatch()
        elif name == b"data":
            self._data.append(value)
        elif name == b"id" and value.isdigit():
            self._next = int(value)

    def _dispatch(self) -> Iterator[StreamEvent]:
        """Remember the id, which heartbeats also have, and yield the event if there is one."""
        self.last = self._next
        if self._data:
            data, self._data = b"\n".join(self._data), []
            yield StreamEvent(self.last or 0, json.loads(data))
