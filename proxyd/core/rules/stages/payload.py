"""Notifications: the body of a firing's message, identical byte for byte each time it is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import UpdateEvent, Value
from proxyd.core.rules.programs.expression_compiler import Row
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.captures import Announcement
from proxyd.core.rules.stages.context import SourceContext
from proxyd.core.rules.stages.joint_intervals import Obtained
from proxyd.core.rules.stages.stored import History, with_found
from proxyd.core.rules.stages.streams import Firing
from proxyd.core.rules.state import Notification, StoredEvent


def notifications(
    context: SourceContext,
    firings: Sequence[Firing],
    announcements: Sequence[Announcement],
    history: History,
    found: Sequence[StoredEvent],
) -> tuple[Notification, ...]:
    """Return the notifications of a probe: first the firings that one source decides, then joint intervals.

    A rule's history includes the items that the probe itself found.
    """
    own = [
        notice(
            firing,
            with_found(history, firing, found),
            url=context.source.url,
            created_s=firing.events[-1].seen_s,
            grid=context.grid,
        )
        for firing in firings
        if not firing.program.is_joint
    ]
    return (*own, *(joint_notice(each, grid=context.grid) for each in announcements))


def notice(firing: Firing, history: History, *, url: str, created_s: float, grid: ChrononGrid) -> Notification:
    """Return the notification of a rule whose interval a single source captured or missed."""
    event, record = firing.events[-1], firing.record
    data = _head(firing.program, event, url, record.start, record.deadline, grid)
    data |= {"late": not record.captured, "items": _items(firing.program, firing.events, history, ())}
    identity = firing.program.notification_id(event)
    return _notification(firing.program, event, identity, data, made_s=event.seen_s, created_s=created_s)


def joint_notice(announced: Announcement, *, grid: ChrononGrid) -> Notification:
    """Return the notification of a joint interval: whole, partial, or a supplement to a partial one."""
    program, interval, created_s = announced.program, announced.interval, announced.created_s
    obtained = interval.news()  # sources; receivers know them as "pages", a wire name
    data = _head(program, interval.event, announced.url, interval.opened, interval.deadline, grid)
    data |= {
        "late": not all(each.captured for each in obtained),
        "partial": bool(interval.wanted),
        "pages": [{"source": p.source_id, "captured": p.captured, "seen": iso_time(p.seen_s)} for p in obtained],
        "missing": list(interval.wanted),
        "items": _items(program, interval.events, announced.history, obtained),
    }
    identity = interval.interval_id
    if interval.told is not None:
        data["supplement_to"], identity = identity, f"{identity}_more"
    return _notification(program, interval.event, identity, data, made_s=created_s, created_s=created_s)


def _head(
    program: RuleProgram, event: UpdateEvent, url: str, start: Chronon, deadline: Chronon | None, grid: ChrononGrid
) -> dict[str, Any]:
    return {
        "rule": program.rule.name,
        "profiles": list(program.rule.profiles),
        "source": event.source_id,
        "url": url,
        "event": {"kind": event.kind.value, "time": iso_time(event.time_s), "seen": iso_time(event.seen_s)},
        "interval": {
            "start": iso_time(grid.start_s(start)),
            "end": None if deadline is None else iso_time(grid.start_s(deadline + 1)),
        },
    }


def _items(
    program: RuleProgram, events: Sequence[UpdateEvent], history: History, obtained: Sequence[Obtained]
) -> list[dict[str, Value]]:
    """Return the query's rows over events, over history, and over the rows of other classes' sources."""
    joined = {each.position: set(each.sources) for each in program.joined}
    occasion = events[-1]
    tables: list[list[Row]] = []
    for position in range(len(program.query.tables)):
        if position in joined:
            rows = [fields for each in obtained if each.source_id in joined[position] for fields in each.rows]
            tables.append([Row.of(occasion, fields) for fields in rows])
        elif program.is_event_table(position):
            tables.append([Row.of(event) for event in events])
        else:
            stored = history.get((program.rule.name, position), ())
            tables.append([Row.of(occasion, fields) for fields in stored])
    return program.query.run(tables)


def _notification(
    program: RuleProgram, event: UpdateEvent, identity: str, data: dict[str, Any], *, made_s: float, created_s: float
) -> Notification:
    body = {"type": "proxyd.notification", "timestamp": iso_time(made_s), "data": {"id": identity} | data}
    return Notification(
        notification_id=identity,
        rule=program.rule.name,
        source_id=event.source_id,
        event_s=event.time_s,
        created_s=created_s,
        late=bool(data["late"]),
        body=json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace"),
        deliveries=program.rule.deliveries,
    )
