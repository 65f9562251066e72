"""Lanes: which pairs of rule and receiver have something to send, and which of these a notifier has claimed.

``due_s`` of a lane is when a notifier looks at it next. It may be too early: who finds nothing there writes the exact
time. It is never too late, so whatever may let a delivery go earlier calls ``mark_due`` in its transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple

from sqlalchemy import Connection, Float, Integer, String, and_, bindparam, case, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import DATABASE_TIME
from proxyd.store.statements import execute_many, texts_in

_NOTED = "lanes"  # what a transaction has noted so far, in ``Connection.info``
_CHUNK = 200  # waiting deliveries of a lane, behind failing ones, that are read at once


class Claim(NamedTuple):
    """The positions of the deliveries that claimed lanes may send, and when the next lane is due that nobody has."""

    positions: list[int]
    next_s: float | None


_LANES = texts_in(bindparam("lanes", type_=String))


@dataclass(slots=True)
class _Change:
    """A change of a lane: when it is due, and whose claim ends."""

    due_s: float
    claimed_by: str = ""


def mark_due(connection: Connection, lanes: Iterable[str], at_s: float) -> None:
    """Let notifiers look at lanes: something there may be sent from now on; written at the end of the transaction."""
    noted = connection.info.setdefault(_NOTED, {})
    for lane in lanes:
        change = noted.setdefault(lane, _Change(at_s))
        change.due_s = min(change.due_s, at_s)


def end_claim(connection: Connection, lane: str, by: str, now_s: float) -> None:
    """End the claim of a lane, where more may wait."""
    mark_due(connection, [lane], now_s)
    connection.info[_NOTED][lane].claimed_by = by


def end_all_claims(connection: Connection) -> None:
    """End the claims of all notifiers, which have ended."""
    for table in (t.lanes, t.webhooks):
        connection.execute(update(table).where(table.c.claimed_until_s > 0.0).values(claimed_until_s=0.0))


def write_lanes(connection: Connection) -> None:
    """Write what the transaction has noted of lanes: at its end, in order, so that no two wait for each other."""
    noted: dict[str, _Change] = connection.info.pop(_NOTED, {})
    if not noted:
        return
    is_shared = connection.dialect.name == "postgresql"
    now_s = (
        float(connection.scalars(DATABASE_TIME).one()) if is_shared else inf
    )  # the clock of who noted them may be ahead
    values = [
        {
            "lane": lane,
            "endpoint": lane.rpartition("\n")[2],
            "due_s": min(change.due_s, now_s),
            "claimed_by": change.claimed_by,
        }
        for lane, change in sorted(noted.items())
    ]
    connection.execute(_CHANGE[connection.dialect.name], values)


def claim(
    connection: Connection, by: str, now_s: float, *, hold_s: float, until_s: float, limit: int, shut: Collection[str]
) -> Claim:
    """Claim lanes that are due; see ``Outbox.claim_deliveries``.

    Only those that are due are read, and the first of what waits there. Bodies are not: a process that is frozen while
    it reads much would keep the locks of these lanes.
    """
    open_now = {"me": by, "now_s": now_s, "shut": json.dumps([*shut])}
    due = connection.execute(_DUE, open_now | {"most": limit + 1}).all()
    lanes = [row.lane for row in due[:limit]]
    firsts = connection.execute(_FIRSTS, {"lanes": json.dumps(lanes)}).all() if lanes else []
    heads = {row.lane: row for row in firsts}
    positions, claimed, looked_at = list[int](), list[dict[str, object]](), list[dict[str, object]]()
    for lane in lanes:
        head = heads.get(lane)
        if head is None:
            position, next_s = None, None
        elif head.state == "pending" and _due_s(head) <= now_s:
            position, next_s = head.position, None
        else:
            position, next_s = _find_sendable(connection, lane, now_s, hold_s)
        if position is None:
            looked_at.append({"of_lane": lane, "next_s": next_s})
        else:
            positions.append(position)
            claimed.append({"of_lane": lane, "until_s": until_s, "me": by})
    execute_many(connection, _CLAIM, claimed)
    execute_many(connection, _PUT_OFF, looked_at)
    return Claim(positions, due[limit].due_s if len(due) > limit else connection.scalar(_NEXT, open_now))


def extend_claims(connection: Connection, by: str, lanes: Collection[str], until_s: float) -> None:
    """Let claims last until ``until_s``; one whose lane is just being marked is left to the next time."""
    connection.execute(_EXTEND, {"me": by, "lanes": json.dumps([*lanes]), "until_s": until_s})


def _due_s(row: Any) -> float:
    """Return when a pending delivery is due: at once before its first attempt, whatever the clock of its writer."""
    # A planner whose clock was an hour ahead for three seconds once held back 1,594 notifications
    return -inf if row.first_attempt_s is None else row.next_s


def _find_sendable(connection: Connection, lane: str, now_s: float, hold_s: float) -> tuple[int | None, float | None]:
    """Return the position of the first delivery of a lane that may be sent now, or ``None`` and when one may be."""
    blocked_s, next_s, after = -inf, inf, 0
    while blocked_s < inf:
        waiting = connection.execute(_WAITING, {"of_lane": lane, "after": after}).all()
        for row in waiting:
            if row.state == "pending":
                at_s = max(_due_s(row), blocked_s)
                if at_s <= now_s:
                    return row.position, None
                next_s = min(next_s, at_s)
            blocked_s = max(blocked_s, _holds_until_s(row, hold_s))
            if blocked_s == inf:
                break
        if len(waiting) < _CHUNK:
            break
        after = waiting[-1].position
    return None, next_s if isfinite(next_s) else None


def _holds_until_s(row: Any, hold_s: float) -> float:
    """Return until when a delivery holds back the later ones of its lane, if nothing is sent meanwhile."""
    if row.state == "released":
        return inf  # until its digest is made
    if row.state == "gathered":
        if row.leader is None:  # its digest is held, stopped or given up
            return -inf
        first_s = row.leader_first_attempt_s
    else:
        first_s = row.first_attempt_s
    return inf if first_s is None else first_s + hold_s


def _changes_of(insert: Callable[[Any], Any]) -> Any:
    """Return the statement that makes a lane due, or ends a claim of it, unless it has run out and is another's now."""
    statement = insert(t.lanes)
    new, c = statement.excluded, t.lanes.c
    ends = and_(new.claimed_by != "", new.claimed_by == c.claimed_by)
    changed = {
        # after a claim the others have their turn first
        "due_s": case((or_(ends, c.due_s.is_(None), new.due_s < c.due_s), new.due_s), else_=c.due_s),
        "claimed_until_s": case((ends, 0.0), else_=c.claimed_until_s),
        "claimed_by": case((ends, ""), else_=c.claimed_by),
    }
    return statement.on_conflict_do_update(index_elements=["lane"], set_=changed)


def _firsts() -> Any:
    """Return the query of the first waiting delivery of each of ``lanes``."""
    # No join: PostgreSQL expects a hundred lanes, and would read all of a small outbox
    o, one = t.outbox.c, t.outbox.alias("one")
    position = select(one.c.position).where(one.c.lane == _LANES.c.value, one.c.done_s.is_(None))
    position = position.order_by(one.c.lane, one.c.position).limit(1)
    first = select(_LANES.c.value.label("lane"), position.scalar_subquery().label("position")).cte("first")
    first = first.prefix_with("MATERIALIZED", dialect="postgresql")
    columns = (o.state, o.next_s, o.first_attempt_s)
    values = (select(each).where(o.position == first.c.position).scalar_subquery().label(each.name) for each in columns)
    return select(first.c.lane, first.c.position, *values).where(first.c.position.is_not(None))


def _waiting() -> Any:
    """Return the query of the deliveries of a lane that may be sent or hold back others, in order."""
    o, leader = t.outbox.c, t.outbox.alias("leader")
    of_digest = (
        (leader.c.digest_id == o.digest_id)
        & leader.c.digest.is_not(None)
        & (leader.c.state == "pending")
        & (o.state == "gathered")
    )
    return (
        select(o.position, o.state, o.next_s, o.first_attempt_s, leader.c.position.label("leader"))
        .add_columns(leader.c.first_attempt_s.label("leader_first_attempt_s"))
        .select_from(t.outbox.outerjoin(leader, of_digest))
        .where(o.lane == bindparam("of_lane"), o.done_s.is_(None), o.position > bindparam("after"))
        .where(o.state.in_(("pending", "released", "gathered")))
        .order_by(o.lane, o.position)
        .limit(_CHUNK)
    )


_CHANGE = {"postgresql": _changes_of(postgresql.insert), "sqlite": _changes_of(sqlite.insert)}
_ME, _NOW_S = bindparam("me", type_=String), bindparam("now_s", type_=Float)
_is_named = t.lanes.c.lane == bindparam("of_lane")
_free = (
    t.lanes.c.due_s.is_not(None),
    # what we have claimed is being sent, however late we are with extending the claim
    or_(t.lanes.c.claimed_until_s == 0.0, and_(t.lanes.c.claimed_until_s <= _NOW_S, t.lanes.c.claimed_by != _ME)),
    t.lanes.c.endpoint.not_in(select(texts_in(bindparam("shut", type_=String)).c.value)),
)
_DUE = (
    select(t.lanes.c.lane, t.lanes.c.due_s)
    .where(*_free, t.lanes.c.due_s <= _NOW_S)
    .order_by(t.lanes.c.due_s)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_NEXT = select(t.lanes.c.due_s).where(*_free).order_by(t.lanes.c.due_s).limit(1)
_CLAIM = update(t.lanes).where(_is_named).values(claimed_until_s=bindparam("until_s"), claimed_by=bindparam("me"))
_PUT_OFF = update(t.lanes).where(_is_named).values(due_s=bindparam("next_s"), claimed_until_s=0.0)
_OURS = select(t.lanes.c.lane).where(t.lanes.c.lane.in_(select(_LANES.c.value)), t.lanes.c.claimed_by == _ME)
_EXTEND = (
    update(t.lanes)
    .where(t.lanes.c.lane.in_(_OURS.with_for_update(skip_locked=True)))
    .values(claimed_until_s=bindparam("until_s", type_=Float))
)
_FIRSTS, _WAITING = _firsts(), _waiting()
