"""Decodes bodies piece by piece, and detects decompression bombs and truncated streams.

The HTTP client's own decoder accepts a truncated gzip stream as complete: the feed would lose its last items.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from proxyd.errors import FetchError
from proxyd.probing.probe_failures import DecompressionBombError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_PIECE_BYTES = 262_144
_BOMB_RATIO = 100  # honest feeds stay below 30
_ZLIB_METHOD = 8


class Decoder:
    """Undoes a content encoding; without one it passes bytes through. ``consumed`` counts the bytes read.

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
        self.consumed = 0

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded ``data``, in pieces of bounded size."""
        if self._plain:
            self.consumed += len(data)
            yield data
            return
        try:
            yield from self._inflate(data)
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
            started = self._stream = zlib.decompressobj(self._window(data[0]))
        return started

    def _window(self, first: int) -> int:
        """Return zlib's window bits; some servers send raw deflate without zlib's header."""
        if self._encoding == "gzip":
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if first & 0x0F == _ZLIB_METHOD else -zlib.MAX_WBITS


async def read_decoded(chunks: AsyncIterator[bytes], encoding: str, limit: int, count: Callable[[int], None]) -> bytes:
    """Return the decoded body; stop as soon as it exceeds ``limit``.

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
    decoder.finish()
    return b"".join(pieces)


def _too_long(limit: int, consumed: int) -> FetchError:
    if consumed * _BOMB_RATIO < limit:
        return DecompressionBombError(f"{consumed} bytes decode to more than {limit}")
    return TooLargeError(f"the body is longer than {limit} bytes")
