"""The screens of `proxyd top`: what a key changes of them, and how they are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from math import isfinite
from types import MappingProxyType

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxyd.cli.answers import about, first_row
from proxyd.cli.sources import item_title, last_outcome
from proxyd.client.client import SourceOrder
from proxyd.client.types import ComingProbe, Explained, ItemEvent, NotificationListed, Readiness, SourceListed
from proxyd.metrics import SHARES, Samples
from proxyd.safe_text import visible_line

ORDERS: Mapping[SourceOrder, str] = MappingProxyType(
    {"name": "by name", "newest": "newest item first", "probed": "last probe first", "items": "most items first"}
)
"""The orders of the list of sources, in words."""
_CELL, _LONGEST_TEXT = 120, 100
_TIMES, _CLOCK = frozenset({"at", "created", "next probe", "last probe", "seen"}), 8
_TITLE_LINES = 16  # of the screen with three lists: all but their rows
_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "k"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "j"), "down"),
    **dict.fromkeys(("\r", "\n", "\x1b[C", "\x1bOC"), "enter"),
    **dict.fromkeys(("\x1b", "\x1b[D", "\x1bOD", "\x7f", "\x08"), "back"),
    **dict.fromkeys("qQ", "quit"),
}
_PRESSED = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)


class Screen(Enum):
    """What is shown: the daemon's state, its sources, or one source."""

    STATE = "state"
    SOURCES = "sources"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Look:
    """Which screen is shown, and what was chosen on it.

    Parameters
    ----------
    text, is_typing
        What names or addresses of the listed sources hold, and whether keys are added to it.
    order
        The order of the listed sources, one of ``ORDERS``.
    marked
        The number of the marked row.
    source, before
        The source that is shown, and the screen that it was opened from.
    """

    screen: Screen = Screen.STATE
    text: str = ""
    is_typing: bool = False
    order: SourceOrder = "name"
    marked: int = 0
    source: str = ""
    before: Screen = Screen.STATE


@dataclass(frozen=True, slots=True)
class Seen:
    """The daemon's answers; ``trouble`` is why it no longer answers, ``at`` the time here."""

    where: str
    ready: Readiness
    samples: Samples
    at: datetime
    plan: Sequence[ComingProbe] = ()
    failing: Sequence[SourceListed] = ()
    news: Sequence[NotificationListed] = ()
    listed: Sequence[SourceListed] = ()
    explained: Explained | None = None
    items: Sequence[ItemEvent] = ()
    trouble: str | None = None


# -- keys


def keys_in(pressed: str) -> list[str]:
    r"""Return the keys of what a terminal sent.

    >>> keys_in("\x1b[Aé/")
    ['\x1b[A', 'é', '/']
    """
    return _PRESSED.findall(pressed)


def after(look: Look, key: str, rows: Sequence[str]) -> Look | None:
    """Return what is shown after a key, or ``None`` if it ends the view; ``rows`` are the sources of the rows.

    >>> after(Look(), "/", []).screen, after(Look(), "q", [])
    (<Screen.SOURCES: 'sources'>, None)
    """
    if look.is_typing:
        return _typed(look, key)
    named = _KEYS.get(key, key)
    if named == "quit":
        return None
    change = _CHANGES.get(named)
    return look if change is None else change(look, rows)


def _up(look: Look, rows: Sequence[str]) -> Look:
    return replace(look, marked=max(0, min(look.marked, len(rows)) - 1))


def _down(look: Look, rows: Sequence[str]) -> Look:
    return replace(look, marked=max(0, min(look.marked + 1, len(rows) - 1)))


def _open(look: Look, rows: Sequence[str]) -> Look:
    if not rows or look.screen is Screen.SOURCE:
        return look
    source = rows[min(look.marked, len(rows) - 1)]
    return replace(look, screen=Screen.SOURCE, source=source, before=look.screen)


def _back(look: Look, _: Sequence[str]) -> Look:
    """Return the screen before: an opened source leads where it was opened, the list of sources to the state."""
    if look.screen is Screen.SOURCE:
        return replace(look, screen=look.before)
    return replace(look, screen=Screen.STATE, text="", marked=0)


def _find(look: Look, _: Sequence[str]) -> Look:
    return replace(look, screen=Screen.SOURCES, is_typing=True, marked=0)


def _list(look: Look, _: Sequence[str]) -> Look:
    """Return the list of sources, or that list in its next order."""
    if look.screen is not Screen.SOURCES:
        return replace(look, screen=Screen.SOURCES, marked=0)
    orders = [*ORDERS]
    return replace(look, order=orders[(orders.index(look.order) + 1) % len(orders)], marked=0)


_CHANGES: Mapping[str, Callable[[Look, Sequence[str]], Look]] = MappingProxyType(
    {"up": _up, "down": _down, "enter": _open, "back": _back, "/": _find, "s": _list}
)


def _typed(look: Look, key: str) -> Look:
    """Return the text with one more character or one less; Enter keeps it, Escape empties it."""
    if key in {"\r", "\n", "\t"}:
        return replace(look, is_typing=False)
    if key == "\x1b":
        return replace(look, is_typing=False, text="")
    if key in {"\x7f", "\x08"}:
        return replace(look, text=look.text[:-1])
    is_text = len(key) == 1 and key.isprintable() and len(look.text) < _LONGEST_TEXT
    return replace(look, text=look.text + key) if is_text else look


# -- drawing


@dataclass(slots=True)
class _Rows:
    """Draws the rows of lists, one after the other, and marks one of them."""

    marked: int
    sources: list[str] = field(default_factory=list)

    def listed(self, title: str, head: Sequence[str], rows: Iterable[tuple[str, list[str]]]) -> list[RenderableType]:
        """Return a list under its title, one line per row; each row comes with its source."""
        found = list(rows)
        if not found:
            return [Text(f"\nno {title}", style="dim")]
        table = _table(head)
        for source, cells in found:
            style = "reverse" if len(self.sources) == self.marked else ""
            self.sources.append(source)
            table.add_row(*(Text(visible_line(cell, _CELL)) for cell in cells), style=style)
        return [Text(f"\n{title}", style="bold"), table]


def _table(head: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        width = _CLOCK if name in _TIMES else None  # it is never cut
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=width)
    return table


def frame(seen: Seen, look: Look | None = None, *, height: int = 46) -> tuple[RenderableType, list[str]]:
    """Return the whole screen, at most ``height`` lines of it, and the sources of its rows, in order.

    Without a ``look``, nobody presses keys: it is the daemon's state, with no row marked.
    """
    rows = _Rows(-1 if look is None else look.marked)
    screen = Screen.STATE if look is None else look.screen
    if look is not None and screen is Screen.SOURCES:
        body = _sources(seen, look, rows, most=max(1, height - 5))
    elif look is not None and screen is Screen.SOURCE:
        body = _source(seen, look, height=height)
    else:
        body = _state(seen, rows, most=max(1, (height - _TITLE_LINES) // 3))
    keys = [] if look is None else [Text(f"\n{_HELP[screen]}", style="dim")]
    return Group(_head(seen), *body, *keys), rows.sources


_HELP = {
    Screen.STATE: "↑↓ mark  ⏎ open  / find a source  s sources  q quit",
    Screen.SOURCES: "↑↓ mark  ⏎ open  / find  s order  Esc back  q quit",
    Screen.SOURCE: "Esc back  / find a source  q quit",
}


def _head(seen: Seen) -> Text:
    failed = [name for name, holds in seen.ready["checks"].items() if not holds]
    state = "ready" if seen.ready["ready"] else f"not ready: {', '.join(failed)}"
    head = Text.assemble(("proxyd ", "bold"), visible_line(seen.where), "  ")
    head.append(visible_line(state), style="green" if seen.ready["ready"] else "bold red")
    if seen.trouble is not None:
        head.append(f"  {visible_line(seen.trouble)}", style="bold red")
    return head


def _state(seen: Seen, rows: _Rows, *, most: int) -> Iterator[RenderableType]:
    yield from (Text(line) for line in health_lines(seen.samples))
    coming = ((each["source"], _coming(each, seen.at)) for each in seen.plan[:most])
    yield from rows.listed("coming probes", ["at", "source", "reason", "rule"], coming)
    failing = ((each["source"], _failing(each, seen.at)) for each in seen.failing[:most])
    head = ["source", "failures", "last outcome", "next probe"]
    yield from rows.listed("failing or silent sources", head, failing)
    news = ((each["source"], _new(each, seen.at)) for each in seen.news[:most])
    yield from rows.listed("newest notifications", ["created", "rule", "source", "what"], news)


def _sources(seen: Seen, look: Look, rows: _Rows, *, most: int) -> Iterator[RenderableType]:
    cursor = "▏" if look.is_typing else ""
    searched = f" with {visible_line(look.text)}{cursor} in name or address" if look.text or look.is_typing else ""
    first = max(0, look.marked - most + 1)
    shown = seen.listed[first : first + most]
    rows.sources += [each["source"] for each in seen.listed[:first]]  # above the screen
    listed = ((each["source"], _listed(each, seen.at)) for each in shown)
    head = ["source", "items/day", "last probe", "next probe", "last outcome"]
    yield from rows.listed(f"sources{searched}, {ORDERS[look.order]}", head, listed)


def _source(seen: Seen, look: Look, *, height: int) -> Iterator[RenderableType]:
    found = seen.explained
    if found is None or found["source"] != look.source:
        yield Text(f"\n{visible_line(look.source)}: asking the daemon", style="dim")
        return
    title, *lines = found["summary"]
    yield Text(f"\n{visible_line(title)}", style="bold")
    table = _table(["seen", "", "item"])
    for event in seen.items[: max(1, height // 3)]:
        cells = (clock_time(event["seen"], seen.at), *item_title(event))
        table.add_row(*(Text(visible_line(cell, _CELL)) for cell in cells))
    yield table if seen.items else Text("no items yet", style="dim")
    yield Text("\nwhy it is probed when it is", style="bold")
    yield from (Text(visible_line(line, 500)) for line in lines)


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


def clock_time(time: str, now: datetime) -> str:
    """Return a time of the API as the clocks here show it: as a time on the day of ``now``, else as a date.

    >>> clock_time("2026-01-31T12:00:00.123Z", datetime.fromisoformat("2026-03-01T12:00:00+00:00"))
    '31 Jan'
    """
    at, here = datetime.fromisoformat(time).astimezone(now.tzinfo), now
    if at.date() == here.date():
        return f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b}" if at.year == here.year else f"{at:%b %Y}"


def _coming(probe: ComingProbe, now: datetime) -> list[str]:
    return [clock_time(probe["at"], now), probe["source"], probe["reason"], probe["rule"] or "-"]


def _failing(source: SourceListed, now: datetime) -> list[str]:
    return [source["source"], str(source["failures"]), last_outcome(source, _CELL), _next(source, now)]


def _listed(source: SourceListed, now: datetime) -> list[str]:
    last = source["last_probe"]
    return [
        source["source"],
        f"{source['rate_per_day']:.2f}",
        clock_time(last, now) if last else "-",
        _next(source, now),
        last_outcome(source, _CELL),
    ]


def _next(source: SourceListed, now: datetime) -> str:
    planned = source["next_probe"]
    return clock_time(planned["at"], now) if planned else source["blocked_by"] or "-"


def _new(notification: NotificationListed, now: datetime) -> list[str]:
    return [
        clock_time(notification["created"], now),
        notification["rule"],
        notification["source"],
        first_row(notification["body"]),
    ]
