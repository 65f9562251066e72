"""Printing is the inverse of parsing, and no text whatever makes the language raise."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from proxyd.core.language import SourceText, check, format_parsed, format_statements, parse
from proxyd.core.language.syntax.expression_printer import format_expression
from proxyd.core.language.syntax.nodes import InsertNotification, Statement
from proxyd.core.model.expression import Call, Case, Expression, Literal
from tests.examples import examples
from tests.property.strategies import expressions, statements

_SOUP = """
CREATE DOMAIN SOURCE PROFILE INSERT NOTIFICATION INTO SET QUERY TRIGGER START END UTILITY STRICT LIFE WINDOW NOW FROM
SOURCES CLASS :: ( ) , ; " ' -- /* */ SELECT ON WHEN COUNT(*) % 3 = 0 AND NOT - + 30 days "x" 'y' RSS . :String AS OF AT
WATCH TELL OF SETUTILITY ä 1e5 99999999999999999999999999999999 1e999
"""
_WORDS = [*_SOUP.split(), "\n", "\x00", "\u017fet", "\ud800"]
soups = st.lists(st.sampled_from(_WORDS), max_size=40).map(" ".join)


@examples(200)
@given(st.lists(statements, max_size=3))
def test_parsing_what_was_printed_gives_the_same_statements(written: list[Statement]) -> None:
    text = format_statements(written)
    parsed = parse(text)
    assert parsed.errors == ()
    assert parsed.statements == tuple(written)
    assert format_parsed(parsed) == text


@examples(400)
@given(expressions)
@example(Case((Literal(None),), (Literal(None),), None, Call("WHEN", ())))
@example(Case((Literal(None),), (Literal(None),), None, Call("DESC", ())))
def test_an_expression_keeps_its_meaning_when_printed(expression: Expression) -> None:
    quoted = f"ON INSERT TO x\nWHEN {format_expression(expression)}".replace('"', '""')
    parsed = parse(f'INSERT NOTIFICATION n SET TRIGGER "{quoted}"')
    (statement,) = parsed.statements
    assert isinstance(statement, InsertNotification)
    assert statement.trigger is not None
    assert statement.trigger.condition == expression


@examples(300)
@given(st.text(max_size=80) | soups)
def test_any_text_gives_statements_and_errors_and_never_raises(text: str) -> None:
    checked = check([SourceText("a", text)])
    assert (checked.declaration is None) == bool(checked.errors)
    for error in checked.errors:
        assert str(error).startswith("a:")


@examples(200)
@given(st.lists(statements, min_size=1, max_size=2), st.data())
def test_a_damaged_text_gives_errors_and_never_raises(written: list[Statement], data: st.DataObject) -> None:
    text = format_statements(written)
    at = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(at, min(len(text), at + 10)))
    damaged = text[:at] + data.draw(st.sampled_from(["", "'", '"', "(", ")", " SET ", ";", "/*"])) + text[stop:]
    check([SourceText("a", damaged)])


@examples(100)
@given(st.lists(statements, max_size=2))
def test_generated_statements_are_checked_without_raising(written: list[Statement]) -> None:
    checked = check([SourceText("a", format_statements(written))])
    assert (checked.declaration is None) == bool(checked.errors)
