"""The verb that shows live how the daemon does."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.live import Live

from proxyd.cli.asking import client_of
from proxyd.cli.frame import Seen, frame
from proxyd.client import ApiError, Client, UnreachableError
from proxyd.client.types import Readiness
from proxyd.metrics import Samples

REFRESH_S = 2.0
_MOST_SHARE = 0.05
_MOST = 20
_TITLE_LINES = 14  # all but the rows of the three lists


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what is shown, how it is asked for, and when that is due again on the loop's clock."""

    name: str
    ask: Callable[[], Awaitable[Any]]
    due_s: float = 0.0

    def again(self, now_s: float, took_s: float) -> Part:
        """Return it with its next time: what takes the daemon long is asked for seldom, a twentieth of the time."""
        return replace(self, due_s=now_s + max(REFRESH_S, took_s / _MOST_SHARE))


def top(options: argparse.Namespace) -> int:
    """Show how the daemon does until q or Ctrl-C, or once."""
    console = Console()
    if options.once or not (console.is_terminal and sys.stdin.isatty()):
        asyncio.run(_once(options, console))
    else:
        with _single_keys():
            asyncio.run(_live(options, console))
    return 0


async def _once(options: argparse.Namespace, console: Console) -> None:
    async with client_of(options) as client:
        view = View(client, _where(options))
        await view.refresh()
    wide = console if console.is_terminal else Console(width=200)
    wide.print(frame(view.seen))


async def _live(options: argparse.Namespace, console: Console) -> None:
    quit_asked = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _read_key, quit_asked)
    async with client_of(options) as client:
        view = View(client, _where(options))
        await view.refresh()
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not quit_asked.is_set():
                live.update(frame(view.seen, most=max(1, (console.height - _TITLE_LINES) // 3)), refresh=True)
                await _elapsed(quit_asked)
                await view.retry()


def _read_key(quit_asked: asyncio.Event) -> None:
    if os.read(sys.stdin.fileno(), 1) in {b"q", b"Q", b""}:  # or nobody is there any more
        quit_asked.set()


async def _elapsed(quit_asked: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(quit_asked.wait(), REFRESH_S)
    except TimeoutError:
        return


class View:
    """What was last heard of each part."""

    def __init__(self, client: Client, where: str) -> None:
        self._client = client
        self.seen = Seen(where, Readiness(ready=False, checks={}), Samples({}, {}), (), (), ())
        self._parts = [
            Part("ready", client.ready),
            Part("samples", self._samples),
            Part("plan", lambda: client.plan(limit=_MOST)),
            Part("failing", lambda: client.sources(failing=True, limit=_MOST)),
            Part("news", lambda: client.notifications(limit=_MOST)),
        ]

    async def _samples(self) -> Samples:
        return Samples.read(await self._client.metrics())

    async def refresh(self) -> None:
        """Ask for the parts that are due."""
        loop = asyncio.get_running_loop()
        for number, part in enumerate(self._parts):
            began_s = loop.time()
            if part.due_s <= began_s:
                heard: dict[str, Any] = {part.name: await part.ask()}
                self.seen = replace(self.seen, trouble=None, **heard)
                self._parts[number] = part.again(loop.time(), loop.time() - began_s)

    async def retry(self) -> None:
        """Do so, and say where the daemon does not answer any more: it may come again."""
        try:
            await self.refresh()
        except (UnreachableError, ApiError) as error:
            self.seen = replace(self.seen, trouble=str(error))


def _where(options: argparse.Namespace) -> str:
    return "here" if options.url is None else str(options.url)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Let keys be read as they are pressed; Ctrl-C still interrupts."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
