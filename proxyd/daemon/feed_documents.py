"""Notifications as documents for feed readers: Atom 1.0 and JSON Feed 1.1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree

from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import plain_name
from proxyd.core.rules.programs.message_program import heading
from proxyd.core.texts.safe_text import for_xml, is_web
from proxyd.store.listed_rows import StoredNotification

_NAMESPACE = "http://www.w3.org/2005/Atom"
_LINKS = ("link", "url")
_MOST_ROWS = 50
_LONGEST_TITLE = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """A notification in a feed; ``content`` is HTML in which all foreign text is escaped."""

    notification_id: str
    title: str
    link: str | None
    published: str
    updated: str
    rule: str
    source: str
    late: bool
    muted: bool
    limited: bool
    content: str

    @property
    def tags(self) -> list[str]:
        """Its rule, and why it was not sent."""
        return [self.rule, *(["muted"] if self.muted else []), *(["limited"] if self.limited else [])]

    @property
    def urn(self) -> str:
        """The id as a permanent IRI."""
        return _urn(f"notification\0{self.notification_id}")


@dataclass(frozen=True, slots=True)
class Feed:
    """The newest notifications of a profile, or of one of its rules; ``address`` contains no token.

    ``hub`` is where a subscriber asks to have them pushed; empty if nobody pushes.
    """

    profile: str
    rule: str | None
    address: str
    entries: tuple[Entry, ...]
    hub: str = ""

    @property
    def title(self) -> str:
        """The title that feed readers show."""
        return self.profile if self.rule is None else f"{self.profile}: {plain_name(self.rule)}"

    @property
    def updated(self) -> str:
        """When the newest entry was created; 1970 in a feed without entries."""
        return max((entry.updated for entry in self.entries), default=iso_time(0.0))


def entry(stored: StoredNotification) -> Entry:
    """Return a stored notification as an entry."""
    data: dict[str, Any] = json.loads(stored.body)["data"]
    items: Sequence[Mapping[str, Any]] = data["items"]
    first = items[0] if items else {}
    link = _text_of(first, _LINKS)
    return Entry(
        notification_id=stored.notification_id,
        title=for_xml(heading(data, plain_name(stored.rule)))[:_LONGEST_TITLE],
        link=next((each for each in (link, data.get("url")) if each and is_web(each)), None),
        published=iso_time(stored.event_s),
        updated=iso_time(stored.created_s),
        rule=for_xml(plain_name(stored.rule)),
        source=for_xml(plain_name(stored.source_id)),
        late=stored.late,
        muted=stored.muted,
        limited=stored.limited,
        content=_content(stored, items),
    )


def atom(feed: Feed) -> bytes:
    """Return the feed as an Atom document."""
    root = ElementTree.Element("feed", xmlns=_NAMESPACE)
    _element(root, "id", _urn(f"feed\0{feed.profile}\0{feed.rule or ''}"))
    _element(root, "title", for_xml(feed.title))
    _element(root, "updated", feed.updated)
    _element(root, "link", rel="self", type="application/atom+xml", href=feed.address)
    if feed.hub:
        _element(root, "link", rel="hub", href=feed.hub)
    _element(_element(root, "author"), "name", "proxyd")
    _element(root, "generator", "proxyd")
    for each in feed.entries:
        _atom_entry(_element(root, "entry"), each)
    found: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return found


def _atom_entry(parent: ElementTree.Element, each: Entry) -> None:
    _element(parent, "id", each.urn)
    _element(parent, "title", each.title, type="text")
    _element(parent, "published", each.published)
    _element(parent, "updated", each.updated)
    if each.link is not None:
        _element(parent, "link", rel="alternate", href=each.link)
    for tag in each.tags:
        _element(parent, "category", term=tag)
    _element(parent, "content", each.content, type="html")


def _element(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: str) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, tag, attributes)
    made.text = text
    return made


def json_feed(feed: Feed) -> bytes:
    """Return the feed as a JSON Feed document."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": for_xml(feed.title),
        "feed_url": feed.address,
        **({"hubs": [{"type": "WebSub", "url": feed.hub}]} if feed.hub else {}),
        "authors": [{"name": "proxyd"}],
        "items": [_json_item(each) for each in feed.entries],
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _json_item(each: Entry) -> dict[str, Any]:
    link = {} if each.link is None else {"url": each.link}
    return link | {
        "id": each.notification_id,
        "title": each.title,
        "content_html": each.content,
        "date_published": each.published,
        "date_modified": each.updated,
        "tags": each.tags,
        "_proxyd": {name: getattr(each, name) for name in ("rule", "source", "late", "muted", "limited")},
    }


def _content(stored: StoredNotification, items: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as HTML."""
    marks = "".join(f", {name}" for name in ("late", "muted", "limited") if getattr(stored, name))
    rule, source, identity = plain_name(stored.rule), plain_name(stored.source_id), stored.notification_id
    head = f"<p>{_escape(rule)} on {_escape(source)}{marks} ({_escape(identity)})</p>"
    shown = "".join(_row(item) for item in items[:_MOST_ROWS])
    more = f"<p>and {len(items) - _MOST_ROWS} more</p>" if len(items) > _MOST_ROWS else ""
    return head + shown + more


def _row(item: Mapping[str, Any]) -> str:
    fields = [f"<dt>{_escape(name)}</dt><dd>{_escape(_shown(value))}</dd>" for name, value in item.items()]
    return f"<dl>{''.join(fields)}</dl>" if fields else ""


def _shown(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _escape(text: str) -> str:
    return escape(for_xml(text))


def _text_of(item: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return a text of ``item`` whose field ends in one of ``names``; fields of items precede those of channels."""
    paths = sorted(item, key=lambda path: ".item." in path)
    last = {path.rpartition(".")[2].lower(): item[path] for path in paths}
    found = (last.get(name) for name in names)
    texts = (" ".join(value.split()) for value in found if isinstance(value, str))
    return next((text for text in texts if text), None)


def _urn(name: str) -> str:
    return uuid5(NAMESPACE_URL, f"proxyd\0{name}").urn


@dataclass(frozen=True, slots=True)
class FeedForm:
    """A format of feeds: its media type, and what writes it."""

    media_type: str
    write: Callable[[Feed], bytes]


FORMS = {
    "atom": FeedForm("application/atom+xml", atom),
    "json": FeedForm("application/feed+json", json_feed),
}
"""The formats, by the ends of their addresses."""
