"""What is read without feedparser equals what is read with it, or is declined."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from proxyd.core.errors import ProbeError
from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_any_feed
from tests.examples import examples
from tests.golden.documents.case import URL, Case
from tests.golden.documents.corpus import GROUPS
from tests.property.test_documents_never_raise import mutated
from tests.unit.probing.test_fast_feeds import SAMPLES

_SETTINGS = examples(400)
_NAMESPACES = {
    "": ["", "http://purl.org/rss/1.0/", "http://backend.userland.com/rss2", "urn:x"],
    "atom": ["http://www.w3.org/2005/Atom", "http://www.w3.org/2005/atom", "http://purl.org/atom/ns#"],
    "dc": ["http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/"],
    "dcterms": ["http://purl.org/dc/terms/"],
    "content": ["http://purl.org/rss/1.0/modules/content/"],
    "media": ["http://search.yahoo.com/mrss/", "http://search.yahoo.com/mrss", "http://www.w3.org/2005/Atom"],
    "itunes": ["http://www.itunes.com/dtds/podcast-1.0.dtd"],
    "sy": ["http://purl.org/rss/1.0/modules/syndication/"],
    "x": ["urn:x", "urn:y", "http://www.w3.org/1999/xlink"],
    "rdf": ["http://www.w3.org/1999/02/22-rdf-syntax-ns#"],
}
_ELEMENTS = st.sampled_from(
    [
        *("title", "link", "guid", "id", "description", "summary", "content", "content:encoded", "author"),
        *("dc:creator", "category", "dc:subject", "pubDate", "published", "updated", "dc:date", "dc:title"),
        *("dc:description", "enclosure", "comments", "media:title", "media:description", "media:group"),
        *("media:content", "media:thumbnail", "media:keywords", "media:category", "media:credit", "itunes:author"),
        *("itunes:summary", "itunes:subtitle", "itunes:keywords", "itunes:image", "itunes:owner"),
        *("itunes:duration", "itunes:explicit", "source", "image", "url", "name", "email", "uri", "atom:link"),
        *("atom:updated", "atom:author", "atom:category", "x:title", "x:count", "x:published", "dcterms:modified"),
        *("dcterms:issued", "generator", "language", "dc:language", "ttl", "sy:updatePeriod"),
        *("sy:updateFrequency", "subtitle", "rights", "contributor", "managingEditor", "lastBuildDate"),
        *("textInput", "rdf:li", "date", "issued", "modified", "tags", "keywords", "width", "TITLE", "Link"),
        *("links", "body", "skipHours", "itunes:title"),
    ]
)
_COMMON = st.sampled_from(
    [
        *("title", "link", "guid", "id", "description", "content:encoded", "content", "author", "category"),
        *("pubDate", "updated", "atom:link"),
    ]
)
_PLAIN = st.sampled_from(
    [
        *(
            "",
            " ",
            "a",
            "a &amp; b",
            "caf\u00e9",
            "\u00c3\u00a9",
            "\u4e2d\u6587 x",
            "\u00a0a\u2028",
            "&#233;",
            "&#8217;",
        ),
        *("&lt;p&gt;c &amp;amp; d&lt;/p&gt;", "<![CDATA[<b>x</b> & y]]>", "a<!-- c -->b", "<![CDATA[a]]><![CDATA[b]]>"),
        *("https://example.org/a?b=1&amp;c=2", "/a", "a;b&amp;copy;", "http:////x.example/", "javascript:x", "urn:1"),
        *("&#133;", "&#x92;", "\x85", "\x7f", "&#13;", "a\r\nb", "&nbsp;", "a & b", "ann@example.org (Ann)", "a, b"),
        *("60", "daily", "2", "de_AT", "&#" + "0" * 40 + "65;", "<?php x ?>", "<b>x</b>", "<x/>", "\ufffd\U0001f600"),
        *(
            "ann@example.org",
            "http://[x",
            "http://e.example/\u00e9",
            "true",
            "aGVsbG8=",
            "mailto:a@b.example",
            " \n a \n",
        ),
    ]
)
_TAME = st.sampled_from(
    ["", "a", "caf\u00e9", "&lt;p&gt;c&lt;/p&gt;", "<![CDATA[<b>x</b>]]>", "https://e.example/a", "x, y"]
)
_TAME_DATES = st.sampled_from(["Sun, 01 Mar 2026 12:00:00 GMT", "2026-03-01T12:00:00.25+02:00", ""])
_TAME_ATTRIBUTES = st.sampled_from(
    ['href="/l"', 'rel="enclosure"', 'type="html"', 'url="/e"', 'term="t"', 'domain="d"']
)
_DATES = st.sampled_from(
    [
        *("Sun, 01 Mar 2026 12:00:00 GMT", "Sun, 1 Mar 2026 12:00 +0100", "01 Mar 26 12:00 GMT", "2026-03-01"),
        *("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.25+02:00", "2026-02-31T12:00:00Z", "yesterday", "1772366400"),
        *("Sun, 31 Feb 2026 12:00:00 GMT", "Sun, 01 Mar 2026 25:00:00 GMT", "Sun, 01 Mar 2026 12:00:00 XYZ", ""),
        *(
            "Mon, 01 Jun 2026 12:00:60 EST",
            "2026-03-01T12:00:00",
            "2026-03-01T24:00:00Z",
            "Sun, 01 Mrz 2026 12:00:00 A",
        ),
        *(
            "Sun, 01 Mar 0000 12:00:00 GMT",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-23:59",
            "0001-01-01T00:00:00+09:00",
        ),
    ]
)
_ATTRIBUTES = st.sampled_from(
    [
        *(
            'href="/l"',
            'href=" /l "',
            'base="y/"',
            'xml:base="x/"',
            'href="https://example.org/1"',
            'href=""',
            'rel="alternate"',
            'rel="self"',
            'rel="enclosure"',
        ),
        *(
            'rel="hub"',
            'type="html"',
            'type="text"',
            'type="xhtml"',
            'type="text/html"',
            'type="image/png"',
            'TYPE="x"',
        ),
        *('isPermaLink="false"', 'isPermaLink="true"', 'ispermalink="false"', 'url="/e.mp3"', 'url=""', 'domain="d"'),
        *(
            'term="t"',
            'label="l"',
            'scheme="s"',
            'xml:lang="fr"',
            'xml:base="https://b.example/"',
            'base="x"',
            'x:a="1"',
        ),
        *('rdf:about="urn:r"', 'lang=""', 'mode="base64"', 'src="/s"', 'x:href="/n"', 'rdf:resource="r"', 'text="i"'),
        *('length="1"', 'title="t"', 'xmlns="urn:x"', 'lastmod="x"', 'uri="/u"', 'xmlns:n="urn:x"', 'rel="HUB"'),
    ]
)
_TIMED = {"pubDate", "published", "updated", "dc:date", "lastBuildDate", "dcterms:modified", "dcterms:issued"}


_VALUES = st.sampled_from(["", "a", "html", "text", "xhtml", "image/png", "alternate", "hub", "self", "false", "/a"])
_NAME = (str, lambda element: element.split(">")[0].split()[0])  # what must differ: all of it, or its name


@st.composite
def elements(draw: st.DrawFn, depth: int = 0) -> str:
    """Return an element with attributes, a text, and now and then elements."""
    wild = draw(st.integers(0, 15)) == 0
    name = draw(st.one_of(_COMMON, _ELEMENTS))
    attributes = draw(
        st.one_of(
            st.just([]),
            st.lists(_ATTRIBUTES if wild else _TAME_ATTRIBUTES, max_size=3, unique_by=lambda each: each[:5]),
        )
    )
    inside = draw((_DATES if wild else _TAME_DATES) if name in _TIMED else _PLAIN if wild else _TAME)
    nests = name in {
        "author",
        "media:group",
        "media:content",
        "source",
        "image",
        "itunes:owner",
        "atom:author",
        "x:title",
    }
    if depth < 2 and draw(st.integers(0, 1 if nests else 40)) == 0:
        inside += "".join(draw(st.lists(elements(depth + 1), min_size=1, max_size=3)))
    return f"<{' '.join([name, *attributes])}>{inside}</{name}>"


@st.composite
def feeds(draw: st.DrawFn) -> bytes:
    """Return a feed of any of the formats, mostly well-formed."""
    spaces = {
        name: uris[0] if draw(st.integers(0, 80)) else draw(st.sampled_from(uris)) for name, uris in _NAMESPACES.items()
    }
    root, channel, item = draw(
        st.sampled_from([("rss", "channel", "item"), ("feed", "", "entry"), ("rdf:RDF", "channel", "item")])
    )
    if root != "rss" and draw(st.integers(0, 7)):
        spaces[""] = _NAMESPACES["atom"][0] if root == "feed" else "http://purl.org/rss/1.0/"
    declared = [f'xmlns{":" if name else ""}{name}="{uri}"' for name, uri in spaces.items() if uri or not name]
    declared = draw(st.permutations([each for each in declared if each != 'xmlns=""']))
    version = draw(
        st.sampled_from(['version="2.0"', 'version="0.92"', "", 'xml:lang="en_gb"', 'version="2.0" lang="x"'])
    )
    about = "".join(draw(st.lists(elements(), max_size=5, unique_by=_NAME[draw(st.booleans())])))
    items = [
        draw(st.lists(elements(), max_size=9, unique_by=_NAME[draw(st.integers(0, 3)) > 0]))
        for _ in range(draw(st.integers(0, 3)))
    ]
    body = "".join(
        f"<{item} {draw(_ATTRIBUTES) if draw(st.integers(0, 30)) == 0 else ''}>{''.join(each)}</{item}>"
        for each in items
    )
    if channel and root == "rss":
        body = f"<{channel}>{about}{body}{''.join(draw(st.lists(elements(), max_size=1)))}</{channel}>"
    else:
        body = f"<{channel}>{about}</{channel}>{body}" if channel else about + body
    head = draw(
        st.sampled_from(
            ['<?xml version="1.0" encoding="utf-8"?>\n', "", "\ufeff", '<?xml version="1.0"?><!-- c -->', "\n"]
        )
    )
    return f"{head}<{root} {version} {' '.join(declared)}>{body}</{root}>".encode()


@st.composite
def rearranged(draw: st.DrawFn) -> bytes:
    """Return a feed as a common generator writes it, in which some elements were dropped, doubled, moved or changed."""
    root = etree.fromstring(draw(st.sampled_from(sorted(SAMPLES.values()))).encode())
    for _ in range(draw(st.integers(1, 4))):
        elements = [each for each in root.iter() if isinstance(each.tag, str) and each is not root]
        one, other = draw(st.sampled_from(elements)), draw(st.sampled_from(elements))
        change = draw(st.integers(0, 5))
        if change == 0 and len(elements) > len(list(one.iter())) + 2:
            one.getparent().remove(one)
        elif change == 1:
            one.addnext(deepcopy(one))
        elif change == 2:
            other.addnext(deepcopy(one))
        elif change == 3:
            other.insert(0, deepcopy(one))
        elif change == 4:
            one.text = draw(
                st.sampled_from(["", "a", "\u00c3\u00a9", "x@e.example", "daily", "7", " \u4e2d ", "/a?b&c;"])
            )
        else:
            one.set(draw(st.sampled_from(["type", "rel", "href", "url", "term", "isPermaLink"])), draw(_VALUES))
    document: bytes = etree.tostring(root, encoding="utf-8")
    return document


def _read(body: bytes, content_type: str | None) -> ParsedFeed | str:
    try:
        return parse_any_feed(body, content_type, URL)
    except ProbeError as error:
        return repr(error)


def check(body: bytes, content_type: str | None) -> bool:
    """Return whether the fast path reads it."""
    fast = parse_clean_feed(body, content_type, URL)
    if fast is not None:
        assert fast == _read(body, content_type)
    return fast is not None


@given(feeds())
@_SETTINGS
def test_any_feed(body: bytes) -> None:
    check(body, None)


@given(rearranged())
@_SETTINGS
def test_a_rearranged_feed(body: bytes) -> None:
    check(body, "application/xml")


@given(mutated())
@_SETTINGS
def test_a_mutated_document(case: Case) -> None:
    check(case.body, case.content_type)


def test_the_corpus() -> None:
    cases: list[Case] = [case for group in GROUPS.values() for case in group]
    read = [case.name for case in cases if check(case.body, case.content_type)]
    assert len(read) >= 60
