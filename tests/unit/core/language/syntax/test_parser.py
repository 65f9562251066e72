from __future__ import annotations

import inspect
import sys

import pytest

from proxyd.core.errors import ProfileError, RuleError
from proxyd.core.language import CreateDomain, CreateSource, DropStatement, InsertNotification, StatementKind, parse
from proxyd.core.language.syntax.parser import MAX_FILE_BYTES, MAX_SENT_BYTES
from proxyd.core.language.syntax.token_reader import MAX_STATEMENT_BYTES
from proxyd.core.model.expression import Aggregate, Binary, Column, Literal
from tests.unit.core.language.texts import FEEDS, PAPER, rule


def _condition(condition: str) -> object:
    (statement,) = parse(rule(condition=condition)).statements
    assert isinstance(statement, InsertNotification)
    assert statement.trigger is not None
    return statement.trigger.condition


def test_the_three_statements_of_the_paper_are_read_verbatim() -> None:
    parsed = parse(PAPER)
    assert parsed.errors == ()
    assert [type(each).__name__ for each in parsed.statements] == [
        "CreateDomain",
        "CreateProfile",
        "InsertNotification",
    ]


def test_keywords_may_be_in_any_case() -> None:
    lower, upper = parse(FEEDS.lower()), parse(FEEDS.lower().replace("create source", "CREATE SOURCE"))
    assert lower.errors == upper.errors == ()
    assert lower.statements == upper.statements


def test_a_long_s_does_not_make_a_keyword() -> None:
    assert parse("CREATE \u017fOURCE x OF y AT 'z'").errors


def test_keywords_are_names_where_a_name_is_expected() -> None:
    (statement,) = parse("CREATE DOMAIN create AS CLASS::class(from:String FROM JSON '$.a', select:URL)").statements
    assert isinstance(statement, CreateDomain)
    assert statement.name.value == "create"
    assert [field.path.value for field in statement.classes[0].fields] == ["from", "select"]


def test_a_field_may_have_the_name_of_an_aggregate() -> None:
    assert _condition("count > 3") == Binary(">", Column("count"), Literal(3))
    assert _condition("COUNT(*) > 3") == Binary(">", Aggregate("COUNT"), Literal(3))


def test_a_class_may_have_a_keyword_as_its_name_where_that_cannot_follow() -> None:
    (statement,) = parse(rule(query="SELECT title FROM RSS on JOIN RSS order ON TRUE ORDER BY title")).statements
    assert isinstance(statement, InsertNotification)
    assert statement.query is not None
    assert [each.alias for each in statement.query.sources] == ["on", "order"]
    assert len(statement.query.order_by) == 1


def test_a_quoted_name_is_never_a_keyword() -> None:
    assert _condition('""NULL"" = 1') == Binary("=", Column("NULL"), Literal(1))


def test_semicolons_are_optional_between_statements() -> None:
    without = FEEDS.replace(";", "")
    assert parse(without).errors == ()
    assert parse(without).statements == parse(FEEDS).statements


def test_units_and_nouns_are_one_word_in_singular_and_plural() -> None:
    one = parse("CREATE SOURCE s OF c AT 'u' POLITENESS 1 PROBE PER 1 HOUR, SPACING 1 MINUTE")
    other = parse("CREATE SOURCE s OF c AT 'u' POLITENESS 1 PROBES PER HOURS, SPACING 1 MINUTES")
    assert one.errors == other.errors == ()
    assert one.statements == other.statements


def test_arithmetic_binds_tighter_than_comparison_and_comparison_tighter_than_not() -> None:
    assert _condition("NOT 1 + 2 * 3 = 7 AND TRUE OR FALSE") == _condition(
        "((NOT ((1 + (2 * 3)) = 7)) AND TRUE) OR FALSE"
    )


def test_subtraction_groups_from_the_left() -> None:
    assert _condition("5 - 2 - 1 = 2") == _condition("((5 - 2) - 1) = 2")


def test_not_equal_has_two_spellings() -> None:
    assert _condition("1 != 2") == _condition("1 <> 2")


def test_the_order_of_options_does_not_matter() -> None:
    one = parse("CREATE SOURCE s OF c AT 'u' ZONE 'UTC' EXPECT 3 PER DAY").statements
    other = parse("CREATE SOURCE s OF c AT 'u' EXPECT 3 PER DAY ZONE 'UTC'").statements
    assert one == other
    assert isinstance(one[0], CreateSource)


def test_drop_statements_are_handed_over_as_nodes() -> None:
    (statement,) = parse('DROP NOTIFICATION "x"').statements
    assert isinstance(statement, DropStatement)
    assert (statement.kind, statement.name.value) == (StatementKind.NOTIFICATION, "x")


def test_places_inside_a_query_count_doubled_quotes_and_lines_of_the_file() -> None:
    parsed = parse('INSERT NOTIFICATION n\n  SET QUERY "SELECT ""a"",\n  ""b"" FRM"')
    error = parsed.errors[-1]
    assert (error.line, error.column) == (3, 12)
    assert error.source_line == '  ""b"" FRM"'


def test_an_error_for_the_log_says_where_and_quotes_nothing() -> None:
    error = RuleError(
        "'hunter2' is none; did you mean \"it's\"?", text="a\n b hunter2", start=5, stop=12, file="x.profile"
    )
    assert error.without_texts == "x.profile:2:4: [...] is none; did you mean [...]?"
    assert ProfileError([error, error]).without_texts.count("x.profile:2:4") == 2


def test_reading_goes_on_at_the_next_clause_after_an_error() -> None:
    parsed = parse("INSERT NOTIFICATION n SET LIFE x SET POLICY y START z INTO , SET UTILITY STRICT")
    assert [error.column for error in parsed.errors] == [32, 45, 53, 60]


def test_reading_goes_on_at_the_next_statement_after_an_error() -> None:
    parsed = parse("CREATE DOMAIN ; CREATE SOURCE x; CREATE PROFILE p AS (DOMAIN d)")
    assert len(parsed.errors) == 2
    assert [each.name.value for each in parsed.statements] == ["p"]


@pytest.mark.parametrize("most", [MAX_FILE_BYTES, MAX_SENT_BYTES])
@pytest.mark.parametrize("more", [0, 1])
def test_a_text_has_a_limit_in_bytes(most: int, more: int) -> None:
    text = "--" + "\u00e4" * 10 + " " * (most + more - 22)
    errors = [error.message for error in parse(text, most_bytes=most).errors]
    assert errors == [f"a text may have {most} bytes at most here; split it into several texts"][: len(errors)]
    assert len(errors) == more


@pytest.mark.parametrize("more", [0, 1])
def test_a_statement_has_a_limit_and_its_name_is_known_all_the_same(more: int) -> None:
    head = "CREATE SOURCE s OF RSS AT 'https://example.org/"
    path = "a" * (MAX_STATEMENT_BYTES + more - len(head) - 1)
    parsed = parse(f"{head}{path}'; DROP SOURCE s")
    assert [error.message.partition(";")[0] for error in parsed.errors] == [
        f"a statement may have {MAX_STATEMENT_BYTES} bytes at most"
    ][:more]
    assert [each.name for each in parsed.broken] == ["s"][:more]
    assert len(parsed.statements) == 2 - more


def test_reading_ends_after_a_hundred_errors_and_what_was_not_read_is_not_unknown() -> None:
    parsed = parse("x;" * 200 + "CREATE SOURCE s OF RSS AT 'https://example.org/'")
    assert len(parsed.errors) == 100
    assert {each.kind for each in parsed.broken} == set(StatementKind)


@pytest.mark.parametrize("opening", ["(", "NOT ", "- "])
def test_nesting_is_bounded_at_64(opening: str) -> None:
    closing = ")" if opening == "(" else ""
    operand = "1" if opening == "- " else "TRUE"
    assert parse(rule(condition=opening * 64 + operand + closing * 64)).errors == ()
    (error,) = parse(rule(condition=opening * 65 + operand + closing * 65)).errors
    assert "nested more than 64 deep" in error.message


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("f(", ")"),
        ("1 + f(", ")"),
        ("1 IN (1, ", ")"),
        ("CASE WHEN TRUE THEN ", " END"),
        ("CAST(", " AS STRING)"),
        ("COUNT(", ")"),
        ("COUNT(*) FILTER (WHERE ", ")"),
    ],
)
def test_the_deepest_nesting_leaves_a_third_of_the_stack(opening: str, closing: str) -> None:
    """Python allows 1,000 frames; the reader of a text is called from deep within a server."""
    levels = 63 if "FILTER" in opening else 64  # the last COUNT has parentheses of its own
    text, limit = rule(condition=opening * levels + "1" + closing * levels), sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 666)
    try:
        assert parse(text).errors == ()
    finally:
        sys.setrecursionlimit(limit)


def test_a_chain_of_200_operators_is_the_longest() -> None:
    assert parse(rule(condition=" OR ".join(["TRUE"] * 200))).errors == ()
    assert "chains more than 200" in parse(rule(condition=" OR ".join(["TRUE"] * 300))).errors[0].message


def test_a_chain_after_then_has_the_same_limit() -> None:
    """The checker walked one of 3,000 until Python's stack ended."""
    chain = " OR ".join(["TRUE"] * 3000)
    text = rule().replace("WHEN TRUE", f"THEN UPDATE TO RSS WHERE {chain} WITHIN 1 HOUR")
    assert "chains more than 200" in parse(text).errors[0].message


def test_two_unclosed_quotes_are_reported_where_they_opened() -> None:
    text = rule().replace('FROM RSS"', "FROM RSS").replace('TRUE"', "TRUE")
    assert [(error.line, error.message) for error in parse(text).errors] == [
        (2, "this double quote is not closed"),
        (3, "this double quote is not closed"),
    ]


@pytest.mark.parametrize("written", ['""""', '""a.""'])
def test_a_path_with_an_empty_name_says_which_quotes_hold_text(written: str) -> None:
    (error,) = parse(rule(condition=f"{written} = 1")).errors
    assert error.message == "SET TRIGGER: a name cannot be empty: use single quotes for text"


def test_an_empty_name_of_a_statement_is_refused() -> None:
    (error,) = parse('CREATE DOMAIN "" AS CLASS::A(channel.item.title:String)').errors
    assert error.message == "a name cannot be empty"


def test_a_watch_says_which_statement_takes_an_option_of_sources() -> None:
    (error,) = parse("WATCH 'https://example.org/f' EXPECT 3 PER DAY;").errors
    assert error.message.startswith("expected one of: OF, LOCALE")
    assert error.message.endswith("Only CREATE SOURCE takes it: write a source and a rule in place of WATCH.")
    (error,) = parse("WATCH 'https://example.org/f' SOMETIMES;").errors
    assert "CREATE SOURCE" not in error.message
