from __future__ import annotations

import calendar
import pickle
from pathlib import Path

import feedparser
import pytest

from proxyd.core.model.item import LONGEST_FIELD
from proxyd.probing.documents.document_texts import MOST_ITEMS, digest
from proxyd.probing.documents.probe_failures import EmptyDocumentError, NotAFeedError, UnsafeDocumentError
from proxyd.probing.feeds.feed_parser import parse_any_feed, parse_feed

URL = "https://example.org/blog/feed.xml"
NOON_S = float(calendar.timegm((2026, 3, 1, 12, 0, 0)))

RSS2 = b"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>News</title><link>https://example.org/</link><description>All of it</description>
<language>en-gb</language><ttl>30</ttl>
<item><title>One</title><link>/posts/1</link><guid isPermaLink="false">id-1</guid>
<description>&lt;b&gt;D&lt;/b&gt;</description>
<content:encoded><![CDATA[<p onclick="x()">Long <a href="rel">text</a></p>]]></content:encoded>
<author>ann@example.org (Ann)</author><category>Sport</category><category>Cycling</category>
<pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate>
<enclosure url="/audio/1.mp3" length="1" type="audio/mpeg"/></item>
<item><title>Two</title><link>https://example.org/posts/2</link></item>
<item><description>Neither id nor link</description></item>
</channel></rss>"""

RSS1 = b"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://example.org/"><title>Old</title><link>https://example.org/</link><description>d</description></channel>
<item rdf:about="https://example.org/1"><title>One</title><link>https://example.org/1</link>
<dc:date>2026-03-01T13:00:00+01:00</dc:date><dc:creator>Bob</dc:creator><dc:subject>Art</dc:subject></item>
</rdf:RDF>"""

ATOM = b"""<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de" xml:base="https://example.net/base/">
<title>Atomic</title><subtitle>sub</subtitle><link href="https://example.net/"/><id>urn:feed</id>
<entry xml:base="deep/"><title>One</title><link href="one.html"/><link rel="enclosure" href="one.mp3"/><id>urn:1</id>
<published>2026-03-01T12:00:00.125Z</published><updated>2026-03-01T12:00:00.250Z</updated>
<summary>short</summary><content type="html">&lt;p&gt;long&lt;/p&gt;</content><author><name>Cy</name></author>
<category term="a"/><category term="b"/></entry>
<entry><title>Two</title><link href="/two"/><id>urn:2</id><updated>2026-03-01T12:00:00Z</updated></entry>
</feed>"""


def rss(items: str, head: str = "") -> bytes:
    return f'<rss version="2.0"><channel><title>t</title>{head}{items}</channel></rss>'.encode()


def test_rss_2_fills_every_field() -> None:
    feed = parse_feed(RSS2, "application/rss+xml; charset=utf-8", URL)
    first = feed.items[0]
    assert (feed.version, feed.title, feed.link, feed.ttl_minutes, feed.trouble) == (
        "rss20",
        "News",
        "https://example.org/",
        30.0,
        "",
    )
    assert first.item_id == "id-1"
    assert first.published_s == NOON_S
    assert first.fields == {
        "channel.title": "News",
        "channel.link": "https://example.org/",
        "channel.description": "All of it",
        "channel.language": "en-gb",
        "channel.ttl": 30.0,
        "channel.item.title": "One",
        "channel.item.description": "<b>D</b>",
        "channel.item.content": '<p onclick="x()">Long <a href="rel">text</a></p>',
        "channel.item.link": "https://example.org/posts/1",
        "channel.item.guid": "id-1",
        "channel.item.author": "ann@example.org (Ann)",
        "channel.item.category": "Sport,Cycling",
        "channel.item.enclosure": "https://example.org/audio/1.mp3",
        "channel.item.pubdate": NOON_S,
        "channel.item.updated": None,
    }


def test_identity_is_the_guid_then_the_link_then_a_hash() -> None:
    ids = [item.item_id for item in parse_feed(RSS2, None, URL).items]
    assert ids[:2] == ["id-1", "https://example.org/posts/2"]
    assert ids[2].startswith("hash:")


def test_identities_do_not_change_with_the_address_of_the_document() -> None:
    body = rss("<item><guid>7</guid><title>a</title></item><item><link>posts/2</link></item>")
    here, there = parse_feed(body, None, URL), parse_feed(body, None, "https://elsewhere.example/")
    assert [item.item_id for item in here.items] == [item.item_id for item in there.items] == ["7", "posts/2"]
    assert [item.content_hash for item in here.items][:1] != []
    assert here.items[1].fields["channel.item.link"] == "https://example.org/blog/posts/2"


def test_rss_1() -> None:
    feed = parse_feed(RSS1, "application/rdf+xml", URL)
    fields = feed.items[0].fields
    assert feed.version == "rss10"
    assert feed.items[0].item_id == "https://example.org/1"
    assert (fields["channel.item.author"], fields["channel.item.category"]) == ("Bob", "Art")
    assert fields["channel.item.updated"] == fields["channel.item.pubdate"] == NOON_S


def test_atom_keeps_fractions_of_seconds_and_resolves_by_xml_base() -> None:
    feed = parse_feed(ATOM, "application/atom+xml", URL)
    one, two = feed.items
    assert (feed.version, feed.title) == ("atom10", "Atomic")
    assert (one.published_s, one.fields["channel.item.updated"]) == (NOON_S + 0.125, NOON_S + 0.25)
    assert one.fields["channel.item.link"] == "https://example.net/base/deep/one.html"
    assert one.fields["channel.item.enclosure"] == "https://example.net/base/deep/one.mp3"
    assert two.fields["channel.item.link"] == "https://example.net/two"
    assert two.published_s == NOON_S
    assert (one.fields["channel.item.description"], one.fields["channel.item.content"]) == ("short", "<p>long</p>")
    assert (one.fields["channel.item.category"], one.fields["channel.language"]) == ("a,b", "de")


def test_the_content_hash_changes_with_content_and_not_with_dates() -> None:
    def hash_of(item: str) -> str:
        return parse_feed(rss(f"<item><guid>1</guid>{item}</item>")).items[0].content_hash

    plain = hash_of("<title>a</title><description>b</description>")
    assert plain == hash_of(
        "<title>a</title><description>b</description><pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate>"
    )
    others = {
        hash_of("<title>ab</title>"),
        hash_of("<title>a</title><description>c</description>"),
        hash_of("<title>a</title><description>b</description><link>https://x.example/</link>"),
        hash_of('<title>a</title><description>b</description><enclosure url="https://x.example/a" type="a/b"/>'),
    }
    assert len(others) == 4
    assert plain not in others


def test_items_without_guid_and_link_differ_in_time_and_enclosure() -> None:
    item = "<item><title>a</title>{}</item>"
    parts = ["", "<pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate>", "<pubDate>Sun, 01 Mar 2026 13:00:00 GMT</pubDate>"]
    parts += ['<enclosure url="/1.mp3"/>', '<enclosure url="/2.mp3"/>']
    body = rss("".join(map(item.format, parts)))
    feed = parse_feed(body)
    assert len({found.item_id for found in feed.items}) == 5
    assert [feed.items[0].item_id in found.former_ids for found in feed.items] == [False, True, True, True, True]
    assert parse_any_feed(body) == feed
    assert [found.item_id for found in parse_feed(body, None, URL).items] == [found.item_id for found in feed.items]


def test_the_title_of_itunes_is_used_if_there_is_no_other() -> None:
    titles = ["<itunes:title>i</itunes:title>", "<itunes:title>i</itunes:title><title>t</title>", "<title/>"]
    body = rss("".join(f"<item><guid>{number}</guid>{title}</item>" for number, title in enumerate(titles)))
    body = body.replace(b"<rss", b'<rss xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"')
    feed = parse_feed(body)
    assert [item.fields["channel.item.title"] for item in feed.items] == ["i", "t", None]
    assert [len(item.former_hashes) for item in feed.items] == [2, 1, 1]
    assert parse_any_feed(body) == feed


def test_of_duplicates_the_first_is_kept() -> None:
    item = "<item><guid>1</guid><title>a</title></item>"
    assert [each.item_id for each in parse_feed(rss(item * 2)).items] == ["1"]


def test_bounds_of_items_fields_and_identities() -> None:
    items = "".join(f"<item><guid>{number}</guid></item>" for number in range(MOST_ITEMS + 5))
    feed = parse_feed(rss(items))
    assert (len(feed.items), feed.truncated) == (MOST_ITEMS, True)
    long = parse_feed(rss(f"<item><guid>{'g' * 9999}</guid><title>{'t' * (LONGEST_FIELD + 9)}</title></item>")).items[0]
    assert len(str(long.fields["channel.item.title"])) == LONGEST_FIELD
    assert long.item_id.startswith("hash:")


def test_control_characters_and_surrogates_are_removed() -> None:
    item = parse_feed(rss("<item><title>a\x08b\tc\nd&#x1F600;&#x85;</title><guid>1\x7f</guid></item>")).items[0]
    title = str(item.fields["channel.item.title"])
    assert title == "ab\tc\nd\U0001f600"
    assert item.item_id == "1"


@pytest.mark.parametrize("link", ["javascript:alert(1)", " data:text/html,x", "vbscript:x", "file:///etc/passwd"])
def test_links_that_must_not_be_followed_are_dropped(link: str) -> None:
    assert (
        parse_feed(rss(f"<item><guid>1</guid><link>{link}</link></item>")).items[0].fields["channel.item.link"] is None
    )


def test_a_missing_field_is_none_and_always_there() -> None:
    fields = parse_feed(rss("<item><guid>1</guid></item>")).items[0].fields
    assert fields["channel.item.author"] is None
    assert fields["channel.ttl"] is None
    assert len(fields) == 15


def test_malformed_but_usable() -> None:
    feed = parse_feed(b"<rss version='2.0'><channel><title>A & B</title><item><title>x</title><guid>1</guid></item>")
    assert [item.item_id for item in feed.items] == ["1"]
    assert "SAXParseException" in feed.trouble


def test_a_feed_without_items_is_a_feed() -> None:
    assert parse_feed(rss("")).items == ()


def test_a_parsed_feed_can_cross_to_another_process() -> None:
    feed = parse_feed(ATOM, None, URL)
    assert pickle.loads(pickle.dumps(feed)) == feed


@pytest.mark.parametrize("body", [b"", b" \r\n\t", b"\xef\xbb\xbf", b"\xff\xfe \x00\n\x00", b"\n" * 100_000])
def test_empty(body: bytes) -> None:
    with pytest.raises(EmptyDocumentError):
        parse_feed(body, "application/rss+xml", URL)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<rss version="2.0"><channel><title>&b;</title></channel></rss>'
)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (BOMB.encode(), None),
        (BOMB.lower().encode(), None),
        (b"\xef\xbb\xbf" + BOMB.encode(), None),
        (BOMB.encode("utf-16"), None),
        (BOMB.encode("utf-16-be"), None),
        (BOMB.encode("utf-32"), None),
        (BOMB.replace("[<!ENTITY", "[<!-- <a --><!ENTITY", 1).encode(), None),
        (BOMB.replace("<!DOCTYPE", "<!-- <a --><!DOCTYPE", 1).encode(), None),
        (BOMB.replace("<!DOCTYPE", "<?pi <a ?>\n<!-- x -->\n<!DOCTYPE", 1).encode(), None),
        (BOMB.replace("<!DOCTYPE", '<!DOC<!ENTITY z "z">TYPE', 1).encode(), None),
    ],
)
def test_entity_declarations_are_unsafe_in_every_encoding(body: bytes, content_type: str | None) -> None:
    with pytest.raises(UnsafeDocumentError):
        parse_feed(body, content_type, URL)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (BOMB.encode("cp037"), None),
        (BOMB.replace("<", "+ADw-").encode(), "application/xml; charset=utf-7"),
    ],
)
def test_charsets_that_no_browser_reads_declare_nothing(body: bytes, content_type: str | None) -> None:
    with pytest.raises(NotAFeedError):
        parse_feed(body, content_type, URL)


def test_a_post_about_entities_is_no_bomb() -> None:
    body = rss(
        "<item><guid>1</guid><description><![CDATA[<pre><!DOCTYPE a [<!ENTITY x 'y'>]></pre>]]></description></item>"
    )
    assert len(parse_feed(body).items) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"<book><urlset><url><loc>x</loc></url></urlset></book>",
        b'{"version": "https://example.org/version/1.1", "items": []}',
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b"<opml version='1.0'><body/></opml>",
    ],
)
def test_anything_else_is_not_a_feed(body: bytes) -> None:
    with pytest.raises(NotAFeedError, match="not a feed"):
        parse_feed(body, "text/plain", URL)


PAGE = b"""<!DOCTYPE html><html><head><title>Blog</title><base href="/b/">
<link rel="stylesheet" href="x.css"><link rel="Alternate home" type="application/rss+xml; charset=utf-8" href="feed">
<link rel=alternate type=application/atom+xml href=https://example.com/atom>
<link rel="alternate" type="application/rss+xml" href="feed"><link rel="alternate" hreflang="de" href="/de">
<link rel="alternate" type="application/rss+xml" href="http://[bad">
</head><body><p>Oops<br></body></html>"""


def test_a_web_page_names_the_feeds_it_links_to() -> None:
    with pytest.raises(NotAFeedError) as caught:
        parse_feed(PAGE, "text/html", URL)
    assert caught.value.links == ("https://example.org/b/feed", "https://example.com/atom")
    assert caught.value.message == (
        "this is a web page; it links to the feeds https://example.org/b/feed, https://example.com/atom"
    )
    assert pickle.loads(pickle.dumps(caught.value)).links == caught.value.links


def test_a_web_page_without_feeds() -> None:
    with pytest.raises(NotAFeedError, match=r"^this is a web page$"):
        parse_feed(b"<html><body>404</body></html>", "text/html", URL)


def test_a_body_that_is_the_name_of_a_local_file_does_not_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: feedparser opens str and bytes as a file name or an address."""
    (tmp_path / "feed.xml").write_bytes(RSS2)
    monkeypatch.chdir(tmp_path)
    assert len(feedparser.parse(b"feed.xml").entries) == 3
    with pytest.raises(NotAFeedError):
        parse_feed(b"feed.xml")
    with pytest.raises(NotAFeedError):
        parse_feed(str(tmp_path / "feed.xml").encode())


@pytest.mark.parametrize(
    ("body", "content_type", "title"),
    [
        ("<rss version='2.0'><channel><title>Ž</title></channel></rss>".encode(), "text/xml", "Ž"),
        (
            "<rss version='2.0'><channel><title>é</title></channel></rss>".encode("latin-1"),
            "text/xml; charset=iso-8859-1",
            "é",
        ),
        (
            "<?xml version='1.0' encoding='windows-1251'?><rss version='2.0'><channel><title>Мир</title>".encode(
                "cp1251"
            ),
            "application/xml",
            "Мир",
        ),
        ("<rss version='2.0'><channel><title>Ž</title></channel></rss>".encode("utf-16"), None, "Ž"),
        ("\ufeff<rss version='2.0'><channel><title>Ž</title>".encode(), "text/xml; charset=iso-8859-1", "Ž"),
        ("<rss version='2.0'><channel><title>Ž</title></channel></rss>".encode(), "text/xml; charset=nonsense", "Ž"),
    ],
)
def test_encodings(body: bytes, content_type: str | None, title: str) -> None:
    assert parse_feed(body, content_type).title == title


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("&lt;i&gt;Homo sapiens&lt;/i&gt; found", "Homo sapiens found"),
        ("<![CDATA[<b>New</b> <a href='/x'>release</a><br/>]]>", "New release"),
        ("&lt;I&gt;x&lt;/i&gt; &amp;amp; y", "x & y"),
        ("How to use &lt;b&gt;", "How to use <b>"),
        ("std::list&lt;i&gt; and a &lt; b", "std::list<i> and a < b"),
        ("&lt;script&gt; considered harmful", "<script> considered harmful"),
        ("&amp;lt;i&amp;gt;x&amp;lt;/i&amp;gt;", "<i>x</i>"),
    ],
)
def test_a_title_is_text(written: str, shown: str) -> None:
    body = rss(f"<item><guid>1</guid><title>{written}</title></item>")
    for read in (parse_feed, parse_any_feed):
        assert read(body, None, URL).items[0].fields["channel.item.title"] == shown


@pytest.mark.parametrize(
    "guid",
    [
        "<guid>http://x.example/1</guid>",
        "<guid isPermaLink='true'>http://x.example/1</guid>",
        "<guid isPermaLink='True'>http://x.example/1</guid>",
        "<link/><guid>http://x.example/1</guid>",
        "<guid isPermaLink=' TRUE '>http://x.example/1</guid><link></link>",
        "<link> </link><guid isPermaLink='true'>http://x.example/1</guid><title>a</title>",
    ],
)
def test_an_item_whose_guid_is_a_permalink_has_a_link(guid: str) -> None:
    for read in (parse_feed, parse_any_feed):
        item = read(rss(f"<item>{guid}</item>"), None, URL).items[0]
        assert (item.item_id, item.fields["channel.item.link"]) == ("http://x.example/1", "http://x.example/1")


@pytest.mark.parametrize(
    "guid", ["<link/><guid isPermaLink='false'>http://x.example/1</guid>", "<link/><guid>1</guid>"]
)
def test_a_guid_that_is_no_address_is_no_link_of_an_item_without(guid: str) -> None:
    for read in (parse_feed, parse_any_feed):
        assert read(rss(f"<item><link/>{guid}</item>"), None, URL).items[0].fields["channel.item.link"] is None


def test_an_item_that_gets_its_link_is_known_by_its_former_hash() -> None:
    item = parse_feed(rss("<item><title>a</title><link/><guid>http://x.example/1</guid></item>"), None, URL).items[0]
    assert digest(["a", None, None, None, None]) in item.former_hashes


OWN, ITUNES = "<description>own</description>", "<itunes:summary>it</itunes:summary>"
MEDIA, LONG = "<media:description>m</media:description>", "<content:encoded>long</content:encoded>"


@pytest.mark.parametrize(
    ("elements", "texts"),
    [
        (OWN + ITUNES, ("own", "it")),
        (ITUNES + OWN, ("own", "it")),
        (LONG + OWN + ITUNES, ("own", "long")),
        (OWN + ITUNES + LONG, ("own", "long")),
        (LONG + OWN + MEDIA, ("own", "long")),
        (f"<media:group>{MEDIA}</media:group>{OWN}", ("own", "m")),
        (ITUNES, ("it", None)),
        ("<description/>" + ITUNES, ("it", None)),
        (LONG + ITUNES, ("long", "long")),
        (LONG + MEDIA, ("long", "long")),
    ],
)
def test_descriptions_of_other_vocabularies_do_not_displace_the_items_own(
    elements: str, texts: tuple[str | None, str | None]
) -> None:
    spaces = (
        "xmlns:itunes='http://www.itunes.com/dtds/podcast-1.0.dtd' xmlns:media='http://search.yahoo.com/mrss/' "
        "xmlns:content='http://purl.org/rss/1.0/modules/content/'"
    )
    item = f"<item><guid isPermaLink='false'>1</guid><title>t</title>{elements}</item>"
    body = f"<rss version='2.0' {spaces}><channel>{item}</channel></rss>".encode()
    for read in (parse_feed, parse_any_feed):
        fields = read(body, None, URL).items[0].fields
        assert (fields["channel.item.description"], fields["channel.item.content"]) == texts


def test_an_item_whose_description_was_displaced_is_known_by_its_former_hash() -> None:
    body = rss(f"<item><guid isPermaLink='false'>1</guid>{ITUNES}{OWN}</item>")
    for read in (parse_feed, parse_any_feed):
        assert digest([None, "it", "own", None, None]) in read(body, None, URL).items[0].former_hashes
