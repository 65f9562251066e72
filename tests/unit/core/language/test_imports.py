"""Lists of feeds become profiles: one for each folder, and only what is not declared yet."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import pytest

from proxyd.core.errors import ConfigError, ListingError
from proxyd.core.language import (
    SourceText,
    address_to_watch,
    check,
    format_parsed,
    merge_listing,
    opml_of,
    parse,
    read_listing,
)
from proxyd.core.language.source_lists import Listed, SourceList
from proxyd.core.language.syntax.expression_printer import format_trigger
from proxyd.core.model.profile import EMPTY_DECLARATION, Declaration

FOLDERS = b"""<opml><body><outline xmlUrl="https://a.example/1"/><outline text=" Tech\t news">
<outline title="2" xmlUrl="https://a.example/2"/><outline text=".."><outline text="Linux">
<outline title="3" xmlUrl="https://a.example/3"/></outline></outline></outline>
<outline text="Imported"><outline title="4" xmlUrl="https://a.example/4"/></outline>
<outline text="Linux"><outline title="again" xmlUrl="https://a.example/3"/></outline></body></opml>"""


def feeds(*numbers: int, folder: str = "") -> SourceList:
    return SourceList(tuple(Listed(f"f{n}", f"https://a.example/{n}", folder) for n in numbers))


def declared(*texts: str) -> Declaration:
    checked = check([SourceText(str(place), text) for place, text in enumerate(texts)])
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return checked.declaration


def test_each_folder_is_a_profile_with_a_rule_of_its_feeds_alone() -> None:
    found = declared(*merge_listing(read_listing(FOLDERS, "list"), EMPTY_DECLARATION, "Imported").texts())
    assert {rule.name: rule.source_ids for rule in found.rules.values()} == {
        "Imported: new items": ("a.example", "4"),
        "Tech news: new items": ("2",),
        "Tech news / Linux: new items": ("3",),
    }
    assert set(found.profiles) == {"Imported", "Tech news", "Tech news / Linux"}


def test_what_goes_out_comes_in_again_with_its_names_and_folders() -> None:
    first = declared(*merge_listing(read_listing(FOLDERS, "list"), EMPTY_DECLARATION, "Imported").texts())
    listed = read_listing(opml_of(first, first.sources).encode(), "list")
    again = declared(*merge_listing(listed, EMPTY_DECLARATION, "Other").texts())
    assert {name: (each.url, each.domain) for name, each in again.sources.items()} == {
        name: (each.url, each.domain) for name, each in first.sources.items()
    }


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Design & Layout \u00dcber", "Design & Layout \u00dcber"),
        (" two\n lines\t ", "two lines"),
        ("..", "a.example"),
        ("\x00\u202e", "a.example"),
        ("x" * 300, "x" * 100),
        ('say "hi"', 'say "hi"'),
    ],
)
def test_a_source_is_called_as_its_feed(title: str, name: str) -> None:
    merged = merge_listing(SourceList((Listed(title, "https://a.example/1"),)), EMPTY_DECLARATION, "Mine")
    assert set(declared(*merged.texts()).sources) == {name}


def test_what_is_declared_keeps_its_name_and_its_place() -> None:
    first = merge_listing(feeds(1, 2, folder="A"), EMPTY_DECLARATION, "Imported").texts()
    merged = merge_listing(feeds(2, 3, folder="A"), declared(*first), "Imported")
    assert (merged.new, merged.known, len(merged.statements)) == (1, 1, 1)
    assert declared(*first, *merged.texts()).rules["A: new items"].source_ids == ("f1", "f2", "f3")
    assert merge_listing(feeds(1, 2), declared(*first), "Imported").texts() == [""]


def test_a_name_of_something_else_is_not_taken() -> None:
    mine = """CREATE DOMAIN "News" AS CLASS::PAGE; CREATE SOURCE "f1" OF PAGE AT 'https://b.example/';"""
    merged = merge_listing(feeds(1, folder="News"), declared(mine), "Imported")
    found = declared(mine, *merged.texts())
    assert found.sources["f1 2"].domain == "News (feeds)"
    both = mine + """CREATE DOMAIN "News (feeds)" AS CLASS::OTHER;"""
    with pytest.raises(ListingError, match="'News' is the name of another domain, profile or rule; rename"):
        merge_listing(feeds(1, folder="News"), declared(both), "Imported")


@pytest.mark.parametrize(
    ("pages", "word", "where"),
    [
        (False, "cve", "WHERE channel.item.title ILIKE '%cve%'"),
        (True, 'it\'s "100%"', "WHERE text ILIKE '%it''s \"100!%\"%' ESCAPE '!'"),
        (False, "", ""),
    ],
    ids=["a word", "signs with a meaning", "no word"],
)
def test_a_rule_may_look_for_a_word(pages: bool, word: str, where: str) -> None:
    merged = merge_listing(feeds(1), EMPTY_DECLARATION, "N", pages=pages, match=word)
    (rule,) = declared(*merged.texts()).rules.values()
    assert format_trigger(rule.trigger).partition("\n")[2] == where


def test_a_long_list_is_cut_into_texts_that_may_be_sent() -> None:
    merged = merge_listing(feeds(*range(3000)), EMPTY_DECLARATION, "N")
    texts = merged.texts(100_000)
    assert len(texts) > 1
    assert max(len(text.encode()) for text in texts) <= 100_000
    assert len(declared(*texts).sources) == 3000


def test_a_list_that_is_too_long_for_one_import_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.core.language.source_lists._MOST_LISTED", 2)
    lines = b"https://example.org/a\nhttps://example.org/b\nhttps://example.org/a\n"
    assert len(read_listing(lines, "list.txt").feeds) == 2
    with pytest.raises(ListingError, match=r"list\.txt lists more than 2 addresses; import it in parts"):
        read_listing(lines + b"https://example.org/c\n", "list.txt")


@pytest.mark.parametrize(
    "body",
    [
        b'<opml><body><outline title="R&D" xmlUrl="http://x.example/?a=1&b=2"/></body></opml>',
        b'\xef\xbb\xbf<opml><body><outline title="R&amp;D" xmlUrl="http://x.example/?a=1&amp;b=2"/></body></opml>',
        b'\n <?xml version="1.0"?>\n<opml><body><outline title="R&D" xmlUrl="http://x.example/?a=1&b=2"/></body></opml>',
        '<?xml version="1.0" encoding="utf-8"?><opml><body><outline title="R&amp;D" '
        'xmlUrl="http://x.example/?a=1&amp;b=2"/></body></opml>'.encode("utf-16"),
        b'<?xml version="1.0" encoding="UTF-16"?><opml><outline text="R&D\x0b" xmlUrl="http://x.example/?a=1&b=2"/></opml>',
    ],
    ids=["a bare ampersand", "a mark", "blanks before the declaration", "UTF-16", "a false declaration, a control"],
)
def test_a_list_that_is_not_quite_xml_is_read(body: bytes) -> None:
    assert read_listing(body, "list").feeds == (Listed("R&D", "http://x.example/?a=1&b=2"),)


@pytest.mark.parametrize("head", ["\n\n", "\ufeff\n", '\n<?xml version="1.0"?>\n', '<?xml\nversion="1.0"?>'])
def test_lines_are_counted_from_the_top_of_the_file(head: str) -> None:
    text = f"{head}<opml><outline xmlUrl='http://a.example/'/>\n<outline xmlUrl='ftp://b.example/'/></opml>"
    [fault] = read_listing(text.encode(), "l").unreadable
    assert fault.startswith(f"l:{text.count(chr(10)) + 1}: ")


def test_titles_are_read_in_the_charset_of_the_list() -> None:
    text = '<?xml version="1.0" encoding="windows-1251"?><opml><outline text="\u041c\u0438\u0440" xmlUrl="http://a.example/"/></opml>'
    assert read_listing(text.encode("cp1251"), "list").feeds[0].title == "\u041c\u0438\u0440"
    assert read_listing("http://a.example/\u00fc\n".encode("utf-16"), "list").feeds[0].url == "http://a.example/%C3%BC"


def test_a_list_with_broken_markup_says_where_feeds_may_be_missing() -> None:
    found = read_listing(
        b'<opml><body>\n<outline xmlUrl="http://a.example/"/>\n<outline xmlUrl="http://b.example/"', "l"
    )
    assert [feed.url for feed in found.feeds][:1] == ["http://a.example/"]
    assert found.unreadable[0] == "l:3: not well-formed XML; feeds after this line may be missing"


ADDRESSES = {
    "feed://x.example/a": "http://x.example/a",
    "FEED:https://x.example/a": "https://x.example/a",
    "feed://https://x.example/a": "https://x.example/a",
    "pcast://x.example/a": "http://x.example/a",
    " http://x.example/a b\u00a0": "http://x.example/a%20b",
    "http://x.example/a\tb": "http://x.example/ab",
    "http://b\u00fccher.example/": "http://xn--bcher-kva.example/",
    "http://B\u00dcCHER.example:8080/\u00fc?\u00e9=1#\u00df": "http://xn--bcher-kva.example:8080/%C3%BC?%C3%A9=1#%C3%9F",
    'http://x.example/%20+~|"?a=%41': 'http://x.example/%20+~|"?a=%41',
    "\ufeffhttp://x.example/": "http://x.example/",
    "HTTP://X.example/A": "HTTP://X.example/A",
}


@pytest.mark.parametrize(("written", "plain"), ADDRESSES.items())
def test_addresses_are_written_as_the_language_takes_them(written: str, plain: str) -> None:
    outline = f"<opml><outline text='a' xmlUrl={quoteattr(written)}/></opml>"
    listed = read_listing(outline.encode(), "list")
    assert [feed.url for feed in listed.feeds] == [plain]
    assert declared(*merge_listing(listed, EMPTY_DECLARATION, "Mine").texts()).sources["a"].url == plain
    assert address_to_watch(written) == plain


@pytest.mark.parametrize(
    "written",
    ["http://me:pw@h.example/k", "http://me@h.example/", "feed://me:pw@h.example/", "http://me:p w@h.example/"],
)
def test_an_address_with_a_password_is_named_and_left_out(written: str) -> None:
    listed = read_listing(f"http://a.example/\n{written}\n".encode(), "list")
    assert [feed.url for feed in listed.feeds] == ["http://a.example/"]
    assert len(listed.unreadable) == 1
    assert "[hidden]@h.example" in listed.unreadable[0]
    assert "AUTH BASIC" in listed.unreadable[0]
    assert "pw" not in listed.unreadable[0]
    with pytest.raises(ConfigError, match="must not hold a user or password") as refused:
        address_to_watch(written)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("written", ["ftp://x.example/", "http://", "http://\u2028.example/", "x", "http://h:99999/"])
def test_what_can_be_no_address_is_named(written: str) -> None:
    listed = read_listing(f"http://a.example/\n{written}\n".encode(), "list")
    assert (len(listed.feeds), len(listed.unreadable)) == (1, 1)
    with pytest.raises(ConfigError, match="is not an address"):
        address_to_watch(written)


def test_the_check_says_how_an_address_is_written() -> None:
    checked = check([SourceText("a", "CREATE SOURCE s OF FEED AT 'feed://b\u00fccher.example/'")])
    assert "write 'http://xn--bcher-kva.example/'" in str(checked.errors[0])


def test_a_list_tells_the_receivers_that_are_given() -> None:
    merged = merge_listing(feeds(1), EMPTY_DECLARATION, "N", to=["me@example.org", "tgram://a/b"])
    assert "SET DELIVERY MAIL 'me@example.org'\nSET DELIVERY CHANNEL 'tgram://a/b';" in merged.statements[0]


@pytest.mark.parametrize("name", ["Mine", "a: new items", 'He said "x"', "läßt 'x'", "x" * 100])
@pytest.mark.parametrize("match", [None, "100%_'"])
def test_a_list_of_any_name_is_declared_in_the_layout_of_profiles(name: str, match: str | None) -> None:
    merged = merge_listing(SourceList((Listed("A", "http://a.example/"),)), EMPTY_DECLARATION, name, match=match)
    parsed = parse("".join(merged.statements))
    assert not parsed.errors
    assert format_parsed(parsed) == "".join(merged.statements)


def test_a_list_of_very_many_folders_is_refused_at_once() -> None:
    feeds = tuple(Listed("", f"http://x{number}.example/", f"folder {number}") for number in range(60_000))
    with pytest.raises(ListingError, match="more than 2000 folders; import it in parts"):
        merge_listing(SourceList(feeds), EMPTY_DECLARATION, "Mine")
