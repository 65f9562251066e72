"""Queries of what was notified, and of what led to a notification."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, Table, literal, select, union_all

from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.item import EventKind
from proxyd.queries import DecidedInterval, StoredNotification, Wanted
from proxyd.store import tables as t

_SAME_S = 0.0006  # times in a notification are rounded to the millisecond
MOST_FINDINGS = 100


def newest(wanted: Wanted, *, before: int | None) -> Select[*tuple[Any, ...]]:
    """Return a query of the notifications that are wanted, newest first."""
    query = _wanted(wanted).order_by(t.notifications.c.position.desc())
    return query if before is None else query.where(t.notifications.c.position < before)


def between(wanted: Wanted, after: int, until: int) -> Select[*tuple[Any, ...]]:
    """Return a query of the wanted notifications after one position, up to and with another, in their order."""
    position = t.notifications.c.position
    return _wanted(wanted).where(position > after, position <= until).order_by(position)


def _wanted(wanted: Wanted) -> Select[*tuple[Any, ...]]:
    c = t.notifications.c
    query = select(t.notifications)
    if wanted.rules is not None:
        query = query.where(c.rule.in_(sorted(wanted.rules)))
    if wanted.source_id is not None:
        query = query.where(c.source_id == wanted.source_id)
    return query if wanted.since_s is None else query.where(c.created_s >= wanted.since_s)


def intervals_of(notification: StoredNotification) -> Select[*tuple[Any, ...]]:
    """Return a query of the intervals on the pages of a notification that began when its own did, as they ended.

    A page may have had several in one chronon, found by probes one after the other: the notification belongs to one
    that was not probed after it was made.
    """
    c, data = t.intervals.c, _data(notification)
    start_s = _time_s(data.get("interval", {}).get("start"))
    pages = [page["source"] for page in data.get("pages", ())] or [notification.source_id]
    return (
        select(t.intervals)
        .where(c.rule == notification.rule, c.source_id.in_([*pages, *data.get("missing", ())]))
        .where(c.start_s.between(start_s - _SAME_S, start_s + _SAME_S))
        .where(c.probed_s.between(start_s - _SAME_S, notification.created_s + _SAME_S))  # no probe is before it
        .order_by(c.probed_s, c.interval_id)
    )


def intervals_of_rule(rule: str, since_s: float) -> Select[*tuple[Any, ...]]:
    """Return a query of the intervals of a rule that were decided since a time, newest first: an index has them so."""
    c = t.intervals.c
    return (
        select(t.intervals)
        .where(c.rule == rule, c.probed_s >= since_s)
        .order_by(c.probed_s.desc(), c.interval_id.desc())
    )


def latest_of_each(intervals: Iterable[DecidedInterval]) -> tuple[DecidedInterval, ...]:
    """Return the last interval of every page."""
    return tuple({each.source_id: each for each in intervals}.values())


def findings_of(notification: StoredNotification) -> Select[*tuple[Any, ...]]:
    """Return a query of the events that the probe which found a notification's event found, in their order."""
    seen_s = _time_s(_data(notification).get("event", {}).get("seen"))
    found = [
        _findings(table, kind, notification.source_id, seen_s)
        for table, kind in ((t.items, literal(EventKind.INSERT.value)), (t.changes, t.changes.c.kind))
    ]
    both = union_all(*found).subquery()
    return select(both).order_by(both.c.seq).limit(MOST_FINDINGS)


def _findings(table: Table, kind: Any, source_id: str, seen_s: float) -> Select[*tuple[Any, ...]]:
    c = table.c
    query = select(c.seq, kind.label("kind"), c.item_id, c.event_s, c.seen_s)
    return query.where(c.source_id == source_id, c.seen_s.between(seen_s - _SAME_S, seen_s + _SAME_S))


def _data(notification: StoredNotification) -> dict[str, Any]:
    """Return what a notification tells, nothing where it tells something else than notifications of today do."""
    try:
        body = json.loads(notification.body)
    except ValueError:
        return {}
    data = body.get("data") if isinstance(body, dict) else None
    return data if isinstance(data, dict) else {}


def _time_s(text: str | None) -> float:
    """Return unix seconds; where there is no time, one at which nothing was."""
    found = parse_iso(text) if text else None
    return float("-inf") if found is None else found
