"""Message bodies in other forms: versions of the payload, CloudEvents, digests, and texts for people."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from html import escape
from typing import Any
from urllib.parse import quote

from proxyd.base.ports import Gathered
from proxyd.core.model.delivery import ChannelDelivery, LogDelivery, MailDelivery, WebhookForm
from proxyd.core.model.field_values import iso_time, with_local_times
from proxyd.core.model.text_blocks import readable
from proxyd.core.rules.answers.shown_events import OF_ITEMS
from proxyd.core.rules.programs.message_program import MARKED_UP, MOST_TOLD, heading, notifications_of, title_of
from proxyd.core.texts.safe_text import is_web, one_line

_MOST_ITEMS = 1000
_MOST_DIGEST_BYTES = 4_000_000
_MOST_SUBJECT = 150
_MOST_VALUE = 2000
_BETWEEN = " · "  # columns of a row in a chat
_TITLE = f"{OF_ITEMS}title"
_SUMMARIES = (f"{OF_ITEMS}description", f"{OF_ITEMS}content")
_MOST_SUMMARY = 500
_WORDED = frozenset(
    {"title", "heading", "headline", "name", "subject", "link", "url"}
)  # columns that a row's text may be
_IN_THE_SENTENCE = frozenset({"source.trouble", "source.error", "source.since"})
"""Columns of an event of a source that its usual wording says already."""


LETTER = "proxyd.letter"
"""The type of a mail to one person, with a title and a text; no rule tells it."""


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


def webhook_body(message_id: str, rule: str, body: bytes, *, form: WebhookForm, version: int) -> bytes:
    """Return what a webhook of a form is sent, as a version of the payload."""
    body = payload(body, version)
    return cloudevent(message_id, rule, body) if form is WebhookForm.CLOUDEVENTS else body


def sent_text(
    message_id: str, rule: str, body: bytes, *, kind: str, form: str, version: int, zone: tzinfo | None = UTC
) -> tuple[str, str]:
    """Return the title and the text of a message as a kind of delivery sends it; a webhook's JSON is laid out."""
    match kind:
        case MailDelivery.kind:
            return subject(rule, body), plain_text(rule, body, zone)
        case ChannelDelivery.kind:
            return chat_text(body, zone)
        case LogDelivery.kind:
            return "", subject(rule, body)
    sent = webhook_body(message_id, rule, body, form=WebhookForm(form), version=version)
    return "", json.dumps(json.loads(sent), ensure_ascii=False, indent=2)


def payload(body: bytes, version: int) -> bytes:
    """Return a recorded body as version 1 or 2 of the payload; equal bodies give equal bytes.

    Version 1 has columns by their full paths. Version 2 has short names where they are unambiguous, the texts for
    people, the changes of updated rows, and the path of the screenshot. A body that was recorded without these is
    version 1 as it is. Other messages than notifications and digests have one form.
    """
    message = json.loads(body)
    data = message.get("data", {})
    if "items" not in data and "notifications" not in data:
        return body
    if version == 1:
        has_texts = any("message" in each for each in notifications_of(data))
        return _compact(message | {"data": _first_version(data)}) if has_texts else body
    kind, timestamp = message["type"], message["timestamp"]
    return _compact({"type": kind, "version": 2, "timestamp": timestamp, "data": _second_version(data)})


def _first_version(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in data.items() if name not in {"message", "changes", "screenshot"}}
    if "notifications" in found:
        found["notifications"] = [_first_version(each) for each in found["notifications"]]
    return found


def _second_version(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in data.items() if name not in {"message", "changes", "items"}}
    found["title"] = heading(data)
    if "notifications" in found:
        return found | {"notifications": [_second_version(each) for each in found["notifications"]]}
    found["text"] = "\n".join(_lines(data))
    found["items"] = [_with_short_names(item) for item in data["items"]]
    if "changes" in data:
        found["changes"] = [_with_short_names(changes) for changes in data["changes"]]
    return found


def _with_short_names(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns by the last part of their path, where no other column ends with it.

    >>> _with_short_names({"channel.item.title": "a", "OLD.text": "b", "NEW.text": "c"})
    {'title': 'a', 'OLD.text': 'b', 'NEW.text': 'c'}
    """
    counts = Counter(name.rpartition(".")[2].lower() for name in item)
    return {
        (short if counts[(short := name.rpartition(".")[2]).lower()] == 1 else name): value
        for name, value in item.items()
    }


def digest(gathered: Gathered) -> bytes:
    """Return the body of a digest: notifications in order, limited in items and in bytes; the rest are counted.

    A notification without items counts as one. ``left_out`` counts what does not fit.
    """
    bytes_left = _MOST_DIGEST_BYTES
    room = _MOST_ITEMS if gathered.most_items is None else gathered.most_items
    told: list[dict[str, Any]] = []
    left_out = {"notifications": 0, "items": 0}
    for body in gathered.bodies:
        data = json.loads(body)["data"]
        items = data["items"]
        left_out["items"] += data.get("left_out", {}).get("items", 0)
        bytes_left -= len(body)
        if room <= 0 or (bytes_left < 0 and told):
            left_out["notifications"] += 1
            left_out["items"] += len(items)
            continue
        told.append(_with_items(data, room))
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


def _with_items(data: dict[str, Any], most: int) -> dict[str, Any]:
    """Return a notification with its first items, and what is said of them."""
    cut: dict[str, Any] = data | {"items": data["items"][:most]}
    if "message" in data:
        cut["message"] = data["message"] | {"rows": data["message"]["rows"][:most]}
    if "changes" in data:
        cut["changes"] = data["changes"][:most]
    return cut


def subject(rule: str, body: bytes) -> str:
    """Return a subject line for people: the first finding, or the rule if there is none."""
    return one_line(heading(json.loads(body)["data"], rule, most=_MOST_SUBJECT))


def chat_text(body: bytes, zone: tzinfo | None = UTC) -> tuple[str, str]:
    """Return a heading, which is empty if the rule has its own wording, and the text of all rows."""
    title, rows = chat_rows(body, zone)
    return title, "\n".join(rows)


def chat_rows(body: bytes, zone: tzinfo | None = UTC) -> tuple[str, list[str]]:
    """Return a heading, which is empty if the rule has its own wording, and a text for each row."""
    data = json.loads(body)["data"]
    told = _local_notifications(data, zone)
    is_set = all(each.get("message", {}).get("is_set") for each in told)
    rule = _in_line(str(data.get("rule", "")))
    lines = [line for each in told for line in _chat_lines(each) if line.strip()]  # no service takes an empty text
    return "" if is_set and lines else rule, [*(lines or [rule]), *_left_out(data)]


def plain_text(rule: str, body: bytes, zone: tzinfo | None = UTC) -> str:
    """Return a body as text for people: the rows, and below them where they come from; ``None`` is our own zone."""
    data = json.loads(body)["data"]
    parts = [_rows(each) + _origin(rule, each, zone) for each in _local_notifications(data, zone)]
    parts += [f"{line}\n" for line in _left_out(data)]
    return ("\n" + "-" * 40 + "\n\n").join(parts) + f"\n-- \n{data.get('id', rule)}\n"


def html_text(rule: str, body: bytes, zone: tzinfo | None = UTC) -> str:
    """Return a body as HTML for people, in which all foreign text is escaped."""
    data = json.loads(body)["data"]
    parts = [_html_rows(each) + _html_origin(rule, each, zone) for each in _local_notifications(data, zone)]
    parts += [f"<p>{escape(line)}</p>" for line in _left_out(data)]
    return f"<!doctype html><html><body>{'<hr>'.join(parts)}</body></html>"


def _local_notifications(data: Mapping[str, Any], zone: tzinfo | None) -> list[Mapping[str, Any]]:
    """Return the notifications of a body, with the columns that are times as a clock in a zone shows them."""

    def local(value: Any) -> Any:
        return with_local_times(value, zone) if isinstance(value, str) and len(value) == len(iso_time(0.0)) else value

    return [
        dict(each) | {"items": [{name: local(value) for name, value in item.items()} for item in each.get("items", ())]}
        for each in notifications_of(data)
    ]


def sent_at(body: bytes) -> datetime:
    """Return when a message was made, which is the same on every attempt."""
    return datetime.fromisoformat(json.loads(body)["timestamp"]).astimezone(UTC)


def _lines(data: Mapping[str, Any]) -> list[str]:
    """Return the texts of a notification's rows; those that were recorded without texts have their titles."""
    items = data.get("items", ())
    rows = data["message"]["rows"] if "message" in data else [_in_line(title_of(item)) for item in items[:MOST_TOLD]]
    rest = len(items) - len(rows)
    texts = ["\n".join(one_line(line, _MOST_VALUE) for line in row.split("\n")) for row in rows]
    return [*texts, *([f"and {rest} more"] if rest > 0 else [])] or [_in_line(str(data.get("rule", "")))]


def _in_line(text: str) -> str:
    return one_line(text, _MOST_VALUE)


def _left_out(data: Mapping[str, Any]) -> list[str]:
    left_out = data.get("left_out", {})
    counts = (("item", left_out.get("items", 0)), ("whole notification", left_out.get("notifications", 0)))
    told = [f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts if count]
    return [f"Left out: {', '.join(told)}."] if told else []


def _chat_lines(data: Mapping[str, Any]) -> list[str]:
    """Return the texts of a notification's rows, with every column that its query names, in its order."""
    # A chat showed the first one alone
    lines, changes = _lines(data), data.get("changes", ())
    if not data.get("message", {}).get("is_named"):
        return lines
    for n, item in enumerate(data["items"][: len(data["message"]["rows"])]):
        if len(item) > 1:
            columns = list(_column_texts(item, changes[n] if n < len(changes) else {}))
            lines[n] = "\n".join(
                ["".join(columns).removeprefix(_BETWEEN).strip() or lines[n], *lines[n].split("\n")[1:]]
            )
    return lines


def _column_texts(item: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield each column of a row as text: what changed in it, or its value, with its name unless it is a title."""
    for (name, value), short in zip(item.items(), _with_short_names(item), strict=True):
        change = changes.get(name, {})
        if value is None and "to" not in change:
            continue
        if "to" in change:
            yield f"{_BETWEEN}{name.rpartition('.')[2]}: {_shown(change['from'])} → {_shown(change['to'])}"
        elif "difference" not in change and not _is_before(name, changes):
            text = _in_line(readable(value) if name in MARKED_UP else _shown(value))
            words = text if short.lower() in _WORDED else f"{one_line(short.replace(OF_ITEMS, ''))}: {text}"
            yield f" {text}" if is_web(text) and short.lower() in _WORDED else _BETWEEN + words


def _is_before(name: str, changes: Mapping[str, Any]) -> bool:
    """Return whether a column is the old value of one whose change is told."""
    return name.startswith("OLD.") and f"NEW.{name.removeprefix('OLD.')}" in changes


def _told_items(data: Mapping[str, Any]) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield each row's text, its link, which may be empty, and its other columns that fit."""
    changes = data.get("changes", ())
    for n, (line, item) in enumerate(zip(_lines(data), data.get("items", ()), strict=False)):
        told = () if data.get("message", {}).get("is_named") or not item.get("source.trouble") else _IN_THE_SENTENCE
        read = {n: readable(v) if n in MARKED_UP else v for n, v in item.items() if n not in told}
        shown = {n: _in_line(_shown(value)) for n, value in _with_short_names(read).items() if value not in (None, "")}
        link = next((shown[name] for name in ("link", "url") if is_web(shown.get(name, ""))), "")
        changed = _with_short_names(changes[n]) if n < len(changes) else {}
        others = [
            (one_line(name), text)
            for name, text in shown.items()
            if not (name.rpartition(".")[2].lower() in _WORDED and text in line)
            and text != link
            and name not in changed
        ]
        is_whole_feed_item = "message" in data and not data["message"].get("is_named") and _TITLE in item
        yield line, link, _summary(read) if is_whole_feed_item else others


def _summary(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the beginning of what a feed says of an item, without a name; nothing if that is its title."""
    texts = (_in_line(_shown(item.get(name) or "")).strip() for name in _SUMMARIES)
    found = next((text for text in texts if text and text != item[_TITLE]), "")
    cut = found if len(found) <= _MOST_SUMMARY else found[:_MOST_SUMMARY].rpartition(" ")[0] + " …"
    return [("", cut)] if cut else []


def _field_line(name: str, text: str) -> str:
    return f"{name}: {text}" if name else text


def _rows(data: Mapping[str, Any]) -> str:
    texts = []
    for line, _, others in _told_items(data):
        texts.append("".join(f"{each}\n" for each in [line, *(_field_line(n, v) for n, v in others)]))
    told = len(texts)
    return "\n".join([*texts, *(f"{line}\n" for line in _lines(data)[told:])])


def _html_rows(data: Mapping[str, Any]) -> str:
    parts, told = [], 0
    for line, link, others in _told_items(data):
        told += 1
        words = _row_as_html(line, link, is_set=bool(data.get("message", {}).get("is_set")))
        shown = words.replace("\n", "<br>")
        fields = "".join(f"<br>{escape(_field_line(name, text))}" for name, text in others)
        parts.append(f"<p><strong>{shown}</strong>{fields}</p>")
    return "".join(parts) + "".join(f"<p>{escape(line)}</p>" for line in _lines(data)[told:])


def _row_as_html(text: str, link: str, *, is_set: bool) -> str:
    """Return a row's text as HTML: its link where the rule's own wording has it, otherwise under the first line."""
    if not link:
        return escape(text)
    written = re.search(re.escape(link) + r"(?![\w/?#&=%-])", text) if is_set else None
    if written is not None:
        return escape(text[: written.start()]) + _anchor(link, link) + escape(text[written.end() :])
    first, end, rest = text.partition("\n")
    words = first if is_set else first.removesuffix(f" {link}")
    return _anchor(link, words) + end + escape(rest)


def _anchor(link: str, words: str) -> str:
    return f'<a href="{escape(link)}">{escape(words)}</a>'


def _facts(rule: str, data: Mapping[str, Any], zone: tzinfo | None) -> list[tuple[str, str]]:
    event, source, name = data.get("event", {}), data.get("source"), data.get("rule", rule)
    address = data.get("url")
    is_address = address is not None and source is not None and address.partition("://")[2] == source
    facts = [
        ("Rule", name),
        ("Source", source if source != name else None),
        ("Address", address if not is_address or source == name else None),
        ("Time", _times(event, zone) if event else None),
        ("Late", "yes" if data.get("late") else None),
        ("Partial", "yes" if data.get("partial") else None),
    ]
    return [(name, _in_line(str(value))) for name, value in facts if value is not None]


def _times(event: Mapping[str, Any], zone: tzinfo | None) -> str:
    """Return when an event happened, and when it was seen if that is another minute.

    >>> _times({"time": "2026-03-01T11:59:00.000Z", "seen": "2026-03-01T12:00:01.500Z"}, UTC)
    '2026-03-01 11:59 UTC, seen 12:00'
    """
    came, seen = (datetime.fromisoformat(event[each]).astimezone(zone) for each in ("time", "seen"))
    told = f"{came:%Y-%m-%d %H:%M %Z}"
    at = f"{seen:%H:%M}" if seen.date() == came.date() else f"{seen:%Y-%m-%d %H:%M}"
    return told if seen - came < timedelta(minutes=1) else f"{told}, seen {at}"


def _origin(rule: str, data: Mapping[str, Any], zone: tzinfo | None) -> str:
    return "\n" + "".join(f"{name}: {value}\n" for name, value in _facts(rule, data, zone))


def _html_origin(rule: str, data: Mapping[str, Any], zone: tzinfo | None) -> str:
    facts = "<br>".join(f"{name}: {escape(value)}" for name, value in _facts(rule, data, zone))
    return f"<p><small>{facts}</small></p>"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")
