"""The outbox over SQLAlchemy: deliveries, attempts, digests and disabled endpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    FromClause,
    Integer,
    ScalarSelect,
    Select,
    Subquery,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)

from proxyd.base.ports import DueDelivery
from proxyd.core.errors import NotFoundError
from proxyd.core.model.outcome import Picture
from proxyd.core.model.profile import NotificationRule
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.databases.shards import OwnShards, shard_of
from proxyd.store.digest_rows import SqlDigests
from proxyd.store.plan_rows import read_picture
from proxyd.store.webhook_states import SqlWebhooks
from proxyd.store.writer import Writer, take_all

WAITING = ("pending", "held", "gathering", "gathered", "released", "muted", "stopped")
"""The states of deliveries that may still be sent."""


class _OutboxDepth(NamedTuple):
    """Pending deliveries and when the oldest was made, deliveries held for their webhook's ping, and dead letters."""

    pending: int
    oldest_s: float | None
    held: int
    dead: int


@dataclass(frozen=True, slots=True)
class DisabledEndpoint:
    """An endpoint that asked for no more of a rule's notifications; ``declared`` is its declaration at the time."""

    rule: str
    endpoint: str
    declared: str
    disabled_s: float
    detail: str


class SqlOutbox(SqlDigests):
    """The Outbox port, and the queries and commands of people.

    With ``shards`` only deliveries of these are due.
    """

    def __init__(
        self, writer: Writer, read: StoreReader, read_for_people: StoreReader, shards: OwnShards | None = None
    ) -> None:
        super().__init__(writer, read, shards)
        self._read_for_people = read_for_people
        self.webhooks = SqlWebhooks(writer, read, shards)
        is_shared = shards is not None
        self._due, self._next = _due_query(is_shared=is_shared), _next_query(is_shared=is_shared)
        self._accepted: deque[tuple[DueDelivery, float, dict[str, Any]]] = deque()

    async def due_deliveries(
        self, now_s: float, *, hold_s: float, limit: int, busy: Collection[str] = (), shut: Collection[str] = ()
    ) -> list[DueDelivery]:
        """Return what may be sent now, oldest first, at most one delivery for each free lane (rule and endpoint).

        A failing notification holds back the later ones of its lane until ``hold_s`` after its first attempt. A failing
        digest does the same in each lane that it gathers. Deliveries that a mute has released hold back the later ones
        until their digest is made.
        """
        values = {"now_s": now_s, "hold_s": hold_s, "most": limit} | self._open(busy, shut)
        found = [_delivery(row) for row in await self._read(self._due, values)]
        own = None if self._shards is None else self._shards()  # there may be fewer since the read began
        return found if own is None else [each for each in found if shard_of(each.endpoint) in own]

    async def next_delivery_s(self, *, busy: Collection[str] = (), shut: Collection[str] = ()) -> float | None:
        """Return when a delivery outside ``busy`` lanes and ``shut`` endpoints is due next; ``None`` without any."""
        found: float | None = (await self._read(self._next, self._open(busy, shut)))[0][0]
        return found

    def _open(self, busy: Collection[str], shut: Collection[str]) -> dict[str, Any]:
        """Return the parameters that say which deliveries may be sent."""
        shards = {} if self._shards is None else {"shards": sorted(self._shards())}
        return {"busy": list(busy), "shut": list(shut), **shards}

    async def picture(self, sha256: str) -> Picture | None:
        """Return a picture, or ``None`` if it is no longer stored."""
        return await read_picture(self._read, select(literal(sha256)))

    async def record_delivery(
        self, delivery: DueDelivery, now_s: float, *, duration_s: float = 0.0, detail: str = ""
    ) -> None:
        """Record that the receiver accepted a delivery; deliveries of the same commit share its statements."""
        attempt = _attempt(delivery, now_s, duration_s, "accepted", detail)
        self._accepted.append((delivery, now_s, attempt))
        await self._writer.submit(self._write_accepted)

    def _write_accepted(self, connection: Connection) -> None:
        accepted = take_all(connection, self._accepted)
        if not accepted:
            return
        done = [{"of_position": d.position, "at_s": now_s, "times": d.attempts + 1} for d, now_s, _ in accepted]
        connection.execute(_ACCEPT, done)
        connection.execute(insert(t.attempts), [attempt for *_, attempt in accepted])
        for delivery, now_s, _ in accepted:
            _update_members(connection, delivery, state="delivered", done_s=now_s)

    async def record_failure(
        self,
        delivery: DueDelivery,
        now_s: float,
        *,
        next_s: float | None,
        error: str,
        duration_s: float = 0.0,
        disables: bool = False,
    ) -> None:
        """Record a failed attempt; without ``next_s`` the delivery is dead: kept until it is replayed or expires.

        A delivery that was stopped or dropped during the attempt stays so.
        """
        is_dead, state = next_s is None, t.outbox.c.state
        values = {
            "state": "dead" if is_dead else case((state.in_(("stopped", "dropped")), state), else_="pending"),
            "done_s": now_s if is_dead else None,
            "next_s": now_s if is_dead else next_s,
            "attempts": delivery.attempts + 1,
            "first_attempt_s": now_s if delivery.first_attempt_s is None else delivery.first_attempt_s,
            "last_error": error[: rows.MOST_DETAIL],
        }

        def write(connection: Connection) -> None:
            _update(connection, delivery, **values)
            if is_dead:
                _update_members(connection, delivery, state="dead", done_s=now_s, last_error=error[: rows.MOST_DETAIL])
            attempt = _attempt(delivery, now_s, duration_s, "dead" if is_dead else "retry", error)
            connection.execute(insert(t.attempts), [attempt])
            if disables:
                _disable(connection, delivery, now_s, error)

        await self._writer.submit(write)

    async def retry_now(self, endpoint: str, now_s: float) -> None:
        """Make the deliveries due that wait for their next attempt at an endpoint, which works again."""
        # An outage of two minutes made messages wait for up to five more
        o = t.outbox.c
        waiting = and_(o.state == "pending", o.next_s > now_s, o.endpoint == endpoint, o.attempts > 0)
        await self._writer.submit(lambda on: on.execute(update(t.outbox).where(waiting).values(next_s=now_s)))

    async def replay(self, notification_id: str | None, now_s: float) -> int:
        """Make deliveries pending again, either one notification's or every dead letter; return how many.

        A digest is sent again as a whole. Disabled endpoints are tried again.
        """
        count = await self._writer.submit(lambda connection: _replay(connection, notification_id, now_s))
        if notification_id is not None and not count:
            raise NotFoundError(
                f"no delivery of {notification_id!r} can be sent again: it was sent nowhere, or still waits"
            )
        return count

    # -- endpoints

    async def enable(self, rule: str, endpoint: str) -> None:
        """Send to a disabled endpoint again."""
        await self._writer.submit(lambda connection: _enable(connection, {rows.lane(rule, endpoint)}))

    async def list_disabled_endpoints(self) -> list[DisabledEndpoint]:
        """Return the disabled endpoints."""
        c = t.endpoints.c
        query = select(c.rule, c.endpoint, c.declared, c.disabled_s, c.detail).order_by(c.rule, c.endpoint)
        return [rows.as_type(DisabledEndpoint, row) for row in await self._read_for_people(query)]

    async def outbox_depth(self) -> _OutboxDepth:
        """Return the size of the outbox."""
        o = t.outbox.c
        counts = select(o.state, func.count()).where(o.state.in_(("pending", "held", "dead"))).group_by(o.state)
        found = {row[0]: row[1] for row in await self._read_for_people(counts)}
        oldest = (
            select(func.min(t.notifications.c.created_s))
            .select_from(t.outbox)
            .join(t.notifications, t.notifications.c.notification_id == o.notification_id)
            .where(o.state == "pending")
        )
        oldest_s = (await self._read_for_people(oldest))[0][0]
        return _OutboxDepth(found.get("pending", 0), oldest_s, found.get("held", 0), found.get("dead", 0))


def forget_changed_endpoints(connection: Connection, rules: Iterable[NotificationRule]) -> None:
    """Enable disabled endpoints that were removed from the declaration or changed."""
    stored = connection.execute(select(t.endpoints.c.lane, t.endpoints.c.declared)).all()
    if not stored:
        return
    declared = {
        (rows.lane(rule.name, each.endpoint), rows.way_of_declaration(**rows.way_of(each)))
        for rule in rules
        for each in rule.deliveries
    }
    _enable(connection, {row.lane for row in stored if (row.lane, row.declared) not in declared})


def _replay(connection: Connection, notification_id: str | None, now_s: float) -> int:
    o = t.outbox.c
    wanted = o.state == "dead" if notification_id is None else o.notification_id == notification_id
    done = o.state.in_(("dead", "delivered", "dropped", "limited"))
    found = connection.execute(select(o.position, o.lane, o.digest_id).where(wanted, done)).all()
    fresh = {"next_s": now_s, "attempts": 0, "first_attempt_s": None, "done_s": None}
    digest_ids = {row.digest_id for row in found if row.digest_id is not None}
    if digests := [{"of_digest": digest_id} for digest_id in digest_ids]:
        connection.execute(_REPLAY_MEMBERS, digests)
        connection.execute(_REPLAY_LEADER.values(**fresh), digests)
    if single := [{"of_position": row.position} for row in found if row.digest_id is None]:
        connection.execute(_REPLAY_ONE.values(**fresh), single)
    _enable(connection, {row.lane for row in found})
    return len(single) + len(digests)


def _due_query(*, is_shared: bool) -> Select[*tuple[Any, ...]]:
    """Return the query of what is due; made once, because that takes longer than to run it."""
    o, lanes = t.outbox.c, _waiting_lanes()
    position = _first_of(t.outbox, "pending", lanes.c.lane, o.next_s <= _NOW_S)
    first = select(lanes.c.lane, position.label("position")).cte("first")
    first = first.prefix_with("MATERIALIZED", dialect="postgresql")
    # whatever holds back the first one of a lane that is due holds back all later ones
    due = _DELIVERIES.join(first, first.c.position == o.position).where(
        ~_held_back(first), _is_open(is_shared=is_shared)
    )
    return due.order_by(o.position).limit(bindparam("most", type_=Integer))


def _next_query(*, is_shared: bool) -> Select[*tuple[Any, ...]]:
    o, lanes = t.outbox.c, _waiting_lanes()
    of_lane = and_(o.state == "pending", o.lane == lanes.c.lane, _is_open(is_shared=is_shared))
    return select(func.min(o.next_s)).select_from(lanes.outerjoin(t.outbox, of_lane))


def _is_open(*, is_shared: bool) -> ColumnElement[bool]:
    """Return the condition that a delivery is not to a ``shut`` endpoint, and of our own ``shards`` if it is shared."""
    is_ours = t.outbox.c.shard.in_(bindparam("shards", expanding=True)) if is_shared else true()
    return and_(is_ours, t.outbox.c.endpoint.not_in(bindparam("shut", expanding=True)))


def _waiting_lanes() -> Subquery:
    """Return the lanes with pending deliveries outside ``busy``, found by a step of the index for each of them."""
    o = t.outbox.c
    first = select(func.min(o.lane).label("lane")).where(o.state == "pending").cte("lanes", recursive=True)
    after = select(func.min(o.lane)).where(o.state == "pending", o.lane > first.c.lane).scalar_subquery()
    lanes = first.union_all(select(after).where(first.c.lane.is_not(None)))
    is_free = lanes.c.lane.not_in(bindparam("busy", expanding=True))
    return select(lanes.c.lane).where(lanes.c.lane.is_not(None), is_free).subquery("waiting")


def _held_back(some: FromClause) -> ColumnElement[bool]:
    """Return the condition that something earlier in the lane of ``some`` deliveries must go first."""
    earlier, leader = t.outbox.alias("earlier"), t.outbox.alias("leader")

    def is_recent(of: FromClause) -> ColumnElement[bool]:
        return or_(of.c.first_attempt_s.is_(None), of.c.first_attempt_s + _HOLD_S > _NOW_S)

    def is_any(state: str) -> ColumnElement[bool]:
        some = t.outbox.alias(f"some_{state}")  # evaluated once for all deliveries: there are seldom any
        return select(some.c.position).where(some.c.state == state).exists()

    def is_before(state: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
        first = _first_of(earlier, state, some.c.lane, *conditions)
        return func.coalesce(first, some.c.position) < some.c.position

    of_digest = and_(leader.c.digest_id == earlier.c.digest_id, leader.c.digest.is_not(None))
    its_leader = select(leader.c.position).where(of_digest, leader.c.state == "pending", is_recent(leader)).exists()
    return or_(
        is_before("pending", is_recent(earlier)),
        and_(is_any("released"), is_before("released")),
        and_(is_any("gathered"), is_before("gathered", its_leader)),
    )


def _first_of(
    some: FromClause, state: str, lane: ColumnElement[str], *conditions: ColumnElement[bool]
) -> ScalarSelect[int]:
    """Return the position of a lane's first delivery in a state; NULL without any."""
    # A range of one lane, in order, makes every database step through the index of lanes. Asked for deliveries whose
    # lane equals another one, PostgreSQL reads them all, because it expects to meet one of that lane soon.
    of_lane = and_(some.c.state == state, some.c.lane >= lane, some.c.lane <= lane)
    ordered = select(some.c.position).where(of_lane, *conditions).order_by(some.c.lane, some.c.position)
    return ordered.limit(1).scalar_subquery()


def _deliveries() -> Select[*tuple[Any, ...]]:
    o, n, e = t.outbox.c, t.notifications.c, t.endpoints.c
    return (
        select(
            *(o[name] for name in ("position", "endpoint", "secret_kind", "secret_name", "lane", "attempts")),
            *(o.first_attempt_s, o.kind, o.form, o.payload, n.rule, n.event_s, n.created_s),
            func.coalesce(o.digest_id, n.notification_id).label("notification_id"),
            func.coalesce(o.digest, n.body).label("body"),
            o.digest_id.is_not(None).label("is_digest"),
            e.lane.is_not(None).label("is_disabled"),
            case((o.digest_id.is_(None), n.picture)).label("picture"),
        )
        .join(t.notifications, n.notification_id == o.notification_id)
        .outerjoin(t.endpoints, e.lane == o.lane)
    )


_NOW_S, _HOLD_S = bindparam("now_s", type_=Float), bindparam("hold_s", type_=Float)
_DELIVERIES = _deliveries()
_ACCEPT = (
    update(t.outbox)
    .where(t.outbox.c.position == bindparam("of_position"))
    .values(state="delivered", done_s=bindparam("at_s"), attempts=bindparam("times"))
)
_OF_DIGEST = t.outbox.c.digest_id == bindparam("of_digest")
_REPLAY_MEMBERS = update(t.outbox).where(_OF_DIGEST, t.outbox.c.digest.is_(None)).values(state="gathered", done_s=None)
_REPLAY_LEADER = update(t.outbox).where(_OF_DIGEST, t.outbox.c.digest.is_not(None)).values(state="pending")
_REPLAY_ONE = update(t.outbox).where(t.outbox.c.position == bindparam("of_position")).values(state="pending")


def _delivery(row: Any) -> DueDelivery:
    return DueDelivery(**{name: getattr(row, name) for name in DueDelivery.__dataclass_fields__})


def _update(connection: Connection, delivery: DueDelivery, **values: Any) -> None:
    connection.execute(update(t.outbox).where(t.outbox.c.position == delivery.position).values(**values))


def _update_members(connection: Connection, delivery: DueDelivery, **values: Any) -> None:
    """Update the other deliveries of a digest; the first one, which stands for the digest, is not changed."""
    if delivery.is_digest:
        of_digest = and_(t.outbox.c.digest_id == delivery.notification_id, t.outbox.c.position != delivery.position)
        connection.execute(update(t.outbox).where(of_digest).values(**values))


def _attempt(delivery: DueDelivery, now_s: float, duration_s: float, result: str, detail: str) -> dict[str, Any]:
    row = {"position": delivery.position, "attempted_s": now_s - duration_s, "duration_s": duration_s}
    return row | {"result": result, "detail": detail[: rows.MOST_DETAIL]}


def _disable(connection: Connection, delivery: DueDelivery, now_s: float, detail: str) -> None:
    """Disable an endpoint and give up its pending deliveries; its gathered ones follow when they are due."""
    o = t.outbox.c
    waiting = and_(o.lane == delivery.lane, o.state.in_(("pending", "stopped", "gathered")))
    dead = {"state": "dead", "done_s": now_s, "last_error": detail[: rows.MOST_DETAIL]}
    connection.execute(update(t.outbox).where(waiting).values(**dead))
    _enable(connection, {delivery.lane})
    declared = rows.way_of_declaration(delivery.kind, delivery.form, delivery.secret_kind, delivery.secret_name)
    row = {"lane": delivery.lane, "rule": delivery.rule, "endpoint": delivery.endpoint, "declared": declared}
    connection.execute(insert(t.endpoints), [row | {"disabled_s": now_s, "detail": detail[: rows.MOST_DETAIL]}])


def _enable(connection: Connection, lanes: Collection[str]) -> None:
    if lanes:
        gone = delete(t.endpoints).where(t.endpoints.c.lane == bindparam("of_lane"))
        connection.execute(gone, [{"of_lane": lane} for lane in lanes])
