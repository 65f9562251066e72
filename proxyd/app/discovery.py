"""Finds what an address that somebody wants to watch holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from proxyd.app.wiring import Network, open_network
from proxyd.clock import SystemClock
from proxyd.config import Settings
from proxyd.core.language import BUILT_IN
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import PageClass
from proxyd.probing import ProbeTrace

_MOST_TRIED = 3


@dataclass(frozen=True, slots=True)
class Discovered:
    """The outcome of probing an address, the built-in class that reads it, and the price that its page states."""

    outcome: ProbeOutcome
    page_class: PageClass
    price: Item | None = None


async def discover(settings: Settings, url: str, *, locale: str | None = None, wants_price: bool = False) -> Discovered:
    """Return what an address holds.

    A web page leads to the first feed that it links to and that can be read, whose address is the outcome's
    ``source_id``; without one it is read as a page. The outcome's ``linked_feeds`` are the page's. With
    ``wants_price`` the page is read for its price alone; ``locale`` says how its numbers are written.
    """
    priced = ProbeRequest(url, url, page_class=BUILT_IN.classes["PRICE"], locale=locale, obeys_robots=True)
    async with open_network(settings, SystemClock()) as network:
        if wants_price:
            return Discovered(await network.prober.probe(priced, ProbeTrace()), BUILT_IN.classes["PRICE"])
        outcome, page_class = await _what_tells(network, url)
        if page_class.name != "PAGE" or not outcome.kind.is_success:
            return Discovered(outcome, page_class)
        read = await network.prober.probe(priced, ProbeTrace())
        return Discovered(outcome, page_class, read.items[0] if read.kind.is_success and read.items else None)


async def _what_tells(network: Network, url: str) -> tuple[ProbeOutcome, PageClass]:
    """Return the outcome of an address, or of a feed that its page links to, and the class that reads it."""
    feed, page = BUILT_IN.classes["FEED"], BUILT_IN.classes["PAGE"]
    found = await network.prober.probe(ProbeRequest(url, url), ProbeTrace())
    if found.kind is not OutcomeKind.NOT_A_FEED:
        return found, feed
    for link in found.linked_feeds[:_MOST_TRIED]:
        linked = await network.prober.probe(ProbeRequest(link, link), ProbeTrace())
        if linked.kind.is_success:
            return replace(linked, linked_feeds=found.linked_feeds), feed
    read = await network.prober.probe(ProbeRequest(url, url, page_class=page, obeys_robots=True), ProbeTrace())
    return replace(read, linked_feeds=found.linked_feeds), page
