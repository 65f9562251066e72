from __future__ import annotations

from proxyd.core.language import format_parsed, parse

TEXT = """-- first
/* second */
CREATE DOMAIN a AS -- inside
CLASS::A; -- after
-- before b
CREATE DOMAIN b AS CLASS::B;

-- last
"""


def test_every_comment_is_kept_and_stands_before_its_statement() -> None:
    assert format_parsed(parse(TEXT)) == (
        '-- first\n/* second */\n-- inside\n-- after\nCREATE DOMAIN "a" AS\nCLASS::A;\n\n'
        '-- before b\nCREATE DOMAIN "b" AS\nCLASS::B;\n\n-- last\n'
    )


def test_comments_inside_a_query_are_kept_too() -> None:
    parsed = parse('INSERT NOTIFICATION n SET QUERY "SELECT a /* ""why"" */ FROM b"')
    assert parsed.statements[0].comments == ('/* "why" */',)


def test_formatting_twice_changes_nothing() -> None:
    once = format_parsed(parse(TEXT))
    assert format_parsed(parse(once)) == once


def test_a_text_of_comments_keeps_them() -> None:
    assert format_parsed(parse("-- nothing yet")) == "-- nothing yet\n"


def test_marks_of_comments_inside_texts_are_text() -> None:
    parsed = parse("CREATE SOURCE s OF c AT 'http://a/--b/*c*/'")
    assert parsed.errors == ()
    assert parsed.statements[0].comments == ()
