"""Finds what an address that somebody wants to watch holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from proxyd.base.ports import Prober
from proxyd.core.errors import BusyError
from proxyd.core.language import BUILT_IN
from proxyd.core.language.watch_wishes import VALUE_CLASS, VALUE_FIELD
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import PREVIEW, PREVIEW_FIELD, Extraction, Field, FieldType, PageClass, Reader, Rendering
from proxyd.core.model.text_blocks import patterns_of_noise


@dataclass(frozen=True, slots=True)
class Discovered:
    """What an address holds."""

    # The outcome of probing it. Its `source_id` is the address to watch: that of a feed to which a page links.
    outcome: ProbeOutcome
    page_class: str  # the name of the built-in class that reads it: FEED, PAGE, PRICE or SITE
    price: Item | None = None  # the price that its page states, or `None`
    noise: tuple[str, ...] = ()  # what to IGNORE of a page whose text changes at each request
    preview: str = ""  # the page as harmless markup; empty for a feed, or if it was not asked for


@dataclass(frozen=True, slots=True)
class Way:
    """How an address is asked: with which headers, whether a browser runs its scripts, and how its numbers are read."""

    headers: tuple[tuple[str, str], ...] = ()
    is_rendered: bool = False
    locale: str | None = None

    def request(self, url: str, page_class: PageClass | None = None) -> ProbeRequest:
        """Return the request of an address."""
        return ProbeRequest(
            url,
            url,
            page_class=page_class,
            locale=self.locale,
            headers=self.headers,
            rendering=Rendering() if self.is_rendered and page_class is not None else None,
            obeys_robots=page_class is not None,
        )

    def of_link(self, url: str, link: str) -> Way:
        """Return how a feed is asked to which a page links: what is meant for one server is not sent to another."""
        return self if urlsplit(url)[:2] == urlsplit(link)[:2] else Way(locale=self.locale)


def why_no_value(outcome: ProbeOutcome, *, is_number: bool) -> str | None:
    """Return why no value of a page was read, or ``None`` if one was."""
    is_read = outcome.kind.is_success
    if is_read and outcome.items and outcome.items[0].fields.get(VALUE_FIELD) is not None:
        return None
    return "it holds no number" if is_number and is_read else outcome.detail


_PLAIN = Way()
_MOST_TRIED = 3
_MOST_AT_ONCE = 4


class FeedDiscovery:
    """Looks at addresses with a prober, so the guard and the limits of hosts hold for them."""

    def __init__(self, prober: Prober) -> None:
        self._prober = prober
        self._looking = 0

    async def look(self, url: str, way: Way = _PLAIN, *, reads: str = "", wants_preview: bool = False) -> Discovered:
        """Return what an address holds, or what the built-in class ``reads``, such as PRICE, reads there.

        A web page leads to the first feed that it links to and that can be read, whose address is the outcome's
        ``source_id``; without one it is read as a page. The outcome's ``linked_feeds`` are the page's.
        """
        with self._turn():
            if reads:
                return Discovered(await self._read(url, BUILT_IN.classes[reads], way), reads)
            outcome, page_class = await self._what_tells(url, way)
            if page_class != "PAGE" or not outcome.kind.is_success:
                return Discovered(outcome, page_class)
            priced = await self._read(url, BUILT_IN.classes["PRICE"], way)
            preview = await self._preview(url, way) if wants_preview else ""
            noise = await self._noise(url, outcome, way)
            price = priced.items[0] if priced.kind.is_success and priced.items else None
            return Discovered(outcome, page_class, price, noise, preview)

    async def read_value(self, url: str, selector: str, way: Way = _PLAIN, *, is_number: bool) -> ProbeOutcome:
        """Return the outcome of reading a value of a page."""
        kind = FieldType.DECIMAL if is_number else FieldType.STRING
        field = Field(VALUE_FIELD, kind, Extraction(Reader.CSS, selector))
        with self._turn():
            return await self._read(url, PageClass(VALUE_CLASS, "", (field,)), way)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._looking >= _MOST_AT_ONCE:
            raise BusyError("other addresses are being looked at; try again in a few seconds")
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1

    async def _read(self, url: str, page_class: PageClass, way: Way) -> ProbeOutcome:
        return await self._prober.probe(way.request(url, page_class))

    async def _preview(self, url: str, way: Way) -> str:
        read = await self._read(url, PREVIEW, way)
        return str(read.items[0].fields[PREVIEW_FIELD]) if read.kind.is_success and read.items else ""

    async def _noise(self, url: str, first: ProbeOutcome, way: Way) -> tuple[str, ...]:
        """Return what differs between the text of a page and that of a second request."""
        second = await self._read(url, BUILT_IN.classes["PAGE"], way)
        texts = [str(each.items[0].fields.get("text") or "") for each in (first, second) if each.items]
        return await asyncio.to_thread(patterns_of_noise, *texts) if len(texts) > 1 else ()

    async def _what_tells(self, url: str, way: Way) -> tuple[ProbeOutcome, str]:
        """Return the outcome of an address, or of a feed that its page links to, and the class that reads it."""
        if way.is_rendered:  # a browser shows pages; whoever asks for one means the page
            return await self._read(url, BUILT_IN.classes["PAGE"], way), "PAGE"
        found = await self._prober.probe(way.request(url))
        if found.kind is not OutcomeKind.NOT_A_FEED:
            return found, "FEED"
        for link in found.linked_feeds[:_MOST_TRIED]:
            linked = await self._prober.probe(way.of_link(url, link).request(link))
            if linked.kind.is_success:
                return replace(linked, linked_feeds=found.linked_feeds), "FEED"
        read = await self._read(url, BUILT_IN.classes["PAGE"], way)
        return replace(read, linked_feeds=found.linked_feeds), "PAGE"
