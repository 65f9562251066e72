"""The screens of `proxyd top`: what is drawn of the daemon's answers, and what each key does. It asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import isfinite
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxyd.base.metrics import SHARES, Samples
from proxyd.cli.printed_answers import about, first_row
from proxyd.cli.sources import item_title, last_outcome, shown_rate
from proxyd.core.texts.safe_text import visible_line

if TYPE_CHECKING:
    from proxyd.client.client import SourceOrder
    from proxyd.client.types import ComingProbe, Explained, ItemEvent, NotificationListed, Readiness, SourceListed

ORDERS: Mapping[SourceOrder, str] = MappingProxyType(
    {"name": "by name", "newest": "newest item first", "probed": "last probe first", "items": "most items first"}
)
"""The orders of the list of sources, in words."""
MOST, MOST_LISTED = 20, 200  # rows of a list on the first screen, and of the list of sources
_LONGEST_TEXT, _CELL, _LINE, _HALF_DAY_S = 100, 120, 500, 12 * 3600.0
_LISTS = {
    "coming probes": ("at", "source", "reason", "rule"),
    "failing or silent sources": ("source", "failures", "last outcome", "next probe"),
    "newest notifications": ("created", "rule", "source", "what"),
}
_HELP = {  # and the lines of each screen without the rows of its lists and the text
    "state": (16, "↑↓ mark  ⏎ open  / find a source  s sources  q quit"),
    "sources": (6, "↑↓ mark  ⏎ open  / find  s order  Esc back  q quit"),
    "source": (5, "↑↓ scroll  Esc back  / find a source  q quit"),
}
_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "k"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "j"), "down"),
    **dict.fromkeys(("\r", "\n", "\x1b[C", "\x1bOC"), "enter"),
    **dict.fromkeys(("\x1b", "\x1b[D", "\x1bOD", "\x7f", "\x08"), "back"),
}


class TopRow(NamedTuple):
    """A row that can be marked, or a first line: a key that no other row has, and its source."""

    key: str
    source: str


_Listing: TypeAlias = tuple[str, Sequence[str], list[tuple[TopRow, list[str]]], str]
"""A list: its title, its columns, its rows with their cells, and what is said if there are none."""


@dataclass(frozen=True, slots=True)
class TopState:
    """The screen (state, sources or source) and what was chosen on it."""

    screen: str = "state"
    text: str = ""  # part of the names of the sources that are listed
    is_typing: bool = False
    order: SourceOrder = "name"
    marked: str = ""
    number: int = 0  # of the marked row, by which it counts once it is gone
    source: str = ""
    before: TopState | None = None  # where `source` was opened

    def place(self, rows: Sequence[TopRow]) -> int:
        """Return the number of the marked row, 0 if there are no rows."""
        keys = [row.key for row in rows]
        return keys.index(self.marked) if self.marked in keys else max(0, min(self.number, len(rows) - 1))


@dataclass(frozen=True, slots=True)
class Seen:
    """The daemon's last answers, with the text and order of the list; ``trouble`` is why it does not answer."""

    where: str
    at: datetime
    ready: Readiness
    samples: Samples
    plan: Sequence[ComingProbe] = ()
    failing: Sequence[SourceListed] = ()
    news: Sequence[NotificationListed] = ()
    listed: tuple[tuple[str, SourceOrder], Sequence[SourceListed]] | None = None
    opened: tuple[Explained, Sequence[ItemEvent]] | None = None
    trouble: str | None = None


def after(state: TopState, key: str, rows: Sequence[TopRow]) -> TopState | None:
    """Return the state after a key, or ``None`` if it ends the view; ``rows`` are those of its frame."""
    if state.is_typing and key:
        return _after_typing(state, key)
    named, orders = _KEYS.get(key, key), [*ORDERS]
    if named in {"up", "down"} and rows:
        number = max(0, min(state.place(rows) + (1 if named == "down" else -1), len(rows) - 1))
        return replace(state, number=number, marked=rows[number].key)
    if named == "enter" and rows and state.screen != "source":
        return TopState("source", order=state.order, source=rows[state.place(rows)].source, before=state)
    if named == "s" and state.screen == "sources":
        return replace(state, order=orders[(orders.index(state.order) + 1) % len(orders)], marked="", number=0)
    others: dict[str, TopState | None] = {
        "": None,
        "q": None,
        "Q": None,
        "back": state.before or TopState(order=state.order),
    }
    others |= {"/": TopState("sources", is_typing=True, order=state.order), "s": TopState("sources", order=state.order)}
    return others.get(named, state)


def _after_typing(state: TopState, key: str) -> TopState:
    """Return the text with one more character or one less; Enter keeps it, Escape empties it."""
    if key in {"\r", "\n", "\t", "\x1b"}:
        return replace(state, is_typing=False, text="" if key == "\x1b" else state.text)
    if key in {"\x7f", "\x08"}:
        return replace(state, text=state.text[:-1])
    is_text = len(key) == 1 and key.isprintable() and len(state.text) < _LONGEST_TEXT
    return replace(state, text=state.text + key) if is_text else state


def frame(
    seen: Seen, state: TopState | None = None, *, height: int = 46, width: int = 120
) -> tuple[Group, list[TopRow]]:
    """Return the whole screen, at most ``height`` lines of it, and its rows; without a ``state`` none is marked."""
    chosen = state or TopState()
    lines, help_line = _HELP[chosen.screen]
    body: list[RenderableType] = []
    if chosen.screen == "source":
        texts, rows = _source(seen, chosen, max(1, height - lines), width)
        body += texts
    else:
        lists, rows = (_state if chosen.screen == "state" else _sources)(seen, chosen, max(1, height - lines))
        body += map(_line, health_lines(seen.samples) if chosen.screen == "state" else ())
        body += _tables(lists, rows[chosen.place(rows)] if state and rows else None)
    return Group(_head(seen), *body, *([_line(f"\n{help_line}", "dim")] if state else [])), rows


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _head(seen: Seen) -> Text:
    failed = ", ".join(name for name, holds in seen.ready["checks"].items() if not holds)
    head = _line("").append("proxyd ", "bold").append(f"{visible_line(seen.where)}  ")
    head.append(*("ready", "green") if seen.ready["ready"] else (visible_line(f"not ready: {failed}"), "bold red"))
    return head if seen.trouble is None else head.append(f"  {visible_line(seen.trouble)}", "bold red")


def _tables(lists: Sequence[_Listing], marked: TopRow | None) -> Iterator[RenderableType]:
    for title, head, found, nothing in lists:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in head:  # times are never cut
            least = 8 if name in {"at", "created", "next probe", "last probe"} else 0
            table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=max(len(name), least))
        for row, cells in found:
            shown = (Text(visible_line(cell, _CELL)) for cell in cells)
            table.add_row(*shown, style="reverse" if row == marked else None)
        yield _line(f"\n{title}", "bold") if found else _line(f"\n{nothing}", "dim")
        if found:
            yield table


def _rows(kind: str, entries: Sequence[Any], cells: Callable[[Any], list[str]]) -> list[tuple[TopRow, list[str]]]:
    return [(TopRow(f"{kind} {e['source']} {e.get('id')} {e.get('at')}", e["source"]), cells(e)) for e in entries]


def _state(seen: Seen, _: TopState, room: int) -> tuple[list[_Listing], list[TopRow]]:
    """Return the lists of the daemon's state: as many rows of each, but what one does not need goes to the others."""
    at = partial(clock_time, now=seen.at)
    coming = _rows("coming", seen.plan, lambda p: [at(p["at"]), p["source"], p["reason"], p["rule"] or "-"])
    outcome = partial(last_outcome, most=_CELL)
    failing = _rows("bad", seen.failing, lambda s: [s["source"], str(s["failures"]), outcome(s), _next(s, seen.at)])
    news = _rows("new", seen.news, lambda n: [at(n["created"]), n["rule"], n["source"], first_row(n["body"])])
    counts, wanted = [0, 0, 0], [min(MOST, len(found)) for found in (coming, failing, news)]
    for _turn in range(max(3, room)):
        left = [number for number in range(3) if counts[number] < wanted[number]]
        counts[min(left, key=counts.__getitem__, default=0)] += bool(left)
    shown = [found[:count] for found, count in zip((coming, failing, news), counts, strict=True)]
    lists: list[_Listing] = [
        (title, head, found, f"no {title}") for (title, head), found in zip(_LISTS.items(), shown, strict=True)
    ]
    return lists, [row for found in shown for row, _ in found]


def _sources(seen: Seen, state: TopState, room: int) -> tuple[list[_Listing], list[TopRow]]:
    typed = visible_line(state.text) + "▏" * state.is_typing
    searched = f"sources with {typed} in name or address" if typed else "sources"
    if seen.listed is None or seen.listed[0] != (state.text, state.order):
        return [("", (), [], f"{searched}: {_waiting(seen)}")], []

    def cells(source: SourceListed) -> list[str]:
        last, rate = source["last_probe"], shown_rate(source)
        times = [clock_time(last, seen.at) if last else "-", _next(source, seen.at)]
        return [source["source"], rate, *times, last_outcome(source, _CELL)]

    found = _rows("source", seen.listed[1], cells)
    first = max(0, state.place([row for row, _ in found]) - room + 1)
    title = f"{f'the first {MOST_LISTED} ' * (len(found) >= MOST_LISTED)}{searched}, {ORDERS[state.order]}"
    head = ["source", "items/day", "last probe", "next probe", "last outcome"]
    return [(title, head, found[first : first + room], f"no {searched}")], [row for row, _ in found]


def _source(seen: Seen, state: TopState, room: int, width: int) -> tuple[list[Text], list[TopRow]]:
    """Return the lines of a source that fit, and a row for each line that may be the first of them."""
    if seen.opened is None or seen.opened[0]["source"] != state.source:
        return [_line(f"\n{visible_line(state.source)}: {_waiting(seen)}", "dim")], []
    (title, *why), items = seen.opened[0]["summary"], seen.opened[1]
    lines = [_line(""), _line(visible_line(title), "bold")]
    for event in items:
        happened, name = item_title(event)
        lines.append(_line(f"{clock_time(event['seen'], seen.at):8}  {happened:7}  {visible_line(name)}"))
    lines += [_line("no items yet", "dim")] * (not items)
    lines += [_line(""), _line("why it is probed when it is", "bold")]
    lines += [_line(part) for line in why for part in wrap(visible_line(line, _LINE), max(width, 20)) or [""]]
    rows = [TopRow(str(number), state.source) for number in range(max(1, len(lines) - room + 1))]
    return lines[state.place(rows) :][:room], rows


def _waiting(seen: Seen) -> str:
    return "asking the daemon" if seen.trouble is None else visible_line(seen.trouble)


def _next(source: SourceListed, now: datetime) -> str:
    planned = source["next_probe"]
    return clock_time(planned["at"], now) if planned else source["blocked_by"] or "-"


def clock_time(time: str, now: datetime) -> str:
    """Return a time of the API as the clocks here show it; if it is half a day away or more, its date."""
    at = datetime.fromisoformat(time).astimezone(now.tzinfo)
    if abs((at - now).total_seconds()) < _HALF_DAY_S:
        return f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b}" if at.year == now.year else f"{at:%b %Y}"


def health_lines(samples: Samples) -> list[str]:
    """Return the daemon's health in a few lines."""

    def shown(name: str, style: str = ",.0f") -> str:
        value = samples.values.get(f"proxyd_{name}")
        return "-" if value is None or not isfinite(value) else format(value, style)

    in_time, used = (shown(f"{each}_ratio", ".1%") for each in ("completeness", "budget_used"))
    waiting, held, dead = (shown(f"outbox_{each}") for each in ("pending", "held", "dead"))
    elsewhere = "the notifier counts them: see /metrics of its machine" if samples.is_delivered_elsewhere else ""
    outbox = f"outbox: {waiting} waiting, {held} held, {dead} failed for good"
    return [
        f"in time {in_time}   budget used {used}",
        f"published to seen       {_delays(samples, 'proxyd_item_delay_seconds')}",
        f"published to delivered  {elsewhere or _delays(samples, 'proxyd_notification_delay_seconds')}",
        f"sources {shown('sources')}   rules {shown('rules')}   {outbox}",
    ]


def _delays(samples: Samples, name: str) -> str:
    delays = samples.delays(name)
    pairs = zip(SHARES, delays.percentiles, strict=True)
    told = "   ".join(f"{share:.0%} {'-' if delay_s is None else about(delay_s)}" for share, delay_s in pairs)
    return f"{told}   of {delays.count:,}" if delays.count else "nothing yet"
