"""What readers on phones ask for by any of their APIs: forms, subscriptions, the contents of items, and marks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from proxyd.api import wire
from proxyd.api.endpoint import read_bytes
from proxyd.api.item_lists import item_shown
from proxyd.api.problems import BadRequestError
from proxyd.store.item_rows import PlaceFilter, Shelf, SqlReading, StoredArticle
from proxyd.store.listed_rows import FoundItem

if TYPE_CHECKING:
    from proxyd.core.model.profile import Declaration, Source

MOST_IDS, MOST_ITEMS = 10_000, 250
MOST_CHARACTERS = 10_000_000
"""Of the contents of an answer; items after those come with a short text."""
_MOST_BODY = 2**20  # bytes: the names of so many items in a form
_MOST_SUBSCRIPTIONS = 20_000
_MOST_TEASER = 1_000


async def read_parameters(request: web.Request, most: int = _MOST_BODY) -> dict[str, list[str]]:
    """Return the parameters of a request, from its address and its form of ``most`` bytes."""
    body = await read_bytes(request.clone(client_max_size=most)) if request.method == "POST" else b""
    try:  # the library's own form takes a thousand fields; in a thread, because a megabyte of %C3 takes half a second
        form = await asyncio.to_thread(parse_qsl, body.decode(), keep_blank_values=True, max_num_fields=MOST_IDS + 100)
    except ValueError as error:
        raise BadRequestError(f"the body is not a form: {error}") from error
    if any("\0" in part for pair in form for part in pair):  # which PostgreSQL takes in no text
        raise BadRequestError("the body holds U+0000")
    found: dict[str, list[str]] = {}
    for name, value in [*request.query.items(), *form]:
        found.setdefault(name, []).append(value)
    return found


async def json_answer(value: Mapping[str, Any]) -> web.Response:
    """Return an answer in JSON."""
    # 250 long articles, or 20,000 subscriptions, held the loop for 0.1 s
    body = await asyncio.to_thread(lambda: json.dumps(value).encode())
    return web.Response(body=body, content_type="application/json", charset="utf-8")


@dataclass(frozen=True, slots=True)
class PhoneItem:
    """An item with the HTML that a phone shows of it."""

    found: FoundItem
    shown: wire.ItemShown
    html: str


def phone_items(articles: Sequence[StoredArticle], most: int = MOST_CHARACTERS) -> list[PhoneItem]:
    """Return items, the first of them with content, of ``most`` characters in all."""
    items = []
    for each in articles:
        shown = item_shown(each)
        html = shown.content or values_text(shown.values) or escape(shown.text)
        if len(html) > most:
            html = escape(each.item.text[:_MOST_TEASER])
        most -= len(html)
        items.append(PhoneItem(each.item, shown, html))
    return items


def values_text(values: Mapping[str, Any]) -> str:
    r"""Return the fields of an item of a page, or what changed in them, as HTML.

    >>> values_text({"price": "30 → 25", "text": "+ a < b\n- c"})
    '<p>price: 30 → 25</p><p>text:<br>+ a &lt; b<br>- c</p>'
    """
    told = {name: str(value) for name, value in values.items() if value is not None}
    return "".join(
        f"<p>{escape(name)}:{'<br>' if chr(10) in text else ' '}{escape(text).replace(chr(10), '<br>')}</p>"
        for name, text in told.items()
    )


def subscriptions_of(declaration: Declaration, sources: frozenset[str] | None) -> list[Source]:
    """Return the sources that a phone lists: those in ``sources``, or all, without sites, which have no items."""
    known = (each for each in declaration.sources.values() if sources is None or each.source_id in sources)
    return [each for each in known if each.site is None][:_MOST_SUBSCRIPTIONS]


def home_of(url: str) -> str:
    """Return the address of the site of a source."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


def parts_of(positions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield positions in parts that the store takes at once."""
    for begin in range(0, len(positions), MOST_ITEMS):
        yield positions[begin : begin + MOST_ITEMS]


async def mark_until(stored: SqlReading, shelf: Shelf, until_s: float | None) -> None:
    """Mark what is on a shelf as read, only what was seen until then if a phone says what it knew."""
    found = await stored.places(shelf, PlaceFilter(until_s=until_s), start=None, limit=1)
    if found.places:
        await stored.mark_up_to(found.places[0].position, shelf.sources, shelf.person)
