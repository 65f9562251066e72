"""`proxyd top`: asks the daemon again and again, and shows a screen of it until a key ends that."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live

from proxyd.cli.answers import client_of
from proxyd.cli.top_screens import Look, Screen, Seen, after, frame, keys_in
from proxyd.client import ApiError, Client, UnreachableError
from proxyd.client.types import Readiness
from proxyd.clock import SystemClock
from proxyd.metrics import Samples

if TYPE_CHECKING:
    from proxyd.ports import Clock

REFRESH_S = 2.0
_MOST_SHARE = 0.05
_MOST, _MOST_LISTED = 20, 200
_OF_SOURCE = frozenset({Screen.SOURCE})


@dataclass(frozen=True, slots=True)
class TopPart:
    """A part of the screens, its query, and when it is due again on the loop's clock.

    ``asked`` is what of the look it was asked for; if that changes, it is due at once.
    """

    ask: Callable[[Look], Awaitable[Any]]
    screens: frozenset[Screen] = frozenset({Screen.STATE})
    depends_on: Callable[[Look], object] = lambda _: None
    due_s: float = 0.0
    asked: object = None

    def is_due(self, look: Look, now_s: float) -> bool:
        """Whether it is shown and must be asked for."""
        return look.screen in self.screens and (self.due_s <= now_s or self.depends_on(look) != self.asked)

    def again(self, now_s: float, took_s: float, asked: object = None) -> TopPart:
        """Return the part with its next time: slow queries are repeated rarely, for a twentieth of the time."""
        return replace(self, due_s=now_s + max(REFRESH_S, took_s / _MOST_SHARE), asked=asked)


async def show_top(options: argparse.Namespace) -> None:
    """Show the daemon's status until q or Ctrl-C, or once."""
    console = Console()
    if options.once or not (console.is_terminal and sys.stdin.isatty()):
        await _once(options, console)
    else:
        with _single_keys():
            await _live(options, console)


async def _once(options: argparse.Namespace, console: Console) -> None:
    async with client_of(options) as client:
        view = TopView(client, _where(options), SystemClock())
        await view.refresh()
    wide = console if console.is_terminal else Console(width=200)
    drawn, _ = frame(view.seen)
    wide.print(drawn)


async def _live(options: argparse.Namespace, console: Console) -> None:
    keys = Keys()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), keys.read)
    async with client_of(options) as client:
        view, look = TopView(client, _where(options), SystemClock()), Look()
        await view.refresh()
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not keys.has_ended:
                drawn, rows = frame(view.seen, look, height=console.height)
                live.update(drawn, refresh=True)
                await keys.pressed_within(REFRESH_S)
                for key in keys.take():
                    changed = after(look, key, rows)
                    if changed is None:
                        return
                    look = changed
                await view.retry(look)


@dataclass(slots=True)
class Keys:
    """The keys that were pressed and not taken yet; ``has_ended`` once the terminal closed."""

    has_ended: bool = False
    _waiting: list[str] = field(default_factory=list)
    _pressed: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self) -> None:
        """Read what the terminal sent."""
        read = os.read(sys.stdin.fileno(), 4096)
        self.has_ended = self.has_ended or not read
        self._waiting += keys_in(read.decode(errors="ignore"))
        self._pressed.set()

    async def pressed_within(self, seconds: float) -> None:
        """Return once a key is pressed, or after a time."""
        try:
            await asyncio.wait_for(self._pressed.wait(), seconds)
        except TimeoutError:
            return

    def take(self) -> list[str]:
        """Return the keys in order, and forget them."""
        taken, self._waiting = self._waiting, []
        self._pressed.clear()
        return taken


class TopView:
    """The last answer for each part."""

    def __init__(self, client: Client, where: str, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.seen = Seen(where, Readiness(ready=False, checks={}), Samples({}, {}), self._now())
        self._parts = {
            "ready": TopPart(lambda _: client.ready(), frozenset(Screen)),
            "samples": TopPart(lambda _: self._samples()),
            "plan": TopPart(lambda _: client.plan(limit=_MOST)),
            "failing": TopPart(lambda _: client.sources(failing=True, silent=True, limit=_MOST)),
            "news": TopPart(lambda _: client.notifications(limit=_MOST)),
            "listed": TopPart(self._listed, frozenset({Screen.SOURCES}), lambda look: (look.text, look.order)),
            "explained": TopPart(lambda look: client.explain(look.source), _OF_SOURCE, _source_of),
            "items": TopPart(lambda look: client.items(look.source, limit=_MOST), _OF_SOURCE, _source_of),
        }

    async def _samples(self) -> Samples:
        return Samples.read(await self._client.metrics())

    async def _listed(self, look: Look) -> Any:
        return await self._client.sources(text=look.text, order=look.order, limit=_MOST_LISTED)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_s(), UTC).astimezone()

    async def refresh(self, look: Look | None = None) -> None:
        """Query the parts that are shown and due."""
        loop, look = asyncio.get_running_loop(), look or Look()
        for name, part in self._parts.items():
            began_s = loop.time()
            if part.is_due(look, began_s):
                heard: dict[str, Any] = {name: await part.ask(look)}
                self.seen = replace(self.seen, trouble=None, at=self._now(), **heard)
                self._parts[name] = part.again(loop.time(), loop.time() - began_s, part.depends_on(look))

    async def retry(self, look: Look | None = None) -> None:
        """Refresh; keep polling while the daemon is unreachable, and show why."""
        try:
            await self.refresh(look)
        except (UnreachableError, ApiError) as error:
            self.seen = replace(self.seen, trouble=str(error))


def _source_of(look: Look) -> object:
    return look.source


def _where(options: argparse.Namespace) -> str:
    return "here" if options.url is None else str(options.url)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Read keys as they are pressed; Ctrl-C still interrupts."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
