"""`proxyd top`: the daemon's state, its sources, or one source, drawn until `q` is pressed."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import termios
import tty
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial
from select import select
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live

from proxyd.base.clock import SystemClock
from proxyd.base.metrics import Samples
from proxyd.cli.printed_answers import client_of, settings_of
from proxyd.cli.top_screens import MOST, MOST_LISTED, Seen, TopState, after, frame
from proxyd.client import ApiError, Client, UnreachableError
from proxyd.core.model.field_values import local_time

if TYPE_CHECKING:
    from proxyd.base.ports import Clock
    from proxyd.client.types import Readiness

_REFRESH_S, _MOST_SHARE = 2.0, 0.05  # each list may take this share of the daemon's time: slow ones come less often
_ESCAPE_S, _TYPED_S = 0.05, 0.3  # Escape is a key, and a typed text is searched, if nothing follows within this time
_PRESSED = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|\x1b.|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b([\[O][0-9;]{0,16})?$")


class TopView:
    """What is shown, and the last answer for each part of it."""

    def __init__(self, client: Client, where: str, clock: Clock, zone: tzinfo | None = None) -> None:
        self._client, self._clock, self._zone = client, clock, zone
        unknown: Readiness = {"ready": False, "checks": {}}
        self.state, self.seen = TopState(), Seen(where, self._now(), unknown, Samples({}, {}))
        self._due: dict[str, tuple[float, object]] = {}  # when each part is asked for again, and for what it was asked

    async def refresh(self) -> None:
        """Query the parts that are shown and due: at once if the keys changed what is wanted, slow ones seldom."""
        time_s = self._clock.monotonic_s
        for name, (wanted, ask) in self._parts(self.state).items():
            began_s, (due_s, asked) = time_s(), self._due.get(name, (0.0, None))
            if due_s <= began_s or wanted != asked:
                answer: dict[str, Any] = {name: await ask()}
                self.seen = replace(self.seen, trouble=None, at=self._now(), **answer)
                self._due[name] = time_s() + max(_REFRESH_S, (time_s() - began_s) / _MOST_SHARE), wanted

    async def retry(self) -> None:
        """Refresh; keep polling while the daemon is unreachable, and show why."""
        try:
            await self.refresh()
        except (UnreachableError, ApiError) as error:
            self.seen = replace(self.seen, trouble=str(error))

    def _parts(self, state: TopState) -> dict[str, tuple[object, Callable[[], Awaitable[Any]]]]:
        """Return what a screen shows: what the keys want of each part, and its query."""
        client, listed_for, ready = self._client, (state.text, state.order), self._client.ready

        async def samples() -> Samples:
            return Samples.read(await client.metrics())

        async def sources() -> object:
            return listed_for, await client.sources(text=state.text, order=state.order, limit=MOST_LISTED)

        async def source() -> object:
            return await client.explain(state.source), await client.items(state.source, limit=MOST)

        if state.screen == "sources":
            return {"ready": (None, ready), "listed": (listed_for, sources)}
        if state.screen == "source":
            return {"ready": (None, ready), "opened": (state.source, source)}
        failing = partial(client.sources, failing=True, silent=True, limit=MOST)
        plan, news = partial(client.plan, limit=MOST), partial(client.notifications, limit=MOST)
        state_of: dict[str, Callable[[], Awaitable[Any]]] = {"ready": ready, "samples": samples, "plan": plan}
        return {name: (None, ask) for name, ask in (state_of | {"failing": failing, "news": news}).items()}

    def _now(self) -> datetime:
        return local_time(self._clock.wall_s(), self._zone)


async def show_top(options: argparse.Namespace) -> None:
    """Show the daemon's status until q or Ctrl-C, or once."""
    console = Console()
    async with client_of(options) as client:
        where = "here" if options.url is None else str(options.url)
        view = TopView(client, where, SystemClock(), settings_of(options).zone)
        await view.refresh()
        if options.once or not (console.is_terminal and sys.stdin.isatty()):
            (console if console.is_terminal else Console(width=200)).print(frame(view.seen)[0])
            return
        with _queue_keys(sys.stdin.fileno()) as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            await _show_live(view, keys, live)


async def _show_live(view: TopView, keys: asyncio.Queue[str], live: Live) -> None:
    """Draw a frame after each key and each answer, until a key ends it; a slow answer does not hold up keys."""
    pressed = asyncio.create_task(keys.get())
    asking, asked, is_due = asyncio.create_task(view.retry(), name="asking"), view.state, False
    try:
        while True:
            if asking.done() and is_due:
                asking, asked = asyncio.create_task(view.retry(), name="asking"), view.state
            drawn, rows = frame(view.seen, view.state, height=live.console.height, width=live.console.width)
            live.update(drawn, refresh=True)
            waited = [pressed, *([] if asking.done() else [asking])]
            pause_s = _TYPED_S if view.state.is_typing else _REFRESH_S
            done, _ = await asyncio.wait(waited, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            if asking in done:
                asking.result()  # raises what ended it
            if pressed in done:
                changed = after(view.state, pressed.result(), rows)
                if changed is None:
                    return
                view.state, pressed = changed, asyncio.create_task(keys.get())
            is_due = not done or (view.state != asked and not view.state.is_typing)
    finally:
        pressed.cancel()
        asking.cancel()


def keys_in(sent: Iterator[bytes], decoder: IncrementalDecoder) -> list[str]:
    """Return the keys that a terminal sent, and an empty one if it is gone.

    What belongs to one key may come in parts. Escape alone counts if nothing follows it.
    """
    part = next(sent)
    text = decoder.decode(part)
    while _UNFINISHED.search(text) and (more := next(sent, b"")):
        text += decoder.decode(more)
    return _PRESSED.findall(text) if part else [""]


@contextmanager
def _queue_keys(terminal: int) -> Iterator[asyncio.Queue[str]]:
    """Queue the keys as they are pressed; Ctrl-C still interrupts."""
    loop, before, decoder = (
        asyncio.get_running_loop(),
        termios.tcgetattr(terminal),
        getincrementaldecoder("utf-8")("ignore"),
    )
    keys: asyncio.Queue[str] = asyncio.Queue()

    def sent() -> Iterator[bytes]:
        yield os.read(terminal, 4096)
        while select([terminal], [], [], _ESCAPE_S)[0]:
            yield os.read(terminal, 4096)

    def read() -> None:
        found = [""]
        with suppress(OSError):  # the terminal is gone
            found = keys_in(sent(), decoder)
        if found == [""]:
            loop.remove_reader(terminal)
        for key in found:
            keys.put_nowait(key)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield keys
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
