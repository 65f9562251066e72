"""Queries of past notifications and what led to them, and of items by their words."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from sqlalchemy import Column, ColumnElement, Row, Select, Table, and_, case, func, literal, or_, select, union_all

from proxyd.core.model.delivery import shown_endpoint
from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import Picture
from proxyd.core.model.profile import full_name, owner_of
from proxyd.core.rules.answers.explanation import RuleWeek
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.listed_rows import (
    DeadDelivery,
    DecidedInterval,
    DeliveryAttempt,
    DeliveryStatus,
    FoundEvent,
    MadeProbe,
    NotificationTrace,
    RecentItems,
    SeenItem,
    StoredNotification,
    StoredNotifications,
    Wanted,
)
from proxyd.store.plan_rows import read_picture
from proxyd.store.statements import day_of, is_one_of

_FEW = 100_000  # intervals that are found faster by their numbers than by their times
_SAME_S = 0.0006  # times in a notification are rounded to the millisecond
_MOST_FINDINGS = 100
_IN_ANY_ORDER = 1000  # notifications
_EVENTS = (
    (t.items, literal(EventKind.INSERT.value)),
    (t.changes, t.changes.c.kind),
    (t.source_events, t.source_events.c.kind),
)
MOST_BYTES = 2_000_000
"""The most bytes of the bodies of notifications that are read at once, if there is more than one."""


class SqlHistory:
    """Reads history for people on connections of its own, so slow queries delay neither probes nor deliveries."""

    def __init__(self, read: StoreReader) -> None:
        self._read = read

    async def _deliveries(self, notification_ids: Sequence[str]) -> Mapping[str, tuple[DeliveryStatus, ...]]:
        c = t.outbox.c
        query = select(
            *(c.notification_id, c.endpoint, c.receiver, c.kind, c.form, c.payload),
            *(c.state, c.attempts, c.next_s, c.done_s, c.last_error),
        )
        found: dict[str, tuple[DeliveryStatus, ...]] = defaultdict(tuple)
        for row in await self._read(query.where(c.notification_id.in_(notification_ids)).order_by(c.position)):
            shown = shown_endpoint(row.kind, row.endpoint, row.receiver)
            found[row.notification_id] += (rows.as_type(DeliveryStatus, row, endpoint=shown),)
        return found

    async def find_notifications(self, wanted: Wanted, *, before: int | None, limit: int) -> StoredNotifications:
        """Return the wanted notifications, newest first, each with its deliveries."""
        found, rest = await self._limit_text(newest(wanted, before=before), limit)
        deliveries = await self._deliveries([row.notification_id for row in found])
        told = [rows.as_type(StoredNotification, row, deliveries=deliveries[row.notification_id]) for row in found]
        return StoredNotifications(told, rest)

    async def find_between(self, wanted: Wanted, after: int, until: int, *, limit: int) -> StoredNotifications:
        """Return the oldest wanted notifications after one position, up to and with another, without deliveries."""
        found, rest = await self._limit_text(between(wanted, after, until), limit)
        return StoredNotifications([rows.as_type(StoredNotification, row) for row in found], rest)

    async def _limit_text(self, query: Select[*tuple[Any, ...]], limit: int) -> tuple[Sequence[Row[Any]], int | None]:
        """Return the first rows, of at most ``MOST_BYTES`` of bodies or one, and the position after which more follow.

        Rows that expire meanwhile are missing.
        """
        c = t.notifications.c
        sizes = await self._read(query.with_only_columns(c.position, func.length(c.body)).limit(limit + 1))
        fitting = sum(total <= MOST_BYTES for total in accumulate(row[1] for row in sizes))
        taken = sizes[: min(limit, max(1, fitting))]
        found = await self._read(query.where(c.position.in_([row[0] for row in taken])))
        return found, taken[-1][0] if len(sizes) > len(taken) else None

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[MadeProbe]:
        """Return the probes of a source, newest first; ``before`` is the position of a probe."""
        c = t.probes.c
        older = [c.position < before] if before is not None else []
        query = select(t.probes).where(c.source_id == source_id, *older).order_by(c.position.desc()).limit(limit)
        return [rows.as_type(MadeProbe, row) for row in await self._read(query)]

    async def seen_items(self, source_id: str, since_s: float, *, limit: int) -> list[SeenItem]:
        """Return when a source's items were published, if they say so, and when each was seen; newest first."""
        c = t.items.c
        seen = (c.source_id == source_id, c.seen_s >= since_s, c.exact, c.seed.is_(False))
        query = select(c.event_s, c.seen_s).where(*seen).order_by(c.seen_s.desc()).limit(limit)
        return [SeenItem(row.event_s, row.seen_s) for row in await self._read(query)]

    async def recent_items(self, source_ids: Sequence[str], now_s: float, *, days: int) -> Mapping[str, RecentItems]:
        """Return the items of some sources that came or changed in the last days, including today.

        Sources without any are left out.
        """
        i, u, first = t.items.c, t.changes.c, int(now_s // rows.DAY_S) - days + 1
        since_s = first * rows.DAY_S
        came = select(i.source_id, i.event_s).where(i.source_id.in_(source_ids), i.present_s >= since_s, t.came)
        changed = select(u.source_id, u.event_s).where(u.source_id.in_(source_ids), u.kind == EventKind.UPDATE.value)
        c = union_all(came, changed).subquery().c
        day, in_time = day_of(c.event_s), c.event_s.between(since_s, now_s)
        query = select(c.source_id, day, func.count(), func.max(c.event_s)).where(in_time).group_by(c.source_id, day)
        counts: dict[str, list[int]] = defaultdict(lambda: [0] * days)
        newest: dict[str, float] = {}
        for source_id, at, count, newest_s in await self._read(query):
            counts[source_id][min(at - first, days - 1)] += count
            newest[source_id] = max(newest_s, newest.get(source_id, newest_s))
        return {name: RecentItems(tuple(each), newest[name]) for name, each in counts.items()}

    async def events(self, source_id: str, *, before: int | None, limit: int) -> list[StoredEvent]:
        """Return the events of a source's items, newest first, with what each item was then.

        ``before`` is the number of one of them.
        """
        found: list[StoredEvent] = []
        for each, read in ((t.items, rows.event_of_item), (t.changes, rows.event_of_change)):
            older = [each.c.seq < before] if before is not None else []
            older += [t.came] if each is t.items else []
            query = select(each).where(each.c.source_id == source_id, *older).order_by(each.c.seq.desc())
            found += await asyncio.to_thread(list, map(read, await self._read(query.limit(limit))))
        newest = sorted(found, key=lambda each: each.seq, reverse=True)[:limit]
        came = [each.seq for each in newest if each.kind is EventKind.INSERT]
        first = await self._as_they_came(source_id, came) if came else {}
        return [replace(each, item=first.get(each.seq, each.item)) for each in newest]

    async def _as_they_came(self, source_id: str, seqs: Sequence[int]) -> Mapping[int, Item]:
        """Return what came by the numbers of its events, as it was before the first update until it went away.

        ``items`` hold what updates made of them. What was not updated is left out.
        """
        c, item = t.changes.c, t.items.c
        # Within the item's time: it may have come and gone before, and again since; so the index of changes is enough
        during = and_(c.seen_s >= item.seen_s, or_(item.gone_s.is_(None), c.seen_s <= item.gone_s), c.seq > item.seq)
        first = select(c.seq).where(c.source_id == item.source_id, c.item_id == item.item_id, during)
        first = first.where(c.kind == EventKind.UPDATE.value).order_by(c.seen_s, c.seq).limit(1)
        updates = t.changes.alias()
        is_first = and_(
            updates.c.source_id == item.source_id, updates.c.seq == first.correlate(t.items).scalar_subquery()
        )
        query = select(item.seq.label("came"), updates).join_from(t.items, updates, is_first)
        query = query.where(item.source_id == source_id, item.seq.between(min(seqs), max(seqs)), t.came)
        old = {row.came: rows.event_of_change(row).old for row in await self._read(query)}
        return {seq: item for seq, item in old.items() if item is not None}

    async def event(self, source_id: str, seq: int) -> StoredEvent | None:
        """Return an event of a source's items by its number, or ``None``."""
        found = await self.events(source_id, before=seq + 1, limit=1)
        return next((each for each in found if each.seq == seq), None)

    async def notifications_of(self, notification_ids: Sequence[str]) -> Mapping[str, StoredNotification]:
        """Return those of some notifications that are stored, by id, each with its deliveries."""
        c = t.notifications.c
        found = await self._read(select(t.notifications).where(is_one_of(c.notification_id, [*notification_ids])))
        deliveries = await self._deliveries(notification_ids)
        told = (rows.as_type(StoredNotification, row, deliveries=deliveries[row.notification_id]) for row in found)
        return {each.notification_id: each for each in told}

    async def next_notification(self, rule: str, source_id: str, since_s: float) -> StoredNotification | None:
        """Return the first notification of a rule on a source from a time on, or ``None``; with its deliveries."""
        c = t.notifications.c
        query = select(c.notification_id).where(c.rule == rule, c.source_id == source_id, c.created_s >= since_s)
        found = await self._read(query.order_by(c.position).limit(1))
        ids = [row.notification_id for row in found]
        return next(iter((await self.notifications_of(ids)).values()), None) if ids else None

    async def intervals(self, rule: str, since_s: float, *, limit: int) -> list[DecidedInterval]:
        """Return a rule's captured and missed intervals decided since a time, newest first."""
        query = intervals_of_rule(rule, since_s).limit(limit)
        return [rows.as_type(DecidedInterval, row) for row in await self._read(query)]

    async def accounts(self, since_s: float) -> list[tuple[int, Calibration]]:
        """Return what was found and predicted on each day since a time that has any, as days since 1970-01-01 UTC."""
        day = t.accounts.c.day
        sums = [func.sum(t.accounts.c[name]).label(name) for name in rows.ACCOUNT_FIELDS]
        since = select(day, *sums).where(day >= int(since_s // rows.DAY_S))
        found = await self._read(since.group_by(day).order_by(day))
        return [(row.day, rows.account(row)) for row in found]

    async def newest_interval(self) -> int:
        """Return the number of the interval that was decided last, or 0 if none is stored."""
        return await self._greatest(t.intervals.c.interval_id)

    async def rule_week(
        self,
        since_s: float,
        until_s: float,
        within_s: float,
        *,
        after: int | None = None,
        until: int | None = None,
        source_id: str | None = None,
    ) -> list[RuleWeek]:
        """Return what became of each rule's intervals that were decided between two times, by the rule's name.

        Intervals that are still open are not counted. ``after`` and ``until`` count only those with numbers after the
        first, up to and with the second; ``source_id`` only those of one source.
        """
        c = t.intervals.c
        chosen = [] if source_id is None else [c.source_id == source_id]
        chosen += [] if until is None else [c.interval_id <= until]
        at_s: ColumnElement[float] = c.probed_s
        chosen += [] if after is None else [c.interval_id > after]
        if after is not None and until is not None and until - after < _FEW:
            at_s = c.probed_s + 0.0  # the index of times would lead through the whole week
        query = (
            select(
                c.rule,
                func.count().label("intervals"),
                func.sum(case((c.captured, 1), else_=0)).label("captured"),
                func.sum(case((c.seen & (c.delay_s <= within_s), 1), else_=0)).label("in_time"),
                func.sum(c.utility).label("utility"),
            )
            .where(at_s >= since_s, at_s < until_s, *chosen)
            .group_by(c.rule)
            .order_by(c.rule)
        )
        return [RuleWeek(since_s, *row) for row in await self._read(query)]

    async def newest_position(self) -> int:
        """Return the position of the newest notification, or 0 if there is none."""
        return await self._greatest(t.notifications.c.position)

    async def position_before(self, since_s: float, newest: int) -> int:
        """Return a position after which all notifications are that were made from a time on; ``newest`` without any."""
        c = t.notifications.c
        # those that are made at once may be stored in another order
        first = select(c.position).where(c.created_s >= since_s).order_by(c.created_s).limit(_IN_ANY_ORDER).subquery()
        found: int | None = (await self._read(select(func.min(first.c.position))))[0][0]
        return newest if found is None else min(found - 1, newest)

    async def _greatest(self, number: Column[int]) -> int:
        greatest: int | None = (await self._read(select(func.max(number))))[0][0]
        return greatest or 0

    async def picture(self, notification_id: str) -> Picture | None:
        """Return the picture of a notification, or ``None`` if it has none."""
        c = t.notifications.c
        return await read_picture(self._read, select(c.picture).where(c.notification_id == notification_id))

    async def is_of(self, notification_id: str, rules: Collection[str]) -> str | None:
        """Return which of some rules made a notification, or ``None``."""
        of_rules = _filter_of(Wanted(frozenset(rules))).with_only_columns(t.notifications.c.rule)
        found = await self._read(of_rules.where(t.notifications.c.notification_id == notification_id))
        return found[0].rule if found else None

    async def trace(self, notification_id: str) -> NotificationTrace | None:
        """Return a notification with its intervals, its probe's other findings and all attempts, or ``None``."""
        found = await self._read(select(t.notifications).where(t.notifications.c.notification_id == notification_id))
        if not found:
            return None
        deliveries = (await self._deliveries([notification_id]))[notification_id]
        notification = rows.as_type(StoredNotification, found[0], deliveries=deliveries)
        intervals = await self._read(_intervals_of(notification))
        findings = await self._read(_findings_of(notification))
        return NotificationTrace(
            notification,
            tuple({row.source_id: rows.as_type(DecidedInterval, row) for row in intervals}.values()),  # the last ones
            tuple(rows.as_type(FoundEvent, row) for row in findings),
            tuple(await self.delivery_attempts(notification_id)),
        )

    async def delivery_attempts(self, notification_id: str) -> list[DeliveryAttempt]:
        """Return the attempts to deliver a notification, by itself or in a digest, oldest first."""
        o, member = t.outbox.c, t.outbox.alias("member")
        own = select(member.c.position).where(member.c.notification_id == notification_id)
        digests = select(member.c.digest_id).where(
            member.c.notification_id == notification_id, member.c.digest_id.is_not(None)
        )
        c = t.attempts.c
        query = (
            select(o.endpoint, o.receiver, o.kind, o.digest_id, c.attempted_s, c.duration_s, c.result, c.detail)
            .join(t.attempts, c.position == o.position)
            .where(or_(o.position.in_(own), o.digest_id.in_(digests)))
            .order_by(c.attempted_s, c.attempt_id)
        )
        return [_shown(DeliveryAttempt, row) for row in await self._read(query)]

    async def dead_letters(
        self, *, before: int | None, limit: int, rules: Collection[str] | None = None
    ) -> list[DeadDelivery]:
        """Return the dead deliveries, newest first; ``before`` is the position of a delivery.

        Those of some ``rules`` or, if it is ``None``, of all.
        """
        o, n = t.outbox.c, t.notifications.c
        query = (
            select(*(o.position, o.notification_id, n.rule, o.kind, o.endpoint, o.receiver))
            .add_columns(o.attempts, o.done_s, o.last_error)
            .join(t.notifications, n.notification_id == o.notification_id)
            .where(o.state == "dead", *([o.position < before] if before is not None else []))
            .where(*([is_one_of(n.rule, rules)] if rules is not None else []))
            .order_by(o.position.desc())
            .limit(limit)
        )
        return [_shown(DeadDelivery, row) for row in await self._read(query)]


def newest(wanted: Wanted, *, before: int | None) -> Select[*tuple[Any, ...]]:
    """Return a query of the wanted notifications, newest first."""
    query = _filter_of(wanted).order_by(t.notifications.c.position.desc())
    return query if before is None else query.where(t.notifications.c.position < before)


def between(wanted: Wanted, after: int, until: int) -> Select[*tuple[Any, ...]]:
    """Return a query of the wanted notifications after one position, up to and including another, in order."""
    position = t.notifications.c.position
    return _filter_of(wanted).where(position > after, position <= until).order_by(position)


def _filter_of(wanted: Wanted) -> Select[*tuple[Any, ...]]:
    c = t.notifications.c
    query = select(t.notifications)
    if wanted.rules is not None:
        query = query.where(is_one_of(c.rule, sorted(wanted.rules)))
    if wanted.source_id is not None:
        query = query.where(c.source_id == wanted.source_id)
    return query if wanted.since_s is None else query.where(c.created_s >= wanted.since_s)


def _intervals_of(notification: StoredNotification) -> Select[*tuple[Any, ...]]:
    """Return a query of the intervals on a notification's sources that began when its own did, with their ends."""
    # Successive probes may find several on a source in one chronon: the notification belongs to one that was not probed
    # after it was made
    c, data = t.intervals.c, _data(notification)
    start_s = _time_s(data.get("interval", {}).get("start"))
    pages = [*(each["source"] for each in data.get("pages", ())), *data.get("missing", ())]
    owner = owner_of(notification.rule)  # messages have names without it
    own = [*pages, *(full_name(owner, each) for each in pages), notification.source_id]
    return (
        select(t.intervals)
        .where(c.rule == notification.rule, is_one_of(c.source_id, own))
        .where(c.start_s.between(start_s - _SAME_S, start_s + _SAME_S))
        .where(c.probed_s.between(start_s - _SAME_S, notification.created_s + _SAME_S))  # its probe came first
        .order_by(c.probed_s, c.interval_id)
    )


def intervals_of_rule(rule: str, since_s: float) -> Select[*tuple[Any, ...]]:
    """Return a query of a rule's intervals decided since a time, newest first, in the order of an index."""
    c = t.intervals.c
    return (
        select(t.intervals)
        .where(c.rule == rule, c.probed_s >= since_s)
        .order_by(c.probed_s.desc(), c.interval_id.desc())
    )


def _findings_of(notification: StoredNotification) -> Select[*tuple[Any, ...]]:
    """Return a query of all events that the probe of a notification's event found, in order."""
    seen_s = _time_s(_data(notification).get("event", {}).get("seen"))
    found = [_findings(table, kind, notification.source_id, seen_s) for table, kind in _EVENTS]
    both = union_all(*found).subquery()
    return select(both).order_by(both.c.seq).limit(_MOST_FINDINGS)


def _findings(table: Table, kind: Any, source_id: str, seen_s: float) -> Select[*tuple[Any, ...]]:
    c = table.c
    query = select(c.seq, kind.label("kind"), c.item_id, c.event_s, c.seen_s)
    found = query.where(c.source_id == source_id, c.seen_s.between(seen_s - _SAME_S, seen_s + _SAME_S))
    return found.where(t.came) if table is t.items else found


def _data(notification: StoredNotification) -> dict[str, Any]:
    """Return a notification's data, or an empty dict if it has another form than today's."""
    try:
        body = json.loads(notification.body)
    except ValueError:
        return {}
    data = body.get("data") if isinstance(body, dict) else None
    return data if isinstance(data, dict) else {}


def _time_s(text: str | None) -> float:
    """Return unix seconds; without a time, one at which nothing happened."""
    found = parse_iso(text) if text else None
    return float("-inf") if found is None else found


def _shown(made: type[rows.Typed], row: Row[Any]) -> rows.Typed:
    # the address of a channel holds secrets
    return rows.as_type(made, row, endpoint=shown_endpoint(row.kind, row.endpoint, row.receiver))
