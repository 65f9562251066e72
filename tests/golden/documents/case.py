"""One document of the corpus, and how what is read from it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxyd.core.errors import ProbeError
from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import Item, Value
from proxyd.core.model.profile import PageClass
from proxyd.probing.document_parser import ParsedDocument, parse_document
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.pages.page_values import ParsedPage

URL = "https://example.org/blog/feed"
_TIMES = {"channel.item.pubdate", "channel.item.updated"}
_LONG = 120


@dataclass(frozen=True, slots=True)
class Case:
    """A name that says what is odd about it, the bytes, the header Content-Type, and how they are read."""

    name: str
    body: bytes
    content_type: str | None = None
    page_class: PageClass | None = None
    languages: Languages = NO_LANGUAGES


def text_case(name: str, text: str, content_type: str | None = None) -> Case:
    return Case(name, text.encode(), content_type)


def described(case: Case) -> dict[str, Any]:
    """Return what is read from a document, without what is null."""
    try:
        document = parse_document(case.body, case.content_type, URL, case.page_class, case.languages)
    except ProbeError as error:
        return {"error": f"{type(error).__name__}: {error.message}"}
    return _described_document(document)


def _described_document(document: ParsedDocument) -> dict[str, Any]:
    about: dict[str, Any] = {"version": document.version, "trouble": document.trouble, "title": document.title}
    about["truncated"] = document.truncated or None
    if isinstance(document, ParsedPage):
        about["misfits"] = dict(document.misfits)
    if isinstance(document, ParsedFeed) and document.items:
        about["channel"] = {
            path.removeprefix("channel."): _value(path, value)
            for path, value in document.items[0].fields.items()
            if not path.startswith("channel.item.") and value is not None
        }
    if isinstance(document, ParsedFeed):
        about["link"] = document.link
    about["items"] = [_described_item(item) for item in document.items]
    return {name: value for name, value in about.items() if value not in (None, "", {})}


def _described_item(item: Item) -> dict[str, Any]:
    fields = {
        path.removeprefix("channel.item."): _value(path, value)
        for path, value in item.fields.items()
        if value is not None and (path.startswith("channel.item.") or not path.startswith("channel."))
    }
    return {"id": _value("", item.item_id), **fields}


def _value(path: str, value: Value) -> Value:
    if path in _TIMES and isinstance(value, float):
        return iso_time(value)
    if isinstance(value, str) and len(value) > _LONG:
        return f"{value[:40]}... {len(value)} characters"
    return value
