"""The items that people read, as the REST API and the pages show them, and what is marked."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit

import nh3
from aiohttp import web

from proxyd.api import wire
from proxyd.api.auth import reader_of
from proxyd.api.bounds import Within
from proxyd.api.endpoint import Endpoint, read_body, read_query
from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.api.query_readers import cursor_of, page_of, parse_position, read_position
from proxyd.api.wire.converters import model_of
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import Value
from proxyd.core.model.profile import found_name
from proxyd.core.rules.answers.shown_events import OF_FEEDS, OF_ITEMS
from proxyd.core.texts.safe_text import is_web
from proxyd.daemon.reading import ItemReader
from proxyd.store.item_rows import StoredArticle, View
from proxyd.store.listed_rows import FoundItem

_MOST_TITLE, _MOST_TEXT, _MOST_VALUE = 300, 500, 20_000
_TAGS = frozenset(
    {
        *("a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd"),
        *("del", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
        *("i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "rp", "rt", "ruby", "s", "samp", "small"),
        *("span", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr", "u", "ul"),
        *("var", "wbr"),
    }
)
_UNREAD_TAGS = {"script", "style", "svg", "math", "iframe", "object", "noscript", "template", "title", "textarea"}
_ATTRIBUTES: dict[str, set[str]] = {
    "*": {"dir", "lang", "title"},
    "a": {"href"},
    "img": {"alt", "height", "src", "width"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
    "time": {"datetime"},
}
_ALWAYS = {
    "a": {"target": "_blank"},
    "img": {"loading": "lazy", "referrerpolicy": "no-referrer"},
}
_SCHEMES = {"http", "https", "mailto"}


class ItemLists:
    """Lists items, shows one, and marks them."""

    def __init__(self, queries: Queries) -> None:
        self._search = queries.items
        self._reading = queries.reading
        self._profiles = queries.profiles

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints of items; marks are a person's own, so whoever may read may set them."""
        return (
            Endpoint("GET", "/api/v1/items", "read", self.find_items, wire.Page[wire.ItemFound], wire.ItemsWindow,
                     raises=(404,), within=Within.PART),
            Endpoint("GET", "/api/v1/items/{position}", "read", self.get_item, wire.ItemShown, raises=(404,),
                     within=Within.ITEM),
            Endpoint("POST", "/api/v1/marks", "read", self.mark_items, wire.MarksMade, body=wire.MarksWanted,
                     raises=(404, 413, 422), within=Within.PART),
        )  # fmt: skip

    async def find_items(self, request: web.Request) -> wire.Page[wire.ItemFound]:
        """List items, those seen last first: those of a view, or those that a search finds."""
        return await self.find(read_query(request, wire.ItemsWindow), reader_of(request))

    async def find(self, asked: wire.ItemsWindow, reader: ItemReader) -> wire.Page[wire.ItemFound]:
        """Return what ``find_items`` lists for somebody."""
        at = read_position(asked.cursor)
        if asked.q is not None:
            if asked.profile is not None or asked.view != "all":
                raise BadRequestError("a search takes no view and no profile")
            found = await self._search.search(
                asked.q,
                source_id=asked.source,
                before=at,
                limit=asked.limit + 1,
                person=reader.marks_as,
                sources=await self._reading.sources_of(reader),
            )
            found, next_cursor = page_of(found, asked.limit)
            return wire.Page[wire.ItemFound](items=[_item_found(each) for each in found], next_cursor=next_cursor)
        shelf = await self._reading.shelf(View(asked.view), reader, profile=asked.profile, source=asked.source)
        page = await self._reading.stored.find(shelf, before=at, limit=asked.limit)
        next_cursor = None if page.rest is None else cursor_of(str(page.rest))
        return wire.Page[wire.ItemFound](items=[_item_found(each) for each in page.items], next_cursor=next_cursor)

    async def get_item(self, request: web.Request) -> wire.ItemShown:
        """Return an item with its content, made safe to show.

        If its source has FULL ARTICLES and its feed only a teaser, the page is fetched first, once.
        """
        position = parse_position(request.match_info["position"], "an item's position is a number")
        return await self.show(position, reader_of(request))

    async def show(self, position: int, reader: ItemReader) -> wire.ItemShown:
        """Return what ``get_item`` shows somebody."""
        return await asyncio.to_thread(item_shown, await self._reading.full_article(position, reader))

    async def mark_items(self, request: web.Request) -> wire.MarksMade:
        """Mark items as read, unread or starred, or everything up to a position as read."""
        asked = await read_body(request, wire.MarksWanted)
        if (asked.items is None) == (asked.up_to is None):
            raise BadRequestError("give items, or up_to")
        if asked.items is not None:
            if asked.profile is not None or asked.source is not None:
                raise BadRequestError("profile and source belong to up_to")
            marks = {"read": asked.read, "starred": asked.starred}
            return wire.MarksMade(items=await self._reading.mark(asked.items, reader_of(request), **marks))
        if asked.read is not True or asked.starred is not None:
            raise BadRequestError("up to a position, items can only be marked as read")
        reader = reader_of(request)
        source = asked.source and found_name(asked.source, self._profiles.shown.sources, reader.profiles)
        await self._reading.mark_up_to(asked.up_to or 0, reader, profile=asked.profile, source=source)
        return wire.MarksMade(items=None)


def _item_found(found: FoundItem) -> wire.ItemFound:
    """Return an item of a list."""
    return model_of(found, wire.ItemFound, **_members(found))


def _members(found: FoundItem) -> dict[str, object]:
    return {
        "id": found.item_id,
        "title": found.title[:_MOST_TITLE],
        "text": found.text[:_MOST_TEXT],
        "link": found.link if found.link is not None and is_web(found.link) else None,
        "came": iso_time(found.event_s) if found.is_exact else None,
    }


def item_shown(article: StoredArticle) -> wire.ItemShown:
    """Return an item with its content; what a page shows in a row are its values."""
    found, fields = article.item, article.fields
    is_of_feed = any(name.startswith(OF_ITEMS) for name in fields)
    own = {} if is_of_feed else {name: _cut(v) for name, v in fields.items() if not name.startswith(OF_FEEDS)}
    texts = [fields.get(OF_ITEMS + name) for name in ("content", "description")]
    content = max((text for text in texts if isinstance(text, str)), key=len, default="") if is_of_feed else ""
    author = fields.get(f"{OF_ITEMS}author")
    return model_of(
        found,
        wire.ItemShown,
        **_members(found),
        author=author if isinstance(author, str) and author else None,
        content=safe_html(content if article.full is None else article.full.html or content, found.link or ""),
        full=article.full is not None and bool(article.full.html),
        full_failure=None if article.full is None else article.full.failure or None,
        values=own,
        enclosures=_enclosures(fields),
    )


def _cut(value: Value) -> Value:
    return value[:_MOST_VALUE] if isinstance(value, str) else value


def _enclosures(fields: Mapping[str, Value]) -> list[wire.EnclosureShown]:
    url = fields.get(f"{OF_ITEMS}enclosure")
    if not isinstance(url, str) or not is_web(url):
        return []
    media_type = mimetypes.guess_type(urlsplit(url).path)[0] or ""
    kind = media_type.partition("/")[0]
    return [wire.EnclosureShown.model_validate({"url": url, "kind": kind if kind in _PLAYED else "file"})]


_PLAYED = frozenset({"audio", "video", "image"})


def safe_html(html: str, base: str) -> str:
    """Return the HTML of a stranger as a page may show it; addresses in it are relative to ``base``.

    There are no scripts, styles, frames and forms. Links open a page of their own, and pictures come from the web only,
    not from addresses in one's own network, which a feed could ask for otherwise.

    >>> print(safe_html('<p onclick="x()">Hi <a href="/1">you</a><script>x()</script>', "https://a.example/0"))
    <p>Hi <a href="https://a.example/1" target="_blank" rel="noopener noreferrer">you</a></p>
    """

    def keep(tag: str, name: str, value: str) -> str | None:
        if name not in {"href", "src"}:
            return value
        try:
            address = urljoin(base, value.strip())
            host = urlsplit(address).hostname or ""
        except ValueError:
            return None
        if name == "src":
            return address if is_web(address) and _is_public(host) else None
        return address if is_web(address) or address.startswith("mailto:") else None

    return nh3.clean(
        html,
        tags=set(_TAGS),
        clean_content_tags=_UNREAD_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=keep,
        url_schemes=_SCHEMES,
        set_tag_attribute_values=_ALWAYS,
        link_rel="noopener noreferrer",
    )


def _is_public(host: str) -> bool:
    """Return whether a host has a name, with a dot, that is none of one's own network.

    >>> [_is_public(host) for host in ("a.example", "localhost", "10.0.0.1", "printer.local")]
    [True, False, False, False]
    """
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host.strip(".") and not host.endswith((".local", ".localhost", ".internal", ".home.arpa"))
