"""The way of one probe through the code, from its choice to the receiver's 2xx: few files, and few moves between them.

A move is a call between two files of ``proxyd/`` on the loop's thread; a return is a move to a file entered before. The
limits are what was measured when they were last lowered: raise them only together with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import proxyd
from tests.golden.reports.case import Answer, read_case
from tests.golden.reports.daemon_world import World, running
from tests.origin import InlineParser

MOST_FILES, MOST_FILES_TO_COMMIT, MOST_RETURNS = 75, 49, 556
_OBSERVER = "/daemon/observer.py"
_ROOT = str(Path(proxyd.__file__).parent)
_CASE = """rule WATCH 'http://x.example/feed' WITHIN 1 MINUTE FOR 95 %
      TELL WEBHOOK 'http://hook.example/' SECRET ENV 'SECRET_A';
run
at 0m

  rss
  Post 1 | guid 1 | link http://x.example/1
at 0m http://hook.example/ 204
sent hook.example
"""


@dataclass
class Walk:
    """The files that a walk entered until the receiver answered, in order, each as often as it was entered."""

    receipts: Sized
    files: list[str] = field(default_factory=list)

    def step(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call; a coroutine that goes on counts as called."""
        code = frame.f_code
        if self.receipts or event != "call" or not code.co_filename.startswith(_ROOT) or code.co_name.startswith("<"):
            return
        file = code.co_filename.removeprefix(_ROOT)
        if not self.files or self.files[-1] != file:
            self.files.append(file)

    @property
    def to_commit(self) -> list[str]:
        """The files from the outcome to the writer that commits it."""
        start = self.files.index(_OBSERVER)
        return self.files[start : self.files.index("/store/writer.py", start) + 1]

    @property
    def returns(self) -> int:
        """How many moves went to a file that was entered before."""
        return len(self.files) - len(set(self.files))


@contextmanager
def walking(walk: Walk) -> Iterator[None]:
    """Follow what this thread calls."""
    sys.setprofile(walk.step)
    try:
        yield
    finally:
        sys.setprofile(None)


class ParserElsewhere(InlineParser):
    """Reads documents out of sight of the walk, as the daemon does in another process."""

    async def parse(self, *arguments: Any, **options: Any) -> Any:
        walker = sys.getprofile()
        sys.setprofile(None)
        try:
            return await super().parse(*arguments, **options)
        finally:
            sys.setprofile(walker)


async def walked(world: World) -> Walk:
    """Return the way of the probe that finds the second post, up to the answer of the receiver."""
    await world.go_to(100.0)
    feed = "http://x.example/feed"
    text = world.answers[feed].text.replace("<item>", "<item><title>New</title><guid>new</guid></item><item>", 1)
    world.answers[feed] = Answer(text=text, body=text.encode())
    for chronon in range(11, 1000):
        walk = Walk(world.receipts)
        with walking(walk):
            await world.go_to(10.0 * chronon)
        if world.receipts:
            return walk
    raise AssertionError("the post was never told")


def case_in(folder: Path) -> Path:
    """Write the case into a new folder."""
    folder.mkdir()
    path = folder / "walk.case"
    path.write_text(_CASE, encoding="utf-8")
    return path


async def own_walk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Walk:
    """Return the way of a probe in a daemon of its own."""
    async with running(read_case(case_in(folder)), folder, monkeypatch) as world:
        walk = await walked(world)
        assert [receipt.text for receipt in world.receipts] == ["New"]
    return walk


async def test_one_probe_enters_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.golden.reports.daemon_world.InlineParser", ParserElsewhere)
    # On a busy machine the threads of the store are late, and other tasks of the loop get into the way meanwhile
    walks = [await own_walk(tmp_path / name, monkeypatch) for name in "abc"]
    # one whose receiver answered a chronon after the probe holds the delivery only
    walk = min((each for each in walks if _OBSERVER in each.files), key=lambda each: each.returns)
    files = set(walk.files)
    assert len(files) <= MOST_FILES
    assert walk.returns <= MOST_RETURNS
    assert len(set(walk.to_commit)) <= MOST_FILES_TO_COMMIT
