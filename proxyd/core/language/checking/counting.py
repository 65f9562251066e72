"""What a rule's counters count: an edit keeps the counters that still count the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from proxyd.core.language.printing.expression_printer import format_expression, format_trigger
from proxyd.core.model.expression import Aggregate, Expression, children
from proxyd.core.model.profile import NotificationRule, Trigger


def counted_events(trigger: Trigger, named_sources: Sequence[str]) -> str:
    """Return a hash that changes exactly when a rule's event, class, WHERE or FROM SOURCES do."""
    return _hash("\n".join([format_trigger(replace(trigger, condition=None)), *sorted(named_sources)]))


def counting_of(counted: str, aggregates: Sequence[Aggregate]) -> str:
    """Return what counters count, as hashes with spaces between: that of the events, and one of each aggregate."""
    return " ".join([counted, *(_aggregate_hash(each) for each in aggregates)])


def rule_counting(rule: NotificationRule) -> str:
    """Return what a rule's counters count; every rule has ``COUNT(*)``."""
    return counting_of(rule.counted, [Aggregate("COUNT"), *_aggregates(rule.trigger.condition)])


def restarted_counters(rule: NotificationRule, before: str) -> tuple[str, ...]:
    """Return the counters of a rule's WHEN, as texts, that do not go on from what the rule counted ``before``.

    ``before`` is what ``rule_counting`` returned.
    """
    counted, *kept = before.split(" ")
    found = {format_expression(each): None for each in _aggregates(rule.trigger.condition)}
    return tuple(text for text in found if counted != rule.counted or _hash(text) not in kept)


def _aggregates(expression: Expression | None) -> Iterator[Aggregate]:
    if isinstance(expression, Aggregate):
        yield expression
    elif expression is not None:
        for child in children(expression):
            yield from _aggregates(child)


@lru_cache(256)  # most rules count in few ways, and there may be very many rules
def _aggregate_hash(aggregate: Aggregate) -> str:
    return _hash(format_expression(aggregate))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
