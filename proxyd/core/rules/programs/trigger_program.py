"""Triggers: take in events, count them, and say which of them fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from proxyd.core.model.expression import Aggregate, Binary, Expression, Literal, conjunction, conjuncts
from proxyd.core.model.item import EventKind, UpdateEvent, Value
from proxyd.core.model.profile import FIRST, PageClass, Trigger
from proxyd.core.planning.policies.rule_demand import FiringPattern
from proxyd.core.rules.programs.expression_compiler import Closure, Compiler, Row, is_true, qualifiers_of
from proxyd.core.rules.programs.meter import UNMETERED, Meter
from proxyd.core.rules.programs.stream_state import StreamState, Total, Window, aggregate_input, aggregate_of

_COUNT_ALL = Aggregate("COUNT")


@dataclass(frozen=True, slots=True)
class Counter:
    """An aggregate of a trigger, and the value that it takes from an event."""

    aggregate: Aggregate
    argument: Closure | None = None
    where: Closure | None = None
    over_s: float | None = None

    def taken(self, row: Row) -> Value:
        """Return the value that an event's row adds; null adds nothing."""
        if self.where is not None and not is_true(self.where(row)):
            return None
        return True if self.argument is None else self.argument(row)


@dataclass(frozen=True, slots=True)
class Tally:
    """The aggregates of a trigger: totals since START, and windows of those over a recent time."""

    totals: tuple[Total, ...]
    windows: tuple[Window | None, ...]


@dataclass(frozen=True, slots=True)
class TriggerProgram:
    """A compiled trigger."""

    where: Closure | None  # which events count
    condition: Closure | None  # on which of these the rule fires
    # whether the condition also reads the event's own fields; the rows of a firing are then that event alone
    is_mixed: bool
    # its aggregates: ``COUNT(*)`` of the source is always first, then those of the condition
    counters: tuple[Counter, ...]
    across: tuple[bool, ...]  # which of them count all sources of the class as one stream
    counts_across: bool  # whether any does
    firing: FiringPattern  # how often it fires, for planning

    @property
    def zero(self) -> Tally:
        """The tally of no events."""
        return _zero(self.counters)

    @property
    def longest_s(self) -> float:
        """How far back the windows look, in seconds; 0 without windows."""
        return max((each.over_s or 0.0 for each in self.counters), default=0.0)

    def passes(self, event: UpdateEvent, meter: Meter = UNMETERED) -> bool:
        """Return whether an event passes WHERE, and so counts. Raises ``EvaluationError``."""
        return self.where is None or is_true(self.where(Row.of(event, meter=meter)))

    def take(self, tally: Tally | StreamState, event: UpdateEvent, meter: Meter = UNMETERED) -> Tally:
        """Return the tally with one more event; raises ``EvaluationError``."""
        row = Row.of(event, meter=meter)
        values = [each.taken(row) for each in self.counters]
        meter.spend(sum(each.steps for each in (*tally.totals, *tally.windows) if each is not None))
        for total, value in zip(tally.totals, values, strict=True):
            meter.compare(value, total.most)
        forms = [aggregate_input(value, each.aggregate) for each, value in zip(self.counters, values, strict=True)]
        return Tally(
            tuple(
                total if window is not None else total.add(form if total.seen is None else value)
                for total, window, value, form in zip(tally.totals, tally.windows, values, forms, strict=True)
            ),
            tuple(
                None if window is None else window.add(event.time_s, form)
                for window, form in zip(tally.windows, forms, strict=True)
            ),
        )

    def fires(self, event: UpdateEvent, own: StreamState, across: StreamState, meter: Meter = UNMETERED) -> bool:
        """Return whether the rule fires on an event that both streams have taken; raises ``EvaluationError``."""
        if self.condition is None:
            return True
        values = [
            _value(counter, across if is_across else own, index, meter)
            for index, (counter, is_across) in enumerate(zip(self.counters, self.across, strict=True))
        ]
        return is_true(self.condition(replace(Row.of(event, meter=meter), aggregates=values[1:])))


@lru_cache
def _zero(counters: tuple[Counter, ...]) -> Tally:
    """Return the tally of no events, which all streams of a rule share until their first."""
    return Tally(
        tuple(Total.of(each.aggregate) for each in counters),
        tuple(None if each.over_s is None else Window(each.over_s) for each in counters),
    )


def _value(counter: Counter, stream: StreamState, index: int, meter: Meter) -> Value:
    window = stream.windows[index]
    if window is None:
        return stream.totals[index].value(counter.aggregate.function)
    return aggregate_of(counter.aggregate, [value for _, value in window.values], meter)


@dataclass(frozen=True, slots=True)
class AnswerProgram:
    """The compiled THEN of a trigger: the event that answers a first one, in how many seconds."""

    kind: EventKind
    page_class: PageClass
    within_s: float
    is_absent: bool  # whether the rule fires if there is no answer
    is_elsewhere: bool  # whether the answer is of another class, so that any of its sources may give it
    where: Closure | None  # the conditions on the answer alone, and ``pair`` those that also read the first event
    pair: Closure | None
    # what must be equal in both, first of the first event and then of the answer; ``None`` if nothing must
    keys: tuple[Closure, Closure] | None
    # the fields that they read, of both events
    paths: frozenset[str]
    old_paths: frozenset[str]

    def passes(self, event: UpdateEvent, meter: Meter = UNMETERED) -> bool:
        """Return whether an event may be an answer; raises ``EvaluationError``."""
        return self.where is None or is_true(self.where(Row.of(event, meter=meter)))

    def fits(self, first: UpdateEvent, answer: UpdateEvent, meter: Meter = UNMETERED) -> bool:
        """Return whether an event, which passes, answers this first one; raises ``EvaluationError``."""
        if self.pair is None:
            return True
        row = Row.of(answer, meter=meter)
        return is_true(self.pair(Row(row.fields, (), row.new, row.old, {FIRST: first.item.fields}, meter)))


def compile_answer(
    trigger: Trigger, page_class: PageClass | None, first_class: PageClass, chronon_s: float, mark: str | None = None
) -> AnswerProgram | None:
    """Return the program of a checked trigger's THEN, if it has one; ``page_class`` is the class of the answer."""
    then = trigger.then
    if then is None or page_class is None:
        return None
    compiler = Compiler(page_class, {FIRST: first_class}, page_class, mark)
    terms = list(conjuncts(then.where))
    own = conjunction(*(term for term in terms if FIRST not in qualifiers_of(term)))
    both = conjunction(*(term for term in terms if FIRST in qualifiers_of(term)))
    return AnswerProgram(
        kind=then.kind,
        page_class=page_class,
        within_s=then.within.in_seconds(chronon_s=chronon_s),
        is_absent=then.is_absent,
        is_elsewhere=page_class != first_class,
        where=compiler.compile_optional(own),
        pair=compiler.compile_optional(both),
        keys=next((compiler.compile_sides(*sides) for term in terms if (sides := _sides(term)) is not None), None),
        paths=frozenset(compiler.paths),
        old_paths=frozenset(compiler.old_paths),
    )


def _sides(term: Expression) -> tuple[Expression, Expression] | None:
    """Return the sides of an equality between a first event and its answer, in this order."""
    if not (isinstance(term, Binary) and term.operator == "="):
        return None
    for one, other in ((term.left, term.right), (term.right, term.left)):
        if qualifiers_of(one) == {FIRST} and FIRST not in (of_answer := qualifiers_of(other)) and of_answer:
            return one, other
    return None


def compile_trigger(
    trigger: Trigger, page_class: PageClass, chronon_s: float, mark: str | None = None
) -> TriggerProgram:
    """Return the program of a checked trigger on ``page_class``; ``mark`` is that of the LOCALE of its sources."""
    compiler = Compiler(page_class, mark=mark)
    where = compiler.compile_optional(trigger.where)
    condition = compiler.compile_optional(trigger.condition)
    aggregates: Sequence[Aggregate] = tuple(compiler.aggregates)
    counters = [_counter(aggregate, page_class, chronon_s, mark) for aggregate in aggregates]
    return TriggerProgram(
        where=where,
        condition=condition,
        is_mixed=trigger.is_mixed,
        counters=(Counter(_COUNT_ALL), *counters),
        across=(False, *(aggregate.across for aggregate in aggregates)),
        counts_across=any(aggregate.across for aggregate in aggregates),
        firing=_firing_of(trigger.condition),
    )


def _counter(aggregate: Aggregate, page_class: PageClass, chronon_s: float, mark: str | None) -> Counter:
    compiler = Compiler(page_class, mark=mark)
    return Counter(
        aggregate,
        argument=compiler.compile_optional(aggregate.argument),
        where=compiler.compile_optional(aggregate.where),
        over_s=aggregate.over.in_seconds(chronon_s=chronon_s) if aggregate.over is not None else None,
    )


def _firing_of(condition: Expression | None) -> FiringPattern:
    """Return how often a condition fires, for planning: the cycle of ``COUNT(*) % X = r`` if it requires one."""
    for term in conjuncts(condition):
        match term:
            case Binary(
                "=",
                Binary("%", Aggregate("COUNT", None, _, None, None, False), Literal(int() as every)),
                Literal(int() as r),
            ):
                if every > 0 and 0 <= r < every:
                    return FiringPattern(every, r)
    return FiringPattern()  # planned as if every item could fire
