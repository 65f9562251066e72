"""The readers of pages in the language: their keywords, and why a selector is invalid."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from proxyd.core.errors import suggest
from proxyd.core.model.profile import Extraction, Reader, css_parts

_JSON = JSONPathEnvironment()
_XPATH_TEXT = re.compile(r"""'[^']*+'|"[^"]*+\"""")
_NAME = r"(?<![\w.-])([^\W\d][\w.-]*+)"  # begins only where a word does, so that a search takes linear time
_AXIS, _PREFIX, _CALL = (re.compile(_NAME + after) for after in (r"\s*+::", r":[\w*]", r"\s*+\("))
_XPATH_WORDS = """
last position count id local-name namespace-uri name string concat starts-with contains substring-before
substring-after substring string-length normalize-space translate boolean not true false lang number sum floor ceiling
round comment text processing-instruction node and or div mod
"""
_XPATH_FUNCTIONS = frozenset(_XPATH_WORDS.split())
"""Functions, node tests and operators of XPath 1.0, which may stand before a parenthesis."""
_META_NAME = re.compile(r"[^\s\"'<>]{1,200}")


@dataclass(frozen=True, slots=True)
class ReaderKind:
    """A reader; its value is its keyword."""

    reader: Reader
    # Reads a selector; raises `ValueError`, or its library's error, if the selector is invalid
    compile: Callable[[str], object]
    is_of_json: bool = False  # whether it reads JSON documents; all others read web pages
    # The readers by which the fields of rows that it finds for EACH are read: every reader of the same documents, or
    # only these
    rows: frozenset[Reader] | None = None


def _compile_css(selector: str) -> object:
    return LexborHTMLParser("<p>").css(css_parts(selector)[0] or "*")


def _compile_xpath(selector: str) -> object:
    """Compile a selector without evaluating it, which may take forever; look for unknown names in its text."""
    compiled = etree.XPath(selector, regexp=False)
    code = _AXIS.sub("", _XPATH_TEXT.sub("''", selector))
    if "$" in code:
        raise ValueError("XPath selectors have no variables")
    for prefix in _PREFIX.findall(code):
        if prefix != "xml":
            raise ValueError(f"the namespace prefix {prefix!r} is not declared; use local-name()")
    for name in _CALL.findall(code):
        if name not in _XPATH_FUNCTIONS:
            raise ValueError(f"there is no XPath function {name!r}")
    return compiled


def _compile_meta(selector: str) -> object:
    if _META_NAME.fullmatch(selector) is None:
        raise ValueError("it is not the name of a meta element, such as og:title")
    return selector


PRODUCT_FIELDS = ("price", "currency", "name", "availability")
"""What the PRICE reader finds."""


def _compile_price(selector: str) -> object:
    if selector.lower() not in PRODUCT_FIELDS:
        close = suggest(selector, PRODUCT_FIELDS)
        meant = f". Did you mean {close}?" if close else ""
        raise ValueError(f"a product has {', '.join(PRODUCT_FIELDS[:-1])} and {PRODUCT_FIELDS[-1]}{meant}")
    return selector


READER_KINDS: Mapping[Reader, ReaderKind] = MappingProxyType(
    {
        kind.reader: kind
        for kind in (
            ReaderKind(Reader.JSON, _JSON.compile, is_of_json=True),
            ReaderKind(Reader.CSS, _compile_css),
            ReaderKind(Reader.XPATH, _compile_xpath),
            ReaderKind(Reader.META, _compile_meta),
            ReaderKind(Reader.JSONLD, _JSON.compile, rows=frozenset({Reader.JSONLD})),
            ReaderKind(Reader.PRICE, _compile_price, rows=frozenset()),
        )
    }
)
"""Every reader, in the order in which they are named to users."""

_ERRORS = (JSONPathError, etree.XPathError, ValueError, RecursionError)


def selector_problem(extraction: Extraction) -> str | None:
    """Return why a selector is invalid, or ``None``.

    >>> selector_problem(Extraction(Reader.CSS, "h1 >"))
    'it is not a CSS selector'
    >>> selector_problem(Extraction(Reader.XPATH, "//h1"))
    """
    try:
        READER_KINDS[extraction.reader].compile(extraction.selector)
    except SelectolaxError:
        return "it is not a CSS selector"
    except _ERRORS as error:
        return str(error).splitlines()[0]
    return None


def readers_of(*, json: bool) -> list[str]:
    """Return the keywords of the readers of JSON documents, or of those of web pages.

    >>> readers_of(json=False)
    ['CSS', 'XPATH', 'META', 'JSONLD', 'PRICE']
    """
    return [kind.reader.value for kind in READER_KINDS.values() if kind.is_of_json is json]
