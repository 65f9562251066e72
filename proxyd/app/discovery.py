"""Finds what an address that somebody wants to watch holds."""

from __future__ import annotations

from dataclasses import replace

from proxyd.app.wiring import open_network
from proxyd.clock import SystemClock
from proxyd.config import Settings
from proxyd.core.language import BUILT_IN
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import PageClass
from proxyd.probing import ProbeTrace

_MOST_TRIED = 3


async def discover(settings: Settings, url: str) -> tuple[ProbeOutcome, PageClass]:
    """Return the outcome of probing an address, and the built-in class that reads it.

    A web page leads to the first feed that it links to and that can be read, whose address is the outcome's
    ``source_id``; without one it is read as a page. The outcome's ``linked_feeds`` are the page's.
    """
    feed, page = BUILT_IN.classes["FEED"], BUILT_IN.classes["PAGE"]
    async with open_network(settings, SystemClock()) as network:
        found = await network.prober.probe(ProbeRequest(url, url), ProbeTrace())
        if found.kind is not OutcomeKind.NOT_A_FEED:
            return found, feed
        for link in found.linked_feeds[:_MOST_TRIED]:
            linked = await network.prober.probe(ProbeRequest(link, link), ProbeTrace())
            if linked.kind.is_success:
                return replace(linked, linked_feeds=found.linked_feeds), feed
        read = await network.prober.probe(ProbeRequest(url, url, page_class=page, obeys_robots=True), ProbeTrace())
        return replace(read, linked_feeds=found.linked_feeds), page
