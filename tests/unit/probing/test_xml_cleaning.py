from __future__ import annotations

import pytest

from proxyd.core.model.item import Item
from proxyd.probing.documents.probe_failures import NotAFeedError, UnsafeDocumentError
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_any_feed, parse_feed
from proxyd.probing.feeds.xml_cleaning import balance_tags, clean_xml, syntax_error
from tests.unit.probing.test_fast_feeds import SAMPLES

URL = "https://example.org/blog/feed.xml"
_ITEMS = "".join(
    f"<item><title>T{n} caf\u00e9</title><guid>{n}&amp;copy=1</guid><link>https://e.example/?a={n}&amp;copy=1</link>"
    f"<description><![CDATA[<p>A &amp; B {n}</p>]]></description></item>"
    for n in range(3)
)
FEED = f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>c</title>{_ITEMS}</channel></rss>'


def rss(inside: str) -> str:
    return f"<rss version='2.0'><channel><item><guid>1</guid>{inside}</item></channel></rss>"


def title(text: str) -> object:
    return parse_feed(rss(f"<title>{text}</title>").encode(), None, URL).items[0].fields["channel.item.title"]


def identities(feed: ParsedFeed) -> list[tuple[str, str, float | None]]:
    return [(item.item_id, item.content_hash, item.published_s) for item in feed.items]


@pytest.mark.parametrize(
    "illegal",
    [*(bytes([code]) for code in (0, 1, 8, 11, 12, 14, 27, 31)), b"\xef\xbf\xbe", b"\xef\xbf\xbf", b"\xed\xa0\x80"],
)
def test_an_illegal_character_anywhere_changes_nothing(illegal: bytes) -> None:
    body = FEED.encode()
    whole = parse_feed(body, None, URL)
    for place in range(0, len(body), 7):
        if len(illegal) > 1 and body[place] & 0xC0 == 0x80:  # within a character
            continue
        found = parse_feed(body[:place] + illegal + body[place:], None, URL)
        assert identities(found) == identities(whole), place


@pytest.mark.parametrize(
    "charset", ["windows-1251", "windows-1252", "koi8-r", "shift_jis", "gb2312", "euc-jp", "big5", "iso-2022-jp"]
)
def test_a_control_character_anywhere_changes_nothing_in_other_charsets(charset: str) -> None:
    text = f"<?xml version='1.0' encoding='{charset}'?>" + rss(
        "<title>x \u0442\u0435\u0441\u0442 \u65e5\u672c \u00e9</title>"
    )
    body = text.encode(charset, "ignore")
    whole = parse_feed(body, None, URL)
    for place in range(len(body)):
        found = parse_feed(body[:place] + b"\x0b" + body[place:], None, URL)
        assert identities(found) == identities(whole), place


def test_a_byte_that_its_charset_does_not_have_does_not_make_another_charset_of_it() -> None:
    text = rss("<title>\u00f1 \u00e9 \u00e8 \u00e0 \u00fc \u00f6 \u00e4 \u00df \u00ea \u00f4 \u00ef \u00e7 {}</title>")
    body = f"<?xml version='1.0' encoding='windows-1252'?>{text}".encode("cp1252")
    assert identities(parse_feed(body.replace(b"{}", b"\x81"))) == identities(parse_feed(body.replace(b" {}", b"")))
    utf8 = f"<?xml version='1.0' encoding='shift_jis'?>{text}".encode()
    assert "\u00f1 \u00e9" in str(parse_feed(utf8 + b"\n").items[0].fields["channel.item.title"])


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("defect", ["\x0b", "&#11;", "&#xD800;", "&#9999999999;", "<nobody:knows/>"])
def test_feeds_with_a_defect_are_read_as_without(name: str, defect: str) -> None:
    text = SAMPLES[name].replace("<![CDATA[One]]>", "One")
    end = "</description>" if name == "mastodon" else "</title>"
    place = text.index(end, max(text.find("<item"), text.find("<entry")))
    place += len(end) if defect.startswith("<") else 0
    whole = parse_feed(text.encode(), None, URL)
    found = parse_feed((text[:place] + defect + text[place:]).encode(), None, URL)
    assert identities(found) == identities(whole)
    assert parse_any_feed((text[:place] + defect + text[place:]).encode(), None, URL).items == found.items


@pytest.mark.parametrize("prefix", ["atom", "dc", "content", "media", "itunes", "sy", "rdf"])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_prefix_that_nobody_declares_has_its_usual_meaning(name: str, prefix: str) -> None:
    text = SAMPLES[name]
    begins, _, rest = text.partition(f"xmlns:{prefix}=")
    ends = rest.partition(rest[:1])[2].partition(rest[:1])[2] if rest else ""
    assert identities(parse_feed((begins + ends).encode(), None, URL)) == identities(
        parse_feed(text.encode(), None, URL)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a &#55357;&#56832; b", "a \U0001f600 b"),
        ("a &#xD83D;&#xDE00; b", "a \U0001f600 b"),
        ("a &#xd83d; b", "a  b"),
        ("a &#xde00;&#xd83d; b", "a  b"),
        ("a&#9999999999;b", "ab"),
        (f"a&#{'9' * 5000};b", "ab"),
        (f"a&#{'0' * 40}66;", "aB"),
        ("&#X41;&#x42;", "AB"),
        ("a&#0;&#8;b", "ab"),
        ("a&#xZZ;b", "a&#xZZ;b"),
        ("&eacute;&nbsp;&mdash;x", "\u00e9 \u2014x"),
        ("&unknown; AT&T", "&unknown; AT&T"),
    ],
)
def test_references_are_characters_or_nothing(text: str, expected: str) -> None:
    assert title(text) == expected


def test_what_was_left_out_is_told() -> None:
    assert parse_feed(rss("<title>a\x0bb</title>").encode()).trouble == "characters that XML forbids were left out"
    assert parse_feed(rss("<x:y/>").encode()).trouble == "SAXParseException: <unknown>:2:48: unbound prefix"


@pytest.mark.parametrize("declaration", ["<!ENT\x0bITY a 'b'>", "<!\x00ENTITY a 'b'>"])
def test_cleaning_makes_no_declaration_of_entities(declaration: str) -> None:
    body = f"<!DOCTYPE rss [{declaration}]>{rss('<title>&a;</title>')}".encode()
    with pytest.raises(UnsafeDocumentError):
        parse_feed(body, None, URL)


@pytest.mark.parametrize("tail", [b"caf\xe2\x80", b"caf\xe2"])
def test_a_document_that_ends_within_a_character_keeps_its_charset(tail: bytes) -> None:
    body = FEED.partition("</channel>")[0].encode() + b"<item><title>" + tail
    assert identities(parse_feed(body)) == identities(parse_feed(FEED.encode()))


def test_a_wrong_byte_does_not_make_another_charset_of_utf_8() -> None:
    body = FEED.encode().replace(b"T1 ", b"T1 \xff")
    assert identities(parse_feed(body)) == identities(parse_feed(FEED.encode()))
    latin = rss("<title>caf\u00e9</title>").encode("latin-1")
    assert parse_feed(latin).items[0].fields["channel.item.title"] == "caf\u00e9"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<rss><item><b>x</item></rss>", "<rss><item><b>x</b></item></rss>"),
        ("<rss><item>x</b></item></rss>", "<rss><item>x</item></rss>"),
        ("<rss><item><a><item><b></item></rss>", "<rss><item><a></a></item><item><b></b></item></rss>"),
        ("<rss><item>a<br>b</item></rss>", "<rss><item>a<br/>b</item></rss>"),
        ("<rss><a b=c b=d e='\"'/></rss>", '<rss><a b="c" e="&quot;"/></rss>'),
        ("<rss><a b='1'<c/></rss>", '<rss><a b="1"><c/></a></rss>'),
        ("<rss>a < b ]]> c</rss>", "<rss>a &lt; b ]]&gt; c</rss>"),
        ("<rss><a:b:c/></rss>", '<rss xmlns:a="urn:undeclared:a"><a:b-c/></rss>'),
        ("<rss><Title>x</title></rss>", "<rss><Title>x</Title></rss>"),
        ("Warning <b>x</b><rss><a></a></rss> trailer <x>", "<rss><a></a></rss>"),
        ("<![CDATA[ <rss><a></rss>", "<rss><a></a></rss>"),
        ("<rss xmlns:x='a b'><x:y></rss>", '<rss xmlns:x="ab"><x:y></x:y></rss>'),
        ("<rss><i xmlns:x='urn:x'/><x:y></rss>", '<rss xmlns:x="urn:x"><i xmlns:x="urn:x"/><x:y></x:y></rss>'),
        ("<rss xmlns:xml='u' xmlns:x=''><a></rss>", "<rss><a></a></rss>"),
        ("<rss/><x>", "<rss/>"),
        ('<!DOCTYPE rss "-//Netscape//DTD><!DOCTYPE x><rss><b></rss>', "\n<!DOCTYPE netscape>\n<rss><b></b></rss>"),
        ("<rss", ""),
        ("<item>cut", ""),
    ],
)
def test_tags_are_balanced(text: str, expected: str) -> None:
    assert balance_tags(text) == expected
    assert (syntax_error(expected.encode()) == "") == bool(expected)


def test_nesting_is_bounded() -> None:
    assert balance_tags("<rss>" + "<a>" * 100_000).count("<a>") == 199


def test_a_cdata_section_without_an_end_ends_with_its_item() -> None:
    items = "<item><guid>1</guid><title><![CDATA[a</item><item><guid>2</guid><title><![CDATA[b</item>"
    feed = parse_feed(f"<rss version='2.0'><channel>{items}</channel></rss>".encode())
    assert [(item.item_id, item.fields["channel.item.title"]) for item in feed.items] == [("1", "a"), ("2", "b")]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_feed_that_is_cut_off_shows_no_half_item(name: str) -> None:
    """A feed of two items, cut off anywhere, has the first, both or none of them."""
    text = SAMPLES[name]
    tag = "item" if "</item>" in text else "entry"
    start, end = text.index(f"<{tag}"), text.index(f"</{tag}>") + len(f"</{tag}>")
    body = (text[:end] + text[start:end].replace("One", "Two").replace("/one", "/two") + text[end:]).encode()
    whole = parse_feed(body, None, URL).items
    for place in range(text.index("<title"), len(body), 5):
        try:
            items: tuple[Item, ...] = parse_feed(body[:place], None, URL).items
        except NotAFeedError:
            items = ()
        for item, one in zip(items, whole, strict=False):
            assert item.item_id in {one.item_id, *one.former_ids}, place
        assert [item.content_hash for item in items] == [item.content_hash for item in whole][: len(items)], place


def test_odd_coordinates_lose_no_feed() -> None:
    gml = '<gml:polygon xmlns:gml="http://www.opengis.net/gml"><gml:posList>x</gml:posList></gml:polygon>'
    items = parse_any_feed(rss(f"{gml}<title>a</title>").encode()).items
    assert [item.fields["channel.item.title"] for item in items] == ["a"]


@pytest.mark.parametrize("blank", [" ", "\xa0", "\n"])
def test_a_namespace_with_blanks_loses_no_item(blank: str) -> None:
    body = rss("<title>a</title>").replace("<rss", f"<rss xmlns:g='urn:{blank}g'").encode()
    assert [item.fields["channel.item.title"] for item in parse_feed(body).items] == ["a"]


def test_what_is_well_formed_is_only_decoded() -> None:
    assert clean_xml(b"<rss>a</rss>", None).body == b"<?xml version='1.0' encoding='utf-8'?>\n<rss>a</rss>"


def test_netscapes_version_is_known_in_a_document_that_is_mended() -> None:
    head = '<?xml version="1.0"?>\n<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "x">\n'
    body = f'{head}<rss version="0.91"><channel><item><title>a<b></title></item></channel></rss>'
    assert parse_feed(body.encode()).version == "rss091n"


@pytest.mark.parametrize(
    ("inside", "is_mended"),
    [("a & b &amp; c", False), ("a &eacute;", True), ("a\x0b", True), ("a&#0;", True), ("<b>", True)],
)
def test_items_of_documents_that_were_mended_say_so(inside: str, *, is_mended: bool) -> None:
    item = parse_feed(rss(f"<title>{inside}</title>").replace("<guid>1", "<guid>1&amp;2").encode()).items[0]
    assert (item.item_id, item.is_mended, item.former_ids) == ("1&2", is_mended, ("1&amp;2",) if is_mended else ())
