"""`proxyd top`: polls the daemon and shows its state until `q` is pressed."""

from __future__ import annotations

import argparse
import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live

from proxyd.cli.answers import client_of
from proxyd.cli.top_screens import (
    MOST_LISTED,
    UNFINISHED,
    Listed,
    Opened,
    Screen,
    Seen,
    TopState,
    after,
    frame,
    keys_in,
)
from proxyd.client import ApiError, Client, UnreachableError
from proxyd.client.types import Readiness
from proxyd.clock import SystemClock
from proxyd.metrics import Samples

if TYPE_CHECKING:
    from proxyd.ports import Clock

REFRESH_S = 2.0
_MOST_SHARE = 0.05
_MOST = 20
_ESCAPE_S = 0.05  # after Escape, before it counts as a key of its own
_TYPED_S = 0.3  # after the last character of a text, before it is searched
_STATE = frozenset({Screen.STATE})


@dataclass(frozen=True, slots=True)
class TopPart:
    """A part of the screens, its query, and when it is due again on the loop's clock.

    ``asked`` is the part of the state that the last query used; if that changes, it is due at once.
    """

    ask: Callable[[TopState], Awaitable[Any]]
    screens: frozenset[Screen] = _STATE
    depends_on: Callable[[TopState], object] = lambda _: None
    due_s: float = 0.0
    asked: object = None

    def is_due(self, state: TopState, now_s: float) -> bool:
        """Whether it is shown and must be asked for."""
        return state.screen in self.screens and (self.due_s <= now_s or self.depends_on(state) != self.asked)

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
    """Draw a frame after each key and each answer; a slow answer does not hold up keys."""
    wake = asyncio.Event()
    async with client_of(options) as client:
        view = TopView(client, _where(options), SystemClock())
        await view.refresh()
        keys = Keys(wake.set)
        with keys.read_from(sys.stdin.fileno()), Live(console=console, screen=True, auto_refresh=False) as live:
            asking = asyncio.create_task(view.follow(wake.set), name="asking")
            try:
                while _press(keys, view, console) and not asking.done():
                    live.update(_drawn(view, console)[0], refresh=True)
                    await wake.wait()
                    wake.clear()
            finally:
                asking.cancel()
        if asking.done() and not asking.cancelled():
            await asking  # raises what ended it


def _press(keys: Keys, view: TopView, console: Console) -> bool:
    """Let the keys that were pressed change what is shown; return whether the view goes on."""
    for key in keys.take():
        changed = after(view.state, key, _drawn(view, console)[1])
        if changed is None:
            return False
        view.show(changed)
    return not keys.has_ended


def _drawn(view: TopView, console: Console) -> Any:
    return frame(view.seen, view.state, height=console.height, width=console.width)


class Keys:
    """The keys that were pressed and not taken yet; ``has_ended`` once the terminal closed.

    What belongs to one key may arrive in parts. Escape alone counts if nothing follows it for a moment.
    """

    def __init__(self, pressed: Callable[[], None]) -> None:
        self.has_ended = False
        self._pressed = pressed
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""
        self._waiting: list[str] = []

    @contextmanager
    def read_from(self, terminal: int) -> Iterator[None]:
        """Read keys while the context is open."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            try:
                sent = os.read(terminal, 4096)
            except OSError:  # it is gone
                sent = b""
            if not sent:
                loop.remove_reader(terminal)
            self.feed(sent)
            if self._rest:
                loop.call_later(_ESCAPE_S, self.release, self._rest)

        loop.add_reader(terminal, read)
        try:
            yield
        finally:
            loop.remove_reader(terminal)

    def feed(self, sent: bytes) -> None:
        """Take what the terminal sent; nothing means that it closed."""
        self.has_ended = self.has_ended or not sent
        text = self._rest + self._decoder.decode(sent)
        unfinished = UNFINISHED.search(text)
        cut = len(text) if unfinished is None else unfinished.start()
        self._rest = text[cut:]
        self._waiting += keys_in(text[:cut])
        self._pressed()

    def release(self, rest: str) -> None:
        """Count an unfinished key as it is, unless more of it has arrived."""
        if rest == self._rest:
            self._rest = ""
            self._waiting += keys_in(rest)
            self._pressed()

    def take(self) -> list[str]:
        """Return the keys in order, and forget them."""
        taken, self._waiting = self._waiting, []
        return taken


class TopView:
    """What is shown, and the last answer for each part of it."""

    def __init__(self, client: Client, where: str, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._changed = asyncio.Event()
        self.state = TopState()
        self.seen = Seen(where, Readiness(ready=False, checks={}), Samples({}, {}), self._now())
        self._parts = {
            "ready": TopPart(lambda _: client.ready(), frozenset(Screen)),
            "samples": TopPart(lambda _: self._samples()),
            "plan": TopPart(lambda _: client.plan(limit=_MOST)),
            "failing": TopPart(lambda _: client.sources(failing=True, silent=True, limit=_MOST)),
            "news": TopPart(lambda _: client.notifications(limit=_MOST)),
            "listed": TopPart(self._listed, frozenset({Screen.SOURCES}), lambda state: (state.text, state.order)),
            "opened": TopPart(self._opened, frozenset({Screen.SOURCE}), lambda state: state.source),
        }

    def show(self, state: TopState) -> None:
        """Show another screen, or another choice on it."""
        if state != self.state:
            self.state = state
            self._changed.set()

    async def follow(self, told: Callable[[], None]) -> None:
        """Query what is shown, again and again; call a function after each round."""
        while True:
            self._changed.clear()
            await self.retry()
            told()
            await self._is_changed_within(REFRESH_S)
            while self.state.is_typing and await self._is_changed_within(_TYPED_S):
                pass

    async def _is_changed_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    async def refresh(self) -> None:
        """Query the parts that are shown and due."""
        loop, state = asyncio.get_running_loop(), self.state
        for name, part in self._parts.items():
            began_s = loop.time()
            if part.is_due(state, began_s):
                heard: dict[str, Any] = {name: await part.ask(state)}
                self.seen = replace(self.seen, trouble=None, at=self._now(), **heard)
                self._parts[name] = part.again(loop.time(), loop.time() - began_s, part.depends_on(state))

    async def retry(self) -> None:
        """Refresh; keep polling while the daemon is unreachable, and show why."""
        try:
            await self.refresh()
        except (UnreachableError, ApiError) as error:
            self.seen = replace(self.seen, trouble=str(error))

    async def _samples(self) -> Samples:
        return Samples.read(await self._client.metrics())

    async def _listed(self, state: TopState) -> Listed:
        found = await self._client.sources(text=state.text, order=state.order, limit=MOST_LISTED)
        return Listed(state.text, state.order, found)

    async def _opened(self, state: TopState) -> Opened:
        explained = await self._client.explain(state.source)
        return Opened(explained, await self._client.items(state.source, limit=_MOST))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_s(), UTC).astimezone()


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
