"""Probes: fetch a source, read it, and return the outcome."""

from proxyd.probing.document_parser import ParsedDocument, ParserPool, parse_document, parse_page
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_feed
from proxyd.probing.http.fetcher import HIDDEN, Exchange, Fetcher, FetchLimits, FetchRequest, FetchResponse, ProbeTrace
from proxyd.probing.http.hubs import HubClient
from proxyd.probing.http.robots import Robots, robots_limits
from proxyd.probing.pages.page_values import ParsedPage
from proxyd.probing.prober import HttpProber, LocalTransport, NoBrowser, Parse, Render

__all__ = [
    "HIDDEN",
    "Exchange",
    "FetchLimits",
    "FetchRequest",
    "FetchResponse",
    "Fetcher",
    "HttpProber",
    "HubClient",
    "LocalTransport",
    "NoBrowser",
    "Parse",
    "ParsedDocument",
    "ParsedFeed",
    "ParsedPage",
    "ParserPool",
    "ProbeTrace",
    "Render",
    "Robots",
    "parse_document",
    "parse_feed",
    "parse_page",
    "robots_limits",
]
