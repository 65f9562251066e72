"""Parsers in processes of their own: hung, dying and raising ones cost nobody else anything."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from proxyd.probing.document_parser import ParserPool
from proxyd.probing.documents.probe_failures import EmptyDocumentError, NotAFeedError, ParserFailedError
from proxyd.probing.feeds.feed_items import ParsedFeed


def play(body: bytes, content_type: str | None = None, url: str = "", *_: object) -> ParsedFeed:
    """Do what the document says."""
    word, _blank, rest = body.decode().partition(" ")
    if word == "hang":
        threading.Event().wait()
    elif word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "die-once" and not Path(rest).exists():
        Path(rest).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    elif word == "eat":
        bytearray(int(rest) << 20)
    elif word == "raise":
        raise RuntimeError("a bug in the parser")
    elif word == "refuse":
        raise NotAFeedError("no feed", links=("a",))
    return ParsedFeed((), f"{os.getpid()}", title=url)


async def test_a_signal_to_the_whole_group_ends_no_document() -> None:
    async with ParserPool(play, workers=1) as pool:
        before = await pool.parse(b"fine")
        assert await pool.parse(b"terminate") == before  # by the same process


async def test_a_real_document_crosses_to_a_worker_and_back() -> None:
    async with ParserPool() as pool:
        feed = await pool.parse(
            b"<rss version='2.0'><channel><item><link>x</link></item></channel></rss>", None, "http://a/"
        )
        assert feed.items[0].fields["channel.item.link"] == "http://a/x"
        with pytest.raises(EmptyDocumentError):
            await pool.parse(b"")


async def test_a_document_that_eats_memory_fails_alone() -> None:
    async with ParserPool(play, workers=1) as pool:
        assert await pool.parse(b"eat 32")
        with pytest.raises(ParserFailedError, match="more than 256 MiB"):
            await pool.parse(b"eat 400")
        assert await pool.parse(b"fine")


async def test_the_page_class_crosses_to_the_worker() -> None:
    field = Field("v", FieldType.INTEGER, Extraction(Reader.JSON, "$.a"))
    async with ParserPool(workers=1) as pool:
        page = await pool.parse(b'{"a": 7}', None, "http://a/", PageClass("C", "D", (field,)))
    assert page.items[0].fields == {"v": 7}


async def test_a_selector_that_takes_for_ever_is_ended() -> None:
    costly = "count(//p[count(//p[count(//p) > 0]) > 0])"
    page_class = PageClass("C", "D", (Field("v", FieldType.INTEGER, Extraction(Reader.XPATH, costly)),))
    async with ParserPool(workers=1, timeout_s=0.5) as pool:
        with pytest.raises(ParserFailedError, match="longer than"):
            await pool.parse(b"<p>" * 5_000, None, "http://a/", page_class)
        assert await pool.parse(b"<rss version='2.0'/>")


async def test_a_hung_parser_is_killed_in_time_and_others_survive() -> None:
    before = set(multiprocessing.active_children())
    async with ParserPool(play, timeout_s=0.3) as pool:
        hanging = asyncio.create_task(pool.parse(b"hang"), name="hanging")
        answers = await asyncio.gather(*(pool.parse(b"fine") for _ in range(20)))
        with pytest.raises(ParserFailedError, match=r"longer than 0\.3 s"):
            await hanging
        assert len({answer.version for answer in answers}) <= 2
        assert await pool.parse(b"fine")
    assert set(multiprocessing.active_children()) <= before


async def test_every_worker_may_hang_and_the_pool_goes_on() -> None:
    async with ParserPool(play, timeout_s=0.2) as pool:
        failed = await asyncio.gather(*(pool.parse(b"hang") for _ in range(2)), return_exceptions=True)
        assert [type(error) for error in failed] == [ParserFailedError, ParserFailedError]
        assert await pool.parse(b"fine")


async def test_a_worker_that_dies_is_replaced_and_its_document_tried_once_more(tmp_path: Path) -> None:
    async with ParserPool(play, workers=1) as pool:
        assert await pool.parse(b"die-once %s" % str(tmp_path / "died").encode())
        with pytest.raises(ParserFailedError, match="died"):
            await pool.parse(b"die")
        assert await pool.parse(b"fine")


async def test_a_worker_killed_from_outside_while_idle_is_not_noticed() -> None:
    async with ParserPool(play, workers=1) as pool:
        before = await pool.parse(b"fine")
        os.kill(int(before.version), signal.SIGKILL)
        after = await pool.parse(b"fine")
        assert after.version != before.version


async def test_errors_cross_from_the_worker() -> None:
    async with ParserPool(play, workers=1) as pool:
        with pytest.raises(NotAFeedError, match="no feed") as caught:
            await pool.parse(b"refuse")
        assert caught.value.links == ("a",)
        with pytest.raises(ParserFailedError, match="raised RuntimeError: a bug in the parser"):
            await pool.parse(b"raise")


async def test_workers_are_recycled() -> None:
    async with ParserPool(play, workers=1, tasks_per_worker=2) as pool:
        versions = [(await pool.parse(b"fine")).version for _ in range(5)]
    assert versions[0] == versions[1] != versions[2] == versions[3] != versions[4]


async def test_closing_ends_a_hung_parser_at_once_and_leaves_no_process() -> None:
    before = set(multiprocessing.active_children())
    pool = ParserPool(play, timeout_s=60.0)
    await asyncio.gather(*(pool.parse(b"fine") for _ in range(4)))
    hanging = [asyncio.create_task(pool.parse(b"hang"), name=f"hanging {number}") for number in range(3)]
    await asyncio.sleep(0)
    await pool.close()
    results = await asyncio.gather(*hanging, return_exceptions=True)
    assert all(isinstance(result, ParserFailedError | asyncio.CancelledError) for result in results)
    assert set(multiprocessing.active_children()) <= before
    with pytest.raises(RuntimeError):
        await pool.parse(b"fine")


FORGETFUL = """
import asyncio
from proxyd.probing.document_parser import ParserPool

async def main():
    pool = ParserPool()
    feed = await pool.parse(b"<rss version='2.0'><channel></channel></rss>")
    print(feed.version)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("close", [True, False])
def test_the_interpreter_exits_with_or_without_a_clean_close(tmp_path: Path, *, close: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(FORGETFUL.replace("    print", "    await pool.close()\n    print") if close else FORGETFUL)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == ("rss20\n", "")
