"""How much room the stored items and their updates take, day by day, and how many days fit into a size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Column, Select, Subquery, func, select

from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.rows import DAY_S
from proxyd.store.statements import day_of

_SAMPLED = 1000  # of the newest rows, whose mean size is taken for all


@dataclass(frozen=True, slots=True)
class ItemSizes:
    """The number of stored items, and the approximate bytes of items and updates by the day that saw them last."""

    items: int
    bytes_by_day: dict[int, float]

    @property
    def total_bytes(self) -> float:
        """The bytes of all days."""
        return sum(self.bytes_by_day.values())


async def measure_items(read: StoreReader) -> ItemSizes:
    """Return how many items are stored, and how large they are."""
    items, updates = t.items.c, t.changes.c
    there = await _by_day(read, items.present_s)
    changed = await _by_day(read, updates.seen_s)
    size = await _mean(
        read, select((func.length(items.fields) + func.length(items.words)).label("size")), items.position
    )
    both = func.length(updates.fields) + func.coalesce(func.length(updates.old_fields), 0)
    size_of_update = await _mean(read, select(both.label("size")), updates.seen_s)
    found: Counter[int] = Counter()
    for day, count in there.items():
        found[day] += round(count * size)
    for day, count in changed.items():
        found[day] += round(count * size_of_update)
    return ItemSizes(sum(there.values()), {day: float(found[day]) for day in sorted(found)})


async def _by_day(read: StoreReader, time_s: Column[float]) -> dict[int, int]:
    day = day_of(time_s)
    return {row[0]: row[1] for row in await read(select(day, func.count()).group_by(day))}


async def _mean(read: StoreReader, sizes: Select[*tuple[int]], order: Column[float]) -> float:
    newest: Subquery = sizes.order_by(order.desc()).limit(_SAMPLED).subquery()
    found = (await read(select(func.avg(newest.c.size))))[0][0]
    return float(found or 0.0)


def fitting_since_s(sizes: ItemSizes, most_bytes: float) -> float | None:
    """Return since when all that is stored fits into a size, in unix seconds, or ``None`` if everything does.

    The newest day always stays.

    >>> fitting_since_s(ItemSizes(3, {5: 10.0, 7: 10.0, 8: 10.0}), 20.0)
    604800.0
    """
    kept = 0.0
    days = sorted(sizes.bytes_by_day, reverse=True)
    for newer, day in pairwise(days):
        kept += sizes.bytes_by_day[newer]
        if kept + sizes.bytes_by_day[day] > most_bytes:
            return newer * DAY_S
    return None
