"""Turns the raw values of a page's rows into items: types, identities, misfits. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from proxyd.core.model.field_values import coerce, normal_text, normal_value, plain_text
from proxyd.core.model.item import LONGEST_FIELD, Item, Value
from proxyd.core.model.numbers import read_number
from proxyd.core.model.profile import Field, FieldType, PageClass, Reader
from proxyd.probing.documents.document_texts import MOST_ITEMS, cap, clean, digest, safe_link, short_identity, words
from proxyd.probing.documents.feed_dates import time_s
from proxyd.probing.documents.probe_failures import UnreadableDocumentError

_MOST_NODES = 300_000

_DROPPED = words(
    "script style noscript template iframe object embed svg canvas audio video nav button select input textarea "
    "datalist head title dialog"
)
_BLOCKS = words(
    "html body main article section header footer aside div p h1 h2 h3 h4 h5 h6 hgroup ul ol li dl dt dd menu table "
    "caption thead tbody tfoot tr blockquote pre figure figcaption form fieldset legend details summary address hr "
    "center search"
)
_CELLS = frozenset({"td", "th"})
_BLANKS = re.compile(r"[ \t\r\n\f\u00a0]+")
_INLINE_BLANKS = re.compile(r"[ \t\r\f\u00a0]+")
_LINE_ENDS = re.compile(r" ?\n[ \n]*")


class _Writer:
    """Collects texts into blocks."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self._parts: list[str] = []

    def add(self, text: str, *, keep_lines: bool) -> None:
        self._parts.append((_INLINE_BLANKS if keep_lines else _BLANKS).sub(" ", text))

    def cell(self) -> None:
        if "".join(self._parts).strip():
            self._parts.append(" | ")

    def end(self) -> None:
        if self._parts:
            text = _LINE_ENDS.sub("\n", _INLINE_BLANKS.sub(" ", "".join(self._parts))).strip()
            self._parts.clear()
            if text:
                self.blocks.append(text)


def text_blocks(root: LexborNode, most_nodes: int = _MOST_NODES) -> list[str]:
    """Return the blocks of an element's readable text, in page order, from its first nodes."""
    writer = _Writer()
    stack: list[tuple[LexborNode, bool, bool]] = [(root, False, False)]  # node, being left, inside <pre>
    nodes = 0
    while stack and nodes < most_nodes:
        node, leaving, preformatted = stack.pop()
        nodes += 1
        if leaving:
            writer.end()
        elif node.is_text_node:
            writer.add(node.text_content or "", keep_lines=preformatted)
        elif node.is_element_node and (node is root or not _is_dropped(node)):
            stack.extend(_enter(writer, node, most_nodes, preformatted=preformatted))
    writer.end()
    return writer.blocks


def _enter(
    writer: _Writer, node: LexborNode, most_nodes: int, *, preformatted: bool
) -> list[tuple[LexborNode, bool, bool]]:
    """Begin an element; return its first children to visit, last first."""
    tag = node.tag or ""
    rest: list[tuple[LexborNode, bool, bool]] = []
    if tag in _BLOCKS:
        writer.end()
        rest.append((node, True, preformatted))
    elif tag in _CELLS:
        writer.cell()
    elif tag == "br":
        writer.add("\n", keep_lines=True)
    inside = preformatted or tag == "pre"
    children: list[tuple[LexborNode, bool, bool]] = []
    child = node.first_child
    while child is not None and len(children) < most_nodes:
        children.append((child, False, inside))
        child = child.next
    return rest + children[::-1]


def _is_dropped(node: LexborNode) -> bool:
    if node.tag in _DROPPED:
        return True
    attributes = node.attributes
    return bool(attributes) and (
        "hidden" in attributes or attributes.get("aria-hidden") == "true" or attributes.get("role") == "navigation"
    )


Raw: TypeAlias = str | int | float | bool | None
"""A selector's result, before it is read as the type of its field."""

Marks: TypeAlias = Mapping[Reader, str | None]
"""The decimal mark that settles ambiguous numbers among the values of each reader."""
_NO_MARKS: Marks = MappingProxyType({})

THE_PAGE = "page"
"""The identity of a page that is a single item."""

_NO_URL = re.compile(r"[\s<>{}\"\\^`|]")
_COMPACT_DAY = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")  # 20260301 is no second of 1970
_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.0  # years 1 to 9999
_MILLISECONDS, _MICROSECONDS = 1e11, 1e14  # a larger number cannot be seconds: the year 5138


class NotOneValue(str):
    """The text of an object or a list where one value is expected; it fits no type."""

    __slots__ = ()


class PageRow(Protocol):
    """A page or a row, seen by one reader."""

    def rows(self, selector: str) -> list[PageRow]:
        """Return the rows that the selector of EACH finds."""

    def value(self, selector: str, field_type: FieldType) -> Raw:
        """Return the first value that a selector finds."""

    def outer(self) -> tuple[str, str]:
        """Return the element's name and HTML, for another reader; raises ``UnreadableDocumentError``."""


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A page and its rows as items, in page order."""

    items: tuple[Item, ...]
    version: str  # the format it was read as: `json`, `html` or `text`
    title: str | None = None
    period_s: float | None = None
    trouble: str = ""  # what is wrong with the document although it could be read, or `""`
    truncated: bool = False  # whether the page had more items than are kept
    # The number of values that did not fit each field's type, by its path; they are `None` in the items. Rows without
    # an identity were left out, and count for the fields of the key.
    misfits: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class _Rows:
    """Turns raw rows into items, and counts misfits."""

    page_class: PageClass
    url: str
    marks: Marks
    misfits: Counter[str] = field(default_factory=Counter)
    unidentified: int = 0

    def items(self, rows: Iterable[Sequence[Raw]]) -> Iterator[Item]:
        for row in rows:
            texts = [_plain(raw) for raw in row]
            identity = self._identity(texts)
            if identity is None:
                self.unidentified += 1
                continue
            fields = self._fields(row, texts)
            parts = zip(self.page_class.fields, row, texts, fields.values(), strict=True)
            normal = [self._normal(*part) for part in parts]
            yield Item(identity, fields, None, self._hash(normal), former_hashes=(self._hash(texts),))

    def _normal(self, field: Field, raw: Raw, text: str | None, value: Value) -> str | None:
        """Return a value in the form in which it is compared, as text: a number by its size, a text by what is read."""
        # The part of a text that is too long to keep counts too
        if text is None or value is None:
            return None
        is_text = isinstance(raw, str) and isinstance(value, str)
        normal = normal_value(text if is_text and field.type is FieldType.STRING else value, field.type)
        return normal if isinstance(normal, str) else json.dumps(normal)

    def _fields(self, row: Sequence[Raw], texts: Sequence[str | None]) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        for each, raw, text in zip(self.page_class.fields, row, texts, strict=True):
            mark = None if each.extraction is None else self.marks.get(each.extraction.reader)
            value = None if text is None else value_as_type(raw, each.type, self.url, mark)
            fields[each.path.lower()] = value
            if value is None and text is not None:
                self.misfits[each.path] += 1
        return fields

    def _hash(self, texts: Sequence[str | None]) -> str:
        paths = (each.path.lower() for each in self.page_class.fields)
        return digest(part for pair in zip(paths, texts, strict=True) for part in pair)

    def _identity(self, texts: Sequence[str | None]) -> str | None:
        """Return the text of the key, or ``None`` if part of it is missing."""
        if self.page_class.each is None:
            return THE_PAGE
        by_path = dict(zip((each.path for each in self.page_class.fields), texts, strict=True))
        parts = [by_path.get(path) for path in self.page_class.key]
        missing = [path for path, part in zip(self.page_class.key, parts, strict=True) if part is None]
        if missing or not parts:
            self.misfits.update(missing)
            return None
        return short_identity(parts[0] or "" if len(parts) == 1 else json.dumps(parts, ensure_ascii=False))


def page_of(
    rows: Iterable[Sequence[Raw]], page_class: PageClass, url: str, version: str, marks: Marks = _NO_MARKS
) -> ParsedPage:
    """Return rows as a page; of rows with the same identity only the first is kept.

    Raises ``UnreadableDocumentError``: there are rows, but none has an identity.
    """
    kept = list(islice(rows, MOST_ITEMS + 1))
    builder = _Rows(page_class, url, marks)
    first: dict[str, Item] = {}
    for item in builder.items(kept[:MOST_ITEMS]):
        first.setdefault(item.item_id, item)
    items = tuple(first.values())
    if kept and not items:
        raise UnreadableDocumentError(f"not one row has a value for its KEY {', '.join(page_class.key)}")
    is_cut = len(kept) > MOST_ITEMS or builder.unidentified > 0  # a row without an identity may not be gone
    return ParsedPage(items, version, truncated=is_cut, misfits=tuple(sorted(builder.misfits.items())))


def field_selectors(fields: Iterable[Field]) -> str:
    """Return the selectors of fields for an error message."""
    return ", ".join(each.extraction.selector for each in fields if each.extraction)


def _plain(raw: Raw) -> str | None:
    r"""Return a raw value as text, or ``None`` if it is missing.

    >>> _plain(" a "), _plain(True), _plain(2.5), _plain(""), _plain("\u200b")
    ('a', 'true', '2.5', None, None)
    """
    if isinstance(raw, str):
        text = plain_text(clean(raw)).strip()
        return text if normal_text(text) else None
    return None if raw is None else json.dumps(raw)


def value_as_type(raw: Raw, field_type: FieldType, url: str = "", mark: str | None = None) -> Value:
    """Return a raw value as its field's type, or ``None`` if it does not fit; ``mark`` settles ambiguous numbers.

    >>> value_as_type("7", FieldType.INTEGER), value_as_type("/a", FieldType.URL, "https://a.example")
    (7, 'https://a.example/a')
    >>> value_as_type("seven", FieldType.INTEGER)
    """
    text = _plain(raw)
    if text is None or isinstance(raw, NotOneValue):
        return None
    match field_type:
        case FieldType.STRING:
            return cap(text)
        case FieldType.URL:
            return _url(text, url) if isinstance(raw, str) else None
        case FieldType.TIMESTAMP:
            return None if isinstance(raw, bool) else _time_s(text)
        case FieldType.BOOLEAN:
            return coerce(text, field_type)
        case FieldType.INTEGER | FieldType.DECIMAL:
            return None if isinstance(raw, bool) else _number(raw, text, field_type, mark)


def _number(raw: Raw, text: str, field_type: FieldType, mark: str | None) -> Value:
    """Return a number, read from a text as people write it; a raw number needs no reading."""
    if not isinstance(raw, str):
        return coerce(text, field_type)
    return coerce(text, field_type, read_number=partial(read_number, mark=mark))


def _url(text: str, url: str) -> str | None:
    link = None if _NO_URL.search(text) or len(text) > LONGEST_FIELD else safe_link(url, text)
    return link if link and urlsplit(link).scheme else None


def _time_s(text: str) -> float | None:
    """Return unix seconds, from a number of seconds, milliseconds or microseconds, or from a date as in feeds."""
    number = None if _COMPACT_DAY.fullmatch(text) else coerce(text, FieldType.DECIMAL)
    if isinstance(number, int | float):
        size = abs(number)
        seconds = number / (1e6 if size >= _MICROSECONDS else 1e3 if size >= _MILLISECONDS else 1.0)
        return float(seconds) if _EARLIEST_S <= seconds <= _LATEST_S else None
    read = time_s(text)
    value = coerce(text, FieldType.TIMESTAMP) if read is None else read
    return value if isinstance(value, float) and _EARLIEST_S <= value <= _LATEST_S else None
