"""HTML pages, read with CSS (lexbor), XPath (lxml) and by the names of meta elements. Pure.

XPath has no extension functions, variables or access to other documents. The time limit of the process bounds
the cost of a selector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from math import isfinite
from types import MappingProxyType
from typing import TypeAlias

from lxml import etree, html
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader, css_parts
from proxyd.probing.documents.document_texts import MOST_ITEMS, cap, clean, words
from proxyd.probing.documents.probe_failures import SelectorError, UnreadableDocumentError
from proxyd.probing.pages.linked_data import meta_view, view_of_element
from proxyd.probing.pages.offers import price_view
from proxyd.probing.pages.page_values import Marks, PageRow, ParsedPage, Raw, field_selectors, page_of, text_blocks

_MOST_DEPTH = 3_000
"""Elements that may stand in each other."""

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)")
_NOT_NESTED = words(
    "area base br col embed hr img input link meta param source track wbr p li td th tr dt dd option optgroup thead "
    "tbody tfoot colgroup html head body rb rt rp"
)
_TABLE_START = {
    "tr": "<table>",
    "tbody": "<table>",
    "thead": "<table>",
    "tfoot": "<table>",
    "td": "<table><tr>",
    "th": "<table><tr>",
}
"""What must stand before a part of a table, by its tag, for a parser to accept it."""
_DATA = frozenset({Reader.META, Reader.JSONLD})
"""The readers of data for programs, whose numbers have a point in pages of every language."""
_LANGUAGE = re.compile(r"<html\b[^<>]{0,2000}?\slang\s*=\s*[\"']?([A-Za-z0-9_-]{1,35})", re.IGNORECASE)
_HEAD = 65_536  # characters in which the language is looked for
_Attributes: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _CssRow:
    node: LexborNode
    owner: LexborHTMLParser  # keeps the document alive

    def rows(self, selector: str) -> list[PageRow]:
        return [_CssRow(node, self.owner) for node in self._find(selector)[: MOST_ITEMS + 1]]

    def value(self, selector: str, field_type: FieldType) -> Raw:
        """Return the first match; ``selector::attr(name)`` reads that attribute."""
        css, attribute = css_parts(selector)
        found = self._find(css) if css else [self.node]
        if not found:
            return None
        return found[0].attributes.get(attribute.lower()) if attribute else _element_value(found[0], field_type)

    def outer(self) -> tuple[str, str]:
        return self.node.tag or "", self.node.html or ""

    def _find(self, selector: str) -> list[LexborNode]:
        if not selector.strip():
            return [self.node]
        try:
            return self.node.css(selector)
        except SelectolaxError as error:
            raise SelectorError(f"the CSS selector {selector} cannot be read"[:300]) from error


@dataclass(frozen=True, slots=True)
class _XPathRow:
    element: etree._Element

    def rows(self, selector: str) -> list[PageRow]:
        found = self._find(selector)
        elements = [each for each in found if etree.iselement(each)] if isinstance(found, list) else []
        return [_XPathRow(each) for each in elements[: MOST_ITEMS + 1]]

    def value(self, selector: str, field_type: FieldType) -> Raw:
        found = self._find(selector)
        if isinstance(found, list):
            found = found[0] if found else None
        if etree.iselement(found):
            node, _owner = _parse_document_of(*_XPathRow(found).outer())
            return _element_value(node, field_type) if node is not None else None
        return _plain_result(found)

    def outer(self) -> tuple[str, str]:
        tag = self.element.tag if isinstance(self.element.tag, str) else ""
        return tag, html.tostring(self.element, encoding="unicode", with_tail=False)

    def _find(self, selector: str) -> object:
        try:
            found: object = _xpath(selector)(self.element)
        except etree.XPathError as error:
            raise SelectorError(f"the XPath selector {selector} cannot be evaluated: {error}"[:300]) from error
        return found


@dataclass(frozen=True, slots=True)
class _Views:
    """An element as each reader sees it, created on first use."""

    views: dict[Reader, PageRow] = field(default_factory=dict)

    def of(self, reader: Reader) -> PageRow:
        if reader not in self.views:
            tag, text = next(iter(self.views.values())).outer()
            made = VIEWS[reader](text, tag)
            if made is None:
                raise UnreadableDocumentError(f"a row of <{tag}> cannot be read by {reader.value}")
            self.views[reader] = made
        return self.views[reader]


def parse_html_page(text: str, url: str, page_class: PageClass, languages: Languages = NO_LANGUAGES) -> ParsedPage:
    """Return the rows of an HTML page; without EACH the page is one row.

    The value of an element is its readable text; of ``<meta>`` its content; for a Timestamp the ``datetime`` of
    ``<time>``, and for a URL its ``href`` or ``src``, if it has them. Raises ``UnreadableDocumentError`` or
    ``SelectorError``: the page has none of the content that the class reads.
    """
    page = _page(text, page_class, url)
    rows = [page] if page_class.each is None else _rows(page, page_class.each)
    values = [list(_values(row, page_class.fields)) for row in rows]
    if not any(value is not None for row in values for value in row):
        raise UnreadableDocumentError(_nothing_found(page_class))
    return page_of(values, page_class, url, "html", _marks(text, languages))


def _nothing_found(page_class: PageClass) -> str:
    if all(each.extraction and each.extraction.reader is Reader.PRICE for each in page_class.fields):
        return "the page states no price in JSON-LD, microdata or OpenGraph; name its place, as in FROM CSS '.price'"
    return f"nothing on the page matches {field_selectors(page_class.fields)}"


def _marks(text: str, languages: Languages) -> Marks:
    """Return the decimal mark by reader: of texts that people see by the page's language, of data by LOCALE alone."""
    stated = _LANGUAGE.search(text, 0, _HEAD)
    shown, data = languages.mark(None if stated is None else stated[1]), languages.mark_of_locale
    return {reader: data if reader in _DATA else shown for reader in VIEWS}


def page_blocks(text: str) -> tuple[str | None, list[str]]:
    """Return the title of a page and the blocks of its readable text."""
    node, owner = _parse_document_of("html", _limit_text(text))
    title = owner.css_first("title")
    named = None if title is None else cap(clean(title.text()).strip())
    return named or None, [] if node is None else text_blocks(node)


def page_preview(text: str) -> str:
    """Return what a page shows as harmless markup, with the ids and classes that selectors need."""
    _, owner = _parse_document_of("html", _limit_text(text))
    return "" if owner.body is None else preview_markup(owner.body)


def _css_view(text: str, tag: str = "html") -> PageRow | None:
    """Return an element for the CSS reader, or ``None`` if it cannot be read."""
    node, owner = _parse_document_of(tag, text)
    return None if node is None else _CssRow(node, owner)


def _xpath_view(text: str, tag: str = "html") -> PageRow | None:
    """Return an element for the XPath reader, or ``None`` if it cannot be read."""
    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False, remove_pis=True)
    body = text if tag == "html" else f"<html><body>{text}</body></html>"
    try:
        root = html.document_fromstring(body.encode("utf-8", "replace"), parser=parser)
    except etree.LxmlError:
        return None
    found = root if tag == "html" else next(root.iter(tag), None)
    return None if found is None else _XPathRow(found)


VIEWS: Mapping[Reader, Callable[[str, str], PageRow | None]] = MappingProxyType(
    {
        Reader.CSS: _css_view,
        Reader.XPATH: _xpath_view,
        Reader.META: meta_view,
        Reader.JSONLD: view_of_element,
        Reader.PRICE: price_view,
    }
)
"""The function that makes each reader's element from HTML and a tag name."""


def _page(text: str, page_class: PageClass, url: str) -> _Views:
    text = clean(_limit_text(text))
    readers = {each.extraction.reader for each in page_class.fields if each.extraction}
    if page_class.each is not None:
        readers.add(page_class.each.reader)
    views: dict[Reader, PageRow] = {}
    for reader in readers:
        view = price_view(text, url=url) if reader is Reader.PRICE else VIEWS[reader](text, "html")
        if view is None:
            raise UnreadableDocumentError("the web page cannot be read")
        views[reader] = view
    return _Views(views)


def _limit_text(text: str) -> str:
    """Return the text; refuse nesting so deep that reading it takes quadratic time."""
    depth = 0
    for match in _TAG.finditer(text):
        if match.group(2).lower() not in _NOT_NESTED:
            depth = max(0, depth - 1) if match.group(1) else depth + 1
            if depth > _MOST_DEPTH:
                raise UnreadableDocumentError("the web page is nested too deeply")
    return text


def _rows(page: _Views, each: Extraction) -> list[_Views]:
    found = page.of(each.reader).rows(each.selector)
    if not found:
        raise UnreadableDocumentError(f"no row matches {each.selector}")
    return [_Views({each.reader: row}) for row in found]


def _values(row: _Views, fields: Iterable[Field]) -> Iterator[Raw]:
    for each in fields:
        extraction = each.extraction
        yield None if extraction is None else row.of(extraction.reader).value(extraction.selector, each.type)


def _parse_document_of(tag: str, text: str) -> tuple[LexborNode | None, LexborHTMLParser]:
    """Return the element of a single element's HTML, and the document that holds it."""
    owner = LexborHTMLParser((_TABLE_START.get(tag, "") + text).encode("utf-8", "replace").decode())
    if tag == "html":
        return owner.root, owner
    return (owner.css_first(tag) if re.fullmatch(r"[a-z][a-z0-9-]*", tag) else owner.body), owner


def _element_value(node: LexborNode, field_type: FieldType) -> Raw:
    attributes: _Attributes = node.attributes
    if node.tag == "meta":
        return attributes.get("content")
    if field_type is FieldType.TIMESTAMP and attributes.get("datetime"):
        return attributes["datetime"]
    if field_type is FieldType.URL:
        link = attributes.get("href") or attributes.get("src")
        if link:
            return link
    return "\n".join(text_blocks(node)) or None


def _plain_result(found: object) -> Raw:
    """Return an XPath result that is not an element: a text, an attribute, a number or a boolean."""
    if isinstance(found, bool):
        return found
    if isinstance(found, float):
        if not isfinite(found):
            return None
        return int(found) if found.is_integer() and abs(found) < 2**53 else found
    return str(found) if isinstance(found, str) else None


@lru_cache(maxsize=256)
def _xpath(selector: str) -> etree.XPath:
    try:
        return etree.XPath(selector, regexp=False, smart_strings=False)
    except (etree.XPathError, ValueError) as error:
        raise SelectorError(f"the XPath selector {selector} cannot be read: {error}"[:300]) from error


MOST_ELEMENTS, MOST_CHARACTERS = 6_000, 300_000
_KEPT = words(
    "main article section header footer aside nav div p h1 h2 h3 h4 h5 h6 hgroup ul ol li dl dt dd menu table caption "
    "colgroup col thead tbody tfoot tr td th blockquote pre figure figcaption fieldset legend details summary address "
    "hr br center search a abbr b bdi bdo cite code data del dfn em font i ins kbd label mark output q s samp small "
    "span strong sub sup time u var wbr big tt form"
)
_VOID = words("br hr wbr col")
_LEFT_OUT = words(
    "script style noscript template iframe object embed applet svg math canvas audio video select input textarea "
    "button datalist head title dialog base link meta frame frameset img picture source plaintext xmp listing slot"
)
_OWN_TAG = re.compile(r"[a-z]+-[a-z-]{1,40}")
_ATTRIBUTES = ("id", "class")
_LONGEST_ATTRIBUTE, _LONGEST_ESCAPE = 300, len("&amp;")


def preview_markup(body: LexborNode) -> str:
    """Return what a page's body shows, as markup of harmless elements; a page that is too large is cut."""
    parts: list[str] = []
    size = elements = 0
    stack: list[LexborNode | str] = [*_children(body)]
    while stack and elements < MOST_ELEMENTS and size < MOST_CHARACTERS:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.is_text_node:
            parts.append(_cut(node.text_content or "", MOST_CHARACTERS - size))
        elif node.is_element_node and (tag := _shown_tag(node)) is not None:
            elements += 1
            parts.append(f"<{tag}{_attributes(node)}>")
            stack += [] if tag in _VOID else [f"</{tag}>", *_children(node)]
        size += len(parts[-1]) if parts else 0
    return "".join([*parts, *(each for each in reversed(stack) if isinstance(each, str))])


def _cut(text: str, most: int) -> str:
    """Return a text as markup of at most ``most`` characters."""
    written = escape(clean(text[:most]), quote=False)
    return written if len(written) <= most else escape(clean(text[: most // _LONGEST_ESCAPE]), quote=False)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the children of an element, last first."""
    child = node.last_child
    while child is not None:
        yield child
        child = child.prev


def _shown_tag(node: LexborNode) -> str | None:
    """Return the tag with which an element is shown, or ``None`` if it is left out with all that is in it."""
    tag = (node.tag or "").lower()
    if tag in _LEFT_OUT:
        return None
    return tag if tag in _KEPT or _OWN_TAG.fullmatch(tag) else "span"


def _attributes(node: LexborNode) -> str:
    found = node.attributes
    values = ((name, found.get(name)) for name in _ATTRIBUTES)
    return "".join(f' {name}="{escape(clean(value[:_LONGEST_ATTRIBUTE]))}"' for name, value in values if value)
