"""What survives a restart: the planner's accounts of sources, the plan of the week, and open joint intervals."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, takewhile
from sys import intern
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, select, update

from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.model.outcome import Picture
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.state import JointInterval, Notification, Obtained
from proxyd.core.rules.stages.observation import Observation
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.statements import Upsert, delete_named, execute_many
from proxyd.store.writer import Writer

MOST_DELETED = 100  # pictures in one commit: each may have half a megabyte
_c = t.pictures.c
_TAKE_AGAIN = update(t.pictures).where(_c.sha256 == bindparam("of_picture")).values(taken_s=bindparam("again_s"))


def record_pictures(connection: Connection, taken: Mapping[str, Picture], sent: Sequence[Notification]) -> None:
    """Store the pictures that notifications have, by their hashes; one that is stored already counts as new again."""
    wanted = {each.picture: each.created_s for each in sent if each.picture in taken and each.picture is not None}
    if not wanted:
        return
    found = set(connection.scalars(select(_c.sha256).where(_c.sha256.in_(sorted(wanted)))))
    new = [_row(sha256, taken[sha256], at_s) for sha256, at_s in wanted.items() if sha256 not in found]
    execute_many(connection, insert(t.pictures), new)
    execute_many(connection, _TAKE_AGAIN, [{"of_picture": each, "again_s": wanted[each]} for each in found])


def _row(sha256: str, picture: Picture, at_s: float) -> dict[str, Any]:
    row = {"sha256": sha256, "media_type": picture.media_type, "data": picture.data}
    return row | {"size": len(picture.data), "taken_s": at_s}


async def read_picture(read: StoreReader, of: Select[*tuple[Any, ...]]) -> Picture | None:
    """Return the picture whose hash a query gives, or ``None`` if it is not stored."""
    found = await read(select(_c.media_type, _c.data).where(_c.sha256.in_(of)))
    return Picture(found[0].media_type, bytes(found[0].data)) if found else None


async def expire_pictures(writer: Writer, *, most_bytes: int) -> int:
    """Delete, in parts, pictures that no notification has, and the oldest above ``most_bytes``; return how many."""
    deleted = 0
    for part in (_delete_unused, lambda connection: _delete_oldest(connection, most_bytes)):
        while gone := await writer.submit(part):
            deleted += gone
    return deleted


def _delete_unused(connection: Connection) -> int:
    has_one = select(t.notifications.c.position).where(t.notifications.c.picture == _c.sha256).exists()
    some = select(_c.sha256).where(~has_one).limit(MOST_DELETED)
    return connection.execute(delete(t.pictures).where(_c.sha256.in_(some))).rowcount


def _delete_oldest(connection: Connection, most_bytes: int) -> int:
    """Delete some of the oldest pictures above a size, and return how many; their notifications stay."""
    excess = (connection.scalar(select(func.sum(_c.size))) or 0) - most_bytes
    oldest = connection.execute(select(_c.sha256, _c.size).order_by(_c.taken_s, _c.sha256).limit(MOST_DELETED)).all()
    freed = accumulate((row.size for row in oldest), initial=0)  # bytes of all rows before each
    gone = [row.sha256 for row, _ in takewhile(lambda pair: pair[1] < excess, zip(oldest, freed, strict=False))]
    if gone:
        notifications = update(t.notifications).where(t.notifications.c.picture.in_(gone))
        connection.execute(notifications.values(picture=None))
        connection.execute(delete(t.pictures).where(_c.sha256.in_(gone)))
    return len(gone)


def joint_row(interval: JointInterval) -> dict[str, Any]:
    """Return a row of ``joint_intervals``."""
    body = {name: getattr(interval, name) for name in ("opened", "opened_s", "deadline", "ends_s", "wanted", "told")}
    body["events"] = [_event_body(event) for event in interval.events]
    body["obtained"] = [
        [each.source_id, each.seen_s, each.captured, [dict(row) for row in each.rows]] for each in interval.obtained
    ]
    text = json.dumps(body, ensure_ascii=False)
    return {"interval_id": interval.interval_id, "rule": interval.rule, "body": text}


def _joint_interval(row: Row[Any]) -> JointInterval:
    body = json.loads(row.body)
    return JointInterval(
        interval_id=row.interval_id,
        rule=row.rule,
        events=tuple(_event(each) for each in body["events"]),
        opened=body["opened"],
        opened_s=body["opened_s"],
        deadline=body["deadline"],
        ends_s=body["ends_s"],
        wanted=tuple(body["wanted"]),
        obtained=tuple(
            Obtained(source_id, seen_s, captured, tuple(seen)) for source_id, seen_s, captured, seen in body["obtained"]
        ),
        told=None if body["told"] is None else tuple(body["told"]),
    )


def _event_body(event: UpdateEvent) -> dict[str, Any]:
    body = {name: getattr(event, name) for name in ("source_id", "seq", "time_s", "seen_s", "exact")}
    body["kind"], body["item"] = event.kind.value, _item_body(event.item)
    return body | {"old": None if event.old is None else _item_body(event.old)}


def _event(body: dict[str, Any]) -> UpdateEvent:
    old = body.pop("old")
    kind, found = EventKind(body.pop("kind")), Item(*body.pop("item"))
    return UpdateEvent(**body, kind=kind, item=found, old=None if old is None else Item(*old))


def _item_body(found: Item) -> list[Any]:
    return [found.item_id, dict(found.fields), found.published_s, found.content_hash]


_T = TypeVar("_T")
_UPSERT_SOURCE, _UPSERT_FLEET, _UPSERT_PLAN = Upsert(t.sources), Upsert(t.fleet), Upsert(t.plans)
_HINT = (
    update(t.sources)
    .where(t.sources.c.source_id == bindparam("of_source"))
    .values(hidden=bindparam("items"), hidden_since_s=bindparam("since_at_s"))
)


class ReadEach(Protocol):
    """Reads rows where the query runs."""

    def __call__(self, query: Select[*tuple[Any, ...]], make: Callable[[Any], _T], /) -> Awaitable[list[_T]]:
        """Return the value of each row."""


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The plan of the week: when the first one and this one were made (unix seconds), and what it was made of.

    It holds only for the ``settings`` that it was made with. ``body`` is what ``pack`` returned.
    """

    begun_s: float
    made_s: float
    settings: str
    body: bytes


class SqlPlanRecord:
    """Stores how the planner stands: with each observation, and with each plan of the week."""

    def __init__(self, writer: Writer, read: StoreReader, read_each: ReadEach, part: Callable[[], int]) -> None:
        self._writer = writer
        self._part = part
        self._read = read
        self._read_each = read_each

    async def load_sources(self) -> dict[str, SourceRecord]:
        """Return how the planner stood with each source."""
        c = t.sources.c
        kept = select(c.source_id, c.record, c.hidden, c.hidden_since_s)
        found = await self._read_each(kept, lambda row: (intern(row.source_id), rows.source_record(row)))
        return {source_id: record for source_id, record in found if record is not None}

    async def load_fleet(self) -> FleetRecord | None:
        """Return what was learned of all sources together, or ``None`` if nothing was."""
        # Several planners have learned it, each of its own sources: this is that of our own, or of others
        found = await self._read(select(t.fleet).order_by(t.fleet.c.fleet_id != 1 + self._part(), t.fleet.c.fleet_id))
        return next(map(rows.fleet_record, found), None)

    async def load(self) -> StoredPlan | None:
        """Return the last plan, or ``None`` if none was made; of several planners our own, or that of another."""
        c = t.plans.c
        plans = select(c.begun_s, c.made_s, c.settings, c.body)
        first = plans.order_by(c.plan_id != 1 + self._part(), c.plan_id).limit(1)
        return next((StoredPlan(*row) for row in await self._read(first)), None)

    async def made_s(self) -> float | None:
        """Return when the last plan was made, or ``None`` if none was."""
        return next((row.made_s for row in await self._read(select(t.plans.c.made_s))), None)

    async def save(self, plan: StoredPlan) -> None:
        """Store a plan in place of the last one."""
        row = {"plan_id": 1 + self._part()} | {field.name: getattr(plan, field.name) for field in fields(plan)}
        await self._writer.submit(lambda connection: execute_many(connection, _UPSERT_PLAN, [row]))

    async def load_joint_intervals(self) -> list[JointInterval]:
        """Return the open intervals that span several sources."""
        return await self._read_each(select(t.joint_intervals), _joint_interval)

    async def forget_joint_intervals(self, interval_ids: Sequence[str]) -> None:
        """Delete intervals that are no longer awaited."""
        if interval_ids:
            c = t.joint_intervals.c.interval_id
            await self._writer.submit(lambda connection: delete_named(connection, t.joint_intervals, c, interval_ids))


def record_sources(connection: Connection, observations: Sequence[Observation], part: int) -> None:
    """Write the states of sources, how the planner stands with them, and what they share."""
    execute_many(connection, _UPSERT_SOURCE, [rows.source_row(o.state, o.record) for o in observations])
    hints = [
        {"of_source": hint.source_id, "items": hint.items, "since_at_s": hint.since_s}
        for o in observations
        for hint in o.hints
    ]
    execute_many(connection, _HINT, hints)
    shared = [o.fleet for o in observations if o.fleet is not None]
    execute_many(connection, _UPSERT_FLEET, [rows.fleet_row(each, part) for each in shared[-1:]])
