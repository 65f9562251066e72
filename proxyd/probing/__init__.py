"""Probes: fetch a source, read it, say what became of it."""

from proxyd.probing.feed_items import ParsedFeed
from proxyd.probing.feeds import parse_feed
from proxyd.probing.fetcher import Exchange, Fetcher, FetchLimits, FetchResponse, Trip
from proxyd.probing.page_values import ParsedPage
from proxyd.probing.pages import ParsedDocument, parse_document, parse_page
from proxyd.probing.parsers import ParserPool
from proxyd.probing.prober import HttpProber

__all__ = [
    "Exchange",
    "FetchLimits",
    "FetchResponse",
    "Fetcher",
    "HttpProber",
    "ParsedDocument",
    "ParsedFeed",
    "ParsedPage",
    "ParserPool",
    "Trip",
    "parse_document",
    "parse_feed",
    "parse_page",
]
