"""What a source has shown, for people: titles, links and values, and what an update changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxyd.core.model.item import EventKind, Value
from proxyd.core.rules.answers.item_texts import OF_FEEDS, OF_ITEMS, is_of_feed, readable, texts_of
from proxyd.core.rules.programs.message_program import link_of, title_of, value_change
from proxyd.core.rules.state import StoredEvent

_MOST_BLOCKS = 200  # of a text that is compared; a longer one changed as a whole
_MOST_TITLE, _MOST_VALUE, _MOST_TEXT = 300, 300, 500


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An item that came, changed or went away.

    Parameters
    ----------
    position
        Its number among the events of its source.
    is_first
        Whether the item was there at first contact.
    text
        The beginning of the other texts of an item of a feed, without markup; empty for an item of a page.
    values
        The fields of an item of a page, without its link; empty for an item of a feed.
    changes
        What an update changed, by field: ``from`` and ``to``, or the ``difference`` of longer texts.
    event_s, seen_s
        When it happened by its own time, or by our estimate, and when it was seen; unix seconds.
    is_exact
        Whether the item gives its own time.
    """

    position: int
    kind: EventKind
    item_id: str
    is_first: bool
    title: str
    link: str | None
    text: str
    values: Mapping[str, Value]
    changes: Mapping[str, Any]
    event_s: float
    seen_s: float
    is_exact: bool


def shown_event(event: StoredEvent) -> ShownEvent:
    """Return an event as it is shown.

    >>> from proxyd.core.model.item import Item
    >>> old, new = (Item("kettle", {"name": "Kettle", "price": price}, None, "") for price in (30, 25))
    >>> found = shown_event(StoredEvent(2, new, 60.0, 90.0, False, seed=False, kind=EventKind.UPDATE, old=old))
    >>> found.title, dict(found.values), dict(found.changes)
    ('Kettle', {'name': 'Kettle', 'price': 25}, {'price': {'from': 30, 'to': 25}})
    """
    fields = event.item.fields
    before = fields if event.old is None else event.old.fields
    own = (name for name in dict.fromkeys([*fields, *before]) if name.startswith(OF_ITEMS) or not _is_of_channel(name))
    pairs = {name: (_compared(name, before.get(name)), _compared(name, fields.get(name))) for name in own}
    link = link_of(fields) or None
    return ShownEvent(
        position=event.seq,
        kind=event.kind,
        item_id=event.item.item_id,
        is_first=event.seed,
        title=" ".join(title_of(fields).split())[:_MOST_TITLE],
        link=link,
        text=" ".join(texts_of(fields)[1:])[:_MOST_TEXT] if is_of_feed(fields) else "",
        values=_values(fields, link),
        changes={name: value_change(old, new, most=_MOST_BLOCKS) for name, (old, new) in pairs.items() if old != new},
        event_s=event.event_s,
        seen_s=event.seen_s,
        is_exact=event.exact,
    )


def _is_of_channel(name: str) -> bool:
    return name.startswith(OF_FEEDS)


def _compared(name: str, value: Value) -> Value:
    """Return a value as people compare it: texts of feeds without markup."""
    return readable(value) if name.startswith(OF_ITEMS) and isinstance(value, str) and "<" in value else value


def _values(fields: Mapping[str, Value], link: str | None) -> dict[str, Value]:
    own = (name for name, value in fields.items() if not _is_of_channel(name) and value != link)
    return {name: _cut(fields[name]) for name in own}


def _cut(value: Value) -> Value:
    return f"{value[: _MOST_VALUE - 1]}…" if isinstance(value, str) and len(value) > _MOST_VALUE else value
