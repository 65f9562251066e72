"""The Fever API, as FreshRSS and Miniflux serve it, for readers on phones that know no other.

Groups are profiles, feeds are sources, and the states of items are those of the dashboard. A person's name and a token
of theirs are the user and the password. https://feedafever.com/api describes the API.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from aiohttp import web

from proxyd.api.auth import BEARER, Quotas, doer_of, reader_of, token_of_fever
from proxyd.api.endpoint import read_parts
from proxyd.api.problems import too_many
from proxyd.api.rest.phone_reading import (
    MOST_ITEMS,
    PhoneItem,
    home_of,
    json_answer,
    mark_until,
    phone_items,
    read_parameters,
    subscriptions_of,
)
from proxyd.base.doers import acting
from proxyd.core.model.profile import plain_name
from proxyd.daemon.reading import ItemReader
from proxyd.store.item_rows import PlaceFilter, Shelf, View

if TYPE_CHECKING:
    from proxyd.api.queries import Queries
    from proxyd.core.model.profile import Declaration, Source

_VERSION = 3
_PAGE = 50  # items of an answer, as the API says
_MOST_IDS, _MOST_LOOKS = 50_000, 40  # in the list of unread or saved items; a look is at 5,000 items
_MOST_FORM, _MOST_FIELDS = 2**16, 100  # bytes and parts of a form of parts
_NUMBER = re.compile(r"[0-9]{1,18}")
_MOST_NUMBER = 2**31 - 1  # some clients keep no more


@dataclass(frozen=True, slots=True)
class _Feeds:
    """What a declaration has to read, under the numbers that the API wants: each is made of its name."""

    declaration: Declaration
    sources: Sequence[Source]
    feeds: Mapping[str, int]
    groups: Mapping[str, int]

    @classmethod
    def of(cls, declaration: Declaration) -> _Feeds:
        """Return those of a declaration; takes long if there are many sources."""
        sources = subscriptions_of(declaration, None)
        return cls(
            declaration, sources, _numbers_of(each.source_id for each in sources), _numbers_of(declaration.profiles)
        )

    def groups_and_feeds(
        self, folders: Mapping[str, frozenset[str]], sources: frozenset[str] | None, now_s: int
    ) -> dict[str, Any]:
        """Return the members of an answer, those of what somebody reads."""
        numbers = {name: n for name, n in self.feeds.items() if sources is None or name in sources}
        feeds = (_show_feed(each, numbers[each.source_id], now_s) for each in self.sources if each.source_id in numbers)
        known = {name: [numbers[each] for each in sorted(its) if each in numbers] for name, its in folders.items()}
        ids = ((self.groups[name], its) for name, its in known.items() if its and name in self.groups)
        return {
            "groups": [{"id": self.groups[name], "title": name} for name in folders if name in self.groups],
            "feeds": [*feeds],
            "feeds_groups": [{"group_id": group, "feed_ids": ",".join(map(str, its))} for group, its in ids],
        }


class Fever:
    """The handler of the only path; whoever may read may mark, because marks are a person's own."""

    def __init__(self, queries: Queries, quotas: Quotas | None) -> None:
        self._queries = queries
        self._reading = queries.reading
        self._quotas = quotas
        self._feeds: _Feeds | None = None

    def mount(self, app: web.Application) -> None:
        """Add the path to an application, as clients write it."""
        for path in ("/fever/", "/fever"):
            app.router.add_get(path, self._answer)
            app.router.add_post(path, self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        asked = await _read(request)
        # not from the address, which stands in the logs of proxies
        token = None if "api_key" in request.query else await token_of_fever(self._queries, asked.get("api_key", ""))
        if token is None:
            return await json_answer({"api_version": _VERSION, "auth": 0})
        now_s = self._queries.clock.time_s()
        if self._quotas is not None:
            left = self._quotas.take(token.token_id, now_s)
            if left.is_over:
                return too_many(left.reset_s)
        request[BEARER] = token
        with acting(doer_of(request, token, "reader")):
            found = await self._found(asked, reader_of(request), int(now_s))
        return await json_answer({"api_version": _VERSION, "auth": 1, "last_refreshed_on_time": int(now_s)} | found)

    async def _found(self, asked: Mapping[str, str], reader: ItemReader, now_s: int) -> dict[str, Any]:
        """Return what a request asks for, after it has marked what it names."""
        await self._mark(asked, reader)
        found: dict[str, Any] = {name: [] for name in ("favicons", "links") if name in asked}
        if asked.keys() & {"groups", "feeds"}:
            known = await self._known()
            folders, sources = await self._reading.folders_of(reader), await self._reading.sources_of(reader)
            listed = await asyncio.to_thread(known.groups_and_feeds, folders, sources, now_s)
            found |= {name: each for name, each in listed.items() if name in {*asked, "feeds_groups"}}
        if "items" in asked:
            shelf = await self._shelf(View.ALL, reader)
            found["items"] = await self._items(asked, shelf, reader)
            found["total_items"] = await self._reading.stored.total(shelf.sources)
        for name, view in (("unread_item_ids", View.UNREAD), ("saved_item_ids", View.STARRED)):
            if name in asked:
                ids = await self._look(await self._shelf(view, reader), PlaceFilter(), None, _MOST_IDS)
                found[name] = ",".join(map(str, reversed(ids)))  # 50,000 of them take 5 ms
        return found

    async def _known(self) -> _Feeds:
        """Return what there is to read; found once for each declaration."""
        declaration = self._queries.profiles.declaration
        if self._feeds is None or self._feeds.declaration is not declaration:
            self._feeds = await asyncio.to_thread(_Feeds.of, declaration)
        return self._feeds

    async def _shelf(self, view: View, reader: ItemReader) -> Shelf:
        """Return which items a view shows: those of feeds that are listed, because clients know no others."""
        known, sources = (await self._known()).feeds.keys(), await self._reading.sources_of(reader)
        names = await asyncio.to_thread(frozenset, known if sources is None else known & sources)
        return Shelf(view, names, person=reader.marks_as)

    async def _items(self, asked: Mapping[str, str], shelf: Shelf, reader: ItemReader) -> list[dict[str, Any]]:
        """Return the items that a request names, or the next ones before or after one."""
        if "with_ids" in asked:
            positions = list(dict.fromkeys(_numbers_in(asked["with_ids"])))[:MOST_ITEMS]
        else:
            start = _number_in(asked.get("max_id", asked.get("since_id", "")))
            positions = await self._look(shelf, PlaceFilter(oldest_first="max_id" not in asked), start or None, _PAGE)
        articles, numbers = await self._reading.articles(positions, reader), (await self._known()).feeds
        of = {each.found.position: each for each in await asyncio.to_thread(phone_items, articles)}
        known = (of[each] for each in positions if each in of)
        return [_item(each, numbers[each.found.source_id]) for each in known if each.found.source_id in numbers]

    async def _look(self, shelf: Shelf, wanted: PlaceFilter, start: int | None, most: int) -> list[int]:
        """Return where the items of a shelf are; one look at the store may end before there are enough."""
        found: list[int] = []
        for _ in range(_MOST_LOOKS):
            page = await self._reading.stored.places(shelf, wanted, start=start, limit=most - len(found))
            found += [each.position for each in page.places]
            if page.rest is None or len(found) >= most:
                break
            start = page.rest
        return found

    async def _mark(self, asked: Mapping[str, str], reader: ItemReader) -> None:
        """Mark what a request names, if there is such a thing; otherwise nothing is said, as by other servers."""
        kind, state, ids = asked.get("mark", ""), asked.get("as", ""), _numbers_in(asked.get("id", ""))
        if kind == "item" and ids:
            read, starred = {"read": True, "unread": False}.get(state), {"saved": True, "unsaved": False}.get(state)
            if read is not None or starred is not None:
                await self._reading.mark(ids[:MOST_ITEMS], reader, read=read, starred=starred)
        elif state == "read" and ids and (shelf := await self._shelf_of(kind, ids[0], reader)) is not None:
            before = _number_in(asked.get("before", ""))
            await mark_until(self._reading.stored, shelf, float(before) if before else None)

    async def _shelf_of(self, kind: str, number: int, reader: ItemReader) -> Shelf | None:
        """Return the items of a feed or a group, in which 0 means all feeds; ``None`` if nobody knows it."""
        if kind == "group" and number == 0:
            return await self._reading.shelf(View.ALL, reader)
        known, folders = await self._known(), await self._reading.folders_of(reader)
        numbers = {"feed": known.feeds, "group": {name: known.groups.get(name) for name in folders}}.get(kind, {})
        name = await asyncio.to_thread(lambda: next((each for each, its in numbers.items() if its == number), None))
        if name is None:
            return None
        return await self._reading.shelf(View.ALL, reader, **{"source" if kind == "feed" else "profile": name})


async def _read(request: web.Request) -> Mapping[str, str]:
    """Return the parameters of a request, from its address and from its form, which clients send in both ways."""
    if request.content_type != "multipart/form-data":
        return {name: values[0] for name, values in (await read_parameters(request, _MOST_FORM)).items()}
    parts = await read_parts(request.clone(client_max_size=_MOST_FORM), _MOST_FORM, _MOST_FIELDS)
    return {**parts, **request.query}


def _numbers_of(names: Iterable[str]) -> dict[str, int]:
    """Return a number for each name, which other names change only if two have the same digest.

    >>> _numbers_of(["a", "b"]) | {"c": 0} == _numbers_of(["b", "a"]) | {"c": 0}
    True
    """
    taken: dict[int, str] = {}
    for name in sorted(names):
        number = int.from_bytes(sha256(name.encode()).digest()[:4]) % _MOST_NUMBER + 1
        while number in taken:
            number = number % _MOST_NUMBER + 1
        taken[number] = name
    return {name: number for number, name in taken.items()}


def _numbers_in(text: str) -> list[int]:
    """Return the numbers between commas; what is no number is left out.

    >>> _numbers_in("12, 13,x,-1,٣,")
    [12, 13]
    """
    return [int(each) for each in map(str.strip, text.split(",")) if _NUMBER.fullmatch(each)]


def _number_in(text: str) -> int:
    """Return a number, or 0 if it is none."""
    return next(iter(_numbers_in(text)), 0)


def _show_feed(source: Source, number: int, now_s: int) -> dict[str, Any]:
    return {
        "id": number,
        "favicon_id": 0,
        "title": plain_name(source.source_id),
        "url": source.url,
        "site_url": home_of(source.url),
        "is_spark": 0,
        "last_updated_on_time": now_s,
    }


def _item(item: PhoneItem, feed: int) -> dict[str, Any]:
    shown, found = item.shown, item.found
    return {
        "id": found.position,
        "feed_id": feed,
        "title": shown.title,
        "author": shown.author or "",
        "html": item.html,
        "url": shown.link or "",
        "is_saved": int(found.is_starred),
        "is_read": int(found.is_read),
        "created_on_time": int(found.event_s),
    }
