"""Notifications that wait or are left out: digests, also of what muted rules kept, and limits of rules."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, bindparam, false, func, select, update

from proxyd.base.ports import Gathered
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.profile import plain_name
from proxyd.core.rules.known.state import Notification
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.lanes import mark_due
from proxyd.store.rows import DigestTimes
from proxyd.store.webhook_states import held, state_of
from proxyd.store.writer import Writer

_c = t.notifications.c
_SENT = (
    select(_c.created_s)
    .where(_c.rule == bindparam("of_rule"), _c.limited_by == bindparam("of_limit"), _c.limited == false())
    .order_by(_c.created_s.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class LimitTimes:
    """How many notifications of a rule may be sent in any ``per_s`` seconds."""

    most: int
    per_s: float


@dataclass(frozen=True, slots=True)
class RuleTimes:
    """When the notifications of rules may be sent, by the names of the rules."""

    digests: Mapping[str, DigestTimes] = field(default_factory=dict)
    limits: Mapping[str, LimitTimes] = field(default_factory=dict)
    quiet: Mapping[str, Sequence[QuietHours]] = field(default_factory=dict)


def exceeding(connection: Connection, made: Sequence[Notification], limits: Mapping[str, LimitTimes]) -> set[str]:
    """Return the ids of the notifications that exceed their rules' limits; earlier ones in ``made`` count first."""
    sent: dict[tuple[str, str], list[float]] = {}
    exceeded = set()
    for one in made:
        limit = limits.get(one.rule)
        if limit is None:
            continue
        key = one.rule, one.limited_by
        if key not in sent:
            asked = {"of_rule": one.rule, "of_limit": one.limited_by, "most": limit.most}
            sent[key] = [row.created_s for row in connection.execute(_SENT, asked)]
        within = [at_s for at_s in sent[key] if at_s > one.created_s - limit.per_s]
        if len(within) >= limit.most:
            exceeded.add(one.notification_id)
        else:
            sent[key] = [*within, one.created_s]
    return exceeded


_MOST_GATHERED = 10_000  # notifications in a digest; the rest make another digest
_RECEIVER = ("kind", "endpoint", "form", "secret_kind", "secret_name")
_MEMBER = (t.outbox.c.position == bindparam("member"), t.outbox.c.state == bindparam("was"))
_JOIN_DIGEST = update(t.outbox).where(*_MEMBER).values(state="gathered", digest_id=bindparam("of_digest"), digest=None)
_LEAD_DIGEST = (
    update(t.outbox)
    .where(*_MEMBER)
    .values(state=bindparam("now"), digest_id=bindparam("of_digest"), digest=bindparam("text"))
)


class SqlDigests:
    """Makes digests: each is one delivery, the first of those that it gathers, with the composed body.

    One transaction fixes a digest's contents and its body; later notifications make another digest.
    """

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def next_digest_s(self) -> float | None:
        """Return when the next digest is due, in unix seconds, or ``None`` if there is nothing to gather."""
        o = t.outbox.c
        queries = [select(func.min(o.next_s)).where(o.state == state) for state in ("gathering", "released")]
        found = [(await self._read(query))[0][0] for query in queries]
        return min((each for each in found if each is not None), default=None)

    async def make_digests(self, now_s: float, compose: Callable[[Gathered], bytes]) -> None:
        """Make a digest of each period that is over for each lane, and one of released deliveries for each receiver."""
        o = t.outbox.c
        query = select(o.lane).where(o.state == "gathering", o.next_s <= now_s).distinct()
        for row in await self._read(query):
            await self._make_of([row.lane], "gathering", now_s, compose)
        for lanes in await self._receivers():
            await self._make_of(lanes, "released", now_s, compose)

    async def _receivers(self) -> list[list[str]]:
        """Return the lanes with released deliveries, by receiver; a disabled lane stands alone."""
        o, e = t.outbox.c, t.endpoints.c
        query = select(o.lane, *(o[name] for name in _RECEIVER), e.lane.label("disabled")).distinct()
        lanes: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for lane, *receiver, disabled in await self._read(
            query.outerjoin(t.endpoints, e.lane == o.lane).where(o.state == "released").order_by(o.lane)
        ):
            lanes[*receiver, disabled or ""].append(lane)
        return list(lanes.values())

    async def _make_of(
        self, lanes: Sequence[str], state: str, now_s: float, compose: Callable[[Gathered], bytes]
    ) -> None:
        o, n = t.outbox.c, t.notifications.c
        query = (
            select(o.position, o.lane, o.next_s, o.most_items, n.notification_id, n.rule, n.body)
            .join(t.notifications, n.notification_id == o.notification_id)
            .where(o.lane.in_(lanes), o.done_s.is_(None), o.state == state, o.next_s <= now_s)
            .order_by(o.next_s, o.position)
            .limit(_MOST_GATHERED)
        )
        while found := await self._read(query):
            for _, period in groupby(found, key=lambda row: row.next_s):
                await self._make_digest(state, list(period), now_s, compose)

    async def _make_digest(
        self, state: str, members: Sequence[Any], now_s: float, compose: Callable[[Gathered], bytes]
    ) -> None:
        gathered = _contents_of_digest(members)
        text = await asyncio.to_thread(compose, gathered)

        def write(connection: Connection) -> None:
            rows = [{"member": row.position, "was": state, "of_digest": gathered.digest_id} for row in members]
            leader = connection.execute(select(t.outbox).where(t.outbox.c.position == members[0].position)).one()
            now = state_of(leader._asdict(), held(connection, leader.endpoint))
            leads = connection.execute(_LEAD_DIGEST, rows[0] | {"text": text, "now": now}).rowcount
            if leads and rows[1:]:
                connection.execute(_JOIN_DIGEST, rows[1:])
            mark_due(connection, {row.lane for row in members}, now_s)

        await self._writer.submit(write)


def _contents_of_digest(members: Sequence[Any]) -> Gathered:
    """Return the contents of a digest; one of several rules names them all and adds up their limits of items."""
    first, last = members[0], members[-1]
    digest_id = "dgs_" + hashlib.sha256(f"{first.lane}\0{first.notification_id}".encode()).hexdigest()[:32]
    most = {row.rule: row.most_items for row in members}
    most_items = None if None in most.values() else sum(most.values())
    ids, bodies = tuple(row.notification_id for row in members), tuple(row.body for row in members)
    return Gathered(digest_id, ", ".join(dict.fromkeys(map(plain_name, most))), ids, bodies, most_items, last.next_s)
