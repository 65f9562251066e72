"""CREATE SOURCES declares a source for each line of a list."""

from __future__ import annotations

import pytest

from proxyd.core.language import Checked, CheckSettings, check, format_statements, list_names, parse

RULE = 'INSERT NOTIFICATION "all" INTO "P" SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED";'
MANY = f"CREATE SOURCES \"news/\" OF FEED FROM FILE 'feeds.csv' POLITENESS 4 PROBES PER HOUR; CREATE PROFILE P; {RULE}"


def checked(listed: str | None, main: str = MANY) -> Checked:
    texts = [parse(main, "profiles/main.profile").source]
    texts += [] if listed is None else [parse(listed, "profiles/feeds.csv").source]
    return check(texts, CheckSettings())


def sources(listed: str) -> dict[str, str]:
    declaration = checked(listed).declaration
    assert declaration is not None
    assert declaration.rules["all"].source_ids == tuple(declaration.sources)
    assert all(each.politeness is not None for each in declaration.sources.values())
    return {name: each.url for name, each in declaration.sources.items()}


def only_error(listed: str | None, main: str = MANY) -> str:
    (error,) = checked(listed, main).errors
    return str(error).splitlines()[0]


def test_each_line_is_a_source_named_after_its_address() -> None:
    listed = "\ufeff# mine\r\nhttps://example.org/a,b\r\n\r\n  https://example.org/c/  \n"
    assert sources(listed) == {
        "news/example.org/a,b": "https://example.org/a,b",
        "news/example.org/c": "https://example.org/c/",
    }


def test_a_heading_makes_columns_of_which_url_and_name_are_read() -> None:
    listed = 'Name,tag,URL\n"A, the first",x,https://example.org/a\n,,https://example.org/b\n'
    assert sources(listed) == {
        "news/A, the first": "https://example.org/a",
        "news/example.org/b": "https://example.org/b",
    }


def test_errors_name_the_line_of_the_list() -> None:
    assert only_error("https://example.org/a\nexample.org/b\n").startswith("profiles/feeds.csv:2:1: 'example.org/b' is")
    assert only_error("url,name\n,nothing\n") == (
        "profiles/feeds.csv:2:1: this line has no address in the column url of the heading"
    )
    twice = only_error("https://example.org/a\nhttps://example.org/a\n")
    assert twice.startswith(
        "profiles/feeds.csv:2:1: the source 'news/example.org/a' is declared twice; the first is at"
    )
    assert twice.endswith("profiles/feeds.csv:1:1; remove one of the lines, or give each a name")


def test_errors_in_the_statement_are_told_once() -> None:
    many = "https://example.org/a\nhttps://example.org/b\n"
    assert "profiles/main.profile:1:" in only_error(many, MANY.replace("4 PROBES", "0 PROBES"))
    unknown = checked(many, MANY.replace("OF FEED FROM FILE", "OF FED FROM FILE")).errors
    assert ["FED" in str(each) for each in unknown].count(True) == 1


@pytest.mark.parametrize("name", ["../feeds.csv", "other/feeds.csv", "/etc/feeds.csv", "feeds.txt"])
def test_a_list_lies_beside_its_profile(name: str) -> None:
    error = only_error("https://example.org/a\n", MANY.replace("feeds.csv", name))
    assert f"a list is a file .csv beside the profile, such as 'feeds.csv'; found {name!r}" in error


def test_a_list_that_is_missing_is_named() -> None:
    assert only_error(None) == (
        "profiles/main.profile:1:42: there is no file 'feeds.csv' beside this profile; create it, with an address on "
        "each line"
    )


def test_two_statements_may_read_one_list() -> None:
    more = MANY + "CREATE SOURCES \"pages/\" OF PAGE FROM FILE 'feeds.csv';"
    declaration = checked("https://example.org/a\n", more).declaration
    assert declaration is not None
    assert list(declaration.sources) == ["news/example.org/a", "pages/example.org/a"]


def test_a_watch_reads_the_source_of_a_list() -> None:
    declaration = checked("https://example.org/a\n", MANY + "WATCH 'https://example.org/a' AS mine;").declaration
    assert declaration is not None
    assert declaration.rules["mine"].source_ids == ("news/example.org/a",)


def test_the_statement_is_printed_as_it_is_read() -> None:
    (statement, *_) = parse(MANY, "main.profile").statements
    printed = format_statements([statement])
    assert printed == "CREATE SOURCES \"news/\" OF FEED FROM FILE 'feeds.csv'\n  POLITENESS 4 PROBES PER HOUR;\n"
    assert parse(printed).statements == (statement,)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from file'a.csv' x FROM /* * */\n-- it's\n FILE\n'b''s.csv'", {"a.csv", "b's.csv"}),
        ("-- FROM FILE 'a.csv'\n/* FROM FILE 'b.csv' */ FROM FILE 'c.csv'", {"c.csv"}),
        ("'it''s -- /*' \"it's\n\" FROM FILE 'a.csv'", {"a.csv"}),
        ("SET QUERY \"SELECT 1 FROM FILE 'a.csv'\" SET MESSAGE 'FROM FILE ''b.csv'' '", set()),
        ("CREATE SOURCE s OF FEED AT 'https://a;\nCREATE SOURCES n OF FEED FROM FILE 'a.csv'", {"a.csv"}),
        ("/* not closed FROM FILE 'a.csv'", set()),
        ("FROM FILE 'a.csv", set()),
    ],
)
def test_lists_are_named_after_from_file_outside_of_comments_and_texts(text: str, names: set[str]) -> None:
    assert list_names(text) == names
