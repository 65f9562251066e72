"""Queries: SELECT over the events since the last firing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxyd.model.expression import Column, Expression, OutputColumn, Select
from proxyd.model.item import Value
from proxyd.model.profile import FieldType, PageClass
from proxyd.rules.expression import Closure, Compiler, Row, is_true
from proxyd.rules.values import iso_time

MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class _Order:
    key: Closure
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class _Output:
    name: str
    value: Closure
    is_time: bool


@dataclass(frozen=True, slots=True)
class QueryProgram:
    """A compiled query over one page class; ``paths`` and ``old_paths`` are the fields it reads."""

    outputs: tuple[_Output, ...]
    where: Closure | None
    order: tuple[_Order, ...]
    limit: int | None
    distinct: bool
    paths: frozenset[str]
    old_paths: frozenset[str]

    def run(self, rows: Sequence[Row]) -> list[dict[str, Value]]:
        """Return the result, at most ``MAX_ROWS`` rows; times are ISO 8601."""
        kept = [row for row in rows if self.where is None or is_true(self.where(row))]
        for order in reversed(self.order):
            kept.sort(key=lambda row, o=order: _sort_key(o, row), reverse=order.descending)  # type: ignore[misc]
        result = [self._project(row) for row in kept]
        if self.distinct:
            result = list({tuple(row.items()): row for row in result}.values())
        return result[: MAX_ROWS if self.limit is None else min(self.limit, MAX_ROWS)]

    def _project(self, row: Row) -> dict[str, Value]:
        return {output.name: _show(output, output.value(row)) for output in self.outputs}


def compile_query(query: Select, page_class: PageClass) -> QueryProgram:
    """Return the program of a checked query over ``page_class``."""
    compiler = Compiler(page_class)
    columns = query.columns or tuple(OutputColumn(Column(field.path)) for field in page_class.fields)
    types = {field.path.lower(): field.type for field in page_class.fields}
    aliases = {column.alias.lower(): column.expression for column in columns if column.alias}
    return QueryProgram(
        outputs=tuple(_output(compiler, column, types, number) for number, column in enumerate(columns, 1)),
        where=compiler.compile(query.where) if query.where is not None else None,
        order=tuple(
            _Order(compiler.compile(_aliased(term.expression, aliases)), term.descending, bool(term.nulls_first))
            for term in query.order_by
        ),
        limit=query.limit,
        distinct=query.distinct,
        paths=frozenset(compiler.paths),
        old_paths=frozenset(compiler.old_paths),
    )


def _aliased(expression: Expression, aliases: Mapping[str, Expression]) -> Expression:
    if isinstance(expression, Column) and expression.qualifier is None:
        return aliases.get(expression.path.lower(), expression)
    return expression


def _output(compiler: Compiler, column: OutputColumn, types: Mapping[str, FieldType], number: int) -> _Output:
    expression = column.expression
    if not isinstance(expression, Column):
        return _Output(column.alias or f"column{number}", compiler.compile(expression), is_time=False)
    path = expression.path
    shown = f"{expression.qualifier}.{path}" if expression.qualifier in {"OLD", "NEW"} else path
    is_time = types.get(path.lower()) is FieldType.TIMESTAMP
    return _Output(column.alias or shown, compiler.compile(expression), is_time)


def _show(output: _Output, value: Value) -> Value:
    return iso_time(value) if output.is_time and isinstance(value, int | float) else value


def _sort_key(order: _Order, row: Row) -> tuple[bool, bool, float, str]:
    """Order unknowns as asked (last by default), numbers before texts; ``descending`` turns all of it round."""
    value = order.key(row)
    last = (value is None) != order.nulls_first
    group = last if not order.descending else not last
    if isinstance(value, int | float):
        return group, False, value, ""
    return group, True, 0.0, "" if value is None else str(value)
