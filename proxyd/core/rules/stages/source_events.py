"""What an outcome says of a source itself: how it fares, and the events that rules on SOURCE wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.programs.rule_program import AwaitedEvent
from proxyd.core.rules.source_health import ITEMS, SourceHealth, Spell
from proxyd.core.rules.source_requests import moved_url
from proxyd.core.rules.stages.context import Shape, SourceContext
from proxyd.core.rules.state import StoredEvent

_ERROR_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class SourceNews:
    """How a source fares after an outcome, and the events of the source itself.

    They are apart from the events of items: they say nothing of rates, and overwrite nothing.
    """

    health: SourceHealth
    events: tuple[StoredEvent, ...] = ()


def source_news(context: SourceContext, outcome: ProbeOutcome) -> SourceNews:
    """Return how a source fares after an outcome, and what happened to it.

    An event is a condition that has lasted as long as a rule asks for after the outcome, and had not before. So each is
    told once, and a restart changes nothing. A push, and a failure while proxyd itself is offline, say nothing.
    """
    before = context.state.health
    if outcome.is_push or context.is_excused:
        return SourceNews(before)
    after = _health_after(context, outcome)
    happened = [
        (awaited, facts)
        for awaited in sorted({program.awaited for program, _ in context.source_rules}, key=str)
        if (facts := _facts(awaited, before, after)) is not None
    ]
    events = tuple(
        _event(context, outcome, after, before.next_seq + number, *each) for number, each in enumerate(happened)
    )
    return SourceNews(replace(after, next_seq=before.next_seq + len(events)), events)


def silent_fields(context: SourceContext, outcome: ProbeOutcome) -> frozenset[str]:
    """Return the fields that have no value anywhere in a document, or ``ITEMS`` if it has no items.

    An item of a feed may leave out what it likes; so of a feed only its items are missed.
    """
    if not outcome.items:
        return frozenset({ITEMS})
    if context.shape is Shape.FEED:
        return frozenset()
    paths = (declared.path for declared in context.page_class.fields)
    return frozenset(path for path in paths if not _has_value(path.lower(), outcome.items))


def _has_value(path: str, items: Iterable[Item]) -> bool:
    return any(item.fields.get(path) not in {None, ""} for item in items)


def _health_after(context: SourceContext, outcome: ProbeOutcome) -> SourceHealth:
    before, now_s = context.state.health, outcome.finished_s
    health = replace(before, status=outcome.status, latency_s=max(0.0, now_s - outcome.started_s))
    if not outcome.kind.is_success:
        is_sure = before.is_sure or context.is_sure
        return replace(health, failing=Spell.continued(before.failing, now_s), is_sure=is_sure)
    target = _target(context, outcome)
    moved = None if target is None else before.moved if target == before.moved_url else None
    names: Collection[str] = before.silent
    if outcome.kind is OutcomeKind.CHANGED:
        names = silent_fields(context, outcome)
    return replace(
        health,
        failing=None,
        is_sure=False,
        moved_url=target,
        moved=None if target is None else Spell.continued(moved, now_s),
        silent={name: Spell.continued(before.silent.get(name), now_s) for name in sorted(names)},
    )


def _target(context: SourceContext, outcome: ProbeOutcome) -> str | None:
    """Return where the source is now: the target of its redirects, or the address that was asked instead of it."""
    target = outcome.permanent_url or moved_url(context.state, context.source)
    return None if target == context.source.url else target


def _facts(awaited: AwaitedEvent, before: SourceHealth, after: SourceHealth) -> Mapping[str, Value] | None:
    """Return what an event says beside the facts of its probe, or ``None`` if it did not happen."""
    return _HAPPENED[awaited.kind](awaited, before, after)


def _failed(awaited: AwaitedEvent, before: SourceHealth, after: SourceHealth) -> Mapping[str, Value] | None:
    has_failed = _is_failing(awaited, after) and not _is_failing(awaited, before)
    return {"source.since": after.failing.since_s} if has_failed and after.failing else None


def _recovered(awaited: AwaitedEvent, before: SourceHealth, after: SourceHealth) -> Mapping[str, Value] | None:
    has_recovered = _is_failing(awaited, before) and after.failing is None
    return {"source.since": before.failing.since_s} if has_recovered and before.failing else None


def _is_failing(awaited: AwaitedEvent, health: SourceHealth) -> bool:
    return health.is_sure and awaited.lasting.is_met(health.failing)


def _moved(awaited: AwaitedEvent, before: SourceHealth, after: SourceHealth) -> Mapping[str, Value] | None:
    was_told = before.moved_url == after.moved_url and awaited.lasting.is_met(before.moved)
    if after.moved is None or was_told or not awaited.lasting.is_met(after.moved):
        return None
    return {"source.since": after.moved.since_s}


def _emptied(awaited: AwaitedEvent, before: SourceHealth, after: SourceHealth) -> Mapping[str, Value] | None:
    is_met = awaited.lasting.is_met
    names = [name for name, spell in after.silent.items() if is_met(spell) and not is_met(before.silent.get(name))]
    if not names:
        return None
    return {"source.since": after.silent[names[0]].since_s, "source.silent": ", ".join(names)}


def _probed(_awaited: AwaitedEvent, _before: SourceHealth, after: SourceHealth) -> Mapping[str, Value]:
    return {"source.since": None if after.failing is None else after.failing.since_s}


_HAPPENED = {
    EventKind.FAILURE: _failed,
    EventKind.RECOVERY: _recovered,
    EventKind.MOVED: _moved,
    EventKind.EMPTY: _emptied,
    EventKind.PROBE: _probed,
}


def _event(
    context: SourceContext,
    outcome: ProbeOutcome,
    after: SourceHealth,
    seq: int,
    awaited: AwaitedEvent,
    facts: Mapping[str, Value],
) -> StoredEvent:
    """Return an event; its item is the source, called by what is awaited of it."""
    fields: dict[str, Value] = {
        "source.name": context.source.source_id,
        "source.url": context.source.url,
        "source.status": outcome.status,
        "source.latency": after.latency_s,
        "source.error": None if outcome.kind.is_success else error_of(outcome),
        "source.moved": after.moved_url,
        "source.silent": ", ".join(after.silent) or None,
    }
    item = Item(str(awaited), {**fields, **facts}, outcome.finished_s, str(seq))
    seen_s = outcome.finished_s
    return StoredEvent(seq, item, seen_s, seen_s, exact=False, seed=False, kind=awaited.kind)


def error_of(outcome: ProbeOutcome) -> str:
    """Return why a probe failed, in a line."""
    return " ".join((outcome.detail or outcome.kind.value).split())[:_ERROR_LENGTH]


def with_probe(outcome: ProbeOutcome) -> ProbeOutcome:
    """Return an outcome whose items also say how their probe went."""
    facts: dict[str, Value] = {
        "probe.status": outcome.status,
        "probe.latency": max(0.0, outcome.finished_s - outcome.started_s),
    }
    return replace(outcome, items=tuple(_with(item, facts) for item in outcome.items))


def _with(item: Item, facts: Mapping[str, Value]) -> Item:
    return replace(item, fields={**item.fields, **facts})
