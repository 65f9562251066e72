"""Conversion between rows of ``joint_intervals`` and intervals of rules over several sources."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from proxyd.core.model.item import EventKind, Item, UpdateEvent, Value
from proxyd.core.rules.stages.joint_intervals import JointInterval, Obtained


def joint_row(interval: JointInterval) -> dict[str, Any]:
    """Return a row of ``joint_intervals``."""
    body = {name: getattr(interval, name) for name in ("opened", "opened_s", "deadline", "ends_s", "wanted", "told")}
    body["events"] = [_event_body(event) for event in interval.events]
    body["obtained"] = [
        [each.source_id, each.seen_s, each.captured, [dict(row) for row in each.rows]] for each in interval.obtained
    ]
    text = json.dumps(body, ensure_ascii=False)
    return {"interval_id": interval.interval_id, "rule": interval.rule, "body": text}


def joint_interval(row: Row[Any]) -> JointInterval:
    """Return the interval that ``joint_row`` wrote."""
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
        obtained=tuple(_obtained(*each) for each in body["obtained"]),
        told=None if body["told"] is None else tuple(body["told"]),
    )


def _obtained(source_id: str, seen_s: float, captured: bool, rows: list[dict[str, Value]]) -> Obtained:
    return Obtained(source_id, seen_s, captured, tuple(rows))


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
