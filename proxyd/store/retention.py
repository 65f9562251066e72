"""Deletes old rows that are no longer needed, and finds how far back the stored items fit a size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Column, ColumnElement, Select, Subquery, Table, and_, delete, exists, func, or_, select, tuple_

from proxyd.store import rows
from proxyd.store.api_rows import KEPT_ANSWERS_S
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.declared_rows import KEPT_REMOVED_S
from proxyd.store.outbox import WAITING
from proxyd.store.rows import DAY_S
from proxyd.store.statements import day_of
from proxyd.store.writer import Writer

_MOST_DELETED = 5_000  # in one commit
_KEPT_PROBES_S = 7 * 86400.0  # at one probe a second these are 600,000 rows
_MOST_PROBES = 2_000_000
_MOST_DEEDS = 1_000_000
_KEPT_SITES_S = 400 * 86400.0  # a year can be compared with the one before


async def expire(writer: Writer, now_s: float, *, retention_s: float) -> int:
    """Delete what is older than ``retention_s`` and no longer needed; return the number of rows."""
    # A source's last window stays, however old: otherwise its items would be new again. Undelivered notifications and
    # the newest one stay too: no later one may get its position.
    horizon = now_s - retention_s
    deleted = await expire_items(writer, horizon)
    newest = select(func.max(t.notifications.c.position)).scalar_subquery()
    pending = select(t.outbox.c.notification_id).where(t.outbox.c.state.in_(WAITING))
    last = select(func.max(t.probes.c.position)).scalar_subquery()
    newest_deed = select(func.max(t.audit.c.position)).scalar_subquery()
    probes_s = now_s - min(retention_s, _KEPT_PROBES_S)
    # by position, in which probes are stored as they end: an index of their times would be a page of each commit
    kept = select(t.probes.c.position).where(t.probes.c.started_s >= probes_s).order_by(t.probes.c.position).limit(1)
    first_kept = func.coalesce(kept.scalar_subquery(), last + 1)
    old: list[tuple[Table, ColumnElement[bool]]] = [
        (t.source_events, t.source_events.c.seen_s < horizon),
        (t.intervals, t.intervals.c.probed_s < horizon),
        (t.accounts, t.accounts.c.day < int(horizon // rows.DAY_S)),
        (
            t.notifications,
            and_(
                t.notifications.c.created_s < horizon,
                t.notifications.c.notification_id.not_in(pending),
                t.notifications.c.position < newest,
            ),
        ),
        (t.site_days, t.site_days.c.day < int((now_s - _KEPT_SITES_S) // rows.DAY_S)),
        (t.incidents, t.incidents.c.began_s < now_s - _KEPT_SITES_S),
        (t.lanes, t.lanes.c.due_s.is_(None)),
        (t.tokens, t.tokens.c.expires_s < now_s),
        (t.followers, t.followers.c.lease_until_s < now_s),
        (t.audit, or_(t.audit.c.at_s < horizon, t.audit.c.position <= newest_deed - _MOST_DEEDS)),
        (t.removed, t.removed.c.at_s < now_s - KEPT_REMOVED_S),
        (t.answers, t.answers.c.answered_s < now_s - KEPT_ANSWERS_S),
        (t.probes, or_(t.probes.c.position < first_kept, t.probes.c.position <= last - _MOST_PROBES)),
    ]
    return deleted + sum([await delete_in_parts(writer, table, condition) for table, condition in old])


async def expire_items(writer: Writer, horizon_s: float) -> int:
    """Delete items and updates from before a time, and return the number.

    The last window of each source stays, starred items stay, and the newest item: no later one may get its position.
    """
    c = t.items.c
    is_past = or_(c.present_s < _newest_window(), c.gone_s.is_not(None))
    is_starred = exists().where(t.marks.c.position == c.position, t.marks.c.starred_s.is_not(None))
    newest = select(func.max(t.items.alias("all_items").c.position)).scalar_subquery()
    expired = and_(c.present_s < horizon_s, is_past, ~is_starred, c.position < newest)
    deleted = await delete_in_parts(writer, t.items, expired)
    return deleted + await delete_in_parts(writer, t.changes, t.changes.c.seen_s < horizon_s)


async def delete_in_parts(writer: Writer, table: Table, condition: ColumnElement[bool]) -> int:
    """Delete rows in parts, so that others can write between them; return how many."""
    keys = tuple(table.primary_key)
    key = keys[0] if len(keys) == 1 else tuple_(*keys)
    # what a notifier writes just now is left to the next time: each would wait for the other
    some = select(*keys).where(condition).limit(_MOST_DELETED).with_for_update(of=table, skip_locked=True)
    gone_now = delete(table).where(key.in_(some))
    deleted = 0
    while gone := await writer.submit(lambda connection: connection.execute(gone_now).rowcount):
        deleted += gone
    return deleted


def _newest_window() -> ColumnElement[float]:
    """Return when an item's source was last read completely."""
    window = t.items.alias("newest_window")
    newest = select(func.max(window.c.present_s)).where(window.c.source_id == t.items.c.source_id)
    return newest.scalar_subquery()


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
