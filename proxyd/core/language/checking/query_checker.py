"""Checks the names, types and shape of a rule's query and trigger, and the names in its message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from proxyd.core.language.checking.classes import ClassIndex
from proxyd.core.language.checking.expression_checker import ExpressionChecker
from proxyd.core.language.checking.scope import Binding, Scope
from proxyd.core.language.syntax.check_context import Reporter
from proxyd.core.language.syntax.expression_printer import format_trigger
from proxyd.core.language.syntax.nodes import Located
from proxyd.core.language.syntax.value_checks import Values
from proxyd.core.model.expression import (
    Aggregate,
    ClassName,
    Column,
    Expression,
    FromClass,
    Literal,
    OrderTerm,
    OutputColumn,
    Select,
    TextSpan,
    Unit,
    children,
    conjunction,
    conjuncts,
    has_aggregate,
    is_mixed,
)
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import (
    FIRST,
    SITE_CLASS,
    SOURCE_CLASS,
    MessageName,
    MessageTemplate,
    PageClass,
    Then,
    Trigger,
)

_MAX_LIMIT = 1_000_000
_MAX_CLASSES = 8
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_MOST_PLACES = 50


def _name_in_domain(page_class: PageClass, written: ClassName) -> ClassName:
    """Return a class's declared name and domain, at the place of the written name."""
    return ClassName(page_class.name, page_class.domain, written.span)


@dataclass(frozen=True, slots=True)
class _CheckedTrigger:
    """A resolved trigger, its class, and the class of the answer that it waits for."""

    trigger: Trigger
    page_class: PageClass
    answer_class: PageClass | None = None


def check_trigger(trigger: Trigger, classes: ClassIndex, reporter: Reporter, values: Values) -> _CheckedTrigger | None:
    """Return the resolved trigger, or ``None`` if its class, or that of its THEN, cannot be found."""
    page_class = classes.find(trigger.page_class, reporter)
    if page_class is not None:
        _check_event(trigger.kind, trigger.page_class, page_class, reporter)
    _check_after(trigger, reporter, values)
    bindings = [] if page_class is None else [Binding(page_class.name, page_class)]
    scope = Scope(bindings, event=trigger.kind, event_class=page_class, is_open=page_class is None)

    def check(condition: Expression | None, place: str, *, aggregates: bool) -> Expression | None:
        checker = ExpressionChecker(scope, reporter, values, place=place, aggregates=aggregates, in_query=False)
        return None if condition is None else checker.condition(condition)

    where = check(trigger.where, "the WHERE of a trigger", aggregates=False)
    condition = check(trigger.condition, "WHEN", aggregates=True)
    answered = None if trigger.then is None else _check_then(trigger, page_class, classes, reporter, values)
    if page_class is None or (trigger.then is not None and answered is None):
        return None
    if page_class == SOURCE_CLASS:
        _check_not_across(condition, reporter)
    if condition is not None and not has_aggregate(condition):
        where, condition = conjunction(where, condition), None
    elif condition is not None and is_mixed(condition):
        reporter.warn(_warning_of_mix(trigger), condition.span)
    then, answer_class = answered or (None, None)
    name = _name_in_domain(page_class, trigger.page_class)
    resolved = replace(trigger, page_class=name, where=where, condition=condition, then=then)
    return _CheckedTrigger(resolved, page_class, answer_class)


def _check_then(
    trigger: Trigger, first_class: PageClass | None, classes: ClassIndex, reporter: Reporter, values: Values
) -> tuple[Then, PageClass] | None:
    """Return the resolved answer of a trigger and its class, or ``None`` if the class cannot be found."""
    then = trigger.then
    if then is None:
        return None
    values.durations([("WITHIN", then.within)], then.span)
    if trigger.kind.is_of_source or then.kind.is_of_source:
        reporter.error("THEN joins events of items; those of a SOURCE have AFTER and RECOVERY instead", then.span)
        return None
    page_class = classes.find(then.page_class, reporter)
    if page_class is None:
        return None
    _check_event(then.kind, then.page_class, page_class, reporter)
    bindings = [Binding(page_class.name, page_class)]
    bindings += [] if first_class is None else [Binding(FIRST, first_class, implicit=False)]
    scope = Scope(bindings, event=then.kind, event_class=page_class, is_open=first_class is None)
    checker = ExpressionChecker(scope, reporter, values, place="the WHERE of THEN", aggregates=False, in_query=False)
    where = None if then.where is None else checker.condition(then.where)
    return replace(then, page_class=_name_in_domain(page_class, then.page_class), where=where), page_class


def _check_event(kind: EventKind, written: ClassName, page_class: PageClass, reporter: Reporter) -> None:
    """Report an event that the class does not have."""
    span = written.span
    if not kind.is_of_source and page_class == SITE_CLASS:
        reporter.error(f"a SITE has no items, and so no {kind.name}: write ON HEALTH TO SOURCE", span)
    elif kind is EventKind.DELETE and page_class.is_feed:
        reporter.error("ON DELETE needs a class of pages: items that drop off the end of a feed are not deleted", span)
    elif kind.is_of_source and page_class != SOURCE_CLASS:
        reporter.error(f"{kind.name} is an event of a source itself: write ON {kind.name} TO SOURCE", span)
    elif not kind.is_of_source and page_class == SOURCE_CLASS:
        *first, last = (each.name for each in EventKind if each.is_of_source)
        reporter.error(f"a SOURCE has no {kind.name}; its events are {', '.join(first)} and {last}", span)


def _check_after(trigger: Trigger, reporter: Reporter, values: Values) -> None:
    if trigger.after is None:
        return
    after, span = trigger.after, trigger.after.span
    values.at_least_one("the number of probes", after.probes, span)
    values.durations([("AFTER", after.time)], span)
    if not trigger.kind.can_persist:
        *first, last = (each.name for each in EventKind if each.can_persist)
        reporter.error(f"AFTER belongs to the events {', '.join(first)} and {last} of a SOURCE", span)


def _check_not_across(condition: Expression | None, reporter: Reporter) -> None:
    """Report aggregates across sources: events of sources are counted for each source alone."""
    if isinstance(condition, Aggregate) and condition.across:
        reporter.error("the events of SOURCE are counted for each source: leave out ACROSS SOURCES", condition.span)
    for child in () if condition is None else children(condition):
        _check_not_across(child, reporter)


def _warning_of_mix(trigger: Trigger) -> str:
    """Return the warning about a WHEN that mixes aggregates and conditions on the event's own fields."""
    said = "this WHEN counts all events, also those that its conditions on fields leave out"
    terms = list(conjuncts(trigger.condition))
    counting = [term for term in terms if has_aggregate(term)]
    if any(is_mixed(term) for term in counting):
        return f"{said}: put these conditions into WHERE, or into COUNT(*) FILTER (WHERE ...)"
    own = conjunction(*(term for term in terms if not has_aggregate(term)))
    better = replace(trigger, where=conjunction(trigger.where, own), condition=conjunction(*counting))
    return f"{said}; to count only the others, write {format_trigger(better).replace(chr(10), ' ')}"


@dataclass(frozen=True, slots=True)
class EventScope:
    """What a query sees of the trigger: its event and, if they were found, its class and that of its answer."""

    kind: EventKind
    page_class: PageClass | None
    answer_class: PageClass | None = None


_READY_MESSAGE = "{source.name} {source.trouble}"
_UNIT_SLIPS = frozenset({"S", "SEC", "SECS", "M", "MIN", "MINS", "H", "HR", "HRS", "D", "W"})


class QueryChecker:
    """Checks one query."""

    def __init__(self, classes: ClassIndex, event: EventScope, reporter: Reporter, values: Values) -> None:
        self._classes = classes
        self._event = event
        self._reporter = reporter
        self._values = values

    def check(
        self, select: Select, message: Located[str] | None
    ) -> tuple[Select, tuple[PageClass, ...], MessageTemplate | None] | None:
        """Return the resolved query, its classes and its message, or ``None`` if a class cannot be found."""
        found = [self._classes.find(source.page_class, self._reporter) for source in select.sources]
        page_classes = tuple(each for each in found if each is not None)
        is_open = len(page_classes) < len(found)
        self._check_shape(select)
        known = [source for source, each in zip(select.sources, found, strict=True) if each is not None]
        bindings = self._bind(known, page_classes)
        sources = tuple(
            self._check_source(source, page_class, self._scope(bindings[: index + 1], is_open=is_open))
            for index, (source, page_class) in enumerate(zip(known, page_classes, strict=True))
        )
        scope = self._scope(bindings, is_open=is_open)
        checked = self._check_clauses(replace(select, sources=sources), scope)
        message = message or self._ready_message(checked)
        template = None if message is None else _check_message(message, checked, scope, self._reporter)
        return None if is_open else (checked, page_classes, template)

    def _scope(self, bindings: Sequence[Binding], *, is_open: bool) -> Scope:
        event = self._event
        qualify = len(bindings) > 1
        return Scope(bindings, event=event.kind, event_class=event.page_class, qualify=qualify, is_open=is_open)

    def _check_shape(self, select: Select) -> None:
        if len(select.sources) > _MAX_CLASSES:
            self._reporter.error(f"FROM takes {_MAX_CLASSES} classes at most", select.sources[_MAX_CLASSES].span)
        if select.limit is not None and select.limit > _MAX_LIMIT:
            self._reporter.error(f"LIMIT must not be more than {_MAX_LIMIT}", select.span)

    def _bind(self, sources: Sequence[FromClass], page_classes: Sequence[PageClass]) -> list[Binding]:
        bindings: list[Binding] = []
        for source, page_class in zip(sources, page_classes, strict=True):
            name = source.alias if source.alias is not None else page_class.name
            if name.upper() in ("OLD", "NEW"):
                self._reporter.error(f"{name} cannot name a class: it is the event's item", source.span)
            elif _lacks_unit(source) and name.upper() in _UNIT_SLIPS:
                message = f"OVER takes a unit of time such as MINUTES, not {name}; without one it counts chronons"
                self._reporter.error(message, source.span)
            elif any(each.name.casefold() == name.casefold() for each in bindings):
                self._reporter.error(f"{name} names two classes of FROM: give one of them AS another name", source.span)
            bindings.append(Binding(name, page_class))
        return bindings

    def _check_source(self, source: FromClass, page_class: PageClass, scope: Scope) -> FromClass:
        self._values.durations([("OVER", source.over)], source.span)
        self._check_table(source, page_class)
        on = source.on
        if on is not None:
            on = self._checker(scope, "ON", aggregates=False).condition(on)
        return replace(source, page_class=_name_in_domain(page_class, source.page_class), on=on)

    def _ready_message(self, select: Select) -> Located[str] | None:
        """Return the wording for a rule on SOURCE that sets none; ``None`` if a row of its query is not one event."""
        is_told = self._event.kind.can_persist and self._event.page_class == SOURCE_CLASS
        if not is_told or select.group_by or select.distinct:
            return None
        if any(has_aggregate(column.expression) for column in select.columns):
            return None
        return Located(_READY_MESSAGE, select.span)

    def _check_table(self, source: FromClass, page_class: PageClass) -> None:
        """Report pages in the query of a rule on SOURCE, and SOURCE in that of any other rule."""
        is_of_source, span = self._event.kind.is_of_source, source.page_class.span
        if page_class != SOURCE_CLASS and is_of_source:
            self._reporter.error(f"ON {self._event.kind.name} can only query SOURCE; write FROM SOURCE", span)
        elif page_class == SOURCE_CLASS and not is_of_source and self._event.page_class is not None:
            self._reporter.error("only a rule on an event of SOURCE, such as ON FAILURE TO SOURCE, can query it", span)
        elif self._event.answer_class not in {None, page_class} and self._event.page_class != page_class:
            self._reporter.error("with THEN, a query reads only the classes of the two events", span)
        elif self._event.answer_class is not None and source.over is not None:
            self._reporter.error("with THEN, a query takes no OVER: it reads the two events", span)
        elif page_class == SOURCE_CLASS and source.over is not None:
            self._reporter.error("SOURCE takes no OVER: its query reads the events since the rule last fired", span)

    def _checker(self, scope: Scope, place: str, *, aggregates: bool) -> ExpressionChecker:
        return ExpressionChecker(scope, self._reporter, self._values, place=place, aggregates=aggregates, in_query=True)

    def _check_clauses(self, select: Select, scope: Scope) -> Select:
        columns_checker = self._checker(scope, "SELECT", aggregates=True)
        columns = tuple(
            OutputColumn(columns_checker.check(each.expression).expression, each.alias) for each in select.columns
        )
        named = self._aliases(columns)
        plain = self._checker(scope, "WHERE", aggregates=False)
        grouping = self._checker(scope, "GROUP BY", aggregates=False)
        having = self._checker(scope, "HAVING", aggregates=True)
        ordering = self._checker(scope, "ORDER BY", aggregates=True)
        resolved = replace(
            select,
            columns=columns,
            where=plain.condition(select.where) if select.where is not None else None,
            group_by=tuple(self._column_meant_by(each, grouping, named, columns) for each in select.group_by),
            having=having.condition(select.having) if select.having is not None else None,
            order_by=tuple(
                replace(each, expression=self._column_meant_by(each.expression, ordering, named, columns))
                for each in select.order_by
            ),
        )
        self._check_groups(resolved)
        self._check_distinct_order(resolved)
        return resolved

    def _aliases(self, columns: Sequence[OutputColumn]) -> dict[str, Expression]:
        named: dict[str, Expression] = {}
        for column in columns:
            if column.alias is None:
                continue
            folded = column.alias.casefold()
            if folded in named:
                self._reporter.error(f"two columns are called {column.alias}", column.expression.span)
            named[folded] = column.expression
        return named

    def _column_meant_by(
        self,
        term: Expression,
        checker: ExpressionChecker,
        named: Mapping[str, Expression],
        columns: Sequence[OutputColumn],
    ) -> Expression:
        """Return the column that a term names by name or position, otherwise the checked term."""
        if isinstance(term, Column) and term.path.casefold() in named:
            return named[term.path.casefold()]
        if isinstance(term, Literal) and isinstance(term.value, int) and not isinstance(term.value, bool):
            if 1 <= term.value <= len(columns):
                return columns[term.value - 1].expression
            self._reporter.error(f"{checker.place} {term.value}: there is no such column", term.span)
            return term
        return checker.check(term).expression

    def _check_groups(self, select: Select) -> None:
        """Report columns that have no single value in their group."""
        terms = [column.expression for column in select.columns]
        terms += [term.expression for term in select.order_by]
        if select.having is not None:
            terms.append(select.having)
        if not select.group_by and select.having is None and not any(has_aggregate(term) for term in terms):
            return
        if not select.columns:
            self._reporter.error("SELECT * cannot be combined with aggregates, GROUP BY or HAVING", select.span)
        for loose in (loose for term in terms for loose in _loose_columns(term, select.group_by)):
            if not self._reporter.has_error(loose.span):
                self._reporter.error(f"{loose.path} must be in GROUP BY or inside an aggregate", loose.span)

    def _check_distinct_order(self, select: Select) -> None:
        chosen = [column.expression for column in select.columns]
        for term in select.order_by if select.distinct and chosen else ():
            if term.expression not in chosen and not self._reporter.has_error(_span_of(term)):
                self._reporter.error("with DISTINCT, ORDER BY can only use columns of the SELECT", _span_of(term))


def _span_of(term: OrderTerm) -> TextSpan:
    return term.expression.span


def _loose_columns(expression: Expression, groups: Sequence[Expression]) -> Iterator[Column]:
    """Yield the columns outside aggregates that no group term covers."""
    if expression in groups or isinstance(expression, Aggregate):
        return
    if isinstance(expression, Column):
        if expression.qualifier not in ("OLD", "NEW"):
            yield expression
        return
    for child in children(expression):
        yield from _loose_columns(child, groups)


def _lacks_unit(source: FromClass) -> bool:
    """Whether a name follows OVER and a bare number."""
    return source.alias is not None and source.over is not None and source.over.unit is Unit.CHRONONS


# ---- messages


def _check_message(message: Located[str], query: Select, scope: Scope, reporter: Reporter) -> MessageTemplate:
    """Return the template of a message; report names that are neither columns nor fields."""
    parts: list[str | MessageName | Expression] = []
    at = 0
    for found in _PLACE.finditer(message.value):
        parts.append(message.value[at : found.start()])
        at = found.end()
        if found[0] in ("{{", "}}"):
            parts.append(found[0][0])
        elif found[1] is None or not found[1].strip():
            doubled = "".join(char * 2 for char in found[0])
            reporter.error(f"{found[0]} in SET MESSAGE stands alone: write {{field}}, or {doubled}", message.span)
        elif (value := _value(found[1].strip(), query, scope, message, reporter)) is not None:
            parts.append(value)
    if sum(not isinstance(part, str) for part in parts) > _MOST_PLACES:
        reporter.error(f"SET MESSAGE may hold {_MOST_PLACES} values at most", message.span)
    return MessageTemplate(tuple(part for part in [*parts, message.value[at:]] if part != ""))


def _value(
    name: str, query: Select, scope: Scope, message: Located[str], reporter: Reporter
) -> MessageName | Expression | None:
    """Return what a name in braces stands for: rule or source, a column of the query, or a field."""
    for column in query.columns:
        if _is_called(name, column.alias, column.expression):
            return column.expression
    if name.lower() in {each.value for each in MessageName}:
        return MessageName(name.lower())
    if query.group_by or query.distinct or any(has_aggregate(column.expression) for column in query.columns):
        shown = ", ".join(_shown(column.alias, column.expression) for column in query.columns)
        reporter.error(
            f"SET MESSAGE: {{{name}}} is no column of this query, which groups rows. It has {shown}.", message.span
        )
        return None
    return scope.resolve(Column(name, None, message.span), reporter)[0]


def _is_called(name: str, alias: str | None, expression: Expression) -> bool:
    if alias is not None:
        return alias.casefold() == name.casefold()
    return isinstance(expression, Column) and expression.qualifier is None and _ends_with(expression.path, name)


def _ends_with(path: str, name: str) -> bool:
    return f".{path.lower()}".endswith(f".{name.lower()}")


def _shown(alias: str | None, expression: Expression) -> str:
    return alias or (expression.path if isinstance(expression, Column) else "a column without a name")
