"""Queries give what SQLite gives on random rows with nulls: WHERE, ORDER BY, GROUP BY, HAVING, aggregates, joins."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.item import Value
from proxyd.core.rules.programs.expression_compiler import Row
from proxyd.core.rules.programs.query_program import compile_query
from tests.examples import examples

CLASSES = """CREATE DOMAIN "D" AS
CLASS::A EACH JSON '$[*]' KEY t (t:String FROM JSON '$.t', u:String FROM JSON '$.u', n:Integer FROM JSON '$.n',
m:Integer FROM JSON '$.m')
CLASS::B EACH JSON '$[*]' KEY t (t:String FROM JSON '$.t', k:Integer FROM JSON '$.k');
CREATE PROFILE "P" AS (DOMAIN "D");
"""
numbers = st.one_of(st.none(), st.integers(-5, 5))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "A", "é"]))
rows_a = st.lists(st.tuples(texts, texts, numbers, numbers), max_size=9)
rows_b = st.lists(st.tuples(texts, numbers), max_size=6)
AGGREGATES = [
    "COUNT(*)",
    "COUNT(n)",
    "COUNT(DISTINCT n)",
    "SUM(n)",
    "SUM(DISTINCT n)",
    "MIN(n)",
    "MAX(n)",
    "AVG(n)",
    "MIN(t)",
    "MAX(t)",
    "COUNT(*) FILTER (WHERE n > 0)",
    "SUM(n) FILTER (WHERE t = 'a')",
    "SUM(n) + COUNT(*)",
    "MAX(n) - MIN(n)",
    "SUM(CASE WHEN t = 'a' THEN n ELSE 1 END)",
    "CASE COUNT(*) WHEN 0 THEN 'none' WHEN 1 THEN 'one' ELSE MAX(t) END",
]
GROUPS = ["t", "u", "n", "n % 2", "t || u"]
CONDITIONS = [
    "n > m",
    "n = m OR t = u",
    "NOT (n > 0)",
    "t IN ('a', u)",
    "n BETWEEN -1 AND m",
    "t LIKE '%a%'",
    "u IS NULL",
    "n + m <> 2",
    "COALESCE(n, m, 0) > 0",
    "n NOT IN (1, m)",
    "CASE WHEN n > 0 THEN t = 'a' WHEN m > 0 THEN n IS NULL ELSE u LIKE '%b' END",
    "CASE n WHEN 1 THEN m WHEN m THEN 2 WHEN NULL THEN 3 END > 0",
]


def run(query: str, tables: Sequence[Sequence[dict[str, Value]]]) -> list[tuple[Value, ...]]:
    text = (
        f'{CLASSES}INSERT NOTIFICATION "r" INTO "P" SET QUERY "{query}" SET TRIGGER "ON INSERT TO A"\n'
        "START NOW END NEVER SET UTILITY STRICT;"
    )
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    select = checked.declaration.rules["r"].query
    classes = [checked.declaration.domains["D"].classes[source.page_class.name] for source in select.sources]
    program = compile_query(select, classes, checked.declaration.domains["D"].classes["A"], 10.0)
    return [tuple(row.columns.values()) for row in program.run([[Row(row) for row in table] for table in tables])]


def expected(
    query: str, a: Sequence[tuple[Value, ...]], b: Sequence[tuple[Value, ...]] = ()
) -> list[tuple[Value, ...]]:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA case_sensitive_like = ON")
        database.execute("CREATE TABLE A (t TEXT, u TEXT, n INTEGER, m INTEGER)")
        database.execute("CREATE TABLE B (t TEXT, k INTEGER)")
        database.executemany("INSERT INTO A VALUES (?, ?, ?, ?)", a)
        database.executemany("INSERT INTO B VALUES (?, ?)", b)
        return database.execute(query).fetchall()
    finally:
        database.close()


def as_rows(rows: Sequence[tuple[Value, ...]], names: str) -> list[dict[str, Value]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def comparable(rows: Sequence[tuple[Value, ...]]) -> list[tuple[str, ...]]:
    return sorted(tuple(f"{v:.9g}" if isinstance(v, int | float) else repr(v) for v in row) for row in rows)


@given(rows_a, st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True), st.sampled_from(CONDITIONS))
@examples(200)
def test_aggregates_of_all_rows(rows: list[tuple[Value, ...]], aggregates: list[str], condition: str) -> None:
    columns = ", ".join(f"{aggregate} AS c{n}" for n, aggregate in enumerate(aggregates))
    query = f"SELECT {columns} FROM A WHERE {condition}"
    assert comparable(run(query, [as_rows(rows, "tunm")])) == comparable(expected(query, rows))


@given(
    rows_a,
    st.sampled_from(GROUPS),
    st.sampled_from(AGGREGATES),
    st.sampled_from(["", "HAVING COUNT(*) > 1", "HAVING SUM(n) > 0", "HAVING MAX(t) = 'b' OR COUNT(n) = 0"]),
)
@examples(300)
def test_groups_and_having(rows: list[tuple[Value, ...]], group: str, aggregate: str, having: str) -> None:
    query = f"SELECT {group} AS g, {aggregate} AS c FROM A GROUP BY {group} {having}"
    assert comparable(run(query, [as_rows(rows, "tunm")])) == comparable(expected(query, rows))


@given(
    rows_a,
    st.lists(
        st.tuples(
            st.sampled_from(["t", "u", "n", "m", "n + m"]),
            st.sampled_from(["ASC", "DESC"]),
            st.sampled_from(["NULLS FIRST", "NULLS LAST"]),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda term: term[0],
    ),
    st.integers(0, 9),
)
@examples(300)
def test_order_and_limit(rows: list[tuple[Value, ...]], terms: list[tuple[str, str, str]], limit: int) -> None:
    order = ", ".join(" ".join(term) for term in [*terms, *[(c, "ASC", "NULLS LAST") for c in "tunm"]])
    query = f"SELECT t AS a, u AS b, n AS c, m AS d FROM A ORDER BY {order} LIMIT {limit}"
    assert run(query, [as_rows(rows, "tunm")]) == expected(query, rows)


@given(rows_a)
def test_distinct(rows: list[tuple[Value, ...]]) -> None:
    query = "SELECT DISTINCT t AS a, n AS b FROM A"
    assert comparable(run(query, [as_rows(rows, "tunm")])) == comparable(expected(query, rows))


JOINS = [
    "FROM A JOIN B ON A.t = B.t",
    "FROM A LEFT JOIN B ON A.t = B.t",
    "FROM A LEFT JOIN B ON A.n = B.k AND A.m > 0",
    "FROM A JOIN B ON A.n < B.k",
    "FROM A CROSS JOIN B",
    "FROM A, B WHERE A.t = B.t AND A.n > B.k",
    "FROM A LEFT JOIN B ON A.t = B.t WHERE B.k IS NULL",
    "FROM A JOIN B ON B.t = A.u JOIN A x ON x.n = B.k",
]


@given(rows_a, rows_b, st.sampled_from(JOINS))
@examples(300)
def test_joins(a: list[tuple[Value, ...]], b: list[tuple[Value, ...]], join: str) -> None:
    query = f"SELECT A.t AS x1, A.n AS x2, B.t AS y1, B.k AS y2 {join}"
    tables = [as_rows(a, "tunm"), as_rows(b, "tk")] + ([as_rows(a, "tunm")] if " x " in join else [])
    assert comparable(run(query, tables)) == comparable(expected(query, a, b))


@given(rows_a, rows_b, st.sampled_from(JOINS[:2]), st.sampled_from(["COUNT(*)", "SUM(B.k)", "COUNT(B.k)"]))
def test_groups_of_joins(a: list[tuple[Value, ...]], b: list[tuple[Value, ...]], join: str, aggregate: str) -> None:
    query = f"SELECT A.u AS g, {aggregate} AS c {join} GROUP BY A.u"
    tables = [as_rows(a, "tunm"), as_rows(b, "tk")]
    assert comparable(run(query, tables)) == comparable(expected(query, a, b))
