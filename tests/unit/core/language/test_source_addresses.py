"""Where the address of a source is written, and what to write there once it has moved."""

from __future__ import annotations

from proxyd.core.language import lines_of, parse, written_addresses

NEW = "https://new.example/it's"
TEXT = """CREATE PROFILE "P";
CREATE SOURCE "news" OF FEED
  AT 'http://old.example/feed';
WATCH 'http://old.example/blog' TELL MAIL 'me@example.org';
WATCH 'http://old.example/feed' AS "again" TELL MAIL 'me@example.org';
"""
FOUND = written_addresses([parse(TEXT, "a.profile")])


def test_every_source_has_the_line_of_its_address() -> None:
    assert {name: (each.text.file, each.line) for name, each in FOUND.items()} == {
        "news": ("a.profile", 3),
        "old.example/blog": ("a.profile", 4),
    }


def test_the_lines_of_many_are_found_together() -> None:
    other = written_addresses([parse("\n\nCREATE SOURCE other OF FEED AT 'https://other.example/';", "b.profile")])
    found = lines_of([*other.values(), *reversed(FOUND.values())])
    assert found == {name: each.line for name, each in (FOUND | other).items()}
    assert lines_of([]) == {}


def test_the_warning_stands_below_the_address() -> None:
    assert str(FOUND["news"].warning(NEW)).splitlines() == [
        "a.profile:3:6: the source 'news' has moved and is read at its new address: write AT 'https://new.example/it''s'",
        "      AT 'http://old.example/feed';",
        "         ^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]


def test_a_watch_of_another_name_is_said_to_be_another_source() -> None:
    blog = FOUND["old.example/blog"]
    assert blog.remedy("https://old.example/blog") == "write WATCH 'https://old.example/blog'"
    assert blog.remedy(NEW) == (
        "write WATCH 'https://new.example/it''s' (a new source, named after its address: what is known of this one is "
        "not kept)"
    )
