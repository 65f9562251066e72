"""Lists of feeds become profiles: one for each folder, and only what is not declared yet."""

from __future__ import annotations

import pytest

from proxyd.core.language import Listed, SourceList, SourceText, check, format_trigger, merge_listing, read_listing
from proxyd.core.model.profile import EMPTY_DECLARATION, Declaration
from proxyd.errors import ListingError

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
        "Imported: new items": ("a-example", "4"),
        "Tech news: new items": ("2",),
        "Tech news / Linux: new items": ("3",),
    }
    assert set(found.profiles) == {"Imported", "Tech news", "Tech news / Linux"}


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
    assert found.sources["f1-2"].domain == "News (feeds)"
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
