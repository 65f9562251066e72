"""Decodes bodies piece by piece, and detects decompression bombs and truncated streams.

The HTTP client's own decoder accepts a truncated gzip stream as complete: the feed would lose its last items.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from proxyd.errors import FetchError
from proxyd.probing.probe_failures import DecompressionBombError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_PIECE_BYTES = 262_144
_SLICE_BYTES = 16_384  # what a member leaves unread is copied: of a whole chunk that takes quadratic time
_BOMB_RATIO = 100  # honest feeds stay below 30
_MOST_MEMBERS = 1_000  # of a gzip stream; bgzip makes one for each 64 KiB
_ZLIB_METHOD = 8


class Decoder:
    """Undoes a content encoding; without one it passes bytes through.

    ``consumed`` counts the bytes decoded, ``received`` also those after the end of the encoded stream.

    >>> decoder = Decoder("gzip")
    >>> list(decoder.decode(zlib.compress(b"feed", wbits=31)))
    [b'feed']
    >>> decoder.finish()
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower().removeprefix("x-")
        if self._encoding not in {"", "identity", "gzip", "deflate"}:
            raise FetchError(f"the content encoding {encoding[:40]!r} was not requested")
        self._plain = self._encoding in {"", "identity"}
        self._stream: zlib._Decompress | None = None
        self._members = 0
        self.consumed = 0
        self.received = 0

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded ``data``, in pieces of bounded size."""
        self.received += len(data)
        if self._plain:
            self.consumed += len(data)
            yield data
            return
        try:
            for start in range(0, len(data), _SLICE_BYTES):
                yield from self._inflate(data[start : start + _SLICE_BYTES])
        except zlib.error as error:
            raise FetchError(f"the body is not valid {self._encoding}: {error}") from error

    def finish(self) -> None:
        """Raise FetchError if the stream is incomplete."""
        if self._stream is not None and not self._stream.eof:
            raise FetchError(f"the {self._encoding} stream is truncated")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        more = bool(data)
        while more:
            stream = self._stream_for(data)
            if stream.eof:  # anything after the end is padding
                return
            piece = stream.decompress(data, _PIECE_BYTES)
            rest = stream.unconsumed_tail or stream.unused_data
            self.consumed += len(data) - len(rest)
            data = rest
            more = bool(data) or len(piece) == _PIECE_BYTES  # after a full piece, zlib may hold more output
            if piece:
                yield piece

    def _stream_for(self, data: bytes) -> zlib._Decompress:
        """Return the current stream, or a new one for the first bytes and every further gzip member."""
        started = self._stream
        if started is None or (started.eof and self._encoding == "gzip" and data[:1] == b"\x1f"):
            self._members += 1
            if self._members > _MOST_MEMBERS:
                raise DecompressionBombError(f"the gzip stream has more than {_MOST_MEMBERS} members")
            started = self._stream = zlib.decompressobj(self._window(data[0]))
        return started

    def _window(self, first: int) -> int:
        """Return zlib's window bits; some servers send raw deflate without zlib's header."""
        if self._encoding == "gzip":
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if first & 0x0F == _ZLIB_METHOD else -zlib.MAX_WBITS


async def read_decoded(chunks: AsyncIterator[bytes], encoding: str, limit: int, count: Callable[[int], None]) -> bytes:
    """Return the decoded body; stop as soon as it, or what was sent, exceeds ``limit``.

    ``count`` gets the size of every decoded piece, also of a body that is refused.

    Raises
    ------
    TooLargeError, DecompressionBombError
        The body exceeds ``limit``.
    FetchError
        The body cannot be decoded, or is truncated.
    """
    decoder = Decoder(encoding)
    pieces: list[bytes] = []
    room = limit
    async for chunk in chunks:
        for piece in decoder.decode(chunk):
            count(len(piece))
            room -= len(piece)
            if room < 0:
                raise _too_long(limit, decoder.consumed)
            pieces.append(piece)
            if len(piece) == _PIECE_BYTES:  # a chunk may decode to many: other tasks run between them
                await asyncio.sleep(0)
        if decoder.received > limit:
            raise _too_long(limit, decoder.received)
    decoder.finish()
    return b"".join(pieces)


def _too_long(limit: int, consumed: int) -> FetchError:
    if consumed * _BOMB_RATIO < limit:
        return DecompressionBombError(f"{consumed} bytes decode to more than {limit}")
    return TooLargeError(f"the body is longer than {limit} bytes")
