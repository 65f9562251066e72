from __future__ import annotations

import gzip
import hashlib
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import brotli
import pytest

from proxyd.core.errors import FetchError
from proxyd.probing.documents.probe_failures import DecompressionBombError, TooLargeError
from proxyd.probing.http.body_decoding import _STREAMS, Decoder, read_decoded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(hashlib.sha256(b"%d" % number).hexdigest().encode() for number in range(16_000))


async def chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(
    data: bytes, encoding: str, *, size: int = 65_536, limit: int = 2_000_000, unpacks: bool = False
) -> bytes:
    counted: list[int] = []
    body = await read_decoded(chunks(data, size), encoding, limit, counted.append, unpacks=unpacks)
    assert sum(counted) == len(body)
    return body


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


ENCODED = [
    ("", TEXT),
    ("identity", TEXT),
    ("gzip", gzip.compress(TEXT)),
    ("x-gzip", gzip.compress(TEXT)),
    (" GZIP ", gzip.compress(TEXT)),
    ("gzip", gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])),
    ("gzip", gzip.compress(TEXT) + b"\0\0\0"),
    ("deflate", zlib.compress(TEXT)),
    ("deflate", raw_deflate(TEXT)),
    ("br", brotli.compress(TEXT, quality=2)),
    ("zstd", zstd.compress(TEXT)),
    ("zstd", zstd.compress(TEXT[:1000]) + zstd.compress(TEXT[1000:])),
    ("gzip, gzip", gzip.compress(gzip.compress(TEXT))),
    ("br, gzip", gzip.compress(brotli.compress(TEXT, quality=2))),
    ("gzip, identity", gzip.compress(TEXT)),
    ("aws-chunked,gzip", gzip.compress(TEXT)),
    ("UTF-8", TEXT),
    ("none", TEXT),
    ("aws-chunked", TEXT),
    ("x" * 999, TEXT),
    (",", TEXT),
]
UNDECLARED = [
    ("", gzip.compress(TEXT)),
    ("identity", gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])),
    ("gzip", gzip.compress(gzip.compress(TEXT))),
    ("", TEXT),
]


@pytest.mark.parametrize(("encoding", "data"), ENCODED)
@pytest.mark.parametrize("size", [97, 65_536, 10_000_000])
async def test_what_was_encoded_is_read_however_it_is_cut(encoding: str, data: bytes, size: int) -> None:
    assert await read(data, encoding, size=size) == TEXT


@pytest.mark.parametrize(("encoding", "data"), UNDECLARED)
@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 97, 10_000_000])
async def test_a_gzip_file_is_read_as_what_it_holds(encoding: str, data: bytes, size: int) -> None:
    assert await read(data, encoding, size=size, unpacks=True) == TEXT


@pytest.mark.parametrize("data", [b"", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x07", b"x", b"<rss/>", b" \x1f\x8b\x08"])
async def test_what_is_no_gzip_file_is_passed_on(data: bytes) -> None:
    assert await read(data, "", unpacks=True, size=1) == data


async def test_a_gzip_file_that_is_cut_off_is_not_a_body() -> None:
    with pytest.raises(FetchError, match="truncated"):
        await read(gzip.compress(TEXT)[:-9], "", unpacks=True)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("data", [b"<rss/>", b'{"a": 1}', b"\xef\xbb\xbf<rss/>", b"\n<rss/>"])
async def test_text_that_is_said_to_be_encoded_is_text(encoding: str, data: bytes) -> None:
    assert await read(data, encoding, size=1) == data


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd"])
@pytest.mark.parametrize("data", [b"<rss><channel></channel></rss>", b'{"a": [1, 2], "b": "c"}', b"<r/>"])
async def test_text_or_a_gzip_file_under_another_coding_is_read_as_what_it_is(encoding: str, data: bytes) -> None:
    assert await read(data, encoding) == data
    assert await read(gzip.compress(data), encoding) == data


class HoldsBack:
    """Stands for a coding that takes a body for the beginning of a longer one."""

    def __init__(self, _name: str) -> None:
        self.input_size = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        self.input_size += len(data)
        yield b""

    def finish(self) -> bytes:
        raise FetchError("the stream is truncated")


async def test_what_shows_at_its_end_that_it_is_a_gzip_file_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.probing.http.body_decoding._STREAMS", {**_STREAMS, "br": HoldsBack})
    file = gzip.compress(bytes(100_000))
    assert await read(file, "br", limit=100_000) == bytes(100_000)
    with pytest.raises(DecompressionBombError):
        await read(file, "br", limit=99_999)


@pytest.mark.parametrize(("encoding", "data"), ENCODED[2:5] + ENCODED[7:11])
@pytest.mark.parametrize("missing", [1, 9, 100])
async def test_a_stream_that_ends_too_early_is_not_a_body(encoding: str, data: bytes, missing: int) -> None:
    with pytest.raises(FetchError, match="truncated"):
        await read(data[:-missing], encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
async def test_noise_is_not_a_body(encoding: str) -> None:
    with pytest.raises(FetchError, match=f"not valid {encoding}"):
        await read(b"plain text", encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", ""])
async def test_nothing_decodes_to_nothing(encoding: str) -> None:
    assert await read(b"", encoding) == b""


def test_a_body_is_decoded_a_few_times_at_most() -> None:
    with pytest.raises(FetchError, match="more than 3 times"):
        Decoder("gzip, gzip, gzip, gzip")


def brotli_of(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data, quality=2)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli_of,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("encoding", PACKERS)
@pytest.mark.parametrize("size", [100, 65_536, 10_000_000])
async def test_a_bomb_is_told_from_a_long_body_by_what_it_took_to_get_there(encoding: str, size: int) -> None:
    with pytest.raises(DecompressionBombError):
        await read(PACKERS[encoding](b" " * 50_000_000), encoding, size=size)
    with pytest.raises(TooLargeError):
        await read(PACKERS[encoding](TEXT), encoding, size=size, limit=1_000_000)


async def test_a_body_is_as_long_as_its_limit() -> None:
    with pytest.raises(TooLargeError):
        await read(b" " * 5_000_000, "", size=97)


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_bomb_decodes_in_pieces_of_bounded_size(encoding: str) -> None:
    pieces = Decoder(encoding).decode(PACKERS[encoding](b" " * 50_000_000))
    assert max(len(piece) for piece in pieces) <= 262_144


def test_a_bomb_within_a_bomb_decodes_in_pieces_of_bounded_size() -> None:
    pieces = Decoder("gzip, gzip").decode(gzip.compress(gzip.compress(b" " * 50_000_000)))
    assert max(len(piece) for piece in pieces) <= 262_144


async def test_a_frame_that_wants_too_much_memory_is_refused() -> None:
    packer = zstd.ZstdCompressor(options={int(zstd.CompressionParameter.window_log): 27})
    with pytest.raises(FetchError, match="not valid zstd"):
        await read(packer.compress(TEXT) + packer.flush(), "zstd")


EMPTY = gzip.compress(b"")


async def endless(piece: bytes) -> AsyncIterator[bytes]:
    for _ in range(100_000):
        yield piece
    raise AssertionError("it reads on for ever")


@pytest.mark.parametrize("count", [1, 50, 3_276])
async def test_empty_members_without_end_are_a_bomb(count: int) -> None:
    with pytest.raises(DecompressionBombError, match="1000 members"):
        await read_decoded(endless(EMPTY * count), "gzip", 2_000_000, lambda _: None)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_padding_without_end_is_too_long(encoding: str) -> None:
    async def padded() -> AsyncIterator[bytes]:
        yield gzip.compress(b"x") if encoding == "gzip" else zlib.compress(b"x")
        async for piece in endless(b"\0" * 65_536):
            yield piece

    with pytest.raises(TooLargeError):
        await read_decoded(padded(), encoding, 2_000_000, lambda _: None)


async def test_members_of_a_long_body_are_read_on() -> None:
    members = b"".join(gzip.compress(TEXT[start : start + 2_000]) for start in range(0, len(TEXT), 2_000))
    assert await read(members + EMPTY * 400, "gzip", size=10_000_000) == TEXT


async def test_a_member_is_not_copied_with_all_that_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a chunk of many members took a time that grew with its square."""
    left: list[int] = []
    known = zlib.decompressobj

    class Stream:
        def __init__(self, window: int) -> None:
            self._stream = known(window)

        def __getattr__(self, name: str) -> object:
            found = getattr(self._stream, name)
            if name == "unused_data":
                left.append(len(found))
            return found

    monkeypatch.setattr(zlib, "decompressobj", Stream)
    assert await read(gzip.compress(b"x") * 900, "gzip", size=10_000_000) == b"x" * 900
    assert max(left) <= 16_384


@pytest.mark.parametrize("extra", range(-3, 262))
async def test_output_that_zlib_still_holds_is_not_lost(extra: int) -> None:
    text = b"a" * (262_144 + extra)
    assert await read(raw_deflate(text), "deflate", size=10_000_000) == text
