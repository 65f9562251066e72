"""What an outcome says of a source itself: how it fares, and the events that rules on SOURCE wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from proxyd.core.model.expression import Duration
from proxyd.core.model.field_values import day_of, length_in_words, minute_of
from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import BUILT_IN_NAME, plain_name
from proxyd.core.model.site import SiteChecks
from proxyd.core.rules.known.compiled import url_after_move
from proxyd.core.rules.known.context import Shape, SourceContext
from proxyd.core.rules.known.state import ITEMS, UNKNOWN_HEALTH, SiteState, SourceHealth, StoredEvent, Term
from proxyd.core.rules.programs.rule_program import AwaitedEvent
from proxyd.core.rules.programs.stream_state import Lasting, Spell

_MOST_ERROR = 1000  # characters
_SLOW = Lasting(EventKind.SLOW.patience)


def source_news(context: SourceContext, outcome: ProbeOutcome) -> tuple[SourceHealth, tuple[StoredEvent, ...]]:
    """Return how a source fares after an outcome, and the events of the source itself.

    These are apart from the events of items: they say nothing of rates, and overwrite nothing.

    An event happens when, with this outcome, a condition has lasted as long as a rule asks, and had not before. So each
    is told once, and a restart changes nothing. A push says nothing, and neither does a failure while proxyd itself is
    offline. What is under way when a rule starts is a seed, for the rules that have not seen any event of the source.
    """
    before, site = context.state.health, context.source.site
    if outcome.is_push:
        return before, ()
    is_spared = site is not None and (
        outcome.kind is OutcomeKind.THROTTLED or site.maintenance_end_s(outcome.started_s) is not None
    )
    if context.is_excused or is_spared:
        return (before if site is None else replace(before, site=_site_as_before(before.site, outcome.finished_s))), ()
    after = _health_after(context, outcome)
    unseen = {program.awaited for program, stream in context.source_rules if not stream.seen}
    happened = [
        (awaited, happening)
        for awaited in sorted({program.awaited for program, _ in context.source_rules}, key=str)
        for happening in _happenings(awaited, before, after, is_new=awaited in unseen)
    ]
    events = tuple(
        _event(context, outcome, after, before.next_seq + number, *each) for number, each in enumerate(happened)
    )
    return (replace(after, next_seq=before.next_seq + len(events)) if events else after), events


def _silent_fields(context: SourceContext, outcome: ProbeOutcome) -> frozenset[str]:
    """Return the fields that should have a value and have none in a document, or ``ITEMS`` if it has no items."""
    if not outcome.items:
        return frozenset({ITEMS})
    if context.shape is Shape.FEED:
        return frozenset()  # items of feeds often lack fields
    paths = [declared.path for declared in context.page_class.fields]
    silent = frozenset(
        path for path in paths if all(item.fields.get(path.lower()) in {None, ""} for item in outcome.items)
    )
    # many shops state a price and no availability: that is how they are, and nothing that broke
    is_optional = context.page_class.domain == BUILT_IN_NAME and len(silent) < len(paths)
    return silent & {"price"} if is_optional else silent


def is_silent(context: SourceContext, outcome: ProbeOutcome) -> bool:
    """Whether a page has no value in any field, so that its probe cannot tell whether it changed."""
    fields = context.page_class.fields
    if context.shape is not Shape.PAGE or not fields or not outcome.kind.is_success:
        return False
    names = _silent_after(context, outcome)
    return ITEMS in names or all(declared.path in names for declared in fields)


def _silent_after(context: SourceContext, outcome: ProbeOutcome) -> Collection[str]:
    """Return the fields that are silent after a success; a document that did not change has those of the last one."""
    return _silent_fields(context, outcome) if outcome.kind is OutcomeKind.CHANGED else context.state.health.silent


def _site_as_before(before: SiteState | None, now_s: float) -> SiteState:
    """Return the state of a site after a probe that says nothing of it."""
    return (before or SiteState(now_s))._replace(seen_s=now_s, is_judged=False)


def _site_after(context: SourceContext, checks: SiteChecks, outcome: ProbeOutcome) -> SiteState:
    """Return what else is known of a site."""
    now_s = outcome.finished_s
    state = (context.state.health.site or SiteState(now_s))._replace(seen_s=now_s, is_judged=True)
    end_s, ahead_s = outcome.certificate_end_s, _seconds(checks.certificate, context)
    if end_s is not None:
        state = state._replace(certificate=(state.certificate or Term(end_s)).follow(end_s, ahead_s, now_s))
    answer = context.domain
    if answer is not None and answer.asked_s > state.asked_s:
        state = state._replace(domain_name=answer.name, asked_s=answer.asked_s, problem=answer.problem)
        if answer.end_s is not None:
            state = state._replace(domain=Term(answer.end_s) if state.domain is None else state.domain)
    if state.domain is not None:
        end_s = state.domain.end_s if answer is None or answer.end_s is None else answer.end_s
        state = state._replace(domain=state.domain.follow(end_s, _seconds(checks.domain, context), now_s))
    return state


def _seconds(ahead: Duration | None, context: SourceContext) -> float | None:
    return None if ahead is None else ahead.in_seconds(chronon_s=context.grid.length_s)


def _health_after(context: SourceContext, outcome: ProbeOutcome) -> SourceHealth:
    before, now_s = context.state.health, outcome.finished_s
    latency_s = max(0.0, now_s - outcome.started_s)
    if not outcome.kind.is_success:
        return replace(
            before,
            status=outcome.status,
            latency_s=latency_s,
            failing=Spell.continue_with(before.failing, now_s),
            is_sure=before.is_sure or context.is_sure,
            slow=None,
            site=None if context.source.site is None else _site_after(context, context.source.site, outcome),
        )
    target = _target(context, outcome)
    moved = None if target is None else before.moved if target == before.moved_url else None
    names = _silent_after(context, outcome)
    return before.with_answer(
        now_s,
        latency_s,
        status=outcome.status,
        failing=None,
        is_sure=False,
        moved_url=target,
        moved=None if target is None else Spell.continue_with(moved, now_s),
        silent={name: Spell.continue_with(before.silent.get(name), now_s) for name in sorted(names)},
        site=None if context.source.site is None else _site_after(context, context.source.site, outcome),
    )


def _target(context: SourceContext, outcome: ProbeOutcome) -> str | None:
    """Return where permanent redirects lead, by this probe or earlier ones; ``None`` if nowhere else."""
    target = outcome.permanent_url or url_after_move(context.state, context.source)
    return None if target == context.source.url else target


@dataclass(frozen=True, slots=True)
class _Happening:
    """Something that happened to a source: since when, which fields are silent, and what of it expires soon."""

    kind: EventKind
    since_s: float | None = None
    silent: str | None = None
    expiring: tuple[str, Term] | None = None
    is_under_way: bool = False


def _happenings(
    awaited: AwaitedEvent, before: SourceHealth, after: SourceHealth, *, is_new: bool
) -> Iterator[_Happening]:
    """Yield what happened; for a rule that is new, what is under way as well."""
    happens = _HAPPENED[awaited.kind]
    fresh = list(happens(awaited.lasting, before, after))
    yield from fresh
    if is_new and not fresh:
        yield from (replace(each, is_under_way=True) for each in happens(awaited.lasting, UNKNOWN_HEALTH, after))


def _failures(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    if after.failing and _is_failing(lasting, after) and not _is_failing(lasting, before):
        yield _Happening(EventKind.FAILURE, after.failing.since_s)


def _recoveries(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    if before.failing and _is_failing(lasting, before) and after.failing is None:
        yield _Happening(EventKind.RECOVERY, before.failing.since_s)


def _is_failing(lasting: Lasting, health: SourceHealth) -> bool:
    return health.is_sure and lasting.is_met(health.failing)


def _moves(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    was_told = before.moved_url == after.moved_url and lasting.is_met(before.moved)
    if after.moved and lasting.is_met(after.moved) and not was_told:
        yield _Happening(EventKind.MOVED, after.moved.since_s)


def _silences(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    is_met = lasting.is_met
    names = [name for name, spell in after.silent.items() if is_met(spell) and not is_met(before.silent.get(name))]
    if names:
        yield _Happening(EventKind.EMPTY, after.silent[names[0]].since_s, ", ".join(names))


def _troubles(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    for happened in (_failures, _recoveries, _moves, _silences):
        yield from happened(lasting, before, after)


def _slow_spells(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    if after.slow and lasting.is_met(after.slow) and not lasting.is_met(before.slow):
        yield _Happening(EventKind.SLOW, after.slow.since_s)


def _health_of_site(lasting: Lasting, before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    for happened in (_failures, _recoveries):
        yield from happened(lasting, before, after)
    yield from _slow_spells(_SLOW, before, after)
    if after.site is None:
        return
    was = before.site
    for name, term, known in (
        ("certificate", after.site.certificate, was and was.certificate),
        ("domain", after.site.domain, was and was.domain),
    ):
        if term is not None and term.is_told_since(known):
            yield _Happening(EventKind.HEALTH, term.told_s, expiring=(name, term))


def _probes(_lasting: Lasting, _before: SourceHealth, after: SourceHealth) -> Iterator[_Happening]:
    yield _Happening(EventKind.PROBE, after.failing and after.failing.since_s)


_HAPPENED = {
    EventKind.FAILURE: _failures,
    EventKind.RECOVERY: _recoveries,
    EventKind.MOVED: _moves,
    EventKind.EMPTY: _silences,
    EventKind.TROUBLE: _troubles,
    EventKind.SLOW: _slow_spells,
    EventKind.HEALTH: _health_of_site,
    EventKind.PROBE: _probes,
}


def _event(
    context: SourceContext,
    outcome: ProbeOutcome,
    after: SourceHealth,
    seq: int,
    awaited: AwaitedEvent,
    happening: _Happening,
) -> StoredEvent:
    """Return an event; its item is the source, with the awaited event as its id."""
    failure = " ".join((outcome.detail or outcome.kind.value).split())[:_MOST_ERROR]
    error = None if outcome.kind.is_success else failure
    fields: dict[str, Value] = {
        "source.name": plain_name(context.source.source_id),
        "source.url": context.source.url,
        "source.status": outcome.status,
        "source.latency": None if after.latency_s is None else round(after.latency_s, 4),
        "source.error": error,
        "source.since": happening.since_s,
        "source.moved": after.moved_url,
        "source.silent": happening.silent or ", ".join(after.silent) or None,
        "source.trouble": _in_words(happening, after, error, context, outcome)
        if awaited.kind is not EventKind.HEALTH or happening.kind is EventKind.SLOW
        else _site_in_words(happening, after, error, context, outcome.finished_s),
    }
    item = Item(str(awaited), fields, outcome.finished_s, str(seq))
    seen_s = outcome.finished_s
    return StoredEvent(seq, item, seen_s, seen_s, exact=False, seed=happening.is_under_way, kind=awaited.kind)


def _pause(context: SourceContext, outcome: ProbeOutcome) -> str:
    """Return why a success is known late, if the host had asked for a pause that was longer than the spacing."""
    failing, until_s = context.state.health.failing, context.throttled_until_s
    if failing is None or not failing.last_s + context.spacing_s < until_s <= outcome.started_s:
        return ""
    return f"; its host had asked for a pause until {minute_of(until_s, context.zone)}"


def _in_words(
    happening: _Happening, after: SourceHealth, error: str | None, context: SourceContext, outcome: ProbeOutcome
) -> str | None:
    """Return what happened as the predicate of a sentence about the source; ``None`` for a probe."""
    since = "" if happening.since_s is None else minute_of(happening.since_s, context.zone)
    slow_s = after.latency_s or 0.0
    words = {
        EventKind.FAILURE: f"has failed since {since}: {error}",
        EventKind.RECOVERY: f"answers again after failing since {since}{_pause(context, outcome)}",
        EventKind.MOVED: f"has moved to {after.moved_url}",
        EventKind.SLOW: f"has been slow since {since}: {slow_s:.1f} s, usually {after.usual_s:.1f} s at most",
        EventKind.EMPTY: f"has shown no {happening.silent} since {since}",
    }
    return words.get(happening.kind)


def _site_in_words(
    happening: _Happening, after: SourceHealth, error: str | None, context: SourceContext, now_s: float
) -> str:
    """Return what happened to a site as the predicate of a sentence about it."""
    since_s = now_s if happening.since_s is None else happening.since_s
    if happening.expiring is not None:
        name, term = happening.expiring
        of = f", {after.site.domain_name}," if name == "domain" and after.site and after.site.domain_name else ""
        day = day_of(term.end_s, context.zone)
        return f"has a {name}{of} that expires in {length_in_words(term.end_s - now_s)} ({day})"
    if happening.kind is EventKind.RECOVERY:
        return f"is up again after {length_in_words(now_s - since_s)}"
    return f"is down since {minute_of(since_s, context.zone)}: {error}"


def with_probe(outcome: ProbeOutcome) -> ProbeOutcome:
    """Return an outcome whose items also say how their probe went."""
    facts: dict[str, Value] = {
        "probe.status": outcome.status,
        "probe.latency": max(0.0, outcome.finished_s - outcome.started_s),
    }
    items = (replace(item, fields={**item.fields, **facts}) for item in outcome.items)
    return replace(outcome, items=tuple(items))
