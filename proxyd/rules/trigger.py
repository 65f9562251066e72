"""Triggers: events in, firings out, counting as they go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxyd.model.expression import Aggregate, Binary, Expression, Literal
from proxyd.model.item import UpdateEvent
from proxyd.model.profile import PageClass, Trigger
from proxyd.rules.expression import Closure, Compiler, Row, is_true
from proxyd.scheduling import Firing


@dataclass(frozen=True, slots=True)
class TriggerProgram:
    """A compiled trigger.

    ``counts`` of a stream hold one number for every counting aggregate of the condition, after ``COUNT(*)`` itself,
    which is always the first.
    """

    condition: Closure | None
    filters: tuple[Closure | None, ...]
    firing: Firing

    @property
    def zero(self) -> tuple[int, ...]:
        """The counts of a stream that saw nothing."""
        return (0,) * len(self.filters)

    def step(self, counts: tuple[int, ...], event: UpdateEvent) -> tuple[tuple[int, ...], bool]:
        """Return the counts after ``event`` and whether the rule fires on it."""
        row = Row.of(event)
        counts = tuple(
            count + (1 if condition is None or is_true(condition(row)) else 0)
            for count, condition in zip(counts, self.filters, strict=True)
        )
        if self.condition is None:
            return counts, True
        return counts, is_true(self.condition(Row.of(event, counts[1:])))


def compile_trigger(trigger: Trigger, page_class: PageClass) -> TriggerProgram:
    """Return the program of a checked trigger on ``page_class``."""
    compiler = Compiler(page_class)
    condition = compiler.compile(trigger.condition) if trigger.condition is not None else None
    filters = [_filter(aggregate, page_class) for aggregate in compiler.aggregates]
    return TriggerProgram(condition, (None, *filters), firing_of(trigger.condition))


def _filter(aggregate: Aggregate, page_class: PageClass) -> Closure | None:
    return Compiler(page_class).compile(aggregate.where) if aggregate.where is not None else None


def firing_of(condition: Expression | None) -> Firing:
    """Return how often a condition fires, for planning: the cycle of ``COUNT(*) % X = r`` where it demands one.

    Other conditions are planned for as if every item could fire.
    """
    for term in _conjuncts(condition):
        match term:
            case Binary(
                "=", Binary("%", Aggregate("COUNT", None, _, None, None), Literal(int() as every)), Literal(int() as r)
            ):
                if every > 0 and 0 <= r < every:
                    return Firing(every, r)
    return Firing()


def _conjuncts(condition: Expression | None) -> Iterator[Expression]:
    match condition:
        case None:
            return
        case Binary("AND", left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield condition
