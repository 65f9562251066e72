"""Probes: fetch a source, read it, say what became of it."""

from proxyd.probing.feeds import ParsedFeed, parse_feed
from proxyd.probing.fetcher import Fetcher, FetchLimits, FetchResponse, Trip
from proxyd.probing.parsers import ParserPool
from proxyd.probing.prober import HttpProber

__all__ = [
    "FetchLimits",
    "FetchResponse",
    "Fetcher",
    "HttpProber",
    "ParsedFeed",
    "ParserPool",
    "Trip",
    "parse_feed",
]
