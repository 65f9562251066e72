"""Atom 0.3 and 1.0, JSON Feed 1.0 and 1.1, sitemaps, charsets of feeds, and what is no feed at all."""

from __future__ import annotations

import codecs
import gzip
import json

from tests.golden.documents.case import Case, text_case


def atom(inside: str, attributes: str = 'xmlns="http://www.w3.org/2005/Atom"') -> str:
    return f'<?xml version="1.0"?><feed {attributes}><title>A</title><id>urn:f</id>{inside}</feed>'


def entry(inside: str) -> str:
    return atom(f"<entry><id>urn:1</id>{inside}</entry>")


ATOM = [
    text_case(
        "1.0",
        entry(
            '<title>a</title><link href="/a"/><published>2026-03-01T12:00:00Z</published>'
            "<updated>2026-03-02T12:00:00.5Z</updated><author><name>Ann</name></author>"
            '<category term="x"/><category term="y" label="Why"/><summary>s</summary>'
            '<content type="html">&lt;p&gt;c&lt;/p&gt;</content><link rel="enclosure" href="/a.mp3"/>'
        ),
        "application/atom+xml",
    ),
    text_case(
        "0.3",
        atom(
            '<entry><id>urn:1</id><title>a</title><link rel="alternate" href="/a"/>'
            "<issued>2026-03-01T12:00:00Z</issued>"
            "<modified>2026-03-02T12:00:00Z</modified></entry>",
            'version="0.3" xmlns="http://purl.org/atom/ns#"',
        ),
    ),
    text_case("no namespace", atom("<entry><id>urn:1</id><title>a</title></entry>", "")),
    text_case(
        "channel definition format",
        '<?xml version="1.0"?><CHANNEL><ITEM HREF="http://example.org/1"><TITLE>a</TITLE></ITEM></CHANNEL>',
    ),
    text_case(
        "a prefix for the namespace",
        '<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:id>urn:1</a:id>'
        "<a:title>a</a:title></a:entry></a:feed>",
    ),
    text_case("xml:lang", atom("<entry><id>urn:1</id></entry>", 'xmlns="http://www.w3.org/2005/Atom" xml:lang="fr"')),
    text_case("no entries", atom("")),
    text_case("an entry alone", '<entry xmlns="http://www.w3.org/2005/Atom"><id>urn:1</id><title>a</title></entry>'),
    text_case("no id", atom('<entry><title>a</title><link href="/a"/></entry>')),
    text_case(
        "one id twice", atom("<entry><id>u</id><title>a</title></entry><entry><id>u</id><title>b</title></entry>")
    ),
    text_case("updated only", entry("<updated>2026-03-01T12:00:00Z</updated>")),
    text_case("published only", entry("<published>2026-03-01T12:00:00Z</published>")),
    text_case(
        "a title of xhtml",
        entry('<title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">a <b>b</b></div></title>'),
    ),
    text_case("a title of html", entry('<title type="html">a &lt;b&gt;b&lt;/b&gt; &amp;amp; c</title>')),
    text_case("a title of text with an entity", entry('<title type="text">a &lt;b&gt; c</title>')),
    text_case("content elsewhere", entry('<content type="image/png" src="/a.png"/>')),
    text_case(
        "xml:base, nested",
        entry('<link href="c"/>')
        .replace("<feed ", '<feed xml:base="https://b.example/x/" ')
        .replace("<entry>", '<entry xml:base="y/">'),
    ),
    text_case(
        "links of several kinds",
        entry('<link rel="self" href="/s"/><link rel="edit" href="/e"/><link rel="alternate" href="/a"/>'),
    ),
    text_case("only a self link", entry('<link rel="self" href="/s"/>')),
    text_case("the author of the feed", atom("<author><name>Bob</name></author><entry><id>urn:1</id></entry>")),
    text_case("a javascript link", entry('<link href="javascript:x"/>')),
    text_case(
        "youtube",
        entry(
            '<media:group xmlns:media="http://search.yahoo.com/mrss/"><media:title>m</media:title>'
            "<media:description>d</media:description></media:group><title>a</title>"
        ),
    ),
    text_case("cut off", entry("<title>a</title>")[:-12]),
]

_V1, _V11 = "https://jsonfeed.org/version/1", "https://jsonfeed.org/version/1.1"


def json_feed(items: object, version: str = _V11, **channel: object) -> bytes:
    return json.dumps({"version": version, "title": "J", **channel, "items": items}).encode()


JSON_FEED = [
    Case(
        "1.1",
        json_feed(
            [
                {
                    "id": "1",
                    "url": "/a",
                    "title": "a",
                    "summary": "s",
                    "content_html": "<p>h</p>",
                    "content_text": "t",
                    "date_published": "2026-03-01T12:00:00Z",
                    "date_modified": "2026-03-02T12:00:00.25+00:00",
                    "authors": [{"name": "Ann"}, {"url": "https://bob.example/"}],
                    "tags": ["x", "y"],
                    "attachments": [{"url": "/a.mp3", "mime_type": "audio/mpeg"}],
                    "language": "fr",
                }
            ],
            home_page_url="https://example.org/",
            description="d",
            language="en",
        ),
        "application/feed+json",
    ),
    Case("1.0 with an author", json_feed([{"id": "1", "content_text": "t", "author": {"name": "Ann"}}], _V1)),
    Case("as text/html", json_feed([{"id": "1"}]), "text/html; charset=utf-8"),
    Case("as text/plain", json_feed([{"id": "1"}]), "text/plain"),
    Case("version without https", json_feed([{"id": "1"}], "http://jsonfeed.org/version/1.1")),
    Case("version 2", json_feed([{"id": "1"}], "https://jsonfeed.org/version/2")),
    Case("escaped slashes", json_feed([{"id": "1"}]).replace(b"/", b"\\/")),
    Case("ids that are numbers", json_feed([{"id": 1}, {"id": 2.5}, {"id": 0}, {"id": 12345678901234567890}])),
    Case("ids that are missing", json_feed([{"title": "a"}, {"id": None}, {"id": ""}, {"id": "1"}])),
    Case("one id twice", json_feed([{"id": "1", "title": "a"}, {"id": 1, "title": "b"}])),
    Case("items that are no objects", json_feed([1, None, "a", [], {"id": "1"}])),
    Case("no items", json_feed([])),
    Case("items that are no list", json_feed({"id": "1"})),
    Case("expired", json_feed([{"id": "1"}], expired=True)),
    Case("expired, but not quite", json_feed([{"id": "1"}], expired="yes")),
    Case(
        "the authors of the feed",
        json_feed([{"id": "1"}, {"id": "2", "authors": [{"name": "Bob"}]}], authors=[{"name": "Ann"}]),
    ),
    Case(
        "values of the wrong type",
        json_feed([{"id": "1", "title": 5, "tags": "x", "authors": {}, "attachments": [1]}], description=[]),
    ),
    Case("an external address", json_feed([{"id": "1", "external_url": "https://elsewhere.example/"}])),
    Case("a javascript address", json_feed([{"id": "1", "url": "javascript:x", "attachments": [{"url": "data:x"}]}])),
    Case("html in a title", json_feed([{"id": "1", "title": "<b>a</b>"}])),
    Case(
        "surrogates and controls",
        b'{"version": "%s", "items": [{"id": "1", "title": "a\\ud800\\u0000b"}]}' % _V11.encode(),
    ),
    Case("a mark", codecs.BOM_UTF8 + json_feed([{"id": "1"}])),
    Case("utf-16", json_feed([{"id": "1"}]).decode().encode("utf-16")),
    Case("an entity in a text", json_feed([{"id": "1", "content_text": "<!DOCTYPE a [<!ENTITY b 'c'>]>"}])),
    Case("cut off", json_feed([{"id": "1"}])[:-9]),
    Case("a comma too many", b'{"version": "%s",\n "items": [\n {"id": "1"},\n ]}' % _V11.encode()),
    Case("nested too deeply", b'{"version": %s' % (b"[" * 100_000)),
    Case("a date that is none", json_feed([{"id": "1", "date_published": "soon"}])),
    Case("json of another kind", b'{"version": 2, "items": []}'),
    Case("json without a version", b'{"items": []}'),
]

_SM = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap(inside: str, root: str = "urlset") -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} {_SM}>{inside}</{root}>'


SITEMAPS = [
    text_case(
        "addresses",
        sitemap(
            "<url><loc>https://example.org/a?b=1&amp;c</loc><lastmod>2026-03-01T12:00:00+01:00</lastmod>"
            "<changefreq>daily</changefreq><priority>0.5</priority></url>"
            "<url><loc> https://example.org/b </loc><lastmod>2026-03-01</lastmod></url>"
        ),
    ),
    text_case(
        "an index",
        sitemap("<sitemap><loc>https://example.org/s.xml.gz</loc><lastmod>2026-03</lastmod></sitemap>", "sitemapindex"),
    ),
    text_case("without lastmod", sitemap("<url><loc>https://example.org/a</loc></url>")),
    text_case("lastmod that is no time", sitemap("<url><loc>https://example.org/a</loc><lastmod>soon</lastmod></url>")),
    text_case("without loc", sitemap("<url><lastmod>2026-03-01</lastmod></url><url><loc/></url>")),
    text_case("one address twice", sitemap("<url><loc>/a</loc></url><url><loc>/a</loc></url>")),
    text_case("no namespace", "<urlset><url><loc>/a</loc></url></urlset>"),
    text_case("a prefix", f"<s:urlset {_SM.replace('xmlns', 'xmlns:s')}><s:url><s:loc>/a</s:loc></s:url></s:urlset>"),
    text_case("a prefix that is not declared", "<s:urlset><s:url><s:loc>/a</s:loc></s:url></s:urlset>"),
    text_case(
        "news",
        sitemap(
            '<url><loc>/a</loc><n:news xmlns:n="http://www.google.com/schemas/sitemap-news/0.9"><n:publication>'
            "<n:name>N</n:name></n:publication><n:publication_date>2026-03-01T12:00:00Z</n:publication_date>"
            "<n:title>a</n:title></n:news></url>"
        ),
    ),
    text_case(
        "images",
        sitemap(
            '<url><loc>/a</loc><i:image xmlns:i="http://www.google.com/schemas/sitemap-image/1.1">'
            "<i:loc>/a.png</i:loc></i:image></url>"
        ),
    ),
    text_case("no addresses", sitemap("")),
    text_case(
        "an xml comment and a style sheet",
        '<?xml version="1.0"?><?xml-stylesheet href="x"?><!-- y -->' + sitemap("<url><loc>/a</loc></url>")[39:],
    ),
    text_case("cut off", sitemap("<url><loc>/a</loc></url><url><loc>/b</loc></url>")[:-15]),
    text_case("an entity", "<!DOCTYPE urlset [<!ENTITY a 'b'>]>" + sitemap("<url><loc>&a;</loc></url>")[39:]),
    text_case("a bare ampersand", sitemap("<url><loc>/a?b&c</loc></url>")),
    text_case("a javascript address", sitemap("<url><loc>javascript:x</loc></url><url><loc>/a</loc></url>")),
    Case("utf-16", sitemap("<url><loc>/\u00e4</loc></url>").replace("UTF-8", "UTF-16").encode("utf-16")),
    Case(
        "latin-1 by declaration",
        sitemap("<url><loc>/\u00e4</loc></url>").replace("UTF-8", "ISO-8859-1").encode("latin-1"),
    ),
]

_TITLE = "Gr\u00fc\u00dfe \u20ac"
_CYRILLIC = "\u041f\u0440\u0438\u0432\u0435\u0442"


def _feed(title: str, declared: str | None = None) -> str:
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else '<?xml version="1.0"?>'
    return f'{declaration}<rss version="2.0"><channel><item><guid>1</guid><title>{title}</title></item></channel></rss>'


CHARSETS = [
    Case("utf-8", _feed(_TITLE).encode()),
    Case("utf-8 with a mark", codecs.BOM_UTF8 + _feed(_TITLE).encode()),
    Case("utf-16 with a mark", _feed(_TITLE, "utf-16").encode("utf-16")),
    Case("utf-16 big endian with a mark", codecs.BOM_UTF16_BE + _feed(_TITLE).encode("utf-16-be")),
    Case("utf-32 with a mark", _feed(_TITLE).encode("utf-32")),
    Case("latin-1 by header", _feed("Gr\u00fc\u00dfe").encode("latin-1"), "application/rss+xml; charset=iso-8859-1"),
    Case("windows-1252 by declaration", _feed(_TITLE, "windows-1252").encode("cp1252")),
    Case("koi8-r by declaration", _feed(_CYRILLIC, "koi8-r").encode("koi8-r")),
    Case("windows-1251 by header", _feed(_CYRILLIC).encode("cp1251"), 'text/xml; charset="windows-1251"'),
    Case("shift_jis by declaration", _feed("\u65e5\u672c", "Shift_JIS").encode("shift_jis")),
    Case("gb2312 by declaration", _feed("\u4e2d\u6587", "gb2312").encode("gb2312")),
    Case("utf-8 by header against the declaration", _feed(_TITLE, "iso-8859-1").encode(), "text/xml; charset=utf-8"),
    Case("utf-8 declared, latin-1 sent", _feed("Gr\u00fc\u00dfe", "utf-8").encode("latin-1")),
    Case("nothing declared, windows-1252 sent", _feed(_TITLE).encode("cp1252")),
    Case("a charset that does not exist", _feed(_TITLE, "x-nonsense").encode()),
    Case("utf-16 declared, utf-8 sent", _feed(_TITLE, "utf-16").encode()),
    Case("text/xml without a charset", _feed(_TITLE).encode(), "text/xml"),
    Case("an encoding whose name is no text", _feed("a", "@utf-8").encode().replace(b"@", b"\x80")),
    Case("one byte that is no character", _feed("a@b").encode().replace(b"@", b"\xff")),
]

_LINKS = (
    '<link rel="alternate" type="application/rss+xml" href="/feed"><link rel="alternate" '
    'type="application/feed+json" href="/feed.json">'
)

NOT_FEEDS = [
    Case("nothing", b""),
    Case("blanks", b" \n\t"),
    Case("a mark", codecs.BOM_UTF8),
    text_case("plain text", "Service unavailable"),
    text_case(
        "an error page", "<html><head><title>502</title></head><body>Bad gateway</body></html>", "application/rss+xml"
    ),
    text_case("a page that links to feeds", f"<!doctype html><html><head>{_LINKS}</head><body>x</body></html>"),
    text_case("xhtml", '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>'),
    Case("gzip by mistake", gzip.compress(_feed("a").encode(), mtime=0)),
    Case("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(64))),
    text_case("opml", '<opml version="2.0"><head/><body/></opml>'),
    text_case("soap", '<?xml version="1.0"?><Envelope><Body/></Envelope>'),
    text_case("a list of json", "[1, 2]"),
    text_case("broken json", '{"a": '),
]

GROUPS: dict[str, list[Case]] = {
    "atom": ATOM,
    "json_feed": JSON_FEED,
    "sitemaps": SITEMAPS,
    "feed_charsets": CHARSETS,
    "not_feeds": NOT_FEEDS,
}
