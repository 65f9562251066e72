"""RSS 0.9x, 1.0 (RDF) and 2.0."""

from __future__ import annotations

from tests.golden.documents.case import Case, text_case

_MODULES = (
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/" '
    'xmlns:media="http://search.yahoo.com/mrss/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" '
    'xmlns:atom="http://www.w3.org/2005/Atom"'
)
_RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/" '


def rss(inside: str, version: str = "2.0") -> str:
    return f'<?xml version="1.0"?><rss version="{version}" {_MODULES}><channel><title>T</title>{inside}</channel></rss>'


def item(inside: str) -> str:
    return rss(f"<item><guid>1</guid>{inside}</item>")


def rdf(namespace: str, inside: str) -> str:
    return f'{_RDF}xmlns="{namespace}"><channel rdf:about="https://example.org/"><title>R</title></channel>{inside}</rdf:RDF>'


VERSIONS = [
    text_case(f"version {version}", rss("<link>/</link><item><title>a</title><link>/a</link></item>", version))
    for version in ("0.91", "0.92", "0.93", "0.94", "2.0", "2.1", "")
] + [
    text_case("no version", "<rss><channel><item><title>a</title><link>/a</link></item></channel></rss>"),
    text_case("0.90", rdf("http://my.netscape.com/rdf/simple/0.9/", "<item><title>a</title><link>/a</link></item>")),
    text_case(
        "1.0",
        rdf(
            "http://purl.org/rss/1.0/",
            '<item rdf:about="https://example.org/a"><title>a</title><link>https://example.org/a</link>'
            "<description>d</description><dc:creator>Ann</dc:creator><dc:subject>art</dc:subject>"
            "<dc:date>2026-03-01T12:00:00Z</dc:date></item>",
        ),
        "application/rdf+xml",
    ),
    text_case("1.0 without rdf:about", rdf("http://purl.org/rss/1.0/", "<item><title>a</title></item>")),
    text_case("1.0 without items", rdf("http://purl.org/rss/1.0/", "")),
    text_case(
        "0.91 with the doctype of Netscape",
        '<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" '
        '"http://my.netscape.com/publish/formats/rss-0.91.dtd">' + rss("<item><title>a</title></item>", "0.91")[21:],
    ),
    text_case(
        "a whole channel",
        rss(
            "<link>https://example.org/</link><description>all</description><language>de-at</language><ttl>90</ttl>"
            "<item><guid>1</guid><title>a</title></item>"
        ),
    ),
    text_case("an empty channel", '<rss version="2.0"><channel></channel></rss>'),
    text_case("no channel", '<rss version="2.0"/>'),
]

IDENTITIES = [
    text_case("guid that is no link", item("").replace("<guid>", '<guid isPermaLink="false">')),
    text_case("guid that is the link", rss("<item><guid>https://example.org/p/1</guid></item>")),
    text_case("no guid but a link", rss("<item><link>/p/1</link><title>a</title></item>")),
    text_case("neither guid nor link", rss("<item><title>a</title><description>b</description></item>")),
    text_case("nothing in an item", rss("<item></item><item/>")),
    text_case(
        "one guid twice", rss("<item><guid>1</guid><title>a</title></item><item><guid>1</guid><title>b</title></item>")
    ),
    text_case("guids that differ in case", rss("<item><guid>a</guid></item><item><guid>A</guid></item>")),
    text_case("a guid of blanks", rss("<item><guid> </guid><link>/a</link></item>")),
    text_case("a guid in blanks", rss("<item><guid>\n 7 \n</guid></item>")),
    text_case("a guid of 600 characters", rss(f"<item><guid>{'g' * 600}</guid></item>")),
    text_case("one title, no guids", rss("<item><title>a</title></item><item><title>a</title></item>")),
]

TEXTS = [
    text_case("cdata", item("<title><![CDATA[Fish & <b>chips</b>]]></title>")),
    text_case("escaped html in a title", item("<title>a &lt;i&gt;b&lt;/i&gt;</title>")),
    text_case("an escaped entity in a title", item("<title>a &amp;amp; b</title>")),
    text_case("numeric references", item("<title>caf&#233; &#x1F600;</title>")),
    text_case("html entities that xml does not know", item("<title>a&nbsp;b &eacute;&mdash;c</title>")),
    text_case("an entity nobody knows", item("<title>a &unknown; b</title>")),
    text_case("a bare ampersand", item("<title>AT&T</title>")),
    text_case(
        "a bare ampersand in cdata and in an address", item("<title><![CDATA[AT&T]]></title><link>/?a=1&b=2</link>")
    ),
    text_case("markup that is not escaped", item("<description>a <b>c</b> d</description>")),
    text_case("a script in a description", item("<description>&lt;script&gt;alert(1)&lt;/script&gt;x</description>")),
    text_case(
        "description and content", item("<description>short</description><content:encoded>long</content:encoded>")
    ),
    text_case("content only", item("<content:encoded>long</content:encoded>")),
    text_case("a very long title", item(f"<title>{'x' * 70_000}</title>")),
    text_case("control characters", item("<title>a\x01b\x0bc\x7fd</title>")),
    text_case("a title over lines", item("<title>\n a\n b \n</title>")),
    text_case("a comment in a title", item("<title>a<!-- x -->b</title>")),
    text_case("an empty title", item("<title/>")),
    text_case("two titles", item("<title>a</title><title>b</title>")),
    text_case("a media title beside the title", item("<title>a</title><media:title>m</media:title>")),
    text_case("dublin core", item("<dc:title>a</dc:title><dc:creator>Ann</dc:creator><dc:date>2026-03-01</dc:date>")),
    text_case("author", item("<author>ann@example.org (Ann)</author>")),
    text_case("itunes", item("<itunes:author>Ann</itunes:author><itunes:summary>s</itunes:summary>")),
    text_case("categories", item("<category>a</category><category domain='d'>b c</category><category/>")),
    text_case("a category of a keyword list", item("<itunes:keywords>x, y</itunes:keywords>")),
    text_case(
        "upper case elements", "<RSS VERSION='2.0'><CHANNEL><ITEM><TITLE>a</TITLE><GUID>1</GUID></ITEM></CHANNEL></RSS>"
    ),
    text_case("ttl that is no number", rss("<ttl>soon</ttl><item><guid>1</guid></item>")),
]

LINKS = [
    text_case("a relative link", item("<link>../a?b=c&amp;d</link>")),
    text_case(
        "a relative link with xml:base",
        item("<link>a</link>").replace("<rss ", '<rss xml:base="https://b.example/x/" '),
    ),
    text_case("a link without a scheme", item("<link>//cdn.example/a</link>")),
    text_case("a javascript link", item("<link>javascript:alert(1)</link>")),
    text_case("a javascript link in disguise", item("<link> JaVaScRiPt:alert(1)</link>")),
    text_case("a data link", item("<link>data:text/html,x</link>")),
    text_case("a link to a file", item("<link>file:///etc/passwd</link>")),
    text_case("a broken link", item("<link>http://[::1</link>")),
    text_case("an atom link", item('<atom:link href="https://example.org/a"/>')),
    text_case("an enclosure", item('<enclosure url="/a.mp3" length="1" type="audio/mpeg"/>')),
    text_case("two enclosures", item('<enclosure url="/a.mp3"/><enclosure url="/b.mp3"/>')),
    text_case("an enclosure without an address", item("<enclosure length='1'/>")),
    text_case("an enclosure that is a script", item('<enclosure url="javascript:x"/>')),
    text_case("media content", item('<media:content url="https://example.org/a.jpg"/>')),
]

_DATES = {
    "rfc 822": "Sun, 01 Mar 2026 12:00:00 GMT",
    "a zone": "Sun, 01 Mar 2026 13:00:00 +0100",
    "a named zone": "Sun, 01 Mar 2026 07:00:00 EST",
    "a zone of nowhere": "Sun, 01 Mar 2026 12:00:00 XYZ",
    "two digits of a year": "01 Mar 26 12:00 GMT",
    "no seconds": "Sun, 1 Mar 2026 12:00 GMT",
    "the wrong weekday": "Mon, 01 Mar 2026 12:00:00 GMT",
    "lower case": "sun, 01 mar 2026 12:00:00 gmt",
    "whole names": "Sunday, 01 March 2026 12:00:00 GMT",
    "iso 8601": "2026-03-01T12:00:00Z",
    "iso 8601 in a zone": "2026-03-01T14:00:00+02:00",
    "iso 8601 with fractions": "2026-03-01T12:00:00.25Z",
    "iso 8601 with a blank": "2026-03-01 12:00:00",
    "iso 8601 without colons": "20260301T120000Z",
    "a day": "2026-03-01",
    "a month": "2026-03",
    "a week": "2026-W09-7",
    "the c library": "Sun Mar  1 12:00:00 2026",
    "unix seconds": "1772366400",
    "unix milliseconds": "1772366400250",
    "american": "03/01/2026 12:00:00",
    "german": "1. Maerz 2026",
    "far in the future": "Sat, 01 Mar 2125 12:00:00 GMT",
    "before the epoch": "Sat, 01 Mar 1969 12:00:00 GMT",
    "a day that does not exist": "Sun, 31 Feb 2026 12:00:00 GMT",
    "midnight as 24": "2026-03-01T24:00:00Z",
    "nothing": "",
    "a word": "yesterday",
}
DATES = [text_case(name, item(f"<pubDate>{text}</pubDate>")) for name, text in _DATES.items()] + [
    text_case("no date", item("")),
    text_case("two dates", item("<pubDate>2026-03-01T12:00:00Z</pubDate><pubDate>2026-03-02T12:00:00Z</pubDate>")),
]

DEFECTS = [
    text_case("cut off in an item", item("<title>abc</title>")[:-40]),
    text_case("cut off between items", rss("<item><guid>1</guid></item><item><gu")[:-30]),
    text_case("junk before the declaration", "Warning: x on line 3\n" + item("<title>a</title>")),
    text_case("blanks before the declaration", "\n\n  " + item("<title>a</title>")),
    text_case("a mark and blanks before the declaration", "\ufeff\n" + item("<title>a</title>")),
    text_case("junk after the end", item("<title>a</title>") + "<!-- 3 queries --><script>x</script>"),
    text_case("an end tag missing", item("<title>a")),
    text_case("end tags crossed", item("<title>a<b>c</title></b>")),
    text_case("an attribute without quotes", item("<enclosure url=/a.mp3 />")),
    text_case("a namespace that is not declared", item("<x:y>1</x:y><title>a</title>").replace("2.0", "2.0", 1)),
    text_case("300 elements deep", item("<a>" * 300 + "</a>" * 300 + "<title>a</title>")),
    text_case("a mime type that is wrong", item("<title>a</title>"), "text/html"),
    text_case("items outside of the channel", "<rss version='2.0'><channel/><item><guid>1</guid></item></rss>"),
    text_case(
        "two channels", rss("<item><guid>1</guid></item>")[:-6] + "<channel><item><guid>2</guid></item></channel></rss>"
    ),
    text_case("a billion laughs", '<!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><rss version="2.0"/>'),
    text_case("an entity from a file", '<!DOCTYPE rss [<!ENTITY a SYSTEM "file:///etc/passwd">]><rss version="2.0"/>'),
    text_case("a doctype without entities", "<!DOCTYPE rss>" + item("<title>a</title>")[21:]),
    text_case("an entity declared in cdata", item("<description><![CDATA[<!ENTITY a 'b'>]]></description>")),
    Case("zero bytes between", item("<title>a</title>").encode().replace(b"<title>a", b"<title>a\x00b")),
]

GROUPS: dict[str, list[Case]] = {
    "rss_versions": VERSIONS,
    "rss_identities": IDENTITIES,
    "rss_texts": TEXTS,
    "rss_links": LINKS,
    "rss_dates": DATES,
    "rss_defects": DEFECTS,
}
