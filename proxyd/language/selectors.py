"""Selectors: what is wrong with one can be said before any page is read."""

from __future__ import annotations

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from proxyd.model.profile import Extraction, Reader, css_parts

_JSON = JSONPathEnvironment()


def selector_problem(extraction: Extraction) -> str | None:
    """Return why a selector cannot be read, or ``None``.

    >>> selector_problem(Extraction(Reader.CSS, "h1 >"))
    'it is not a CSS selector'
    >>> selector_problem(Extraction(Reader.XPATH, "//h1"))
    """
    try:
        match extraction.reader:
            case Reader.JSON:
                _JSON.compile(extraction.selector)
            case Reader.XPATH:
                etree.XPath(extraction.selector, regexp=False)(etree.Element("p"))
            case Reader.CSS:
                LexborHTMLParser("<p>").css(css_parts(extraction.selector)[0] or "*")
    except SelectolaxError:
        return "it is not a CSS selector"
    except (JSONPathError, etree.XPathError, ValueError, RecursionError) as error:
        return str(error).splitlines()[0]
    return None
