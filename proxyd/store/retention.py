"""Retention: deletes old rows that are no longer needed."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, and_, delete, func, or_, select, tuple_

from proxyd.store import rows
from proxyd.store.access_rows import KEPT_ANSWERS_S
from proxyd.store.databases import tables as t
from proxyd.store.outbox import WAITING
from proxyd.store.writer import Writer

_MOST_DELETED = 5_000  # in one commit
KEPT_PROBES_S = 7 * 86400.0  # at one probe a second these are 600,000 rows
MOST_PROBES = 2_000_000


async def expire(writer: Writer, now_s: float, *, retention_s: float) -> int:
    """Delete what is older than ``retention_s`` and no longer needed; return the number of rows.

    A source's last window stays, however old: otherwise its items would be new again. Undelivered notifications and
    the newest one stay too: no later one may get its position.
    """
    horizon = now_s - retention_s
    deleted = await expire_items(writer, horizon)
    newest = select(func.max(t.notifications.c.position)).scalar_subquery()
    pending = select(t.outbox.c.notification_id).where(t.outbox.c.state.in_(WAITING))
    last = select(func.max(t.probes.c.position)).scalar_subquery()
    probes_s = now_s - min(retention_s, KEPT_PROBES_S)
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
        (t.tokens, t.tokens.c.expires_s < now_s),
        (t.answers, t.answers.c.answered_s < now_s - KEPT_ANSWERS_S),
        (t.probes, or_(t.probes.c.started_s < probes_s, t.probes.c.position <= last - MOST_PROBES)),
    ]
    return deleted + sum([await _delete(writer, table, condition) for table, condition in old])


async def expire_items(writer: Writer, horizon_s: float) -> int:
    """Delete items and updates from before a time, except for the last window of each source; return the number."""
    is_past = or_(t.items.c.present_s < _newest_window(), t.items.c.gone_s.is_not(None))
    deleted = await _delete(writer, t.items, and_(t.items.c.present_s < horizon_s, is_past))
    return deleted + await _delete(writer, t.changes, t.changes.c.seen_s < horizon_s)


async def _delete(writer: Writer, table: Table, condition: ColumnElement[bool]) -> int:
    """Delete rows in parts, so that others can write between them; return how many."""
    keys = tuple(table.primary_key)
    key = keys[0] if len(keys) == 1 else tuple_(*keys)
    some = delete(table).where(key.in_(select(*keys).where(condition).limit(_MOST_DELETED)))
    deleted = 0
    while gone := await writer.submit(lambda connection: connection.execute(some).rowcount):
        deleted += gone
    return deleted


def _newest_window() -> ColumnElement[float]:
    """Return when an item's source was last read completely."""
    window = t.items.alias("newest_window")
    newest = select(func.max(window.c.present_s)).where(window.c.source_id == t.items.c.source_id)
    return newest.scalar_subquery()
