"""The screens of `proxyd top`: what keys change, and what is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from math import isfinite
from textwrap import wrap
from types import MappingProxyType
from typing import NamedTuple

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
MOST_LISTED = 200
"""The most sources that are listed."""
UNFINISHED = re.compile(r"\x1b([\[O][0-9;]{0,16})?$")
"""The beginning of a key at the end of what a terminal sent."""
_CELL, _LINE, _LONGEST_TEXT, _MOST_ROWS = 120, 500, 100, 20
_TIMES, _CLOCK = frozenset({"at", "created", "next probe", "last probe"}), 8
_HALF_DAY_S = 12 * 3600.0
_STATE_LINES, _LIST_LINES, _SOURCE_LINES = 16, 6, 5  # of each screen, without the rows of its lists and the text
_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "k"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "j"), "down"),
    **dict.fromkeys(("\r", "\n", "\x1b[C", "\x1bOC"), "enter"),
    **dict.fromkeys(("\x1b", "\x1b[D", "\x1bOD", "\x7f", "\x08"), "back"),
    **dict.fromkeys("qQ", "quit"),
}
_PRESSED = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|\x1b.|.", re.DOTALL)


class Screen(Enum):
    """A screen: the daemon's state, its sources, or one source."""

    STATE = "state"
    SOURCES = "sources"
    SOURCE = "source"


class Row(NamedTuple):
    """A row of a list: a key that no other row has, and its source."""

    key: str
    source: str


@dataclass(frozen=True, slots=True)
class TopState:
    """The screen that is shown, and what was chosen on it.

    Parameters
    ----------
    text, is_typing
        Part of the names or addresses of the listed sources, and whether keys are added to it.
    order
        The order of the listed sources.
    marked, number
        The key of the marked row, and its number, which counts if that row is gone. The number is that of the first
        line on the screen of one source.
    source, before
        The source that is shown, and the state in which it was opened.
    """

    screen: Screen = Screen.STATE
    text: str = ""
    is_typing: bool = False
    order: SourceOrder = "name"
    marked: str = ""
    number: int = 0
    source: str = ""
    before: TopState | None = None

    def place(self, rows: Sequence[Row]) -> int:
        """Return the number of the marked row, 0 if there are no rows."""
        found = (number for number, row in enumerate(rows) if row.key == self.marked)
        return next(found, max(0, min(self.number, len(rows) - 1)))


@dataclass(frozen=True, slots=True)
class Listed:
    """The sources with a text in name or address, in an order."""

    text: str
    order: SourceOrder
    sources: Sequence[SourceListed]


@dataclass(frozen=True, slots=True)
class Opened:
    """A source, and its newest items."""

    explained: Explained
    items: Sequence[ItemEvent]


@dataclass(frozen=True, slots=True)
class Seen:
    """The daemon's last answers; ``trouble`` is why it no longer answers, ``at`` the time here."""

    where: str
    ready: Readiness
    samples: Samples
    at: datetime
    plan: Sequence[ComingProbe] = ()
    failing: Sequence[SourceListed] = ()
    news: Sequence[NotificationListed] = ()
    listed: Listed | None = None
    opened: Opened | None = None
    trouble: str | None = None


# -- keys


def keys_in(pressed: str) -> list[str]:
    r"""Return the keys of what a terminal sent.

    >>> keys_in("\x1b[Aé/")
    ['\x1b[A', 'é', '/']
    """
    return _PRESSED.findall(pressed)


def after(state: TopState, key: str, rows: Sequence[Row]) -> TopState | None:
    """Return the state after a key, or ``None`` if it ends the view; ``rows`` are those of its frame.

    >>> after(TopState(), "/", []).screen, after(TopState(), "q", [])
    (<Screen.SOURCES: 'sources'>, None)
    """
    if state.is_typing:
        return _typed(state, key)
    named = _KEYS.get(key, key)
    if named == "quit":
        return None
    change = _CHANGES.get(named)
    return state if change is None else change(state, rows)


def _up(state: TopState, rows: Sequence[Row]) -> TopState:
    return _moved(state, rows, -1)


def _down(state: TopState, rows: Sequence[Row]) -> TopState:
    return _moved(state, rows, 1)


def _moved(state: TopState, rows: Sequence[Row], by: int) -> TopState:
    if not rows:
        return state
    number = max(0, min(state.place(rows) + by, len(rows) - 1))
    return replace(state, number=number, marked=rows[number].key)


def _open(state: TopState, rows: Sequence[Row]) -> TopState:
    if not rows or state.screen is Screen.SOURCE:
        return state
    return TopState(Screen.SOURCE, order=state.order, source=rows[state.place(rows)].source, before=state)


def _back(state: TopState, _: Sequence[Row]) -> TopState:
    return state.before or TopState(order=state.order)


def _find(state: TopState, _: Sequence[Row]) -> TopState:
    return TopState(Screen.SOURCES, is_typing=True, order=state.order)


def _list(state: TopState, _: Sequence[Row]) -> TopState:
    """Return the list of sources, or that list in its next order."""
    if state.screen is not Screen.SOURCES:
        return TopState(Screen.SOURCES, order=state.order)
    orders = [*ORDERS]
    return replace(state, order=orders[(orders.index(state.order) + 1) % len(orders)], marked="", number=0)


_CHANGES: Mapping[str, Callable[[TopState, Sequence[Row]], TopState]] = MappingProxyType(
    {"up": _up, "down": _down, "enter": _open, "back": _back, "/": _find, "s": _list}
)


def _typed(state: TopState, key: str) -> TopState:
    """Return the text with one more character or one less; Enter keeps it, Escape empties it."""
    if key in {"\r", "\n", "\t"}:
        return replace(state, is_typing=False)
    if key == "\x1b":
        return replace(state, is_typing=False, text="")
    if key in {"\x7f", "\x08"}:
        return replace(state, text=state.text[:-1])
    is_text = len(key) == 1 and key.isprintable() and len(state.text) < _LONGEST_TEXT
    return replace(state, text=state.text + key) if is_text else state


# -- drawing


@dataclass(slots=True)
class _Lists:
    """Draws lists, one below the other, and marks one of their rows, if ``state`` is given."""

    state: TopState | None
    rows: list[Row] = field(default_factory=list)
    tables: list[tuple[Table, int]] = field(default_factory=list)

    def listed(
        self, title: str, head: Sequence[str], found: Iterable[tuple[Row, list[str]]], *, nothing: str
    ) -> list[RenderableType]:
        """Return a list under its title, one line per row."""
        rows = list(found)
        if not rows:
            return [_line(f"\n{nothing}", style="dim")]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in head:
            width = max(len(name), _CLOCK if name in _TIMES else 0)  # these are never cut
            table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=width)
        self.tables.append((table, len(self.rows)))
        for row, cells in rows:
            self.rows.append(row)
            table.add_row(*(Text(visible_line(cell, _CELL)) for cell in cells))
        return [_line(f"\n{title}", style="bold"), table]

    def mark(self) -> None:
        """Mark a row, once all lists are made."""
        if self.state is None or not self.rows:
            return
        place = self.state.place(self.rows)
        table, first = next(found for found in reversed(self.tables) if found[1] <= place)
        if place - first < len(table.rows):
            table.rows[place - first].style = "reverse"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def frame(
    seen: Seen, state: TopState | None = None, *, height: int = 46, width: int = 120
) -> tuple[RenderableType, list[Row]]:
    """Return the whole screen, at most ``height`` lines of it, and its rows in order.

    Without a ``state``, nobody presses keys: it is the daemon's state, with no row marked.
    """
    lists = _Lists(state)
    screen = Screen.STATE if state is None else state.screen
    if state is not None and screen is Screen.SOURCE:
        body, rows = _source(seen, state, most=max(1, height - _SOURCE_LINES), width=width)
    elif state is not None and screen is Screen.SOURCES:
        body, rows = [*_sources(seen, state, lists, most=max(1, height - _LIST_LINES))], lists.rows
    else:
        body, rows = [*_state(seen, lists, room=max(3, height - _STATE_LINES))], lists.rows
    lists.mark()
    keys = [] if state is None else [_line(f"\n{_HELP[screen]}", style="dim")]
    return Group(_head(seen), *body, *keys), rows


_HELP = {
    Screen.STATE: "↑↓ mark  ⏎ open  / find a source  s sources  q quit",
    Screen.SOURCES: "↑↓ mark  ⏎ open  / find  s order  Esc back  q quit",
    Screen.SOURCE: "↑↓ scroll  Esc back  / find a source  q quit",
}


def _head(seen: Seen) -> Text:
    failed = [name for name, holds in seen.ready["checks"].items() if not holds]
    state = "ready" if seen.ready["ready"] else f"not ready: {', '.join(failed)}"
    head = Text.assemble(("proxyd ", "bold"), visible_line(seen.where), "  ", no_wrap=True, overflow="ellipsis")
    head.append(visible_line(state), style="green" if seen.ready["ready"] else "bold red")
    if seen.trouble is not None:
        head.append(f"  {visible_line(seen.trouble)}", style="bold red")
    return head


def shares(room: int, wanted: Sequence[int]) -> list[int]:
    """Return how many rows each list has: all as many, but what one does not need goes to the others.

    >>> shares(9, [20, 0, 20]), shares(9, [1, 2, 3]), shares(2, [5, 5, 5])
    ([5, 0, 4], [1, 2, 3], [1, 1, 0])
    """
    found = [0] * len(wanted)
    for _ in range(room):
        left = [number for number, many in enumerate(wanted) if found[number] < many]
        if left:
            found[min(left, key=lambda number: found[number])] += 1
    return found


def _state(seen: Seen, lists: _Lists, *, room: int) -> Iterator[RenderableType]:
    yield from (_line(line) for line in health_lines(seen.samples))
    probes, fails, told = shares(room, [min(_MOST_ROWS, len(each)) for each in (seen.plan, seen.failing, seen.news)])
    coming = ((Row(f"coming {p['source']} {p['at']}", p["source"]), _coming(p, seen.at)) for p in seen.plan[:probes])
    yield from lists.listed("coming probes", ["at", "source", "reason", "rule"], coming, nothing="no coming probes")
    failing = ((Row(f"failing {s['source']}", s["source"]), _failing(s, seen.at)) for s in seen.failing[:fails])
    head, called = ["source", "failures", "last outcome", "next probe"], "failing or silent sources"
    yield from lists.listed(called, head, failing, nothing=f"no {called}")
    news = ((Row(f"new {n['id']}", n["source"]), _new(n, seen.at)) for n in seen.news[:told])
    head, called = ["created", "rule", "source", "what"], "newest notifications"
    yield from lists.listed(called, head, news, nothing=f"no {called}")


def _sources(seen: Seen, state: TopState, lists: _Lists, *, most: int) -> Iterator[RenderableType]:
    found = seen.listed
    cursor = "▏" if state.is_typing else ""
    searched = f" with {visible_line(state.text)}{cursor} in name or address" if state.text or state.is_typing else ""
    if found is None or (found.text, found.order) != (state.text, state.order):
        yield _line(f"\nsources{searched}: {_waiting(seen)}", style="dim")
        return
    rows = [Row(each["source"], each["source"]) for each in found.sources]
    first = max(0, state.place(rows) - most + 1)
    lists.rows += rows[:first]  # above the screen
    shown = zip(rows[first : first + most], found.sources[first : first + most], strict=True)
    listed = ((row, _listed(each, seen.at)) for row, each in shown)
    head = ["source", "items/day", "last probe", "next probe", "last outcome"]
    many = f"the first {MOST_LISTED} " if len(rows) >= MOST_LISTED else ""
    title = f"{many}sources{searched}, {ORDERS[state.order]}"
    yield from lists.listed(title, head, listed, nothing=f"no sources{searched}")
    lists.rows += rows[first + most :]


def _source(seen: Seen, state: TopState, *, most: int, width: int) -> tuple[list[RenderableType], list[Row]]:
    """Return the lines of a source that fit, and a row for each line that may be the first of them."""
    found = seen.opened
    if found is None or found.explained["source"] != state.source:
        return [_line(f"\n{visible_line(state.source)}: {_waiting(seen)}", style="dim")], []
    title, *why = found.explained["summary"]
    lines = [_line(""), _line(visible_line(title), style="bold")]
    lines += [_line(_item(event, seen.at)) for event in found.items] or [_line("no items yet", style="dim")]
    lines += [_line(""), _line("why it is probed when it is", style="bold")]
    lines += [_line(part) for line in why for part in wrap(visible_line(line, _LINE), max(width, 20)) or [""]]
    rows = [Row(str(number), state.source) for number in range(max(1, len(lines) - most + 1))]
    first = state.place(rows)
    return [*lines[first : first + most]], rows


def _waiting(seen: Seen) -> str:
    """Return why there is no answer."""
    return "asking the daemon" if seen.trouble is None else visible_line(seen.trouble)


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
    """Return a time of the API as the clocks here show it; a time that is half a day away or more, as its date.

    >>> clock_time("2026-01-31T12:00:00.123Z", datetime.fromisoformat("2026-03-01T12:00:00+00:00"))
    '31 Jan'
    """
    at = datetime.fromisoformat(time).astimezone(now.tzinfo)
    if abs((at - now).total_seconds()) < _HALF_DAY_S:
        return f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b}" if at.year == now.year else f"{at:%b %Y}"


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


def _item(event: ItemEvent, now: datetime) -> str:
    happened, title = item_title(event)
    return f"{clock_time(event['seen'], now):8}  {happened:7}  {visible_line(title)}"


def _new(notification: NotificationListed, now: datetime) -> list[str]:
    return [
        clock_time(notification["created"], now),
        notification["rule"],
        notification["source"],
        first_row(notification["body"]),
    ]
