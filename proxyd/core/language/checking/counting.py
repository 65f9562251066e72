"""What a rule's counters count, which an edit keeps as long as it is the same, and what a rule meant before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from proxyd.core.language.syntax.expression_printer import format_expression, format_trigger
from proxyd.core.model.expression import Aggregate, Expression, children
from proxyd.core.model.profile import NotificationRule, Trigger


def events_hash(trigger: Trigger, named_sources: Sequence[str]) -> str:
    """Return a hash that changes exactly when a rule's event, class, WHERE or FROM SOURCES do."""
    return _hash("\n".join([format_trigger(replace(trigger, condition=None)), *sorted(named_sources)]))


def counting_of(counted: str, aggregates: Sequence[Aggregate]) -> str:
    """Return what counters count, as hashes with spaces between: that of the events, and one of each aggregate."""
    return " ".join([counted, *(_aggregate_hash(each) for each in aggregates)])


def rule_counting(rule: NotificationRule) -> str:
    """Return what a rule's counters count; every rule has ``COUNT(*)``."""
    return counting_of(rule.counted, [Aggregate("COUNT"), *_aggregates(rule.trigger.condition)])


def counters_to_restart(rule: NotificationRule, before: str) -> tuple[str, ...]:
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


MEANING = 2
"""The present meaning of the language. Under meaning 1 the rows of a notification were all events since the last."""


def what_changed(rule: NotificationRule, meaning: int) -> str | None:
    """Return what a rule that was accepted under an earlier meaning does differently now, or ``None``."""
    if meaning >= MEANING:
        return None
    if rule.trigger.where is not None:
        return "its messages hold only the items that match; before, they held all items since the last message"
    if rule.trigger.is_mixed:
        return "its messages hold only the item that it fires on; before, they held all items since the last message"
    query = rule.query
    if query.where is not None or query.having is not None or len(query.sources) > 1:
        return "it sends nothing where its query finds no row; SET EMPTY DELIVER sends such messages as before"
    return None
