"""Adding sources without writing: what an address holds, what to tell of it and where, and lists of feeds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from yarl import URL

from proxyd.api import wire
from proxyd.api.problems import EXPECTED, BadRequestError, answer_to
from proxyd.api.queries import Queries
from proxyd.api.rest.profile_handlers import ProfileHandlers, cost_as_seen
from proxyd.api.web.page_gate import SIGNED, read_form
from proxyd.api.web.page_texts import MOST_RECEIVERS, part, receiver_names, said_of, warnings_of
from proxyd.api.web.rendering import Renderer
from proxyd.api.wire import converters as payloads
from proxyd.base.clock import zone_name
from proxyd.base.doers import current_doer
from proxyd.core.errors import BusyError, ConfigError
from proxyd.core.language import (
    Parsed,
    Watch,
    address_to_watch,
    format_statements,
    parse,
    plain_address,
    with_options_of,
)
from proxyd.core.language.hidden_addresses import hide_channels
from proxyd.core.language.watch_wishes import (
    DIGESTS,
    VALUE_FIELD,
    WHEN_OF_VALUES,
    WatchOptions,
    WatchWish,
    digest_text,
    headers_of,
    recipients,
    watch_text,
)
from proxyd.core.model.item import Value
from proxyd.core.model.profile import BUILT_IN_NAME, Source, found_name, owner_of
from proxyd.core.rules.answers.shown_events import texts_of
from proxyd.core.rules.programs.message_program import price_text
from proxyd.core.texts.safe_text import is_web, one_line
from proxyd.daemon.discovery import Discovered, Way, why_no_value

_MOST_ITEMS, _MOST_TEXT, _MOST_PROFILES = 6, 4_000, 500
_LONGEST, _LONGEST_NAME = 2_000, 80  # characters of a field of the form, and of a name
_MORE = ("without", "every", "digest", "message", "profile", "browser", "headers", "ignored", "least_words")
_LITTLE_TEXT = 300  # characters; a page that shows less may be filled in by scripts
_KINDS = ("items", "text", "price", "value", "site")
"""What of an address to watch: a feed's items, a page's text, its price, one of its values, or whether it answers."""


@dataclass(frozen=True, slots=True)
class _Choices:
    """The fields of the form."""

    url: str = ""
    kind: str = ""
    words: str = ""
    to: str = ""
    name: str = ""
    selector: str = ""
    when: str = ""
    secret: str = ""
    more: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(_MORE, ""))  # what most people leave out

    @classmethod
    def of(cls, form: Mapping[str, str]) -> _Choices:
        """Return the fields that a browser sent, without spaces around them, and the address as it is asked."""
        written = {name: form.get(name, "").strip()[:_LONGEST] for name in (*cls.__slots__, *_MORE)}
        more = {name: written.pop(name) for name in _MORE}
        del written["more"]
        return cls(**written | {"url": plain_address(written["url"])}, more=more)

    def wish(self, zone: str, receivers: Collection[str]) -> WatchWish:
        """Return what they ask for, with hours of the day in a time zone; ``receivers`` have names."""
        is_value, is_price = self.kind == "value", self.kind == "price"
        if is_value and not is_web(self.url):
            raise BadRequestError(f"{self.url} is no address: it starts with https:// or http://")
        if is_value and not self.selector:
            raise BadRequestError("choose the value: click on it in the preview, or write its CSS selector")
        return WatchWish(
            self.url,
            page_class={"text": "PAGE", "price": "PRICE", "site": "SITE"}.get(self.kind, ""),
            name=self.name or None,
            words=_each_of(self.words, ",") if self.kind not in {"price", "site"} else (),
            selector=self.selector if is_value else "",
            when=self.when or "falls" if is_price else self.when or "changes" if is_value else "changes",
            to=recipients(self.to, receivers),
            secret=self.secret or None,
            options=self._options(zone),
        )

    @property
    def way(self) -> Way:
        """How the address is asked."""
        return Way(headers_of(self.more["headers"]), is_rendered=bool(self.more["browser"]))

    def _options(self, zone: str) -> WatchOptions:
        more = self.more
        if self.kind == "site":  # nothing is read of a site
            headers = headers_of(more["headers"])
            return WatchOptions(profile=more["profile"], every=more["every"], headers=headers, holding=self.words)
        return WatchOptions(
            without=_each_of(more["without"], ","),
            every=more["every"],
            digest=digest_text(more["digest"], zone),
            message=more["message"],
            profile=more["profile"],
            needs_browser=bool(more["browser"]),
            headers=headers_of(more["headers"]),
            ignored=_each_of(more["ignored"], "\n"),
            least_words=more["least_words"],
        )


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an address holds, for people."""

    found: Discovered
    title: str = ""
    titles: tuple[str, ...] = ()
    count: int = 0
    text: str = ""
    price: str = ""

    @classmethod
    def of(cls, found: Discovered) -> _Shown:
        """Return it with the first titles of a feed, or the beginning of a page's text."""
        items = found.outcome.items
        price = "" if found.price is None else price_text(found.price.fields)
        if found.page_class == "FEED":
            title = next((_title(item.fields.get("channel.title")) for item in items), "")
            titles = tuple(texts_of(item.fields)[0] or item.item_id for item in items[:_MOST_ITEMS])
            return cls(found, title, titles, len(items))
        text = str(items[0].fields.get("text") or "")[:_MOST_TEXT] if items else ""
        return cls(found, text=text, price=price)


def _is_read_as(source: Source, page_class: str) -> bool:
    """Return whether a WATCH OF a built-in class would use a source that is declared."""
    return (source.domain, source.page_class) == (BUILT_IN_NAME, page_class)


def _title(value: Value) -> str:
    """Return the title of a feed as a name, which is one line."""
    return one_line(value, _LONGEST_NAME) if isinstance(value, str) else ""


class AddPages:
    """Handlers of the form that adds an address, and of lists."""

    def __init__(self, queries: Queries, lists: ProfileHandlers, renderer: Renderer) -> None:
        self._profiles = queries.profiles
        self._discovery = queries.discovery
        self._deliveries = queries.deliveries
        self._lists = lists
        self._render = renderer.page

    async def form(self, request: web.Request) -> web.Response:
        """Ask for an address, or show what the one in the query holds and what can be told of it."""
        chosen = _Choices.of(request.query)
        if not chosen.url:
            return self._page(request, chosen)
        if chosen.kind == "site":  # it may be down
            url = chosen.url if "://" in chosen.url else f"https://{chosen.url}"
            return self._page(request, replace(chosen, url=url))
        try:
            found = await self._look(chosen.url)
        except ConfigError as error:
            return self._page(request, chosen, error="; ".join(error.problems), is_silent=True)
        kind = "items" if found.page_class == "FEED" else "price" if found.price is not None else "text"
        shown = _Shown.of(found)
        watched = self._watch_at(found.outcome.source_id, shown.title)
        name = watched.name.value if watched is not None else self._free(shown.title)
        looked = _Choices(found.outcome.source_id, kind=chosen.kind if chosen.kind in _KINDS else kind, name=name)
        looked = replace(looked, more={**looked.more, "ignored": "\n".join(found.noise)})
        followed = await asyncio.to_thread(self._sources_at, looked.url)
        same = next((each for each in followed if _is_read_as(each, found.page_class)), None)
        return self._page(
            *(request, looked),
            shown=shown,
            watched=watched and hide_channels(format_statements([watched])),
            followed=same or next(iter(followed), None),
            is_same=same is not None,
        )

    def _sources_at(self, url: str) -> list[Source]:
        """Return the sources that are read at an address; an import may have declared them."""
        return [each for each in self._profiles.shown.sources.values() if each.url == url and each.site is None]

    async def _look(self, written: str) -> Discovered:
        """Return what an address holds; one without a scheme is asked by https, and then by http.

        Raises ``ConfigError``: it cannot be watched.
        """
        problems = []
        for address in (written,) if "://" in written else (f"https://{written}", f"http://{written}"):
            url = address_to_watch(address)
            found = await self._discovery.look(url, wants_preview=True)
            if found.outcome.kind.is_success:
                return found
            problems.append(f"{url} cannot be watched: {found.outcome.detail or found.outcome.kind.value}")
        raise ConfigError(problems)

    def _watch_at(self, url: str, title: str) -> Watch | None:
        """Return the WATCH of an address that goes by its address or by its title."""
        name = next((watch.name.value for watch in _watches(parse(watch_text(WatchWish(url))))), "")
        found = (self._profiles.texts.watch_of(self._full(each)) for each in (name, title))
        return next((watch for watch in found if watch is not None and watch.url.value == url), None)

    def _free(self, title: str) -> str:
        """Return the title of a feed if no rule is called so, else nothing: the name is the address then."""
        return "" if self._full(title) in self._profiles.shown.rules else title

    def _full(self, rule: str) -> str:
        """Return the full name of a rule of whoever asks."""
        owners = current_doer().profiles
        return found_name(rule, self._profiles.shown.rules, owners) if owners else rule

    async def add(self, request: web.Request) -> web.StreamResponse:
        """Declare what the form asks for, or show it and its cost."""
        form = await read_form(request)
        chosen = _Choices.of(form)
        try:
            wish = chosen.wish(zone_name(self._deliveries.zone), receiver_names(self._profiles))
            value = await self._value(chosen)
            text, old = self._edit_watch(watch_text(wish))
            if "show" in form:
                looked = await self._discovery.look(chosen.url, chosen.way, wants_preview=True)
                shown = _Shown.of(looked) if looked.outcome.kind.is_success else None
                changes, cost = await self._profiles.try_out(text)
                warnings = warnings_of(changes)
                return self._page(
                    *(request, chosen),
                    text=hide_channels(text),
                    value=value,
                    cost=payloads.cost(cost_as_seen(cost)),
                    warnings=warnings,
                    shown=shown,
                    watched=old and hide_channels(old),
                )
            changes = await self._profiles.declare(text)
        except ConfigError as error:
            return await self._again(request, chosen, 422, "; ".join(error.problems))
        except EXPECTED as error:
            return await self._again(request, chosen, answer_to(error).status, said_of(error))
        added = next(iter(changes.added), "")
        said = f"Watching {chosen.url}: {_last_line(text)}"
        said += "" if old is None else f" In place of: {_last_line(old)}"
        request[SIGNED].session.say(said, *warnings_of(changes))
        there = "/sites" if chosen.kind == "site" else f"/rules/{part(added)}" if added else "/sources"
        raise web.HTTPSeeOther(URL(there, encoded=True))

    async def _again(self, request: web.Request, chosen: _Choices, status: int, error: str) -> web.Response:
        """Return the form with an error and all that it offered; what the address holds is looked at once more."""
        shown = None
        with suppress(ConfigError, BusyError):
            if chosen.kind != "site" and address_to_watch(chosen.url):
                looked = await self._discovery.look(chosen.url, chosen.way, wants_preview=True)
                shown = _Shown.of(looked) if looked.outcome.kind.is_success else None
        return self._page(request, chosen, status=status, error=error, shown=shown)

    def _edit_watch(self, text: str) -> tuple[str, str | None]:
        """Return a text whose WATCH keeps the options of the one that it replaces, and that one, if there is one."""
        parsed = parse(text)
        (watch,) = _watches(parsed) or (None,)
        old = None if watch is None else self._own_watch(watch.name.value)
        if watch is None or old is None:
            return text, None
        others = [each for each in parsed.statements if each is not watch]
        return format_statements([*others, with_options_of(old, watch)]), format_statements([old])

    def _own_watch(self, name: str) -> Watch | None:
        """Return the WATCH of a rule if whoever asks may change it."""
        full, owners = self._full(name), current_doer().profiles
        rule = self._profiles.shown.rules.get(full)
        is_own = not owners or (rule is not None and owner_of(full) in owners)
        return self._profiles.texts.watch_of(full) if is_own else None

    async def add_list(self, request: web.Request) -> web.StreamResponse:
        """Declare the feeds of an uploaded list."""
        form = await read_form(request)
        text = form.get("list", "")
        if not text.strip():
            return self._page(request, _Choices(), status=422, error="choose a file")
        try:
            name = _written(form, "name")
            listing = wire.Listing(match=_written(form, "match") or None, **({"name": name} if name else {}))
            to = recipients(_written(form, "to"), receiver_names(self._profiles))
            made = await self._lists.import_list(text.encode(), listing, to)
        except (*EXPECTED, ConfigError) as error:
            return self._page(request, _Choices(), status=answer_to(error).status, error=said_of(error))
        known = f", {made.sources_known:,} were there already and stay as they are" if made.sources_known else ""
        unread = f", {made.unreadable:,} could not be read" if made.unreadable else ""
        request[SIGNED].session.say(f"Sources added: {made.sources_added:,}{known}{unread}.")
        raise web.HTTPSeeOther("/sources")

    async def _value(self, chosen: _Choices) -> str | None:
        """Return the chosen value as the page shows it now; raises ``BadRequestError`` if it cannot be read."""
        if chosen.kind != "value":
            return None
        is_number = chosen.when in WHEN_OF_VALUES and chosen.when != "changes"
        outcome = await self._discovery.read_value(chosen.url, chosen.selector, chosen.way, is_number=is_number)
        if (why := why_no_value(outcome, is_number=is_number)) is not None:
            raise BadRequestError(f"nothing was read at {chosen.selector}: {why}; choose another place")
        return str(outcome.items[0].fields[VALUE_FIELD])

    def _page(self, request: web.Request, chosen: _Choices, *, status: int = 200, **facts: Any) -> web.Response:
        nothing = dict.fromkeys(
            ("shown", "error", "text", "value", "cost", "warnings", "watched", "followed", "is_same", "is_silent")
        )
        profiles = sorted(self._profiles.shown.profiles)[:_MOST_PROFILES]
        receivers = sorted(receiver_names(self._profiles))[:MOST_RECEIVERS]
        known = {"digests": tuple(DIGESTS), "profiles": profiles, "little_text": _LITTLE_TEXT, "receivers": receivers}
        return self._render(request, "add.html", status=status, chosen=chosen, **{**nothing, **known, **facts})


def _written(form: Mapping[str, str], name: str) -> str:
    return form.get(name, "").strip()[:_LONGEST]


def _each_of(written: str, mark: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in written.split(mark))))


def _watches(parsed: Parsed) -> list[Watch]:
    return [each for each in parsed.statements if isinstance(each, Watch)]


def _last_line(text: str) -> str:
    return " ".join(hide_channels(text).strip().rpartition(";\n")[2].split())
