"""How the numbers of a source changed over time, such as the price that a page states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.message_program import title_of

_MOST_SERIES, _MOST_TITLE, _LARGEST = 4, 120, 1e100
Numbers = Mapping[str, float | None]
"""The numbers of an item by the paths of their fields; ``None`` where it has none."""


@dataclass(frozen=True, slots=True)
class NumberEvent:
    """The numbers of an item that came, changed or went away, and when that was seen, in unix seconds."""

    item_id: str
    title: str
    kind: EventKind
    seen_s: float
    numbers: Numbers

    @classmethod
    def of(cls, event: StoredEvent, names: Iterable[str]) -> Self:
        """Return what an event says of the fields of some paths."""
        title = " ".join(title_of(event.item.fields).split())[:_MOST_TITLE]
        return cls(event.item.item_id, title, event.kind, event.seen_s, _numbers_of(event.item, names))


@dataclass(frozen=True, slots=True)
class NumberSeries:
    """A number of an item over time, oldest first: when a value was first seen, ``None`` while there is none."""

    path: str
    item_id: str
    title: str
    points: tuple[tuple[float, float | None], ...]


def number_series(events: Sequence[NumberEvent]) -> list[NumberSeries]:
    """Return how the numbers of events, which are newest first, changed: those that changed most often.

    >>> first = NumberEvent("lamp", "Lamp", EventKind.INSERT, 10.0, {"price": 30.0})
    >>> cheaper = NumberEvent("lamp", "Lamp", EventKind.UPDATE, 90.0, {"price": 25.0})
    >>> [each.points for each in number_series([cheaper, first])]
    [((10.0, 30.0), (90.0, 25.0))]
    """
    points: dict[tuple[str, str], list[tuple[float, float | None]]] = defaultdict(list)
    titles: dict[str, str] = {}
    for each in events:
        titles.setdefault(each.item_id, each.title)
        numbers = dict.fromkeys(each.numbers) if each.kind is EventKind.DELETE else each.numbers
        for path, number in numbers.items():
            points[path, each.item_id].append((each.seen_s, number))
    found = [
        NumberSeries(path, item_id, titles[item_id], _changes(own[::-1])) for (path, item_id), own in points.items()
    ]
    return sorted((each for each in found if len(each.points) > 1), key=lambda each: -len(each.points))[:_MOST_SERIES]


def _changes(points: Sequence[tuple[float, float | None]]) -> tuple[tuple[float, float | None], ...]:
    """Return the points at which the number is another one than before."""
    before = [None, *(number for _, number in points)]
    return tuple(point for point, old in zip(points, before, strict=False) if point[1] != old)


def _numbers_of(item: Item, names: Iterable[str]) -> dict[str, float | None]:
    return {name: _number(item.fields.get(name)) for name in names}


def _number(value: Value) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        return None
    return float(value)
