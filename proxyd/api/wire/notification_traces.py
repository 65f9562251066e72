"""The history of a notification: its intervals, its probe and its deliveries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxyd.api import wire
from proxyd.api.wire import converters as payloads
from proxyd.api.wire.base_models import time_or_none
from proxyd.api.wire.delivery_models import Attempt, IntervalShown
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import EventKind
from proxyd.core.model.outcome import OutcomeKind
from proxyd.store.listed_rows import DecidedInterval, DeliveryAttempt, NotificationTrace

_MOST_SHOWN = 20
_OF_SOURCE = {kind.value for kind in EventKind if kind.is_of_source}  # these have no interval


def trace(traced: NotificationTrace) -> wire.NotificationTraced:
    """Return a notification with its interval on every source, the probe, the attempts, and a summary in words."""
    found = payloads.notification_members(traced.notification)
    data = found["body"].get("data", {})
    found |= {
        "intervals": [_interval(each) for each in traced.intervals],
        "probe": _probe(data, traced),
        "rows": data.get("items", []),
        "attempts": [_attempt(each) for each in traced.attempts],
        "messages": traced.texts,
    }
    return wire.NotificationTraced(summary=[*_origin_lines(found, data), *_outcome_lines(found)], **found)


def _interval(decided: DecidedInterval) -> dict[str, Any]:
    return wire.members_of(decided, IntervalShown) | {
        "end": time_or_none(decided.deadline_s),
        "probed": iso_time(decided.probed_s) if decided.seen else None,
    }


def _probe(data: Mapping[str, Any], traced: NotificationTrace) -> dict[str, Any]:
    """Return the probe or push that found the event; for a deletion, the outcome is not known."""
    event = data.get("event", {})
    is_gone = event.get("kind") == EventKind.DELETE.value
    return {
        "source": traced.notification.source_id,
        "url": data.get("url"),
        "finished": event.get("seen"),
        "outcome": None if is_gone else OutcomeKind.CHANGED.value,
        "found": traced.findings,
    }


def _attempt(made: DeliveryAttempt) -> dict[str, Any]:
    return wire.members_of(made, Attempt) | {"at": iso_time(made.attempted_s)}


def _origin_lines(found: dict[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    marks = [name for name in ("late", "partial") if data.get(name)]
    marks += ["made while its rule was muted"] if found["muted"] else []
    marks += ["not sent, because of its rule's limit"] if found["limited"] else []
    marks += [f"supplement to {data['supplement_to']}"] if "supplement_to" in data else []
    yield f"{found['id']}{''.join(f', {mark}' for mark in marks)}"
    yield f"rule: {found['rule']} of profile {', '.join(data.get('profiles', []))}, made {found['created']}"
    kind = data.get("event", {}).get("kind", "event")
    yield f"event: {kind} at {found['event']} on {found['source']}"
    for each in found["intervals"]:
        yield _interval_line(each)
    if not found["intervals"] and kind not in _OF_SOURCE:
        yield "interval: no longer stored"
    probe = found["probe"]
    items = [each.item_id for each in probe["found"]]
    yield f"probe: of {probe['url']}, finished {probe['finished']}, {probe['outcome'] or 'item deleted'}"
    yield from (f"  it found {item}" for item in items[:_MOST_SHOWN])
    if len(items) > _MOST_SHOWN:
        yield f"  and {len(items) - _MOST_SHOWN} more"


def _interval_line(each: Mapping[str, Any]) -> str:
    end = f"to {each['end']}" if each["end"] else "until the next update"
    if each["probed"] is None:
        return f"interval: {each['source']} from {each['start']} {end}: missed, never probed in time"
    fate = "captured" if each["captured"] else "missed"
    bound = "" if each["exact"] else " at most"
    delay = f"{each['delay_s']:.3f} s after the event"
    return f"interval: {each['source']} from {each['start']} {end}: {fate}, {delay}{bound}"


def _outcome_lines(found: dict[str, Any]) -> Iterator[str]:
    for row in found["rows"][:_MOST_SHOWN]:
        yield "row: " + ", ".join(f"{name}={value!r}" for name, value in row.items())
    if len(found["rows"]) > _MOST_SHOWN:
        yield f"and {len(found['rows']) - _MOST_SHOWN} more rows"
    for each in found["deliveries"]:
        when = f", next {each.next}" if each.next else f", {each.done}" if each.done else ""
        yield f"delivery: {each.endpoint}: {each.state}{when}"
    if not found["deliveries"]:
        yield "delivery: not sent anywhere"
    for each in found["attempts"]:
        detail = f" ({each['detail']})" if each["detail"] else ""
        yield f"attempt: {each['at']} {each['endpoint']}: {each['result']}{detail}"
