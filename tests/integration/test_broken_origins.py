"""Origins whose answers break the rules of HTTP: what browsers read is read, the rest ends in an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from proxyd.core.model.outcome import OutcomeKind, Validators
from tests.fakes import settle
from tests.integration.test_http_probing import FEED, raw_origin, rigged

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(FEED)
READ = {
    "two equal lengths": OK + LENGTH * 2 + b"\r\n" + FEED,
    "a list of equal lengths": OK + b"Content-Length: %d, %d\r\n\r\n" % (len(FEED), len(FEED)) + FEED,
    "a name in UTF-8": OK + "X-Größe: 1\r\n".encode() + LENGTH + b"\r\n" + FEED,
    "a name in Latin-1": OK + b"X-\xe9: 1\r\n" + LENGTH + b"\r\n" + FEED,
    "a name with spaces": OK + b"X a: 1\r\nContent-Type : application/rss+xml\r\n" + LENGTH + b"\r\n" + FEED,
    "no name": OK + b": 1\r\nnonsense\r\n" + LENGTH + b"\r\n" + FEED,
    "a folded value": OK + b"X-\xe9: 1\r\n  Content-Length: 1\r\nX-b: 1\r\n\t2\r\n" + LENGTH + b"\r\n" + FEED,
    "a zero byte": OK + b"X-a: \0\r\n" + LENGTH + b"\r\n" + FEED,
    "lines that end with LF": OK[:-2] + b"\nX-\xe9: 1\n" + LENGTH[:-2] + b"\n\n" + FEED,
    "more than its length": OK + LENGTH + b"\r\n" + FEED + b"HTTP/1.1 200 OK\r\n\r\n",
    "early hints": b"HTTP/1.1 103 Early Hints\r\nX-\xe9: 1\r\n\r\n" + OK + b"X-\xe9: 1\r\n" + LENGTH + b"\r\n" + FEED,
}
UNCHANGED = {
    "with its length": b'HTTP/1.1 304 Not Modified\r\nETag: "2"\r\nContent-Length: 5\r\n\r\nhello',
    "in chunks": b'HTTP/1.1 304 Not Modified\r\nETag: "2"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    "until the end": b'HTTP/1.1 304 Not Modified\r\nETag: "2"\r\n\r\nhello',
    "that looks like an answer": b'HTTP/1.1 304 Not Modified\r\nETag: "2"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n',
}
REFUSED = {
    "lengths that differ": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + FEED,
    "a list of lengths that differ": OK + b"Content-Length: 5, 6\r\n\r\n" + FEED,
    "a length and chunks": OK + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "headers without end": OK + b"X-a: 1\r\n" * 100_000,
    "a header without end": OK + b"X-a: " + b"1" * 1_000_000,
    "interim answers without end": b"HTTP/1.1 103 Early Hints\r\nX-a: 1\r\n\r\n" * 20_000,
    "a name without end": OK + b"a" * 1_000_000,
}


@asynccontextmanager
async def dripping(answers: list[bytes]) -> AsyncIterator[tuple[str, list[int]]]:
    """Serve answers byte by byte, one for each request; count the requests of each connection."""
    counts: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counts.append(0)
        with suppress(ConnectionError):
            while answers and await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                counts[-1] += 1
                for byte in answers.pop(0):
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", counts
    finally:
        await settle()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("name", READ)
async def test_what_browsers_read_is_read(name: str) -> None:
    async with raw_origin(READ[name]) as url, rigged() as rig:
        outcome = await rig.probe(url)
    assert (outcome.kind, outcome.body_bytes) == (OutcomeKind.CHANGED, len(FEED))


@pytest.mark.parametrize("name", ["two equal lengths", "a folded value", "early hints"])
async def test_it_is_read_however_it_is_cut(name: str) -> None:
    async with dripping([READ[name], READ[name]]) as (url, counts), rigged() as rig:
        outcomes = [await rig.probe(url) for _ in range(2)]
    assert [(each.kind, each.body_bytes) for each in outcomes] == [(OutcomeKind.CHANGED, len(FEED))] * 2
    assert counts == [2]


@pytest.mark.parametrize("name", UNCHANGED)
async def test_a_304_may_have_a_body(name: str) -> None:
    async with raw_origin(UNCHANGED[name], hold=True) as url, rigged() as rig:
        outcomes = [await rig.probe(url, validators=Validators('"1"'), body_hash="h") for _ in range(2)]
    assert [(each.kind, each.validators) for each in outcomes] == [(OutcomeKind.NOT_MODIFIED, Validators('"2"'))] * 2


async def test_a_304_without_a_body_keeps_its_connection() -> None:
    answer = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\nContent-Length: 0\r\n\r\n'
    async with dripping([answer, answer]) as (url, counts), rigged() as rig:
        for _ in range(2):
            assert (await rig.probe(url, validators=Validators('"1"'))).kind is OutcomeKind.NOT_MODIFIED
    assert counts == [2]


@pytest.mark.parametrize("name", REFUSED)
async def test_what_has_two_meanings_or_no_end_is_an_outcome(name: str) -> None:
    async with raw_origin(REFUSED[name], hold=True) as url, rigged() as rig:
        outcome = await rig.probe(url)
    assert outcome.kind is OutcomeKind.UNREACHABLE
    assert outcome.detail


async def test_chunks_that_become_garbage_are_not_waited_for() -> None:
    answer = OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n<rss>\r\nzz\r\n"
    async with dripping([answer, READ["two equal lengths"]]) as (url, counts), rigged() as rig:
        outcomes = [await rig.probe(url) for _ in range(2)]
    assert [each.kind for each in outcomes] == [OutcomeKind.UNREACHABLE, OutcomeKind.CHANGED]
    assert counts == [1, 1]
