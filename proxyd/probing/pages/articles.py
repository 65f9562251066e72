"""Finds the main text of a page: what people read of it, without the site around it."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from proxyd.probing.documents.probe_failures import UnreadableDocumentError

_MOST_READ, _MOST_SHOWN = 2_000_000, 300_000  # characters
_MOST_TAGS = 5_000  # what checks the text again takes time that grows with the square of their depth


def find_article(text: str, url: str) -> str:
    """Return the main text of a page as HTML of strangers, its links absolute.

    Raises ``UnreadableDocumentError``: there is none, it is too large, or the extractor is not installed.
    """
    try:
        readability: Any = import_module("readability")
    except ModuleNotFoundError as error:
        raise UnreadableDocumentError("proxyd[fulltext] is not installed, so no article is read") from error
    logging.getLogger("readability").setLevel(logging.CRITICAL)  # it logs a trace for each page that it cannot read
    try:
        found = str(readability.Document(text[:_MOST_READ], url=url).summary(html_partial=True))
    except readability.readability.Unparseable as error:
        raise UnreadableDocumentError("no article was found on the page") from error
    if len(found) > _MOST_SHOWN or found.count("<") > 2 * _MOST_TAGS:
        raise UnreadableDocumentError("the article of the page is too large to be shown")
    return found
