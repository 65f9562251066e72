"""Reads responses that browsers read and the HTTP client's strict parser refuses.

Some origins send a body with a 304, a proxy may repeat ``Content-Length``, and a header's name may hold illegal bytes.
Without this module proxyd would report such origins as unreachable. Each connection belongs to one origin, so nobody
can use the tolerance to hide a response of another origin.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

_MOST_HEAD_BYTES = 262_144  # with those of interim responses
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WITHOUT_BODY = {b"204", b"304"}
_INTERIM = {b"100", b"102", b"103"}
_BODY = re.compile(rb"(?i)\n(content-length[ \t]*:[ \t]*0*[1-9]|transfer-encoding)")


def clean_head(head: bytes) -> bytes:
    r"""Return the head of a response without headers that have invalid names, and with each length only once.

    Lengths that differ stay, so that the parser refuses them.

    >>> clean_head(b"HTTP/1.1 200 OK\r\nX-\xe9: 1\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\n")
    b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'
    """
    status, *lines = head.rstrip(b"\r\n").split(b"\n")
    kept: list[bytes] = [status.rstrip(b"\r")]
    lengths: set[bytes] = set()
    is_kept = True  # of the last field, to which a line that begins with a space belongs
    for line in lines:
        if line[:1] in {b" ", b"\t"}:
            kept += [line.rstrip(b"\r")] * is_kept
            continue
        name, colon, value = (part.strip(b" \t\r") for part in line.partition(b":"))
        is_length = name.lower() == b"content-length"
        is_kept = bool(colon) and _NAME.fullmatch(name) is not None and b"\0" not in value and not is_length
        if is_length:
            lengths.update(each.strip() for each in value.split(b","))
        elif is_kept:
            kept.append(name + b": " + value)
    kept += [b"Content-Length: " + each for each in sorted(lengths)]
    return b"\r\n".join(kept) + b"\r\n\r\n"


class TolerantResponseHandler(ResponseHandler):
    """The client's protocol, whose parser gets heads that it can read."""

    _head: bytearray | None = None
    _received = 0

    def set_response_params(self, **options: Any) -> None:
        """Expect the head of the next response."""
        self._head, self._received = bytearray(), 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Pass on the head as soon as it is complete, and what follows as it is."""
        if self._head is None or self._parser is None:
            super().data_received(data)
            return
        searched = max(0, len(self._head) - 3)
        self._head += data
        self._received += len(data)
        begin = 0
        while (end := _END_OF_HEAD.search(self._head, searched)) is not None:
            head, searched = bytes(self._head[begin : end.end()]), end.end()
            status = _STATUS.match(head)
            if status is None or status[1] not in _INTERIM:
                rest, self._head = bytes(self._head[searched:]), None
                self._pass_on(head, rest, has_body=status is None or status[1] not in _WITHOUT_BODY)
                return
            begin = searched  # the response follows
        del self._head[:begin]
        if self._received > _MOST_HEAD_BYTES:
            self.set_exception(aiohttp.ClientPayloadError(f"the headers are longer than {_MOST_HEAD_BYTES} bytes"))
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the response; a head that was cut off, or an interim response, is not taken for silence."""
        if self._head is not None and self._received and not self.is_eof():
            self.set_exception(aiohttp.ClientPayloadError("the connection ended within the headers of the answer"))
        super().connection_lost(exc)

    def _pass_on(self, head: bytes, rest: bytes, *, has_body: bool) -> None:
        if has_body:
            super().data_received(clean_head(head) + rest)
            return
        if rest or _BODY.search(head):
            self.force_close()  # a body follows, which would be taken for the next response
        super().data_received(clean_head(head))

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """End the response, also its body: the client would wait for it, although the connection is closed."""
        super().set_exception(exc, *cause)
        payload, error = self._payload, aiohttp.ClientPayloadError(str(exc))
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(error)
            self._loop.call_soon(payload.set_exception, error)  # for a reader that was woken by the end of a chunk


class TolerantConnector(aiohttp.TCPConnector):
    """A connector whose connections are tolerant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = cast("Any", partial(TolerantResponseHandler, loop=self._loop))
