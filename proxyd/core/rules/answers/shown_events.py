"""What a source has shown, for people: titles, links and values, and what an update changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from proxyd.core.model.item import EventKind, Value
from proxyd.core.model.text_blocks import MOST_READ, common_start_size, diff_blocks, readable, words_changed
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.message_program import change_in_words, link_of, price_text, title_of, value_change

OF_FEEDS, OF_ITEMS = "channel.", "channel.item."
_NAMES_OF_FEEDS = ("title", "description", "content", "author", "category")


def texts_of(fields: Mapping[str, Value]) -> list[str]:
    """Return what people read of an item: its title, which may be empty, then its other texts, each in one line.

    >>> texts_of({"channel.title": "All", "channel.item.title": "Sale", "channel.item.description": "<p>R&amp;D</p>"})
    ['Sale', 'R&D']
    >>> texts_of({"name": "Kettle", "price": 25, "link": "https://shop.example/1", "stock": "in stock"})
    ['Kettle', 'in stock']
    """
    if _is_of_feed(fields):
        own = [readable(fields.get(OF_ITEMS + name)) for name in _NAMES_OF_FEEDS]
    else:
        values = (value for name, value in fields.items() if not name.startswith(OF_FEEDS))
        own = [value[:MOST_READ] for value in values if isinstance(value, str) and "://" not in value[:9]]
    title, *texts = (" ".join(text.split()) for text in (title_of(fields), *own))
    return [title, *(text for text in dict.fromkeys(texts) if text and text != title)]


def _is_of_feed(fields: Mapping[str, Value]) -> bool:
    return any(name.startswith(OF_ITEMS) for name in fields)


def summary_of(fields: Mapping[str, Value]) -> str:
    """Return what a list shows of an item below its title: its other texts, with the price if it states one.

    >>> summary_of({"name": "Lamp", "price": 49.9, "currency": "EUR", "availability": "InStock"})
    '49.9 EUR InStock'
    >>> summary_of({"price": 49.9, "currency": "EUR", "availability": "InStock"})  # its title is the price
    'InStock'
    """
    texts = texts_of(fields)[1:]
    if _is_of_feed(fields) or fields.get("price") is None:
        return " ".join(texts)
    price, told = price_text(fields), (fields["price"], fields.get("currency"))
    others = [text for text in texts if text not in told]
    return " ".join(others if price == title_of(fields) else [price, *others])


_MOST_BLOCKS = 200  # of a text that is compared; a longer one changed as a whole
_MOST_TITLE, _MOST_VALUE, _MOST_TEXT = 300, 300, 500


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An item that came, changed or went away."""

    position: int  # its number among the events of its source
    kind: EventKind
    item_id: str
    is_first: bool  # whether the item was there at first contact
    is_old: bool  # whether it came later without being news, such as one that comes in at the old end of a page
    title: str
    link: str | None
    text: str  # the beginning of the other texts of an item of a feed, without markup; empty for an item of a page
    values: Mapping[str, Value]  # the fields of an item of a page, without its link; empty for an item of a feed
    # what an update changed, by field: ``from`` and ``to``, or the ``difference`` of longer texts
    changes: Mapping[str, Any]
    words: int | None  # how many words of its texts an update changed; None for others
    # ``event_s``, ``seen_s``: when it happened by its own time, or by our estimate, and when it was seen; unix
    # seconds
    event_s: float
    seen_s: float
    is_exact: bool  # whether the item gives its own time


def shown_event(event: StoredEvent, first_contact_s: float | None = None) -> ShownEvent:
    """Return an event as it is shown; ``first_contact_s`` is that of its source in unix seconds, if it is known.

    >>> from proxyd.core.model.item import Item
    >>> old, new = (Item("kettle", {"name": "Kettle", "price": price}, None, "") for price in (30, 25))
    >>> found = shown_event(StoredEvent(2, new, 60.0, 90.0, False, seed=False, kind=EventKind.UPDATE, old=old))
    >>> found.title, dict(found.values), dict(found.changes)
    ('Kettle', {'name': 'Kettle', 'price': 25}, {'price': {'from': 30, 'to': 25}})
    >>> found.words
    0
    """
    fields = event.item.fields
    link = link_of(fields) or None
    edited = _field_changes(event)
    return ShownEvent(
        position=event.seq,
        kind=event.kind,
        item_id=event.item.item_id,
        is_first=event.seed and not event.is_old(first_contact_s),
        is_old=event.is_old(first_contact_s),
        title=" ".join(title_of(fields).split())[:_MOST_TITLE],
        link=link,
        text=" ".join(texts_of(fields)[1:])[:_MOST_TEXT] if _is_of_feed(fields) else "",
        values=_values(fields, link),
        changes=_changes(edited),
        words=sum(starmap(_words_between, edited.values())) if event.kind is EventKind.UPDATE else None,
        event_s=event.event_s,
        seen_s=event.seen_s,
        is_exact=event.exact,
    )


def told_update(event: StoredEvent) -> dict[str, Value] | None:
    """Return an update of a page's item as people read it: its fields, with what changed in place of a value.

    ``None`` for items of feeds, which are read as they are now, and if nothing changed that is shown.

    >>> from proxyd.core.model.item import Item
    >>> old, new = (Item("kettle", {"name": "Kettle", "price": price}, None, "") for price in (30, 25))
    >>> told_update(StoredEvent(2, new, 60.0, 90.0, False, seed=False, kind=EventKind.UPDATE, old=old))
    {'name': 'Kettle', 'price': '30 → 25'}
    """
    if event.old is None or _is_of_feed(event.item.fields):
        return None
    # words are not counted: of a long text that took ten times as long as all else, while nobody else could write
    link, changes = link_of(event.item.fields) or None, _changes(_field_changes(event))
    told: dict[str, Value] = _values(event.item.fields, link) | ({} if link is None else {"link": link})
    return told | dict(map(_told, changes.items())) if changes else None


_MOST_BLOCKS_OF_A_KIND = 10  # of a difference that is shown in a line: so many that went, and so many that came
_MOST_CHARACTERS_IN_A_LINE = 20_000


def difference_in_a_line(text: str) -> str:
    r"""Return the beginning of a difference of texts in one line, with what a block was and what it is now together.

    Other texts are returned as they are.

    >>> difference_in_a_line("- Adults 4.50\n- Students 3 a day\n+ Adults 4.80\n+ Students 2 a day\n+ Dogs free")
    'Adults 4.50 → 4.80 Students 3 → 2 a day + Dogs free'
    >>> difference_in_a_line("- Tea\n+ Tea now\n- Bye")
    'Tea → Tea now - Bye'
    >>> difference_in_a_line("- Adults 4 €\n- Students 3 €\n+ Students 2 €")
    '- Adults 4 € Students 3 → 2 €'
    >>> difference_in_a_line("- Open\nMon 9-17\nTue 9-17\n+ Open\nMon 9-17\nTue 9-18")
    'Open Mon 9-17 Tue 9-17 → 9-18'
    """
    if text[:2] not in {"- ", "+ "}:
        return text
    blocks = [(each[0], each[1:].split()) for each in re.split(r"\n(?=[-+] )", text[:_MOST_CHARACTERS_IN_A_LINE])]
    gone, come = ([words for sign, words in blocks if sign == kind][:_MOST_BLOCKS_OF_A_KIND] for kind in "-+")
    told = [" ".join(["-", *words]) for words in gone]
    left = list(range(len(gone)))
    for words in come:
        alike = max(left, key=lambda number: _words_shared(gone[number], words), default=None)
        if alike is not None and 2 * _words_shared(gone[alike], words) >= min(len(gone[alike]), len(words)) > 0:
            told[alike] = _line_in_words(gone[alike], words)
            left.remove(alike)
        else:
            told.append(" ".join(["+", *words]))
    return " ".join(told)


def _words_shared(old: list[str], new: list[str]) -> int:
    """Return how many words two blocks have in common, at their beginnings and at their ends."""
    head = common_start_size(old, new)
    return head + common_start_size(old[head:][::-1], new[head:][::-1])


def _line_in_words(old: list[str], new: list[str]) -> str:
    """Return the words of a line that changed, before and after, among those that stayed."""
    head = common_start_size(old, new)
    tail = common_start_size(old[head:][::-1], new[head:][::-1])
    if min(len(old), len(new)) == head + tail:  # one of them has nothing between
        head, tail = (head - 1, tail) if head else (head, tail - 1)
    stop, new_stop = len(old) - tail, len(new) - tail
    change = {"from": " ".join(old[head:stop]), "to": " ".join(new[head:new_stop])}
    return " ".join([*old[:head], change_in_words(change), *old[stop:]])


def _field_changes(event: StoredEvent) -> dict[str, tuple[Value, Value]]:
    """Return the fields of an item that an event changed, before and after it."""
    fields = event.item.fields
    before = fields if event.old is None else event.old.fields
    own = (name for name in dict.fromkeys([*fields, *before]) if name.startswith(OF_ITEMS) or not _is_of_channel(name))
    pairs = ((name, _comparable(name, before.get(name)), _comparable(name, fields.get(name))) for name in own)
    return {name: (old, new) for name, old, new in pairs if old != new}


def _changes(edited: Mapping[str, tuple[Value, Value]]) -> dict[str, Any]:
    return {name: value_change(old, new, most=_MOST_BLOCKS) for name, (old, new) in edited.items()}


def _told(change: tuple[str, Mapping[str, Any]]) -> tuple[str, str]:
    name, how = change
    return name, how["difference"] if "difference" in how else change_in_words(how)


def _words_between(old: Value, new: Value) -> int:
    if not (isinstance(old, str) and isinstance(new, str)):
        return 0
    return words_changed(diff_blocks(old, new, most=_MOST_BLOCKS))


def _is_of_channel(name: str) -> bool:
    return name.startswith(OF_FEEDS)


def _comparable(name: str, value: Value) -> Value:
    """Return a value as people compare it: texts of feeds without markup."""
    return readable(value) if name.startswith(OF_ITEMS) and isinstance(value, str) and "<" in value else value


def _values(fields: Mapping[str, Value], link: str | None) -> dict[str, Value]:
    own = (name for name, value in fields.items() if not _is_of_channel(name) and value != link)
    return {name: _cut(fields[name]) for name in own}


def _cut(value: Value) -> Value:
    return f"{value[: _MOST_VALUE - 1]}…" if isinstance(value, str) and len(value) > _MOST_VALUE else value
