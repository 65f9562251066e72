"""JSON pages, read with JSONPath (RFC 9535). Pure.

``match()`` and ``search()`` use re2, so every pattern takes linear time. The time limit of the process bounds the
other costs of a selector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import cast

import re2
from iregexp_check import check
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathNode, JSONPathQuery
from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction

from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from proxyd.probing.documents.document_texts import MOST_ITEMS, Json, load_json
from proxyd.probing.documents.probe_failures import SelectorError, UnreadableDocumentError
from proxyd.probing.pages.page_values import NotOneValue, ParsedPage, Raw, field_selectors, page_of

_PATTERN_BYTES = 1 << 20  # memory of one pattern
_TOO_DEEP = "the JSON document is nested too deeply for its selectors"


class _Regex(FilterFunction):
    """``match`` (the whole text) or ``search`` (anywhere) with a pattern of RFC 9485."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as in the base class
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def __call__(self, text: object, pattern: object) -> bool:
        """Return whether the text matches; a value that is not text and a broken pattern do not."""
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        compiled = _pattern(pattern)
        if compiled is None:
            return False
        text = text.encode("utf-8", "replace").decode()  # re2 does not accept lone surrogates
        return (compiled.fullmatch(text) if self._whole else compiled.search(text)) is not None


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re2._Regexp | None:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        return re2.compile(_narrow_dots(pattern), options) if check(pattern) else None
    except (re2.error, ValueError):
        return None


def _narrow_dots(pattern: str) -> str:
    """Return the pattern for re2, in which a dot outside brackets does not match a line end, as RFC 9485 says."""
    parts: list[str] = []
    escaped = bracketed = False
    for char in pattern:
        parts.append(r"[^\n\r]" if char == "." and not escaped and not bracketed else char)
        if not escaped and char in "[]":
            bracketed = char == "["
        escaped = char == "\\" and not escaped
    return "".join(parts)


class _Environment(JSONPathEnvironment):
    def setup_function_extensions(self) -> None:
        """Replace the library's functions with the linear-time ones."""
        super().setup_function_extensions()
        self.function_extensions["match"] = _Regex(whole=True)
        self.function_extensions["search"] = _Regex(whole=False)


_ENVIRONMENT = _Environment()


def parse_json_page(
    body: bytes, content_type: str | None, url: str, page_class: PageClass, languages: Languages = NO_LANGUAGES
) -> ParsedPage:
    """Return the rows of a JSON page; only LOCALE says how a text with an ambiguous number is meant.

    Without EACH the document is one row. A field takes its selector's first match; an object or a list is JSON text for
    a String, and does not fit other types. Raises ``UnreadableDocumentError`` or ``SelectorError``: the document is not
    JSON, or has none of the content that the class reads.
    """
    document = load_json(body, content_type)
    try:
        rows = [document] if page_class.each is None else _select_rows(document, page_class.each)
        found = [[_first(row, each) for each in page_class.fields] for row in rows]
        values = [[_raw(*pair) for pair in zip(row, page_class.fields, strict=True)] for row in found]
    except (JSONPathError, RecursionError) as error:
        raise UnreadableDocumentError(_TOO_DEEP) from error
    if rows and not any(node is not None for row in found for node in row):
        raise UnreadableDocumentError(f"nothing in the JSON document matches {field_selectors(page_class.fields)}")
    return page_of(values, page_class, url, "json", {Reader.JSON: languages.mark_of_locale})


def _select_rows(document: Json, each: Extraction) -> list[Json]:
    query = _query(each.selector)
    rows = [_value(node) for node in islice(query.finditer(document), MOST_ITEMS + 1)]
    if not rows and not _has_row_list(query, document):
        raise UnreadableDocumentError(f"no row matches {each.selector}")
    return rows


def _has_row_list(query: JSONPathQuery, document: Json) -> bool:
    """Return whether the list that rows stand in exists: a page may have no rows today."""
    parent = JSONPathQuery(env=query.env, segments=query.segments[:-1])
    return any(isinstance(node.value, list | dict) and _holds_rows(node.value) for node in parent.finditer(document))


def _holds_rows(value: list[Json] | dict[str, Json]) -> bool:
    """Return whether rows can stand in a value: in a list or an empty object."""
    # An object with other members shows that the page is built in another way now
    return isinstance(value, list) or not value


def _first(row: Json, field: Field) -> JSONPathNode | None:
    return next(iter(_query(field.extraction.selector if field.extraction else "$").finditer(row)), None)


def _raw(node: JSONPathNode | None, field: Field) -> Raw:
    return None if node is None else raw_value(_value(node), field.type)


def matches(document: Json, selector: str) -> Iterator[Json]:
    """Yield the values that a selector finds in a document.

    Raises ``UnreadableDocumentError`` or ``SelectorError``: the document is nested too deeply, or the selector cannot
    be read.
    """
    try:
        yield from map(_value, _query(selector).finditer(document))
    except (JSONPathError, RecursionError) as error:
        raise UnreadableDocumentError(_TOO_DEEP) from error


def raw_value(value: Json, field_type: FieldType) -> Raw:
    """Return a value before it is read as its type: an object or a list is JSON text, and fits only a String.

    >>> raw_value({"b": 1, "a": 2}, FieldType.STRING), raw_value(2.5, FieldType.STRING)
    ('{"a":2,"b":1}', 2.5)
    """
    if not isinstance(value, dict | list):
        return value
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text if field_type is FieldType.STRING else NotOneValue(f"not one value: {text[:40]}")


def _value(node: JSONPathNode) -> Json:
    return cast("Json", node.value)


@lru_cache(maxsize=256)
def _query(selector: str) -> JSONPathQuery:
    try:
        return _ENVIRONMENT.compile(selector)
    except (JSONPathError, ValueError, RecursionError) as error:
        raise SelectorError(f"the JSON selector {selector} cannot be read: {error}"[:300]) from error
