"""Probes: fetch a source, read it, say what became of it."""

from proxyd.probing.feed_items import ParsedFeed
from proxyd.probing.feeds import parse_feed
from proxyd.probing.fetcher import HIDDEN, Exchange, Fetcher, FetchLimits, FetchRequest, FetchResponse, Trip
from proxyd.probing.hubs import HubClient
from proxyd.probing.page_values import ParsedPage
from proxyd.probing.pages import ParsedDocument, parse_document, parse_page
from proxyd.probing.parsers import ParserPool
from proxyd.probing.prober import HttpProber
from proxyd.probing.robots import Robots, robots_limits

__all__ = [
    "HIDDEN",
    "Exchange",
    "FetchLimits",
    "FetchRequest",
    "FetchResponse",
    "Fetcher",
    "HttpProber",
    "HubClient",
    "ParsedDocument",
    "ParsedFeed",
    "ParsedPage",
    "ParserPool",
    "Robots",
    "Trip",
    "parse_document",
    "parse_feed",
    "parse_page",
    "robots_limits",
]
