"""The outbox over SQLAlchemy: deliveries, attempts, digests and disabled endpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, bindparam, case, delete, func, insert, literal, select, update

from proxyd.base.doers import current_doer
from proxyd.base.ports import Claimed, DueDelivery
from proxyd.core.errors import NotFoundError
from proxyd.core.model.outcome import Picture
from proxyd.core.model.profile import NotificationRule
from proxyd.store import rows
from proxyd.store.audit_rows import note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.digest_rows import SqlDigests
from proxyd.store.lanes import claim, end_claim, extend_claims, mark_due
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
    """The Outbox port, and the queries and commands of people."""

    def __init__(self, writer: Writer, read: StoreReader, read_for_people: StoreReader) -> None:
        super().__init__(writer, read)
        self._read_for_people = read_for_people
        self.webhooks = SqlWebhooks(writer, read)
        self._me = token_hex(8)  # who claims
        self._accepted: deque[tuple[DueDelivery, float, dict[str, Any]]] = deque()

    async def claim_deliveries(
        self, now_s: float, *, hold_s: float, until_s: float, limit: int, shut: Collection[str] = ()
    ) -> Claimed:
        """Claim up to ``limit`` lanes until ``until_s``, and return the delivery that each may send now.

        A failing notification holds back the later ones of its lane until ``hold_s`` after its first attempt. A failing
        digest does the same in each lane that it gathers. Deliveries that a mute has released hold back the later ones
        until their digest is made.
        """
        positions, next_s = await self._writer.submit(
            lambda on: claim(on, self._me, now_s, hold_s=hold_s, until_s=until_s, limit=limit, shut=shut), is_last=True
        )
        if not positions:
            return Claimed((), next_s)
        # few lengths, because each is another statement that PostgreSQL must prepare
        positions += positions[-1:] * ((1 << (len(positions) - 1).bit_length()) - len(positions))
        found = await self._read(_DELIVERIES, {"positions": positions})
        return Claimed([_delivery(row) for row in found], next_s)

    async def extend_claims(self, lanes: Collection[str], until_s: float) -> None:
        """Let claims last until ``until_s``: what is sent there takes long."""
        await self._writer.submit(lambda on: extend_claims(on, self._me, lanes, until_s), is_last=True)

    async def give_back(self, deliveries: Sequence[DueDelivery], now_s: float) -> None:
        """End the claims of deliveries that were not attempted."""

        def write(connection: Connection) -> None:
            for delivery in deliveries:
                end_claim(connection, delivery.lane, self._me, now_s)

        await self._writer.submit(write)

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
            end_claim(connection, delivery.lane, self._me, now_s)
            _update_members(connection, delivery, now_s, state="delivered", done_s=now_s)

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

        dead = {"state": "dead", "done_s": now_s, "last_error": error[: rows.MOST_DETAIL]}
        of_members = dead if is_dead else {}

        def write(connection: Connection) -> None:
            _update(connection, delivery, **values)
            end_claim(connection, delivery.lane, self._me, now_s)
            _update_members(connection, delivery, now_s, **of_members)
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
        retry = update(t.outbox).where(waiting).values(next_s=now_s).returning(o.lane)
        await self._writer.submit(lambda on: mark_due(on, on.scalars(retry), now_s))

    async def replay(self, notification_id: str | None, now_s: float) -> int:
        """Make deliveries pending again, either one notification's or every dead letter; return how many.

        A digest is sent again as a whole. Disabled endpoints are tried again.
        """
        doer = current_doer()

        def write(connection: Connection) -> int:
            count = _replay(connection, notification_id, now_s)
            if count:
                subject = "what was given up" if notification_id is None else f"notification {notification_id}"
                note_deed(connection, doer, now_s, "replay", subject, f"deliveries: {count}")
            return count

        count = await self._writer.submit(write)
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
    leaders = set(connection.scalars(select(o.lane).where(o.digest_id.in_(digest_ids), o.digest.is_not(None))))
    if single := [{"of_position": row.position} for row in found if row.digest_id is None]:
        connection.execute(_REPLAY_ONE.values(**fresh), single)
    _enable(connection, {row.lane for row in found})
    mark_due(connection, {row.lane for row in found} | leaders, now_s)
    return len(single) + len(digests)


def _deliveries() -> Select[*tuple[Any, ...]]:
    """Return the query of what is sent, at ``positions``."""
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
        .where(o.position.in_(bindparam("positions", expanding=True)))
        .order_by(o.position)
    )


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


def _update_members(connection: Connection, delivery: DueDelivery, now_s: float, **values: Any) -> None:
    """Update the other deliveries of a digest, which no longer hold back their lanes as before."""
    if delivery.is_digest:
        o = t.outbox.c
        of_digest = and_(o.digest_id == delivery.notification_id, o.position != delivery.position)
        mark_due(connection, connection.scalars(select(o.lane).where(of_digest)), now_s)
        if values:
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
