"""Message bodies in other forms: CloudEvents, text for people, and digests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from proxyd.core.model.field_values import iso_time
from proxyd.ports import Gathered
from proxyd.safe_text import one_line

MOST_ITEMS = 1000
_MOST_SUBJECT = 150
_MOST_VALUE = 2000
_MOST_TEXT_ITEMS = 200


def event_type(body: bytes) -> str:
    """Return the type of a body, such as ``proxyd.notification``."""
    return str(json.loads(body)["type"])


def cloudevent(message_id: str, rule: str, body: bytes) -> bytes:
    """Return a body as a CloudEvent 1.0 in structured mode; equal bodies give equal bytes."""
    message = json.loads(body)
    data = message["data"]
    event = {
        "specversion": "1.0",
        "id": message_id,
        "source": f"/proxyd/rules/{quote(rule, safe='')}",
        "type": message["type"],
        "time": message["timestamp"],
        "datacontenttype": "application/json",
    }
    if data.get("source"):
        event["subject"] = data["source"]
    return _compact(event | {"data": data})


def digest(gathered: Gathered) -> bytes:
    """Return the body of a digest: notifications in order, with a limited number of items; the rest are counted.

    A notification without items counts as one. ``left_out`` counts what does not fit.
    """
    room = MOST_ITEMS if gathered.most_items is None else gathered.most_items
    told: list[dict[str, Any]] = []
    left_out = {"notifications": 0, "items": 0}
    for body in gathered.bodies:
        data = json.loads(body)["data"]
        items = data["items"]
        if room <= 0:
            left_out["notifications"] += 1
            left_out["items"] += len(items)
            continue
        told.append(data | {"items": items[:room]})
        left_out["items"] += len(items[room:])
        room -= max(1, len(items))
    until = iso_time(gathered.until_s)
    data = {
        "id": gathered.digest_id,
        "rule": gathered.rule,
        "until": until,
        "count": len(gathered.bodies),
        "left_out": left_out,
        "notifications": told,
    }
    return _compact({"type": "proxyd.digest", "timestamp": until, "data": data})


def subject(rule: str, body: bytes) -> str:
    """Return a subject line for people: the rule and its first finding."""
    notifications = _notifications(json.loads(body)["data"])
    items = [item for each in notifications for item in each.get("items", ())]
    more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    first = _headline(items[0]) if items else ""
    return one_line(f"{rule}: {first}" if first else rule, _MOST_SUBJECT - len(more)) + more


def plain_text(rule: str, body: bytes) -> str:
    """Return a body as text for people: where and when, then the rows, one column per line."""
    message = json.loads(body)
    data = message["data"]
    parts = [_head(rule, each) + _rows(each.get("items", ())) for each in _notifications(data)]
    left_out = data.get("left_out", {})
    if left_out.get("items") or left_out.get("notifications"):
        parts.append(f"Left out: {left_out['items']} items, {left_out['notifications']} whole notifications.\n")
    return ("\n" + "-" * 40 + "\n").join(parts) + f"\n-- \n{data.get('id', message['type'])}\n"


def sent_at(body: bytes) -> datetime:
    """Return when a message was made, which is the same on every attempt."""
    return datetime.fromisoformat(json.loads(body)["timestamp"]).astimezone(UTC)


def _notifications(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = data.get("notifications", [data])
    return found


def _headline(item: Mapping[str, Any]) -> str:
    """Return the title of an item, else its first text, else its first value."""
    titles = [value for key, value in item.items() if key.rpartition(".")[2].lower() in {"title", "heading", "name"}]
    texts = [value for value in item.values() if isinstance(value, str)]
    for value in (*titles, *texts, *item.values()):
        if value is not None:
            return str(value)
    return ""


def _head(rule: str, data: Mapping[str, Any]) -> str:
    event = data.get("event", {})
    lines = [
        ("Rule", data.get("rule", rule)),
        ("Source", data.get("source")),
        ("Address", data.get("url")),
        ("Event", f"{event['kind']} at {event['time']}, seen at {event['seen']}" if event else None),
        ("Late", "yes" if data.get("late") else None),
        ("Partial", "yes" if data.get("partial") else None),
    ]
    return "".join(f"{name}: {one_line(str(value), _MOST_VALUE)}\n" for name, value in lines if value is not None)


def _rows(items: Sequence[Mapping[str, Any]]) -> str:
    text = "".join(
        "\n" + "".join(f"{one_line(key)}: {one_line(_shown(value), _MOST_VALUE)}\n" for key, value in item.items())
        for item in items[:_MOST_TEXT_ITEMS]
    )
    rest = len(items) - _MOST_TEXT_ITEMS
    return text + (f"\n... and {rest} items more\n" if rest > 0 else "")


def _shown(value: object) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")
