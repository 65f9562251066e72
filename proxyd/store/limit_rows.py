"""Finds the notifications that exceed the limits of their rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, false, select
from sqlalchemy.engine import Connection

from proxyd.core.rules.state import Notification
from proxyd.store import tables as t

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
