"""Notifications: the body of a firing's message, identical byte for byte each time it is sent."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial
from typing import Any
from urllib.parse import quote

from proxyd.core.errors import EvaluationError, WorkLimitError
from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.delivery import Delivery
from proxyd.core.model.field_values import iso_time, minute_of
from proxyd.core.model.item import EventKind, UpdateEvent
from proxyd.core.model.profile import Source, plain_name
from proxyd.core.politeness.faults import Outage
from proxyd.core.rules.known.context import History
from proxyd.core.rules.known.failing_rules import RuleFailure
from proxyd.core.rules.known.state import JointInterval, Notification, Obtained, StoredEvent
from proxyd.core.rules.programs.expression_compiler import Row
from proxyd.core.rules.programs.message_program import word_rows
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.query_program import ResultRow
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.observation import Firing, RuleResults

MOST_SHOWN = 2_000_000
"""Characters in the rows of a notification; further rows are only counted."""
_STEPS_PER_NOTIFICATION = 500


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """What the tasks of all rules on one probe share; ``declared_s`` says since when its source is declared."""

    url: str
    grid: ChrononGrid
    declared_s: float = 0.0
    made_s: float | None = None  # when notifications are made, in unix seconds; by default when their events were seen
    picture: str | None = None  # the hash of the picture that the probe took


def notifications_of_firings(
    program: RuleProgram,
    firings: Iterable[Firing],
    history: History,
    found: Sequence[StoredEvent],
    meter: Meter,
    facts: ProbeFacts,
) -> RuleResults:
    """Return the notifications of a rule's firings."""
    until = histories(history, program, found)  # history includes what the probe itself found

    def make(firing: Firing) -> Notification | None:
        meter.spend(sum(map(len, history.values())) >> 8)
        return _notification_of_firing(program, firing, until(firing), meter, facts)

    return _make_all(program, [(each.events[-1].source_id, partial(make, each)) for each in firings])


@dataclass(frozen=True, slots=True)
class Announcement:
    """A joint interval that is to be notified now; ``url`` is that of the source whose event opened it."""

    program: RuleProgram
    interval: JointInterval
    history: History
    url: str
    created_s: float


def joint_notifications(
    announced: Announcement, meter: Meter, *, grid: ChrononGrid, picture: str | None = None
) -> RuleResults:
    """Return the notification of a joint interval: whole, partial, or a supplement to a partial one."""
    make = partial(_joint_notification, announced, meter, grid=grid, picture=picture)
    return _make_all(announced.program, [(announced.interval.event.source_id, make)])


def _make_all(program: RuleProgram, makers: Iterable[tuple[str, Callable[[], Notification | None]]]) -> RuleResults:
    """Return the notifications that ``makers`` make, each for a source; a query that fails costs only its own."""
    sent: list[Notification] = []
    failures: list[RuleFailure] = []
    for source_id, make in makers:
        try:
            sent.extend(each for each in [make()] if each is not None)
        except WorkLimitError as error:
            failures.append(RuleFailure.of(program, source_id, error))
            break  # all others would fail too
        except Exception as error:  # noqa: BLE001 - whatever happens fails this rule alone
            failures.append(RuleFailure.of(program, source_id, error))
    return RuleResults(notifications=tuple(sent), failures=tuple(failures))


def _notification_of_firing(
    program: RuleProgram, firing: Firing, history: History, meter: Meter, facts: ProbeFacts
) -> Notification | None:
    """Return the notification that a single source decides, unless it is empty and the rule sends no such ones."""
    meter.spend(_STEPS_PER_NOTIFICATION)
    event, record = firing.events[-1], firing.record
    data = _head(program, event, facts.url, record.start, record.deadline, facts.grid)
    rows = _rows(program, firing.events, history, (), meter)
    if _is_silent(program, rows):
        return None
    data |= {"late": not record.captured} | _wording_of_rows(program, rows, event.source_id, meter)
    identity = program.notification_id(event)
    made = _notification(program, event, identity, data, facts.picture, meter)
    return made if facts.made_s is None else replace(made, created_s=facts.made_s)


def _joint_notification(
    announced: Announcement, meter: Meter, *, grid: ChrononGrid, picture: str | None
) -> Notification | None:
    """Return the notification of a joint interval, or ``None`` as ``_notification_of_firing`` does."""
    program, interval = announced.program, announced.interval
    obtained = interval.news()  # sources; receivers know them as "pages", a wire name
    is_told = interval.told is not None and not _was_silent(announced, meter)
    rows = _rows(program, interval.events, announced.history, obtained, meter)
    if _is_silent(program, rows):
        return None
    data = _head(program, interval.event, announced.url, interval.opened, interval.deadline, grid)
    data |= {
        "late": not all(each.captured for each in obtained),
        "partial": bool(interval.wanted),
        "pages": [
            {"source": plain_name(p.source_id), "captured": p.captured, "seen": iso_time(p.seen_s)} for p in obtained
        ],
        "missing": [plain_name(each) for each in interval.wanted],
        **_wording_of_rows(program, rows, interval.event.source_id, meter),
    }
    identity = interval.interval_id
    if is_told:
        data["supplement_to"], identity = identity, f"{identity}_more"
    return _notification(program, interval.event, identity, data, picture, meter, made_s=announced.created_s)


def screenshot_path(notification_id: str) -> str:
    """Return the path at which the API has the picture of a notification.

    >>> screenshot_path("ntf_1")
    '/api/v1/notifications/ntf_1/screenshot'
    """
    return f"/api/v1/notifications/{quote(notification_id, safe='')}/screenshot"


def _head(
    program: RuleProgram, event: UpdateEvent, url: str, start: Chronon, deadline: Chronon | None, grid: ChrononGrid
) -> dict[str, Any]:
    return {
        "rule": plain_name(program.rule.name),
        "profiles": list(program.rule.profiles),
        "source": plain_name(event.source_id),
        "url": url,
        "event": {"kind": event.kind.value, "time": iso_time(event.time_s), "seen": iso_time(event.seen_s)},
        "interval": {
            "start": iso_time(grid.start_s(start)),
            "end": None if deadline is None else iso_time(grid.start_s(deadline + 1)),
        },
    }


def _wording_of_rows(program: RuleProgram, rows: Sequence[ResultRow], source_id: str, meter: Meter) -> dict[str, Any]:
    """Return as many rows as a notification may hold, and the texts that tell people what they say."""
    found, rows = len(rows), _fitting(rows, meter)
    said = word_rows(program.message, rows, meter, rule=plain_name(program.rule.name), source=plain_name(source_id))
    message = {"title": said.title, "rows": list(said.rows), "is_set": program.rule.message is not None}
    message |= {"names_all": True} if said.names_all else {}
    message |= {"is_named": True} if program.rule.query.columns and program.rule.message is None else {}
    changes = {"changes": list(said.changes)} if said.changes else {}
    left_out = {"left_out": {"items": found - len(rows)}} if found > len(rows) else {}
    return {"items": [row.columns for row in rows], **left_out, "message": message, **changes}


def _rows(
    program: RuleProgram,
    events: Sequence[UpdateEvent],
    history: History,
    obtained: Sequence[Obtained],
    meter: Meter,
) -> list[ResultRow]:
    """Return the query's rows over events, over history, and over the rows of other classes' sources."""
    joined = {each.position: set(each.sources) for each in program.joined}
    occasion = events[-1]
    tables: list[list[Row]] = []
    for position in range(len(program.query.tables)):
        if position in joined:
            rows = [fields for each in obtained if each.source_id in joined[position] for fields in each.rows]
            tables.append([Row.of(occasion, fields, meter) for fields in rows])
        elif program.is_event_table(position):
            tables.append([Row.of(event, meter=meter) for event in events])
        else:
            stored = history.get((program.rule.name, position), ())
            tables.append([Row.of(occasion, fields, meter) for fields in stored])
    return program.query.run(tables, meter)


def _fitting(rows: Sequence[ResultRow], meter: Meter) -> Sequence[ResultRow]:
    """Return as many rows as a notification may hold; raises ``EvaluationError`` if the first alone is too long."""
    left = MOST_SHOWN
    for number, row in enumerate(rows):
        length = sum(len(value) for value in row.columns.values() if isinstance(value, str))
        meter.scan(length)
        left -= length
        if left < 0 and not number:
            raise EvaluationError(f"a row of its query has {length} characters; the limit is {MOST_SHOWN}")
        if left < 0:
            return rows[:number]
    return rows


def _was_silent(announced: Announcement, meter: Meter) -> bool:
    """Whether the partial notification of an interval had no rows, and so was not sent."""
    program, interval = announced.program, announced.interval
    if program.rule.sends_empty:
        return False
    obtained = [each for each in interval.obtained if each.source_id in (interval.told or ())]
    return not _rows(program, interval.events, announced.history, obtained, meter)


def _is_silent(program: RuleProgram, rows: Sequence[ResultRow]) -> bool:
    return not rows and not program.rule.sends_empty


def _notification(
    program: RuleProgram,
    event: UpdateEvent,
    identity: str,
    data: dict[str, Any],
    picture: str | None,
    meter: Meter,
    *,
    made_s: float | None = None,
) -> Notification:
    """Return a notification, with the hash of a picture if its rule keeps one; ``made_s`` defaults to the sighting."""
    shown = picture if program.rule.keeps_screenshot else None
    screenshot = {} if shown is None else {"screenshot": screenshot_path(identity)}
    at_s = event.seen_s if made_s is None else made_s
    return Notification(
        notification_id=identity,
        rule=program.rule.name,
        source_id=event.source_id,
        event_s=event.time_s,
        created_s=at_s,
        late=bool(data["late"]),
        body=body_of({"id": identity, **data, **screenshot}, at_s),
        deliveries=program.rule.deliveries,
        limited_by=program.limit_of(event, meter),
        picture=shown,
    )


def body_of(data: Mapping[str, Any], made_s: float) -> bytes:
    """Return the message with the ``data`` of a notification that was made at ``made_s``, in unix seconds.

    >>> body_of({"id": "ntf_1"}, 0.0)
    b'{"type":"proxyd.notification","timestamp":"1970-01-01T00:00:00.000Z","data":{"id":"ntf_1"}}'
    """
    body = {"type": "proxyd.notification", "timestamp": iso_time(made_s), "data": data}
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")


def histories(history: History, program: RuleProgram, found: Sequence[StoredEvent]) -> Callable[[Firing], History]:
    """Return what gives a rule's history at each of its firings: with what the probe ``found`` up to its event."""
    own = {key: rows for key, rows in history.items() if key[0] == program.rule.name}
    if not own:
        return lambda _: own
    inserted = [event for event in found if event.kind is EventKind.INSERT]
    seqs, now = [event.seq for event in inserted], [event.item.fields for event in inserted]
    tables = program.query.tables
    is_own = {key: tables[key[1]].page_class == program.event_class for key in own}
    whole = {key: [*rows, *now] if is_own[key] else rows for key, rows in own.items()}

    def until(firing: Firing) -> History:
        count = bisect_right(seqs, firing.record.seq)  # to look at all events for each of 10,000 firings took seconds
        return {key: rows[: len(own[key]) + count] if is_own[key] else rows for key, rows in whole.items()}

    return until


_UNTOLD = frozenset({EventKind.FAILURE, EventKind.TROUBLE, EventKind.HEALTH})


def outage_notices(
    programs: Iterable[RuleProgram], outage: Outage, source: Source, zone: tzinfo | None = UTC
) -> Iterator[Notification]:
    """Yield the notifications of rules that tell of failures, about an outage that an answer of ``source`` ended.

    A receiver of several rules gets one notification, in a digest only if none of its rules sends at once. A rule whose
    AFTER is a time longer than the outage makes none, because it would not have told of such a failure.
    """
    told: set[Delivery] = set()
    for program in sorted(programs, key=lambda each: (each.rule.digest is not None, each.rule.name)):
        deliveries = tuple(each for each in program.rule.deliveries if each not in told)
        if _tells(program, outage) and len(deliveries) >= min(1, len(program.rule.deliveries)):
            told.update(deliveries)
            yield _notice(program, outage, source, deliveries, _data(outage, source, zone))


def _tells(program: RuleProgram, outage: Outage) -> bool:
    """Whether a rule would have told of a failure that lasted as long as an outage."""
    is_waiting = program.rule.trigger.kind in _UNTOLD and program.is_active(outage.until_s)
    return is_waiting and program.awaited.lasting.length_s <= outage.until_s - outage.since_s


def _notice(
    program: RuleProgram,
    outage: Outage,
    source: Source,
    deliveries: tuple[Delivery, ...],
    told: Mapping[str, Any],
) -> Notification:
    """Return the notification of one rule; its id is the same each time that it is computed."""
    name = program.rule.name
    identity = f"{name}\0{program.accepted_s!r}\0offline\0{outage.since_s!r}"
    notification_id = "ntf_" + hashlib.sha256(identity.encode()).hexdigest()[:32]
    data = {"id": notification_id, "rule": plain_name(name), "profiles": list(program.rule.profiles), **told}
    return Notification(
        notification_id=notification_id,
        rule=name,
        source_id=source.source_id,
        event_s=outage.since_s,
        created_s=outage.until_s,
        late=False,
        body=body_of(data, outage.until_s),
        deliveries=deliveries,
    )


def _data(outage: Outage, source: Source, zone: tzinfo | None) -> dict[str, Any]:
    since, until = minute_of(outage.since_s, zone), minute_of(outage.until_s, zone)
    said = f"proxyd was offline from {since} to {until}; failures in that time are not told"
    return {
        "source": plain_name(source.source_id),
        "url": source.url,
        "event": {"kind": "offline", "time": iso_time(outage.since_s), "seen": iso_time(outage.until_s)},
        "interval": {"start": iso_time(outage.since_s), "end": iso_time(outage.until_s)},
        "late": False,
        "items": [{"source.trouble": said}],
        "message": {"title": said, "rows": [said], "is_set": True},
    }
