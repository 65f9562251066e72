from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import AsyncIterator

import pytest

from proxyd.errors import FetchError
from proxyd.probing.http.body_decoding import Decoder, read_decoded
from proxyd.probing.probe_failures import DecompressionBombError, TooLargeError

TEXT = b"".join(hashlib.sha256(b"%d" % number).hexdigest().encode() for number in range(16_000))


async def chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(data: bytes, encoding: str, *, size: int = 65_536, limit: int = 2_000_000) -> bytes:
    counted: list[int] = []
    body = await read_decoded(chunks(data, size), encoding, limit, counted.append)
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
]


@pytest.mark.parametrize(("encoding", "data"), ENCODED)
@pytest.mark.parametrize("size", [97, 65_536, 10_000_000])
async def test_what_was_encoded_is_read_however_it_is_cut(encoding: str, data: bytes, size: int) -> None:
    assert await read(data, encoding, size=size) == TEXT


@pytest.mark.parametrize(("encoding", "data"), ENCODED[2:5] + ENCODED[7:])
@pytest.mark.parametrize("missing", [1, 9, 100])
async def test_a_stream_that_ends_too_early_is_not_a_body(encoding: str, data: bytes, missing: int) -> None:
    with pytest.raises(FetchError, match="truncated"):
        await read(data[:-missing], encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_noise_is_not_a_body(encoding: str) -> None:
    with pytest.raises(FetchError, match=f"not valid {encoding}"):
        await read(b"plain text", encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", ""])
async def test_nothing_decodes_to_nothing(encoding: str) -> None:
    assert await read(b"", encoding) == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "x" * 999])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(FetchError, match="not requested"):
        Decoder(encoding)


@pytest.mark.parametrize("size", [100, 65_536, 10_000_000])
async def test_a_bomb_is_told_from_a_long_body_by_what_it_took_to_get_there(size: int) -> None:
    with pytest.raises(DecompressionBombError):
        await read(gzip.compress(b" " * 50_000_000), "gzip", size=size)
    with pytest.raises(TooLargeError):
        await read(gzip.compress(TEXT), "gzip", size=size, limit=1_000_000)
    with pytest.raises(TooLargeError):
        await read(b" " * 5_000_000, "", size=size)


def test_a_bomb_decodes_in_pieces_of_bounded_size() -> None:
    pieces = Decoder("gzip").decode(gzip.compress(b" " * 50_000_000))
    assert max(len(piece) for piece in pieces) <= 262_144


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
