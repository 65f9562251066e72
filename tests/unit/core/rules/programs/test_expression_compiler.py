"""Expressions are written in the language and evaluated as SQL would; ``None`` is unknown."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.language.checking.expression_checker import FUNCTIONS as DECLARED
from proxyd.core.language.checking.expression_checker import MAX_LIKE
from proxyd.core.model.expression import Call, Column
from proxyd.core.model.item import Value
from proxyd.core.model.profile import Field, FieldType, PageClass
from proxyd.core.rules.programs.expression_compiler import Compiler, Row
from proxyd.core.rules.programs.function_values import FUNCTIONS
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.query_program import compile_query
from tests.fleets import rule, source

FIELDS = """CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String, channel.item.guid:String,
channel.item.category:Integer, channel.item.author:Decimal, channel.item.pubDate:Timestamp);
CREATE PROFILE "P" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");
"""


def evaluate(text: str, **fields: Value) -> Value:
    """Return the value of an expression over fields named by their last word."""
    row = {f"channel.item.{name}": value for name, value in fields.items()}
    return run(f"SELECT {text} AS x FROM RSS", [row])[0]["x"]


def run(query: str, rows: list[dict[str, Value]]) -> list[dict[str, Value]]:
    statements = FIELDS + source("s") + rule("r", query=query.replace('"', '""'))
    checked = check([SourceText("t", statements)], CheckSettings())
    assert checked.declaration is not None, [str(e) for e in checked.errors]
    page_class = checked.declaration.domains["D"].classes["RSS"]
    result = compile_query(checked.declaration.rules["r"].query, [page_class], page_class, 10.0).run(
        [[Row(row) for row in rows]]
    )
    return [row.columns for row in result]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("7.5 / 2", 3.75),
        ("1 / category", None),
        ("category + 1", 1),
        ("author * 2", 5.0),
        ("title || '!'", "Linux!"),
        ("LOWER(title)", "linux"),
        ("UPPER(title)", "LINUX"),
        ("LENGTH(title)", 5),
        ("TRIM('  x ')", "x"),
        ("SUBSTR(title, 2, 3)", "inu"),
        ("SUBSTR(title, 2)", "inux"),
        ("REPLACE(title, 'in', 'IN')", "LINux"),
        ("COALESCE(guid, title)", "Linux"),
        ("NULLIF(title, 'Linux')", None),
        ("ABS(-3)", 3),
        ("ROUND(2.5)", 3),
        ("ROUND(-2.345, 2)", -2.35),
        ("LENGTH(guid)", None),
        ("NUMBER('$1,299.50')", 1299.5),
        ("NUMBER('1.299')", 1.299),
        ("NUMBER('1.299', 'de')", 1299),
        ("NUMBER('1.299', title)", None),
        ("NUMBER('1.299', guid)", None),
        ("NUMBER(title)", None),
        ("NUMBER(guid)", None),
        ("REGEXP_SUBSTR(title, 'i.')", "in"),
        ("REGEXP_SUBSTR(title, 'L(.)n')", "i"),
        ("REGEXP_SUBSTR(title, 'L(x)?i')", None),
        ("REGEXP_SUBSTR(title, 'z')", None),
        ("REGEXP_SUBSTR(guid, '.')", None),
        ("NUMBER(REGEXP_SUBSTR('was 12 €, now 9,50 €', 'now (.*)'))", 9.5),
        ("CAST('1.299,50 €' AS DECIMAL)", 1299.5),
        ("CAST('19.99' AS INTEGER)", 19),
        ("CAST(-author AS INTEGER)", -2),
        ("CAST('1e30' AS INTEGER)", None),
        ("CAST(title AS INTEGER)", None),
        ("CAST(guid AS STRING)", None),
        ("CAST(author AS STRING)", "2.5"),
        ("CAST(category AS STRING) || '!'", "0!"),
        ("CAST(title = 'Linux' AS INTEGER)", 1),
        ("CAST(title = 'Linux' AS STRING)", "true"),
        ("CAST(CAST('1970-01-02' AS TIMESTAMP) AS DECIMAL)", 86400),
        ("CAST(CAST('1970-01-02' AS TIMESTAMP) AS STRING)", "1970-01-02T00:00:00.000Z"),
        ("CAST(86400 AS TIMESTAMP)", "1970-01-02T00:00:00.000Z"),
        ("CAST('soon' AS TIMESTAMP)", None),
        ("CAST('1970-01-02' AS TIMESTAMP) > '1970-01-01'", True),
        ("CAST('x' AS DECIMAL) > 1", None),
    ],
)
def test_values(text: str, value: Value) -> None:
    assert evaluate(text, title="Linux", guid=None, category="0", author="2.5") == value


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("title = 'Linux'", True),
        ("title <> 'Linux'", False),
        ("title LIKE 'Lin%'", True),
        ("title LIKE 'lin%'", False),
        ("title LIKE '_inu_'", True),
        ("title LIKE '100!%' ESCAPE '!'", False),
        ("title NOT LIKE '%x'", False),
        ("title LIKE 'Linux'", True),
        ("title LIKE '%in%'", True),
        ("title LIKE 'Linux%Linux'", False),
        ("title LIKE '%x%i%'", False),
        ("title LIKE NULL OR title NOT LIKE NULL", False),
        ("title LIKE guid OR title NOT LIKE guid", False),
        ("title LIKE SUBSTR(title, 1, 2) || '%'", True),
        ("title ILIKE 'lin%'", True),
        ("title ILIKE '_INU_'", True),
        ("title NOT ILIKE 'LINUX'", False),
        ("'Käse' ILIKE 'KÄSE'", True),
        ("'\u212a' ILIKE 'k'", True),
        ("guid ILIKE '%' OR guid NOT ILIKE '%'", False),
        ("CASE WHEN guid = 'x' THEN FALSE WHEN title = 'Linux' THEN TRUE END", True),
        ("CASE WHEN guid = 'x' THEN TRUE END IS NULL", True),
        ("CASE title WHEN 'x' THEN FALSE WHEN 'Linux' THEN category = 4 ELSE FALSE END", True),
        ("CASE guid WHEN NULL THEN TRUE ELSE FALSE END", False),
        ("CASE pubDate WHEN '2001-09-09T01:46:40Z' THEN TRUE END", True),
        ("CASE WHEN 1 = 1 THEN 1 ELSE 1 / category END = 1", True),
        ("title IN ('a', 'Linux')", True),
        ("title NOT IN ('a', 'b')", True),
        ("title IN ('a', guid)", False),
        ("title NOT IN ('a', guid)", False),
        ("category BETWEEN 3 AND 5", True),
        ("category NOT BETWEEN 3 AND 5", False),
        ("guid IS NULL", True),
        ("title IS NOT NULL", True),
        ("guid = guid", False),
        ("NOT guid = 'x'", False),
        ("guid = 'x' OR title = 'Linux'", True),
        ("guid = 'x' AND title = 'Linux'", False),
        ("title REGEXP '^L.n+ux$'", True),
        ("title REGEXP '^(a+)+$'", False),
        ("pubDate > '2001-09-09T00:00:00Z'", True),
        ("pubDate < '2001-09-09T00:00:00Z'", False),
        ("pubDate BETWEEN '2001-09-09' AND '2001-09-10'", True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    row: dict[str, Value] = {
        "channel.item.title": "Linux",
        "channel.item.guid": None,
        "channel.item.category": "4",
        "channel.item.pubdate": 1e9,
    }
    assert bool(run(f"SELECT title FROM RSS WHERE {condition}", [row])) == holds


@pytest.mark.parametrize(
    "text",
    ["author * author * 1.5", "author % 0.1", "ROUND(author, 2)", "ROUND(1, 400)", "ROUND(1, -400)", "-author * 1e308"],
)
def test_what_no_number_holds_is_unknown(text: str) -> None:
    value = evaluate(text.replace("1e308", "100000000000000000"), author="1e308")
    assert value is None or (isinstance(value, int | float) and abs(value) < float("inf"))


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_in_any_field_raises(title: str, number: str) -> None:
    fields: dict[str, Value] = {"channel.item.title": title, "channel.item.category": number}
    fields |= {"channel.item.author": number, "channel.item.pubdate": title}
    query = "SELECT *, category / 3 AS a, author % 7 AS b, ROUND(author, category) AS c FROM RSS WHERE title LIKE '%'"
    run(query.replace("*, ", ""), [fields])
    run("SELECT * FROM RSS", [fields])


def test_an_evil_regular_expression_takes_linear_time() -> None:
    assert evaluate("COALESCE(title, '')", title="x") == "x"
    row: dict[str, Value] = {"channel.item.title": "a" * 50_000 + "!"}
    assert run("SELECT title FROM RSS WHERE title REGEXP '^(a+)+$'", [row]) == []


@pytest.mark.parametrize("char", ["_", "\u03b9", "\u03c9", "k"])  # those of which re2's programs are the longest
def test_the_longest_pattern_of_ilike_that_is_accepted_can_be_matched(char: str) -> None:
    row: dict[str, Value] = {"channel.item.title": "short"}
    assert run(f"SELECT title FROM RSS WHERE title NOT ILIKE '{char * MAX_LIKE}'", [row]) == [row]


def test_a_field_of_a_feed_that_is_declared_as_a_number_is_read_as_people_write_it() -> None:
    assert [evaluate("author", author=text) for text in ("$1,299.50", "1e3", "free")] == [1299.5, 1000, None]
    assert [evaluate("category", category=text) for text in ("1 299 €", "1.5")] == [1299, None]


def test_numbers_in_texts_cost_steps_and_long_texts_are_only_scanned() -> None:
    closure = Compiler(PageClass("C", "D", (Field("t", FieldType.STRING),))).compile(Call("NUMBER", (Column("t"),)))
    for text, least, most in (("5 €", 400, 500), ("x" * 1_000_000, 15_000, 17_000)):
        meter = Meter()
        assert closure(Row({"t": text}, meter=meter)) == (5 if text == "5 €" else None)
        assert least < meter.steps < most


def test_rows_are_ordered_limited_and_made_distinct() -> None:
    rows: list[dict[str, Value]] = [
        {"channel.item.title": t, "channel.item.category": c}
        for t, c in [("b", "2"), ("a", "1"), ("b", "2"), ("c", None)]
    ]
    assert run("SELECT DISTINCT title AS t FROM RSS ORDER BY title DESC LIMIT 2", rows) == [{"t": "c"}, {"t": "b"}]
    assert [r["c"] for r in run("SELECT category AS c FROM RSS ORDER BY category", rows)] == [1, 2, 2, None]
    assert [r["c"] for r in run("SELECT category AS c FROM RSS ORDER BY category NULLS FIRST", rows)] == [None, 1, 2, 2]
    assert [r["c"] for r in run("SELECT category AS c FROM RSS ORDER BY category DESC", rows)] == [2, 2, 1, None]


def test_times_are_shown_as_iso_8601() -> None:
    assert run("SELECT pubDate FROM RSS", [{"channel.item.pubdate": 0.5}]) == [
        {"channel.item.pubDate": "1970-01-01T00:00:00.500Z"}
    ]


def test_a_case_of_times_is_shown_as_a_time() -> None:
    query = "SELECT CASE WHEN title = 'a' THEN '1970-01-01T00:00:01Z' ELSE pubDate END AS t FROM RSS"
    rows: list[dict[str, Value]] = [{"channel.item.title": t, "channel.item.pubdate": 2.0} for t in "ab"]
    assert [row["t"] for row in run(query, rows)] == ["1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"]


def test_a_field_called_as_a_word_of_case_can_be_written() -> None:
    fields = "case:Integer FROM JSON '$.c', end:Integer FROM JSON '$.e', when:Integer FROM JSON '$.w'"
    text = f"""CREATE DOMAIN "D" AS CLASS::C({fields}); CREATE PROFILE "P" AS (DOMAIN "D");
INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT case, case AS end, CASE ""case"" WHEN when THEN end END AS when
FROM C WHERE case = 1 AND case IS NOT NULL AND when > 0 ORDER BY case DESC" SET TRIGGER "ON INSERT TO C"
START NOW END NEVER SET UTILITY STRICT;"""
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(e) for e in checked.errors]
    page_class = checked.declaration.domains["D"].classes["C"]
    program = compile_query(checked.declaration.rules["r"].query, [page_class], page_class, 10.0)
    (found,) = program.run([[Row({"case": 1, "end": 2, "when": 1})]])
    assert found.columns == {"case": 1, "end": 1, "when": 2}


def test_a_star_is_every_declared_field() -> None:
    assert set(run("SELECT * FROM RSS", [{}])[0]) == {
        f"channel.item.{name}" for name in ("title", "guid", "category", "author", "pubDate")
    }


def test_every_function_that_is_declared_can_be_run() -> None:
    assert set(DECLARED) == set(FUNCTIONS) | {"CHANGED_WORDS", "DIFF", "NUMBER", "REGEXP_SUBSTR"}


numbers = st.one_of(st.none(), st.integers(-20, 20))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "A", "%", "é"]))
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        number = draw(st.integers(-20, 20))
        arithmetic = draw(st.sampled_from(["+", "-", "*", "/", "%"]))
        null_test = draw(st.sampled_from(["IS NULL", "IS NOT NULL", "IN ('a', guid)", "NOT IN ('a', guid)"]))
        simple = [
            f"category {draw(comparisons)} {number}",
            f"title {draw(comparisons)} guid",
            f"category {arithmetic} {number or 3} > 1",
            f"title {null_test}",
            f"category {draw(st.sampled_from(['BETWEEN', 'NOT BETWEEN']))} -3 AND {number}",
        ]
        return draw(st.sampled_from(simple))
    left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    return draw(st.sampled_from([f"({left} AND {right})", f"({left} OR {right})", f"(NOT ({left}))"]))


@given(conditions(), st.lists(st.tuples(texts, texts, numbers), min_size=1, max_size=6))
def test_where_keeps_the_rows_that_sqlite_keeps(
    condition: str, rows: list[tuple[str | None, str | None, int | None]]
) -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE RSS (n, title TEXT, guid TEXT, category INTEGER)")
        database.executemany("INSERT INTO RSS VALUES (?, ?, ?, ?)", [(n, *row) for n, row in enumerate(rows)])
        expected = [title for (title,) in database.execute(f"SELECT title FROM RSS WHERE {condition} ORDER BY n")]
    database.close()
    fields: list[dict[str, Value]] = [
        {"channel.item.title": title, "channel.item.guid": guid, "channel.item.category": None if c is None else str(c)}
        for title, guid, c in rows
    ]
    assert [row["t"] for row in run(f"SELECT title AS t FROM RSS WHERE {condition}", fields)] == expected
