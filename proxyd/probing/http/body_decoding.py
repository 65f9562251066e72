"""Decodes bodies piece by piece, and detects decompression bombs and truncated streams.

The HTTP client's own decoder accepts a truncated gzip stream as complete: the feed would lose its last items.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import brotli

from proxyd.core.errors import FetchError
from proxyd.probing.documents.document_kinds import GZIP
from proxyd.probing.documents.probe_failures import DecompressionBombError, TooLargeError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_PIECE_BYTES = 262_144
_SLICE_BYTES = 16_384  # what a member leaves unread is copied: of a whole chunk that takes quadratic time
_BOMB_RATIO = 100  # honest feeds stay below 30
_MOST_MEMBERS = 1_000  # of a gzip stream; bgzip makes one for each 64 KiB
_ZLIB_METHOD = 8
_MOST_CODINGS = 3
_BROTLI_BYTES = 65_536  # the library returns up to four times as much
_WINDOW_LOG = 23  # 8 MiB, the most that RFC 9659 allows: a frame may ask for its memory at once
_TEXT_STARTS = frozenset({b"<", b"{", b"[", b" ", b"\t", b"\r", b"\n", b"\xef"})


class Decoder:
    """Undoes the codings of a body, the last one first; what is no coding, such as ``UTF-8``, changes nothing.

    With ``unpacks``, a gzip file that is not declared as such is read too, such as ``sitemap.xml.gz``. ``input_size``
    counts the bytes decoded, ``received`` also those after the end of the encoded stream.

    >>> decoder = Decoder("gzip, utf-8")
    >>> list(decoder.decode(zlib.compress(b"feed", wbits=31)))
    [b'feed']
    >>> b"".join(decoder.finish())
    b''
    """

    def __init__(self, encoding: str, *, unpacks: bool = False) -> None:
        names = (part.strip().lower().removeprefix("x-") for part in encoding.split(","))
        codings = [name for name in names if name in _STREAMS]
        if len(codings) > _MOST_CODINGS:
            raise FetchError(f"the body is encoded more than {_MOST_CODINGS} times")
        self._streams: list[_Stream] = [_Declared(name) for name in reversed(codings)]
        if unpacks:
            self._streams.append(_Unpacking())
        self.received = 0

    @property
    def input_size(self) -> int:
        """The bytes decoded."""
        return self._streams[0].input_size if self._streams else self.received

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded ``data``, in pieces of bounded size."""
        self.received += len(data)
        for start in range(0, len(data), _SLICE_BYTES):
            yield from self._decode_part(data[start : start + _SLICE_BYTES], 0)

    def finish(self) -> Iterator[bytes]:
        """Yield what was held back; raises ``FetchError`` if a stream is incomplete."""
        for depth, stream in enumerate(self._streams):
            yield from self._decode_part(stream.finish(), depth + 1)

    def _decode_part(self, data: bytes, depth: int) -> Iterator[bytes]:
        if depth == len(self._streams):
            yield data
            return
        for piece in self._streams[depth].pieces(data):
            yield from self._decode_part(piece, depth + 1)


class _Stream(Protocol):
    """One coding that is undone."""

    @property
    def input_size(self) -> int:
        """The bytes decoded, or passed on."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes decode to; raises ``FetchError`` if they are of another coding."""

    def finish(self) -> bytes:
        """Return what was held back; raises ``FetchError`` if the stream is incomplete."""


class _Zipped:
    """gzip, in members, and deflate with or without the header of zlib."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: zlib._Decompress | None = None
        self._members = 0
        self.input_size = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            yield from self._inflate(data)
        except zlib.error as error:
            raise FetchError(f"the body is not valid {self._name}: {error}") from error

    def finish(self) -> bytes:
        if self._stream is not None and not self._stream.eof:
            raise FetchError(f"the {self._name} stream is truncated")
        return b""

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        more = bool(data)
        while more:
            stream = self._stream_for(data)
            if stream.eof:  # anything after the end is padding
                return
            piece = stream.decompress(data, _PIECE_BYTES)
            rest = stream.unconsumed_tail or stream.unused_data
            self.input_size += len(data) - len(rest)
            data = rest
            more = bool(data) or len(piece) == _PIECE_BYTES  # after a full piece, zlib may hold more output
            if piece:
                yield piece

    def _stream_for(self, data: bytes) -> zlib._Decompress:
        """Return the current stream, or a new one for the first bytes and every further gzip member."""
        started = self._stream
        if started is None or (started.eof and self._name == "gzip" and data[:1] == GZIP[:1]):
            self._members += 1
            if self._members > _MOST_MEMBERS:
                raise DecompressionBombError(f"the gzip stream has more than {_MOST_MEMBERS} members")
            started = self._stream = zlib.decompressobj(self._window(data[0]))
        return started

    def _window(self, first: int) -> int:
        """Return zlib's window bits; some servers send raw deflate without zlib's header."""
        if self._name == "gzip":
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if first & 0x0F == _ZLIB_METHOD else -zlib.MAX_WBITS


class _Brotli:
    def __init__(self, name: str) -> None:
        self._name = name
        self._stream = brotli.Decompressor()
        self.input_size = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._stream.is_finished():  # anything after the end is padding
            return
        self.input_size += len(data)
        try:
            yield self._stream.process(data, output_buffer_limit=_BROTLI_BYTES)
            while not self._stream.can_accept_more_data():
                yield self._stream.process(b"", output_buffer_limit=_BROTLI_BYTES)
        except brotli.error as error:
            raise FetchError(f"the body is not valid {self._name}") from error

    def finish(self) -> bytes:
        if self.input_size and not self._stream.is_finished():
            raise FetchError(f"the {self._name} stream is truncated")
        return b""


class _Zstd:
    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: zstd.ZstdDecompressor | None = None
        self._frames = 0
        self.input_size = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while data or not (self._stream is None or self._stream.eof or self._stream.needs_input):
                stream = self._stream_for()
                yield stream.decompress(data, _PIECE_BYTES)
                self.input_size += len(data) - len(stream.unused_data)
                data = stream.unused_data
        except zstd.ZstdError as error:
            raise FetchError(f"the body is not valid {self._name}: {error}") from error

    def finish(self) -> bytes:
        if self._stream is not None and not self._stream.eof:
            raise FetchError(f"the {self._name} stream is truncated")
        return b""

    def _stream_for(self) -> zstd.ZstdDecompressor:
        """Return the current stream, or a new one for the first bytes and every further frame."""
        if self._stream is None or self._stream.eof:
            self._frames += 1
            if self._frames > _MOST_MEMBERS:
                raise DecompressionBombError(f"the zstd stream has more than {_MOST_MEMBERS} frames")
            self._stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        return self._stream


class _Unpacking:
    """Reads a gzip file; passes on everything else."""

    def __init__(self) -> None:
        self._begin = b""
        self._stream: _Zipped | None = None
        self._is_known = False
        self._plain = 0

    @property
    def input_size(self) -> int:
        """The bytes decoded, or passed on."""
        return self._plain if self._stream is None else self._stream.input_size

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if not self._is_known:
            self._begin += data
            data = self._begin
            if len(data) < len(GZIP) and GZIP.startswith(data):
                return
            self._is_known = True
            self._stream = _Zipped("gzip") if data.startswith(GZIP) else None
        if self._stream is not None:
            yield from self._stream.pieces(data)
        elif data:
            self._plain += len(data)
            yield data

    def finish(self) -> bytes:
        if self._is_known:
            return b"" if self._stream is None else self._stream.finish()
        self._plain += len(self._begin)
        return self._begin


class _Declared:
    """A coding as declared: a body that is not in it, but begins as text or as a gzip file, is what it looks like."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: _Stream = _STREAMS[name](name)
        self._begin = b""
        self._is_decoded = False

    @property
    def input_size(self) -> int:
        """The bytes decoded, or passed on."""
        return self._stream.input_size

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if not self._is_decoded:
            self._begin += data
            self._is_decoded = len(self._begin) > 2 * _SLICE_BYTES
        try:
            for piece in self._stream.pieces(data):
                self._is_decoded = self._is_decoded or bool(piece)
                yield piece
        except DecompressionBombError:
            raise
        except FetchError:
            if self._is_decoded or not self._looks_otherwise():
                raise
            self._stream, self._is_decoded = _Unpacking(), True
            yield from self._stream.pieces(self._begin)

    def finish(self) -> bytes:
        try:
            return self._stream.finish()
        except FetchError:  # a text of a few bytes may be the beginning of a valid stream
            if self._is_decoded or not self._looks_otherwise():
                raise
            self._stream, self._is_decoded = _Unpacking(), True
            return b"".join(self._stream.pieces(self._begin)) + self._stream.finish()

    def _looks_otherwise(self) -> bool:
        is_file = self._begin.startswith(GZIP) or GZIP.startswith(self._begin)
        return self._begin[:1] in _TEXT_STARTS or (is_file and self._name != "gzip")


_STREAMS: Mapping[str, Callable[[str], _Stream]] = {
    "gzip": _Zipped,
    "deflate": _Zipped,
    "br": _Brotli,
    "zstd": _Zstd,
}


async def read_decoded(
    chunks: AsyncIterator[bytes], encoding: str, limit: int, count: Callable[[int], None], *, unpacks: bool = False
) -> bytes:
    """Return the decoded body; stop as soon as it, or what was sent, exceeds ``limit``.

    ``count`` gets the size of every decoded piece, also of a body that is refused. Raises ``TooLargeError`` or
    ``DecompressionBombError``: the body exceeds ``limit``; ``FetchError``: the body cannot be decoded, or is truncated.
    """
    decoder = Decoder(encoding, unpacks=unpacks)
    pieces: list[bytes] = []
    room = limit

    def keep(piece: bytes) -> None:
        nonlocal room
        count(len(piece))
        room -= len(piece)
        if room < 0:
            raise _too_long(limit, decoder.input_size)
        pieces.append(piece)

    async for chunk in chunks:
        for piece in decoder.decode(chunk):
            keep(piece)
            if len(piece) >= _BROTLI_BYTES:  # a chunk may decode to many: other tasks run between them
                await asyncio.sleep(0)
        if decoder.received > limit:
            raise _too_long(limit, decoder.received)
    for piece in decoder.finish():
        keep(piece)
    return b"".join(pieces)


def _too_long(limit: int, input_size: int) -> FetchError:
    if input_size * _BOMB_RATIO < limit:
        return DecompressionBombError(f"{input_size} bytes decode to more than {limit}")
    return TooLargeError(f"the body is longer than {limit} bytes")
