"""The API of Google Reader, as FreshRSS and Miniflux serve it, so that readers on phones work.

Subscriptions are sources, labels are profiles, and the states of items are those of the dashboard. A person signs in
with any name, and a token as the password. https://feedhq.readthedocs.io/en/latest/api/ describes the API.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from aiohttp import web

from proxyd.api.auth import BEARER, SCOPES, Quotas, doer_of, reader_of, token_of
from proxyd.api.bounds import answer_with_plain_names
from proxyd.api.problems import BadRequestError, Handler, problems, too_many
from proxyd.api.rest.action_handlers import asker
from proxyd.api.rest.phone_reading import (
    MOST_CHARACTERS,
    MOST_IDS,
    MOST_ITEMS,
    PhoneItem,
    home_of,
    json_answer,
    mark_until,
    parts_of,
    phone_items,
    read_parameters,
    subscriptions_of,
)
from proxyd.base.doers import acting, current_doer
from proxyd.core.errors import ConfigError
from proxyd.core.language import (
    DropStatement,
    Statement,
    StatementKind,
    Watch,
    address_to_watch,
    format_statements,
    in_profiles,
    no_such_source,
    parse,
)
from proxyd.core.language.watch_wishes import WatchOptions, WatchWish, watch_text
from proxyd.core.model.profile import found_name
from proxyd.daemon.declared_texts import API_TEXT
from proxyd.daemon.reading import ItemReader
from proxyd.store.api_rows import Token
from proxyd.store.item_rows import MOST_COUNTED, MarkedPlace, PlaceFilter, Shelf, UnreadCounts, View

if TYPE_CHECKING:
    from proxyd.api.queries import Queries
    from proxyd.core.model.profile import Declaration

_STATE = "user/-/state/com.google/"
_LABEL = "user/-/label/"
_ITEM = "tag:google.com,2005:reader/item/"
_USER = re.compile(r"user/[^/]+/")
_MOST_SHOWN = 1_000
_MOST_LOGIN = 4096  # bytes, of who signs in
_STATES = ("reading-list", "read", "starred")
_SOURCE, _MOST_EDITED = StatementKind.SOURCE, 100
_SHORT = 20  # items, of who says no number


class GoogleReader:
    """The handlers; whoever may read may mark, because marks are a person's own."""

    def __init__(self, queries: Queries, quotas: Quotas | None) -> None:
        self._queries = queries
        self._reading = queries.reading
        self._quotas = quotas

    def mount(self, app: web.Application) -> None:
        """Add the routes to an application; there are no others below their paths."""
        app.router.add_post("/accounts/ClientLogin", self._login)
        for name, handler in (
            ("user-info", self._user),
            ("token", self._token),
            ("tag/list", self._tags),
            ("subscription/list", self._subscriptions),
            ("unread-count", self._count),
            ("stream/items/ids", self._ids),
            ("stream/items/contents", self._items),
            ("stream/contents", self._stream),
            ("stream/contents/{stream:.+}", self._stream),
        ):
            for method in ("GET", "POST"):
                app.router.add_route(method, f"/reader/api/0/{name}", self._guard(handler))
        for name, handler, scope in (
            ("edit-tag", self._edit, "read"),
            ("mark-all-as-read", self._mark_all, "read"),
            ("subscription/edit", self._edit_subscription, "write"),
            ("subscription/quickadd", self._quick_add, "write"),
        ):
            app.router.add_post(f"/reader/api/0/{name}", self._guard(handler, scope))

    async def _login(self, request: web.Request) -> web.Response:
        given = (await read_parameters(request, _MOST_LOGIN)).get("Passwd", [""])[0]
        token = await self._token_of(given)
        if token is None:
            return web.Response(status=401, text="Error=BadAuthentication\n")
        return web.Response(text=f"SID={given}\nLSID=null\nAuth={given}\n")

    async def _token_of(self, given: str) -> Token | None:
        """Return the token that a phone sends; one of some profiles must be a person's, because phones mark items."""
        token = await token_of(self._queries, f"Bearer {given}", may_be_bound=True)
        return None if token is None or (token.profiles and token.person is None) else token

    def _guard(self, handler: Handler, scope: str = "read") -> Handler:
        """Return a handler behind a check of the token and its scope."""

        @wraps(handler)
        async def guard(request: web.Request) -> web.StreamResponse:
            kind, _, given = request.headers.get("Authorization", "").partition("auth=")
            token = await self._token_of(given) if kind.strip() == "GoogleLogin" else None
            if token is None:
                return web.Response(status=401, text="Unauthorized", headers={"WWW-Authenticate": "GoogleLogin"})
            if self._quotas is not None:
                left = self._quotas.take(token.token_id, self._queries.clock.time_s())
                if left.is_over:
                    return too_many(left.reset_s)
            if SCOPES.index(token.scope) < SCOPES.index(scope):
                return web.Response(status=403, text=f"this needs a token of scope {scope}; yours is {token.scope}")
            request[BEARER] = token
            with acting(doer_of(request, token, "reader")):
                await self._queries.profiles.prepare()
                return answer_with_plain_names(await problems(request, handler), token.profiles)

        return guard

    async def _user(self, request: web.Request) -> web.Response:
        name = request[BEARER].person or "proxyd"
        me = {"userId": "1", "userName": name, "userProfileId": "1", "userEmail": ""}
        return web.json_response(me)

    async def _token(self, _request: web.Request) -> web.Response:
        # It guards against forms of other sites, which cannot send our header; clients want to have one
        return web.Response(text="proxyd")

    # -- what there is

    async def _tags(self, request: web.Request) -> web.Response:
        names = await self._reading.folders_of(reader_of(request))
        labels = [{"id": f"{_LABEL}{name}", "type": "folder"} for name in names]
        return await json_answer({"tags": [{"id": f"{_STATE}starred"}, *labels]})

    async def _subscriptions(self, request: web.Request) -> web.Response:
        declaration, reader = self._queries.profiles.shown, reader_of(request)
        folders, sources = await self._reading.folders_of(reader), await self._reading.sources_of(reader)
        listed = await asyncio.to_thread(_subscriptions, declaration, folders, sources)
        return await json_answer({"subscriptions": listed})

    async def _count(self, request: web.Request) -> web.Response:
        reader = reader_of(request)
        counts = await self._reading.stored.count(await self._reading.shelf(View.UNREAD, reader))
        folders = await self._reading.folders_of(reader)
        found = await asyncio.to_thread(_count_unread, counts, folders)
        return await json_answer({"max": MOST_COUNTED, "unreadcounts": found})

    # -- items

    async def _ids(self, request: web.Request) -> web.Response:
        asked = await _Stream.of(request)
        places, rest = await self._places(asked, reader_of(request), asked.number(MOST_IDS))
        refs = [{"id": str(each.position), "directStreamIds": [], "timestampUsec": _usec(each)} for each in places]
        return await json_answer({"itemRefs": refs} | rest)

    async def _items(self, request: web.Request) -> web.Response:
        positions = list(dict.fromkeys(_positions(await read_parameters(request), _MOST_SHOWN)))
        items: list[dict[str, Any]] = []
        left = MOST_CHARACTERS
        for part in parts_of(positions):
            shown = await self._shown(part, reader_of(request), left)
            left -= sum(len(each["summary"]["content"]) for each in shown)
            items += shown
        return await json_answer({"id": f"{_STATE}reading-list", "items": items})

    async def _stream(self, request: web.Request) -> web.Response:
        asked = await _Stream.of(request)
        places, rest = await self._places(asked, reader_of(request), asked.number(MOST_ITEMS))
        items = await self._shown([each.position for each in places], reader_of(request))
        of = {each["id"]: each for each in items}
        items = [of[name] for each in places if (name := _item_name(each.position)) in of]
        found = {"id": asked.name, "direction": "ltr", "updated": _newest_s(places), "items": items}
        return await json_answer(found | rest)

    async def _places(self, asked: _Stream, reader: ItemReader, limit: int) -> tuple[list[MarkedPlace], dict[str, str]]:
        """Return the places of a stream's items, and where it goes on."""
        shelf = await self._shelf(asked, reader)
        found = await self._reading.stored.places(shelf, asked.place_filter, start=asked.start, limit=limit)
        return found.places, {} if found.rest is None else {"continuation": str(found.rest)}

    async def _shelf(self, asked: _Stream, reader: ItemReader, states: Collection[str] = _STATES) -> Shelf:
        if asked.name.startswith("feed/"):
            return await self._reading.shelf(asked.view, reader, source=self._source(asked.name.removeprefix("feed/")))
        if asked.name.startswith(_LABEL):
            return await self._reading.shelf(asked.view, reader, profile=asked.name.removeprefix(_LABEL))
        if asked.name.removeprefix(_STATE) in states:
            return await self._reading.shelf(asked.view, reader)
        raise BadRequestError(f"there is no stream {asked.name[:100]!r}")

    def _source(self, name: str) -> str:
        """Return the full name of a source."""
        return found_name(name, self._queries.profiles.shown.sources, current_doer().profiles)

    async def _shown(
        self, positions: Sequence[int], reader: ItemReader, most: int = MOST_CHARACTERS
    ) -> list[dict[str, Any]]:
        """Return the items at some positions, the first of them with content, of ``most`` characters in all."""
        articles = await self._reading.articles(positions, reader)
        folders = await self._reading.folders_of(reader)
        declaration = self._queries.profiles.shown
        return await asyncio.to_thread(
            lambda: [_item(each, folders, declaration) for each in phone_items(articles, most)]
        )

    # -- marks

    async def _edit(self, request: web.Request) -> web.Response:
        asked = await read_parameters(request)
        positions = _positions(asked, MOST_IDS)
        read, starred = _marks(asked)
        for part in parts_of(positions):
            await self._reading.mark(part, reader_of(request), read=read, starred=starred)
        return web.Response(text="OK")

    async def _mark_all(self, request: web.Request) -> web.Response:
        asked = await _Stream.of(request)
        until_s = _number(asked.values.get("ts", [""])[0], "ts")
        shelf = await self._shelf(asked, reader_of(request), ["reading-list"])
        await mark_until(self._reading.stored, shelf, None if until_s is None else until_s / 1e6)
        return web.Response(text="OK")

    # -- what is declared

    async def _quick_add(self, request: web.Request) -> web.Response:
        """Watch an address, or the feed to which its page links."""
        url = (await read_parameters(request)).get("quickadd", [""])[0]
        name = await self._subscribe(url.removeprefix("feed/"), "", asker(request))
        return await json_answer({"query": url, "numResults": 1, "streamId": f"feed/{name}", "streamName": name})

    async def _edit_subscription(self, request: web.Request) -> web.Response:
        """Watch addresses, move the WATCH of sources into another profile, or remove it."""
        asked, by = await read_parameters(request), asker(request)
        labels = [_own(each) for each in asked.get("a", ())]
        profile = next((each.removeprefix(_LABEL) for each in labels if each.startswith(_LABEL)), "")
        action, streams = asked.get("ac", [""])[0], asked.get("s", [])
        if action not in {"subscribe", "edit", "unsubscribe"} or not 1 <= len(streams) <= _MOST_EDITED:
            raise BadRequestError(f"ac is subscribe, edit or unsubscribe, of 1 to {_MOST_EDITED} streams s")
        for name in (each.removeprefix("feed/") for each in streams):
            if action == "subscribe":
                await self._subscribe(name, profile, by)
            elif action == "unsubscribe":
                await self._replace(name, lambda found: DropStatement(found.kind, found.name), by)
            elif profile:  # else a title, which sources do not have
                await self._replace(name, lambda found: _in_profile(found, profile), by)
        return web.Response(text="OK")

    async def _subscribe(self, written: str, profile: str, by: str) -> str:
        """Watch what an address holds, and return the name of its source."""
        try:
            found = await self._queries.discovery.look(address_to_watch(written))
            if not found.outcome.kind.is_success:
                raise BadRequestError(f"{written} cannot be read: {found.outcome.detail}")
            options = WatchOptions(profile=profile, ignored=found.noise)
            page_class = "" if found.page_class == "FEED" else found.page_class
            text = watch_text(WatchWish(found.outcome.source_id, page_class, options=options))
        except ConfigError as error:
            raise BadRequestError("; ".join(error.problems)) from error
        (watch,) = parse(text).statements
        known, owners = self._queries.profiles.shown, current_doer().profiles
        same = known.rules.get(found_name(watch.name.value, known.rules, owners))
        url = found.outcome.source_id
        if same is not None and not any(known.sources[each].url == url for each in same.source_ids[:1]):
            raise BadRequestError(f"{watch.name.value} is the name of another watch: add this one on the dashboard")
        if same is None:
            await self._queries.profiles.declare(text, instead_of=known, by=by)
        known = self._queries.profiles.shown
        return known.rules[found_name(watch.name.value, known.rules, owners)].source_ids[0]

    async def _replace(self, name: str, change: Callable[[Statement], Statement], by: str) -> None:
        """Declare another statement in place of that of a source."""
        known, name = self._queries.profiles.shown, self._source(name)
        written = self._queries.profiles.texts.written_of(_SOURCE, name)
        if written is None or name not in known.sources:
            raise no_such_source(name, known)
        if written.origin != API_TEXT:
            raise BadRequestError(f"{written.origin}, line {written.line} declares {name}; change it there")
        await self._queries.profiles.declare(format_statements([change(written.statement)]), instead_of=known, by=by)


def _in_profile(statement: Statement, profile: str) -> Statement:
    """Return a WATCH in another profile."""
    if not isinstance(statement, Watch):
        raise BadRequestError(f"no WATCH declares {statement.name.value}; change its text on the dashboard")
    return in_profiles(statement, profile)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Which items a request asks for."""

    name: str
    values: Mapping[str, Sequence[str]]

    @classmethod
    async def of(cls, request: web.Request) -> _Stream:
        values = await read_parameters(request)
        name = request.match_info.get("stream") or values.get("s", [f"{_STATE}reading-list"])[0]
        return cls(_own(name), values)

    @property
    def view(self) -> View:
        """The view of the reader that has these items; what it has beside them is left out by ``place_filter``."""
        if self.name == f"{_STATE}starred":
            return View.STARRED
        return View.UNREAD if f"{_STATE}read" in self._streams("xt") else View.ALL

    @property
    def place_filter(self) -> PlaceFilter:
        """Which of the items of the view are asked for."""
        since_s, until_s = (_number(self.values.get(name, [""])[0], name) for name in ("ot", "nt"))
        states = {self.name, *self._streams("it")}
        return PlaceFilter(
            read=True if f"{_STATE}read" in states else None,
            starred=True if f"{_STATE}starred" in states else None,
            since_s=since_s,
            until_s=until_s,
            oldest_first=self.values.get("r", [""])[0] == "o",
        )

    @property
    def start(self) -> int | None:
        """The position after which it goes on."""
        return _number(self.values.get("c", [""])[0], "c")

    def number(self, most: int) -> int:
        """Return how many items are asked for, at most ``most``."""
        return min(max(1, _number(self.values.get("n", [""])[0], "n") or _SHORT), most)

    def _streams(self, parameter: str) -> set[str]:
        return {_own(each) for each in self.values.get(parameter, ())}


def _own(stream: str) -> str:
    """Return the name of a stream with ``-`` for the person.

    >>> _own("user/1000/state/com.google/read"), _own("feed/a")
    ('user/-/state/com.google/read', 'feed/a')
    """
    return _USER.sub("user/-/", stream, count=1) if stream.startswith("user/") else stream


def _number(text: str, name: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadRequestError(f"{name} is a number")
    return int(text)


def _position(name: str) -> int:
    """Return the position of an item by its long name, its hexadecimal digits, or its number.

    >>> _position("tag:google.com,2005:reader/item/000000000000001f"), _position("000000000000001f"), _position("31")
    (31, 31, 31)
    """
    digits = name.removeprefix(_ITEM)
    is_long = digits != name or len(digits) == 16
    try:
        position = int(digits, 16 if is_long else 10)
    except ValueError:
        position = -1
    if not (digits.isascii() and digits.isalnum() and 0 <= position < 2**63):  # int takes 1_0, and digits of others
        raise BadRequestError(f"there is no item {name[:100]!r}")
    return position


def _positions(asked: Mapping[str, Sequence[str]], most: int) -> list[int]:
    """Return the positions of the items that a request names."""
    named = asked.get("i", [])
    if not 1 <= len(named) <= most:
        raise BadRequestError(f"name 1 to {most:,} items with i")
    return [_position(each) for each in named]


def _marks(asked: Mapping[str, Sequence[str]]) -> tuple[bool | None, bool | None]:
    """Return whether items become read, and starred; ``None``: they stay."""
    added, removed = ({_own(each) for each in asked.get(name, ())} for name in ("a", "r"))
    read = True if f"{_STATE}read" in added else None
    if f"{_STATE}read" in removed or f"{_STATE}kept-unread" in added:
        read = False
    starred = True if f"{_STATE}starred" in added else None
    return read, False if f"{_STATE}starred" in removed else starred


def _item_name(position: int) -> str:
    return f"{_ITEM}{position:016x}"


def _usec(place: MarkedPlace) -> str:
    return str(int(place.seen_s * 1e6))


def _newest_s(places: Sequence[MarkedPlace]) -> int:
    return int(max((each.seen_s for each in places), default=0.0))


def _subscriptions(
    declaration: Declaration, folders: Mapping[str, frozenset[str]], sources: frozenset[str] | None
) -> list[dict[str, Any]]:
    of: dict[str, list[str]] = {}
    for folder, names in folders.items():
        for name in names:
            of.setdefault(name, []).append(folder)
    return [
        {
            "id": f"feed/{each.source_id}",
            "title": each.source_id,
            "categories": [{"id": f"{_LABEL}{name}", "label": name} for name in of.get(each.source_id, ())],
            "url": each.url,
            "htmlUrl": home_of(each.url),
            "iconUrl": "",
        }
        for each in subscriptions_of(declaration, sources)
    ]


def _count_unread(counts: UnreadCounts, folders: Mapping[str, frozenset[str]]) -> list[dict[str, Any]]:
    streams: dict[str, Collection[str]] = {f"feed/{name}": (name,) for name in counts.by_source}
    streams |= {f"{_LABEL}{name}": counts.by_source.keys() & its for name, its in folders.items()}
    streams[f"{_STATE}reading-list"] = counts.by_source.keys()
    return [
        {
            "id": name,
            "count": sum(counts.by_source[each] for each in its),
            "newestItemTimestampUsec": str(int(max(counts.newest_s[each] for each in its) * 1e6)),
        }
        for name, its in streams.items()
        if its
    ]


def _item(item: PhoneItem, folders: Mapping[str, frozenset[str]], declaration: Declaration) -> dict[str, Any]:
    shown, found = item.shown, item.found
    source = declaration.sources.get(found.source_id)
    states = ["reading-list", *(["read"] if found.is_read else []), *(["starred"] if found.is_starred else [])]
    labels = [name for name, its in folders.items() if found.source_id in its]
    link = [{"href": shown.link, "type": "text/html"}] if shown.link else []
    told = {
        "id": _item_name(found.position),
        "crawlTimeMsec": str(int(found.seen_s * 1e3)),
        "timestampUsec": str(int(found.seen_s * 1e6)),
        "published": int(found.event_s),
        "updated": int(found.event_s),
        "title": shown.title,
        "author": shown.author or "",
        "canonical": [{"href": each["href"]} for each in link],
        "alternate": link,
        "summary": {"direction": "ltr", "content": item.html},
        "categories": [*(f"{_STATE}{name}" for name in states), *(f"{_LABEL}{name}" for name in labels)],
        "origin": {
            "streamId": f"feed/{found.source_id}",
            "title": found.source_id,
            "htmlUrl": "" if source is None else home_of(source.url),
        },
    }
    if shown.enclosures:
        told["enclosure"] = [{"href": each.url, "type": each.kind} for each in shown.enclosures]
    return told
