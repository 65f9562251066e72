"""What a rule's counters count: by this an edit keeps each counter that still counts the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from proxyd.core.language.printing.expression_printer import format_expression
from proxyd.core.language.printing.printer import format_trigger
from proxyd.core.model.expression import Aggregate, Expression, children
from proxyd.core.model.profile import NotificationRule, Trigger


def counted_events(trigger: Trigger, named_sources: Sequence[str]) -> str:
    """Return a word that changes exactly when a rule's event, class, WHERE or FROM SOURCES do."""
    return _word("\n".join([format_trigger(replace(trigger, condition=None)), *sorted(named_sources)]))


def counting_of(counted: str, aggregates: Sequence[Aggregate]) -> str:
    """Return what counters count: the word for the events, and one for each aggregate, in order."""
    return " ".join([counted, *(_word_of(each) for each in aggregates)])


def rule_counting(rule: NotificationRule) -> str:
    """Return what a rule counts; every rule has ``COUNT(*)``."""
    return counting_of(rule.counted, [Aggregate("COUNT"), *_aggregates(rule.trigger.condition)])


def restarted_counters(rule: NotificationRule, before: str) -> tuple[str, ...]:
    """Return the counters of a rule's WHEN, as texts, that do not go on from what the rule counted ``before``.

    ``before`` is what ``rule_counting`` returned.
    """
    counted, *kept = before.split(" ")
    found = {format_expression(each): None for each in _aggregates(rule.trigger.condition)}
    return tuple(text for text in found if counted != rule.counted or _word(text) not in kept)


def _aggregates(expression: Expression | None) -> Iterator[Aggregate]:
    if isinstance(expression, Aggregate):
        yield expression
    elif expression is not None:
        for child in children(expression):
            yield from _aggregates(child)


@lru_cache(maxsize=4096)  # most rules count in few ways, and there may be very many rules
def _word_of(aggregate: Aggregate) -> str:
    return _word(format_expression(aggregate))


def _word(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
