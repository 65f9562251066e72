"""Queries: SELECT over the events since the last firing, over history, and over the sources of other classes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import log2
from operator import itemgetter

from proxyd.core.model.expression import (
    Aggregate,
    Binary,
    Column,
    Expression,
    FromClass,
    OutputColumn,
    Select,
    conjuncts,
)
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import Value
from proxyd.core.model.profile import PageClass
from proxyd.core.rules.programs.expression_compiler import NO_FIELDS, Closure, Compiler, Row, is_true
from proxyd.core.rules.programs.meter import UNMETERED, Meter
from proxyd.core.rules.programs.stream_state import aggregate_of

_MAX_ROWS = 1000
_MOST_EXAMINED = 100_000  # rows, or combinations of rows, that one run examines
_STEPS_PER_ROW, _STEPS_PER_PAIR, _STEPS_PER_RESULT = 4, 8, 20


@dataclass(frozen=True, slots=True)
class Table:
    """A class of FROM: its name, its history before the event, and its join with the tables before it."""

    name: str
    page_class: PageClass
    over_s: float | None = None  # how far its history goes back; ``None`` if it has none
    on: Closure | None = None  # the JOIN's
    is_left: bool = False
    # ``key``, ``other_key``: the two sides of an equality between its own rows and those of the tables before it,
    # which allows a look-up
    key: Closure | None = None
    other_key: Closure | None = None


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
class _Aggregated:
    aggregate: Aggregate
    argument: Closure | None
    where: Closure | None

    def of(self, rows: Sequence[Row], meter: Meter) -> Value:
        kept = [row for row in rows if self.where is None or is_true(self.where(row))]
        argument = self.argument
        return aggregate_of(self.aggregate, [True if argument is None else argument(row) for row in kept], meter)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of a result: its columns by name, and the values that were asked for beside them."""

    columns: dict[str, Value]
    hidden: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryProgram:
    """A compiled query; ``paths`` and ``old_paths`` are the fields that it reads."""

    tables: tuple[Table, ...]
    outputs: tuple[_Output, ...]
    hidden: tuple[_Output, ...]
    where: Closure | None
    groups: tuple[Closure, ...]
    aggregates: tuple[_Aggregated, ...]
    having: Closure | None
    order: tuple[_Order, ...]
    limit: int | None
    distinct: bool
    paths: frozenset[str]
    old_paths: frozenset[str]

    def run(self, tables: Sequence[Sequence[Row]], meter: Meter = UNMETERED) -> list[ResultRow]:
        """Return the result over the rows of each table; times are in ISO 8601. Raises ``EvaluationError``."""
        examined = islice(self._join_tables(tables, meter), _MOST_EXAMINED)  # of combinations of rows
        kept = [row for row in examined if self.where is None or is_true(self.where(row))]
        if self.aggregates or self.groups:
            kept = [row for row in self._group_rows(kept, meter) if self.having is None or is_true(self.having(row))]
        for order in reversed(self.order):
            kept = _sort_rows(kept, order, meter)
        meter.spend(_STEPS_PER_RESULT * min(len(kept), _MAX_ROWS))
        most = _MAX_ROWS if self.limit is None else min(self.limit, _MAX_ROWS)
        if self.distinct:
            result = [self._project(row) for row in kept]
            meter.weigh(sum(_length(row.columns.values()) for row in result))
            return list({tuple(row.columns.items()): row for row in result}.values())[:most]
        return [self._project(row) for row in kept[:most]]

    def _join_tables(self, tables: Sequence[Sequence[Row]], meter: Meter) -> Iterator[Row]:
        if len(tables) == 1:
            meter.spend(_STEPS_PER_ROW * len(tables[0]))
            return iter(tables[0])
        first = self.tables[0].name
        rows: Iterator[Row] = (replace(row, fields=NO_FIELDS, tables={first: row.fields}) for row in tables[0])
        for table, found in zip(self.tables[1:], tables[1:], strict=True):
            rows = _join(rows, table, found, meter)
        return rows

    def _group_rows(self, rows: Sequence[Row], meter: Meter) -> list[Row]:
        """Return one row for each group, with its aggregates; without GROUP BY, no rows at all form one group."""
        grouped: dict[tuple[Value, ...], list[Row]] = defaultdict(list)
        for row in rows:
            key = tuple(group(row) for group in self.groups)
            meter.weigh(_length(key))
            grouped[key].append(row)
        if not self.groups and not grouped:
            nothing = Row(NO_FIELDS, tables={table.name: NO_FIELDS for table in self.tables})
            nothing = replace(nothing, meter=meter)
            return [replace(nothing, aggregates=[each.of([], meter) for each in self.aggregates])]
        return [
            replace(members[0], aggregates=[each.of(members, meter) for each in self.aggregates])
            for members in grouped.values()
        ]

    def _project(self, row: Row) -> ResultRow:
        shown = {output.name: _show(output, output.value(row)) for output in self.outputs}
        return ResultRow(shown, tuple(_show(each, each.value(row)) for each in self.hidden))


def _length(values: Iterable[Value]) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _join(rows: Iterator[Row], table: Table, found: Sequence[Row], meter: Meter) -> Iterator[Row]:
    """Yield each row joined with the matching rows of one more table; looks them up if the table has a key."""
    meter.spend(_STEPS_PER_PAIR * len(found))
    index = _index(table, found)
    for row in rows:
        others = found if table.other_key is None else index.get(table.other_key(row), ())
        has_match = False
        meter.spend(_STEPS_PER_PAIR)
        for other in others:
            meter.spend(_STEPS_PER_PAIR)
            joined = replace(row, tables={**row.tables, table.name: other.fields})
            if table.on is None or is_true(table.on(joined)):
                has_match = True
                yield joined
        if table.is_left and not has_match:
            yield replace(row, tables={**row.tables, table.name: NO_FIELDS})


def _index(table: Table, found: Sequence[Row]) -> Mapping[Value, Sequence[Row]]:
    index: dict[Value, list[Row]] = defaultdict(list)
    for other in found if table.key is not None else ():
        alone = replace(other, tables={table.name: other.fields})
        value = table.key(alone) if table.key is not None else None
        if value is not None:  # null is not equal to anything
            index[value].append(other)
    return index


def compile_query(
    query: Select,
    classes: Sequence[PageClass],
    event_class: PageClass,
    chronon_s: float,
    hidden: Sequence[Expression] = (),
    mark: str | None = None,
) -> QueryProgram:
    """Return the program of a checked query over ``classes``, those of its FROM clause in order.

    ``hidden`` are checked expressions whose values each row of the result has beside its columns; ``mark`` is the
    decimal mark by the LOCALE of the sources.
    """
    names = [source.alias or page_class.name for source, page_class in zip(query.sources, classes, strict=True)]
    named = dict(zip(names, classes, strict=True)) if len(names) > 1 else {}
    compiler = Compiler(event_class, named, classes[0], mark)
    columns = query.columns or tuple(
        OutputColumn(Column(field.path, name if named else None))
        for name, page_class in zip(names, classes, strict=True)
        for field in page_class.fields
    )
    aliases = {column.alias.lower(): column.expression for column in columns if column.alias}
    outputs = _outputs(compiler, columns)
    beside = _outputs(compiler, [OutputColumn(expression) for expression in hidden])
    where = compiler.compile_optional(query.where)
    having = compiler.compile_optional(query.having)
    order = tuple(
        _Order(compiler.compile(_alias_columns(term.expression, aliases)), term.descending, bool(term.nulls_first))
        for term in query.order_by
    )
    return QueryProgram(
        tables=tuple(
            _table(compiler, source, page_class, names[: number + 1], query.where, chronon_s)
            for number, (source, page_class) in enumerate(zip(query.sources, classes, strict=True))
        ),
        outputs=outputs,
        hidden=beside,
        where=where,
        groups=tuple(compiler.compile(_alias_columns(term, aliases)) for term in query.group_by),
        aggregates=tuple(
            _Aggregated(each, compiler.compile_optional(each.argument), compiler.compile_optional(each.where))
            for each in tuple(compiler.aggregates)
        ),
        having=having,
        order=order,
        limit=query.limit,
        distinct=query.distinct,
        paths=frozenset(compiler.paths),
        old_paths=frozenset(compiler.old_paths),
    )


def _table(
    compiler: Compiler,
    source: FromClass,
    page_class: PageClass,
    names: Sequence[str],
    where: Expression | None,
    chronon_s: float,
) -> Table:
    *before, name = names
    keys = _keys([*conjuncts(source.on), *([] if source.left_join else conjuncts(where))], name, set(before))
    return Table(
        name=name,
        page_class=page_class,
        over_s=source.over.in_seconds(chronon_s=chronon_s) if source.over is not None else None,
        on=compiler.compile_optional(source.on),
        is_left=source.left_join,
        key=compiler.compile(keys[0]) if keys else None,
        other_key=compiler.compile(keys[1]) if keys else None,
    )


def _keys(terms: Sequence[Expression], name: str, before: set[str]) -> tuple[Column, Column] | None:
    """Return the columns of the first equality between a table and one before it."""
    for term in terms:
        match term:
            case Binary("=", Column(_, own) as left, Column(_, other) as right):
                if own == name and other in before:
                    return left, right
                if other == name and own in before:
                    return right, left
    return None


def _alias_columns(expression: Expression, aliases: Mapping[str, Expression]) -> Expression:
    if isinstance(expression, Column) and expression.qualifier is None:
        return aliases.get(expression.path.lower(), expression)
    return expression


def _outputs(compiler: Compiler, columns: Sequence[OutputColumn]) -> tuple[_Output, ...]:
    """Return the columns by name; fields with the same path in several classes are qualified by the class."""
    paths = Counter(c.expression.path.lower() for c in columns if isinstance(c.expression, Column) and not c.alias)
    twice = {path for path, count in paths.items() if count > 1}
    return tuple(_output(compiler, column, number, twice) for number, column in enumerate(columns, 1))


def _output(compiler: Compiler, column: OutputColumn, number: int, twice: set[str]) -> _Output:
    expression = column.expression
    if not isinstance(expression, Column):
        is_time = compiler.is_time(expression)
        return _Output(column.alias or f"column{number}", compiler.compile(expression), is_time)
    path, name = expression.path, expression.qualifier
    shown = f"{name}.{path}" if name in {"OLD", "NEW"} or (name and path.lower() in twice) else path
    return _Output(column.alias or shown, compiler.compile(expression), compiler.is_time(expression))


def _show(output: _Output, value: Value) -> Value:
    return iso_time(value) if output.is_time and isinstance(value, int | float) else value


def _sort_rows(rows: Sequence[Row], order: _Order, meter: Meter) -> list[Row]:
    keyed = [(_sort_key(order, row), row) for row in rows]
    comparisons = round(log2(len(keyed) + 1))
    meter.spend(len(keyed) * comparisons)
    meter.weigh(sum(len(key[-1]) for key, _ in keyed) * comparisons)
    keyed.sort(key=itemgetter(0), reverse=order.descending)
    return [row for _, row in keyed]


def _sort_key(order: _Order, row: Row) -> tuple[bool, bool, float, str]:
    """Order unknowns as asked (last by default), and numbers before texts; ``descending`` reverses all."""
    value = order.key(row)
    last = (value is None) != order.nulls_first
    group = last if not order.descending else not last
    if isinstance(value, int | float):
        return group, False, value, ""
    return group, True, 0.0, "" if value is None else str(value)
