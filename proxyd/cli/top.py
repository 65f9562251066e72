"""The screen of `proxyd top`: the daemon's live status."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxyd.cli.answers import about, client_of, first_row
from proxyd.cli.sources import last_outcome
from proxyd.client import ApiError, Client, UnreachableError
from proxyd.client.types import ComingProbe, NotificationListed, Readiness, SourceListed
from proxyd.metrics import SHARES, Samples
from proxyd.safe_text import visible_line

REFRESH_S = 2.0
_MOST_SHARE = 0.05
_MOST = 20
_TITLE_LINES = 14  # all lines except the rows of the three lists


@dataclass(frozen=True, slots=True)
class TopPart:
    """A part of the screen, its query, and when it is due again on the loop's clock."""

    name: str
    ask: Callable[[], Awaitable[Any]]
    due_s: float = 0.0

    def again(self, now_s: float, took_s: float) -> TopPart:
        """Return the part with its next time: slow queries are repeated rarely, for a twentieth of the time."""
        return replace(self, due_s=now_s + max(REFRESH_S, took_s / _MOST_SHARE))


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
        view = TopView(client, _where(options))
        await view.refresh()
    wide = console if console.is_terminal else Console(width=200)
    wide.print(frame(view.seen))


async def _live(options: argparse.Namespace, console: Console) -> None:
    quit_asked = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _read_key, quit_asked)
    async with client_of(options) as client:
        view = TopView(client, _where(options))
        await view.refresh()
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not quit_asked.is_set():
                live.update(frame(view.seen, most=max(1, (console.height - _TITLE_LINES) // 3)), refresh=True)
                await _elapsed(quit_asked)
                await view.retry()


def _read_key(quit_asked: asyncio.Event) -> None:
    if os.read(sys.stdin.fileno(), 1) in {b"q", b"Q", b""}:  # or the input has closed
        quit_asked.set()


async def _elapsed(quit_asked: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(quit_asked.wait(), REFRESH_S)
    except TimeoutError:
        return


class TopView:
    """The last answer for each part."""

    def __init__(self, client: Client, where: str) -> None:
        self._client = client
        self.seen = Seen(where, Readiness(ready=False, checks={}), Samples({}, {}), (), (), ())
        self._parts = [
            TopPart("ready", client.ready),
            TopPart("samples", self._samples),
            TopPart("plan", lambda: client.plan(limit=_MOST)),
            TopPart("failing", lambda: client.sources(failing=True, silent=True, limit=_MOST)),
            TopPart("news", lambda: client.notifications(limit=_MOST)),
        ]

    async def _samples(self) -> Samples:
        return Samples.read(await self._client.metrics())

    async def refresh(self) -> None:
        """Query the parts that are due."""
        loop = asyncio.get_running_loop()
        for number, part in enumerate(self._parts):
            began_s = loop.time()
            if part.due_s <= began_s:
                heard: dict[str, Any] = {part.name: await part.ask()}
                self.seen = replace(self.seen, trouble=None, **heard)
                self._parts[number] = part.again(loop.time(), loop.time() - began_s)

    async def retry(self) -> None:
        """Refresh; keep polling while the daemon is unreachable, and show why."""
        try:
            await self.refresh()
        except (UnreachableError, ApiError) as error:
            self.seen = replace(self.seen, trouble=str(error))


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


_CELL = 120
_TIMES, _CLOCK = frozenset({"at", "created", "next probe"}), 8


@dataclass(frozen=True, slots=True)
class Seen:
    """The daemon's answers; ``trouble`` is why it no longer answers."""

    where: str
    ready: Readiness
    samples: Samples
    plan: Sequence[ComingProbe]
    failing: Sequence[SourceListed]
    news: Sequence[NotificationListed]
    trouble: str | None = None


def frame(seen: Seen, *, most: int = 10) -> RenderableType:
    """Return the whole screen, with at most ``most`` rows in each list."""
    return Group(
        _head(seen),
        *(Text(line) for line in health_lines(seen.samples)),
        *_listed("coming probes", ["at", "source", "reason", "rule"], [_coming(each) for each in seen.plan[:most]]),
        *_listed(
            "failing or silent sources",
            ["source", "failures", "last outcome", "next probe"],
            [_failing(each) for each in seen.failing[:most]],
        ),
        *_listed("newest notifications", ["created", "rule", "source", "what"], [_new(n) for n in seen.news[:most]]),
    )


def _head(seen: Seen) -> Text:
    failed = [name for name, holds in seen.ready["checks"].items() if not holds]
    state = "ready" if seen.ready["ready"] else f"not ready: {', '.join(failed)}"
    head = Text.assemble(("proxyd ", "bold"), visible_line(seen.where), "  ")
    head.append(visible_line(state), style="green" if seen.ready["ready"] else "bold red")
    if seen.trouble is not None:
        head.append(f"  {visible_line(seen.trouble)}", style="bold red")
    return head


def health_lines(samples: Samples) -> list[str]:
    """Return the daemon's health in a few lines."""
    value = samples.values.get
    completeness, utility, used = (
        _share(value(f"proxyd_{name}_ratio")) for name in ("completeness", "utility", "budget_used")
    )
    waiting, held, dead = (_count(value(f"proxyd_outbox_{name}")) for name in ("pending", "held", "dead"))
    sources, rules = _count(value("proxyd_sources")), _count(value("proxyd_rules"))
    return [
        f"completeness {completeness}   utility {utility}   budget used {used}",
        f"published to seen       {_delays(samples, 'proxyd_item_delay_seconds')}",
        f"published to delivered  {_delivered(samples)}",
        f"sources {sources}   rules {rules}   outbox: {waiting} waiting, {held} held, {dead} given up",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:.1%}"


def _count(value: float | None) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:,.0f}"


def _delivered(samples: Samples) -> str:
    if samples.is_delivered_elsewhere:
        return "the notifier counts them: see /metrics of its machine"
    return _delays(samples, "proxyd_notification_delay_seconds")


def _delays(samples: Samples, name: str) -> str:
    delays = samples.delays(name)
    if not delays.count:
        return "nothing yet"
    pairs = zip(SHARES, delays.percentiles, strict=True)
    said = "   ".join(f"{share:.0%} {'-' if delay_s is None else about(delay_s)}" for share, delay_s in pairs)
    return f"{said}   of {delays.count:,}"


def _listed(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[RenderableType]:
    """Return a list under its title, one line per row."""
    found = list(rows)
    if not found:
        return [Text(f"\nno {title}", style="dim")]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        width = _CLOCK if name in _TIMES else None  # it is never cut
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=width)
    for row in found:
        table.add_row(*(Text(visible_line(cell, _CELL)) for cell in row))
    return [Text(f"\n{title}", style="bold"), table]


def clock_time(time: str) -> str:
    """Return a time of the API as the clocks here show it.

    >>> len(clock_time("2026-01-31T12:00:00.123Z"))
    8
    """
    return f"{datetime.fromisoformat(time).astimezone():%H:%M:%S}"


def _coming(probe: ComingProbe) -> list[str]:
    return [clock_time(probe["at"]), probe["source"], probe["reason"], probe["rule"] or "-"]


def _failing(source: SourceListed) -> list[str]:
    planned = source["next_probe"]
    last = last_outcome(source, _CELL)
    return [
        source["source"],
        str(source["failures"]),
        last,
        clock_time(planned["at"]) if planned else source["blocked_by"] or "-",
    ]


def _new(notification: NotificationListed) -> list[str]:
    return [
        clock_time(notification["created"]),
        notification["rule"],
        notification["source"],
        first_row(notification["body"]),
    ]
