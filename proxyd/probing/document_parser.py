"""Parses a document into items according to its page class (pure), in processes of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from proxyd.base.worker_pool import WorkerLimits, WorkerPool
from proxyd.core.errors import WorkerFailedError
from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.field_values import normal_text, plain_text
from proxyd.core.model.item import Item
from proxyd.core.model.numbers import plain_number, read_number
from proxyd.core.model.profile import ARTICLE, PREVIEW, PREVIEW_FIELD, FieldType, PageClass, Reader
from proxyd.core.model.text_blocks import BLOCK_GAP, without_lines
from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.probing.documents.document_kinds import GZIP, is_empty, is_web_page
from proxyd.probing.documents.document_texts import clean, digest, load_json, looks_like_json
from proxyd.probing.documents.probe_failures import EmptyDocumentError, ParserFailedError, UnreadableDocumentError
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_feed
from proxyd.probing.pages.articles import find_article
from proxyd.probing.pages.html_pages import page_blocks, page_preview, parse_html_page
from proxyd.probing.pages.json_pages import parse_json_page
from proxyd.probing.pages.page_values import THE_PAGE, ParsedPage

LONGEST_PAGE = 262_144

ParsedDocument: TypeAlias = ParsedFeed | ParsedPage

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_MARKUP = re.compile(r"\s*<(?:!|\?|[a-z])", re.IGNORECASE)
_JSON_TYPE = re.compile(r"\s*[\w.-]+/(?:[\w.-]+\+)?json\b", re.IGNORECASE)
_TEXT_TYPE = re.compile(r"\s*text/(?:plain|csv|markdown)\b", re.IGNORECASE)


def parse_document(
    body: bytes,
    content_type: str | None = None,
    url: str = "",
    page_class: PageClass | None = None,
    languages: Languages = NO_LANGUAGES,
    /,
) -> ParsedDocument:
    """Return what a class reads from a document; without a class, a feed. ``languages`` settle ambiguous numbers.

    Raises ``FeedParseError``: the document has no such content.
    """
    if page_class is None or page_class.is_feed:
        return _with_numbers(parse_feed(body, content_type, url), page_class, languages)
    return parse_page(body, content_type, url, page_class, languages)


def _with_numbers(feed: ParsedFeed, page_class: PageClass | None, languages: Languages) -> ParsedFeed:
    """Return a feed with the fields that its class declares as numbers read as people write them."""
    # Only the feed knows its language. A plain number stays a text, which rules can read, and so does a text that does
    # not hold one number.
    fields = () if page_class is None else page_class.fields
    paths = [each.path.lower() for each in fields if each.type in {FieldType.INTEGER, FieldType.DECIMAL}]
    if not paths or not feed.items:
        return feed
    stated = feed.items[0].fields.get("channel.language")
    mark = languages.mark(stated if isinstance(stated, str) else None)
    return replace(feed, items=tuple(_with_item_numbers(item, paths, mark) for item in feed.items))


def _with_item_numbers(item: Item, paths: Iterable[str], mark: str | None) -> Item:
    texts = {path: text for path in paths if isinstance(text := item.fields.get(path), str)}
    numbers = {path: number for path, text in texts.items() if (number := read_number(text, mark)) is not None}
    changed = {path: number for path, number in numbers.items() if number != plain_number(texts[path])}
    return replace(item, fields={**item.fields, **changed}) if changed else item


def parse_page(
    body: bytes,
    content_type: str | None,
    url: str,
    page_class: PageClass,
    languages: Languages = NO_LANGUAGES,
) -> ParsedPage:
    """Return the items of a page: its rows, or the whole page as a single item.

    Parameters
    ----------
    content_type, url
        The header as received, and the URL after redirects, to which relative links refer.
    page_class
        A class that reads a page: fields with FROM, or the single field of the whole text.
    languages
        Settle how ambiguous numbers are meant.

    Raises
    ------
    EmptyDocumentError, UnreadableDocumentError, SelectorError
        The document has none of the content that the class reads.
    """
    if is_empty(body):
        raise EmptyDocumentError
    if body.startswith(GZIP):
        raise UnreadableDocumentError("this is gzip data that the server does not declare as such")
    if page_class == PREVIEW:
        return _markup_alone(page_preview(_text(body, content_type)))
    if page_class == ARTICLE:
        return _markup_alone(find_article(_text(body, content_type), url))
    readers = {each.extraction.reader for each in page_class.fields if each.extraction}
    if not readers:
        return _whole_page(body, content_type, page_class)
    if Reader.JSON in readers:
        return parse_json_page(body, content_type, url, page_class, languages)
    if looks_like_json(body):
        raise UnreadableDocumentError("this is JSON, not a web page")
    return parse_html_page(_text(body, content_type), url, page_class, languages)


def _markup_alone(markup: str) -> ParsedPage:
    """Return a page as one item with nothing but markup, for people."""
    return ParsedPage((Item(THE_PAGE, {PREVIEW_FIELD: markup}, None, digest([markup])),), "html", None)


def _text(body: bytes, content_type: str | None) -> str:
    text = decode(body, content_type, DocumentKind.HTML)
    head = text[:4096]
    if len(_CONTROL.findall(head)) * 50 > len(head):
        raise UnreadableDocumentError("this is binary data, not text")
    return text


def _whole_page(body: bytes, content_type: str | None, page_class: PageClass) -> ParsedPage:
    """Return the page as one item: the blocks of its readable text, separated by empty lines."""
    version, title, blocks = _blocks(body, content_type)
    if not blocks:
        raise UnreadableDocumentError("the page has no readable text; if scripts fill it in, read what they load")
    if page_class.ignored and not (blocks := without_lines(blocks, page_class.ignored)):
        raise UnreadableDocumentError("IGNORE leaves nothing of the text of the page")
    text = plain_text(clean(BLOCK_GAP.join(blocks)))
    fields = {each.path.lower(): text[:LONGEST_PAGE] for each in page_class.fields}
    item = Item(THE_PAGE, fields, None, digest([normal_text(text)]), former_hashes=(digest([text]),))
    return ParsedPage((item,), version, title, truncated=len(text) > LONGEST_PAGE)


def _blocks(body: bytes, content_type: str | None) -> tuple[str, str | None, list[str]]:
    """Return the document's format, title and blocks; for JSON, the lines of a canonical layout."""
    if looks_like_json(body) or _JSON_TYPE.match(content_type or ""):
        value = load_json(body, content_type)
        try:
            return "json", None, json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True).splitlines()
        except RecursionError as error:
            raise UnreadableDocumentError("the JSON document is nested too deeply") from error
    text = _text(body, content_type)
    if not _TEXT_TYPE.match(content_type or "") and (_MARKUP.match(text) or is_web_page(body)):
        title, blocks = page_blocks(text)
        return "html", title, blocks
    lines = "\n".join(line.rstrip() for line in clean(text).splitlines())
    return "text", None, [block.strip("\n") for block in re.split(r"\n{2,}", lines) if block.strip()]


_MEMORY_BYTES = 256 << 20  # of data in one worker; a feed of 10 MB needs about a third


class ParserPool(WorkerPool[ParsedDocument]):
    """Parses documents in separate processes, each within ``timeout_s``.

    Use it with ``async with``; leaving ends every worker at once, even a busy one.

    Parameters
    ----------
    parse
        What a worker runs: a function at a module's top level, so that another process can import it.
    timeout_s
        Longest time for one document, from when a worker starts it.
    tasks_per_worker
        Number of documents after which a worker is replaced.
    """

    def __init__(
        self,
        parse: Callable[..., ParsedDocument] = parse_document,
        *,
        workers: int = 2,
        timeout_s: float = 10.0,
        tasks_per_worker: int = 1000,
    ) -> None:
        limits = WorkerLimits(timeout_s, _MEMORY_BYTES, tasks_per_worker)
        super().__init__(parse, "the parser", workers=workers, limits=limits)

    async def parse(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
    ) -> ParsedDocument:
        """Return what a class reads from ``body``; without a class, a feed.

        Raises ``ParserFailedError``: the parser hung, died twice or raised an unexpected error; ``FeedParseError``: the
        document has no such content.
        """
        try:
            return await self.run(body, content_type, url, page_class, languages)
        except WorkerFailedError as error:
            raise ParserFailedError(str(error)) from error
