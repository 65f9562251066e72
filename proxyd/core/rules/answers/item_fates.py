"""Why a rule told of an item, or did not: the answer to "why was I not told of this?"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxyd.core.errors import EvaluationError
from proxyd.core.language import condition_in_words
from proxyd.core.model.expression import conjuncts, has_aggregate
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.item import EventKind, UpdateEvent
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.expression_compiler import Compiler, Row, is_true
from proxyd.core.rules.programs.meter import QUICK_LIMITS, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.rule_tasks import counts, is_ahead

_KINDS = {EventKind.INSERT: "new items", EventKind.UPDATE: "changes", EventKind.DELETE: "what is gone"}
_ONE = {EventKind.INSERT: "a new item", EventKind.UPDATE: "a change", EventKind.DELETE: "an item that is gone"}


@dataclass(frozen=True, slots=True)
class ItemFate:
    """What became of an event of an item for one rule.

    ``notification_id`` is that of the notification that it led to, or would have led to; ``why`` says in words what
    speaks against it.
    """

    rule: str
    notification_id: str
    why: tuple[str, ...] = ()
    is_counted: bool = False  # whether it was counted, and waits with others for the rule to fire


@dataclass(frozen=True, slots=True)
class SourceSince:
    """Since when a source is declared, and when it first answered, if that is known here; unix seconds."""

    declared_s: float  # a rule's NOW is never before that
    first_contact_s: float | None = None


def item_fate(program: RuleProgram, event: StoredEvent, source_id: str, since: SourceSince) -> ItemFate:
    """Return what became of an event for a rule, as far as the rule, the event and its source say it."""
    seen = event.event(source_id)
    rule, own = program.rule, program.notification_id(seen)
    if reasons := tuple(_reasons(program, event, seen, since)):
        return ItemFate(rule.name, own, why=reasons)
    counters = [each for each in conjuncts(rule.trigger.condition) if has_aggregate(each)]
    if counters:
        waits = " AND ".join(map(condition_in_words, counters))
        return ItemFate(rule.name, own, (f"it was counted: the rule tells when {waits}",), is_counted=True)
    if rule.trigger.then is not None:
        return ItemFate(rule.name, own, ("the rule tells once it knows what followed",), is_counted=True)
    return ItemFate(rule.name, own)


def _reasons(program: RuleProgram, event: StoredEvent, seen: UpdateEvent, since: SourceSince) -> Iterator[str]:
    """Yield why the rule does not tell of an event."""
    if event.kind not in program.kinds:
        told = " and ".join(_KINDS[each] for each in _KINDS if each in program.kinds)
        yield f"it tells of {told}, and this is {_ONE[event.kind]}"
        return
    if not counts(program, event, since.declared_s):
        yield _out_of_time(program, event, since)
        return
    view = program.own_view(seen)
    if view is None:
        yield "only values came back as they were"
        return
    yield from _terms_against(program, view)


def _out_of_time(program: RuleProgram, event: StoredEvent, since: SourceSince) -> str:
    """Return why an event lies outside the period of a rule."""
    if event.event_s >= program.end_s:
        return f"the rule ended at {iso_time(program.end_s)}"
    start = iso_time(program.starts_at(since.declared_s))
    if event.is_old(since.first_contact_s):
        return "it came in where old items are, or without a date that makes it news: it is taken for an old one"
    if event.seed and is_ahead(event):
        return "it was there when the source was first asked, and its date was still to come"
    if event.seed:
        return f"it was there when the source was first asked, and the rule tells of what comes from {start} on"
    return f"it is older than the rule, which tells of what comes from {start} on"


def _terms_against(program: RuleProgram, view: UpdateEvent) -> Iterator[str]:
    """Yield the parts of the rule's condition that do not hold, and those that cannot be told here."""
    trigger, meter = program.rule.trigger, Meter(QUICK_LIMITS)
    compiler = Compiler(program.event_class, mark=program.mark)
    for term in (*conjuncts(trigger.where), *conjuncts(trigger.condition)):
        if has_aggregate(term):
            continue
        try:
            holds = is_true(compiler.compile(term)(Row.of(view, meter=meter)))
        except EvaluationError as error:
            yield f"its condition cannot be evaluated here: {error.message}"
            return
        if not holds:
            yield f"its condition does not hold: {condition_in_words(term)}"
