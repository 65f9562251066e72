"""Speed of reading clean feeds: the fast path against feedparser alone and against all of our slow path, in one run.

Run ``python benchmarks/feeds.py`` (about ten seconds); ``--quick`` for few items, ``--json`` for machines. Nothing
here is asserted: the figures are in docs/decisions/documents.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from io import BytesIO
from time import perf_counter

import feedparser

from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_parser import parse_any_feed

Line = dict[str, object]

URL = "https://example.org/feed.xml"
_TEXT = "&lt;p&gt;Lorem ipsum dolor sit amet, &lt;a href=&quot;/a&quot;&gt;consectetur&lt;/a&gt; elit.&lt;/p&gt; "


def rss(items: int) -> bytes:
    """Return a feed as blogs write it: ten elements an item, about 1.3 kB."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/" '
        'xmlns:slash="http://purl.org/rss/1.0/modules/slash/">\n<channel><title>News</title>'
        f'<atom:link rel="self" href="{URL}"/><link>https://example.org/</link><description>All</description>\n'
        + "".join(
            f"<item>\n<title>Post {number} &#8211; more</title>\n<link>https://example.org/2026/03/post-{number}/</link>\n"
            f"<dc:creator><![CDATA[Ann]]></dc:creator>\n"
            f"<pubDate>Sun, 01 Mar 2026 12:{number % 60:02d}:00 +0000</pubDate>\n"
            f"<category><![CDATA[News]]></category>\n<category><![CDATA[Caf\u00e9]]></category>\n"
            f'<guid isPermaLink="false">https://example.org/?p={number}</guid>\n<description>{_TEXT}</description>\n'
            f"<content:encoded>{_TEXT * 6}</content:encoded>\n<slash:comments>{number}</slash:comments>\n</item>\n"
            for number in range(items)
        )
        + "</channel></rss>"
    ).encode()


def atom(items: int) -> bytes:
    """Return a feed of Atom: ten elements an item."""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">'
        f'<title>News</title><id>urn:feed</id><updated>2026-03-01T12:00:00Z</updated><link rel="self" href="{URL}"/>\n'
        + "".join(
            f'<entry>\n<title type="html">Post {number}</title>\n<link rel="alternate" href="https://example.org/{number}"/>\n'
            f"<id>tag:example.org,2026:{number}</id>\n<published>2026-03-01T12:{number % 60:02d}:00+01:00</published>\n"
            f"<updated>2026-03-01T12:{number % 60:02d}:30Z</updated>\n<author><name>Ann</name></author>\n"
            f'<category term="art"/>\n<summary>Caf\u00e9 {number}</summary>\n'
            f'<content type="html">{_TEXT * 6}</content>\n'
            "</entry>\n"
            for number in range(items)
        )
        + "</feed>"
    ).encode()


def best_of(work: Callable[[], object], repeats: int) -> float:
    """Return the least of some running times, in seconds."""
    times = []
    for _ in range(repeats):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times)


def feedparser_alone(body: bytes) -> object:
    """Return feedparser's own document, without what we make of it."""
    return feedparser.parse(BytesIO(body), sanitize_html=False, resolve_relative_uris=False)


def line(name: str, body: bytes, items: int, repeats: int) -> Line:
    """Compare the three on one feed."""
    ours = best_of(lambda: parse_clean_feed(body, "application/xml", URL), 3 * repeats)
    alone = best_of(lambda: feedparser_alone(body), repeats)
    slow = best_of(lambda: parse_any_feed(body, "application/xml", URL), repeats)
    if parse_clean_feed(body, "application/xml", URL) != parse_any_feed(body, "application/xml", URL):
        raise AssertionError("the two paths differ")
    return {
        "what": f"{name}, {items} items",
        "seconds": ours,
        "items_per_s": items / ours,
        "ratio": alone / ours,
        "slow_path_ratio": slow / ours,
    }


def lines(*, quick: bool) -> list[Line]:
    """Return every measurement."""
    sizes = (10,) if quick else (10, 50, 200)
    formats = (("rss 2.0", rss), ("atom 1.0", atom))
    return [line(name, make(items), items, 2 if quick else 10) for name, make in formats for items in sizes]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few items, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured = lines(quick=options.quick)
    if options.json:
        print(json.dumps(measured))
        return
    print(f"{'':20}{'ms':>8}{'items/s':>10}{'feedparser alone':>18}{'slow path':>11}")
    for each in measured:
        print(
            f"{each['what']:20}{float(str(each['seconds'])) * 1000:8.2f}{float(str(each['items_per_s'])):10.0f}"
            f"{float(str(each['ratio'])):17.1f}x{float(str(each['slow_path_ratio'])):10.1f}x"
        )


if __name__ == "__main__":
    main()
