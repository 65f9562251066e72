"""Derives events from the items that a probe found: what came, changed or went, when, and what was not seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import expm1, inf

from proxyd.core.model.field_values import coerce, differ
from proxyd.core.model.item import EventKind, Item, is_cut
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Field
from proxyd.core.rates.rate_blend import ChangedBit, Evidence, ItemCount, ItemTimes, plausible_times
from proxyd.core.rules.known.context import Shape, SourceContext
from proxyd.core.rules.known.state import ITEMS, SourceState, StoredEvent
from proxyd.core.rules.stages.identities import (
    Identities,
    find_identities,
    find_old_items,
    find_row_identities,
    has_been_empty,
    is_first_page,
)
from proxyd.core.rules.stages.source_events import is_silent, with_probe

_CLOCK_TOLERANCE_S = 1.0
"""How far the clocks of a source and of proxyd may differ; feeds also truncate times to seconds."""
_SHORTEST_HISTORY_S = 1.0
_FEWEST_DATED = 3  # items whose dates can show that those of others are made up
_MAKING_S = 1e-3  # for each item: how long a program that dates all of them as it makes the page may take
_ASKED_S = 5.0  # how long before the request the page may have been made
_MOST_MOVED = 0.75  # share of the known items; people edit some of their posts, a program dates all pages


def _evidence_of_history(items: Sequence[Item], seen_s: float) -> Evidence | None:
    """Return the evidence in a feed's own history: the gaps between its items up to now."""
    times = _plausible_event_times(items, seen_s)
    if len(times) < 2 or times[0] >= seen_s:
        return None
    return ItemTimes(min(times[0], seen_s - _SHORTEST_HISTORY_S), seen_s, tuple(times[1:]))


def _plausible_event_times(items: Sequence[Item], seen_s: float) -> Sequence[float]:
    latest_s = seen_s + _CLOCK_TOLERANCE_S
    times = (item.published_s for item in items if item.published_s is not None and item.published_s <= latest_s)
    return plausible_times(sorted(min(time_s, seen_s) for time_s in times), seen_s)


def _evidence_of(events: Sequence[StoredEvent], since_s: float, seen_s: float, *, overflowed: bool) -> Evidence:
    """Return the evidence of new items; if the window overflowed, it begins at the oldest item still shown."""
    if events and all(event.exact and event.event_s >= since_s for event in events):
        times_s = tuple(event.event_s for event in events)
        if not overflowed:
            return ItemTimes(since_s, seen_s, times_s)
        if times_s[0] < seen_s:
            return ItemTimes(times_s[0], seen_s, times_s[1:])
    return ItemCount(since_s, seen_s, len(events), at_least=overflowed)


def lost_items(
    items: Sequence[Item], new: Sequence[Item], state: SourceState, *, seen_s: float, rate_per_s: Callable[[], float]
) -> float | None:
    """Return the estimated number of items lost if a window of new items misses what was seen, else ``None``."""
    if not items or len(new) < len(items) or state.next_seq == 1 or state.last_success_s is None:
        return None
    times = _plausible_event_times(items, seen_s)
    if not times:
        return max(0.0, rate_per_s() * (seen_s - state.last_success_s) - len(items))
    gap_s = times[0] - max(state.newest_s or state.last_success_s, state.last_success_s)
    if gap_s <= 0:
        return None
    span_s = times[-1] - times[0]
    # The gap is filled at the rate that the window itself shows, if that is not one of items that came at once.
    rate = (len(times) - 1) / span_s if span_s > _CLOCK_TOLERANCE_S else rate_per_s()
    return max(0.0, rate * gap_s - 1.0)


_UNCHANGED = {OutcomeKind.SAME_BODY, OutcomeKind.NOT_MODIFIED}
_MISSING_AFTER = 3  # probes in a row that must not find a page before it counts as gone; 410 (gone) counts at once
_EMPTY_AFTER = 2  # probes in a row that must find a list empty, or at first no page, before that counts
_UPDATED = "channel.item.updated"


@dataclass(frozen=True, slots=True)
class WindowEvents:
    """The events in a whole window of items, and the evidence in it."""

    # the events in the order in which they are taken: by time, then from the oldest place in the document, removals
    # last
    events: tuple[StoredEvent, ...] = ()
    edited: tuple[Item, ...] = ()  # known items with another content or time
    evidence: Evidence | None = None  # what the window says about the update rate; ``None`` if it says nothing
    lost_items: float = 0.0  # estimated number of items that slid off, or were overwritten, unseen since the last probe
    # the former and the new identity of stored items that go on under the new one
    renamed: tuple[tuple[str, str], ...] = ()
    # updates of a feed's items that no rule waits for, or that none of its fields shows, numbered after the events;
    # ``old`` is not known
    unawaited: tuple[StoredEvent, ...] = ()
    mass_s: tuple[float, ...] = ()  # times of items in the evidence that came in mass changes


_NO_EVENTS = WindowEvents()


@dataclass(frozen=True, slots=True)
class Discovery:
    """What the outcome of one probe says about the source's items."""

    outcome: ProbeOutcome  # the outcome as it counts; one that a push overtook counts as unchanged
    window: WindowEvents = _NO_EVENTS
    is_seen: bool = False  # whether the source's state was seen: the probe succeeded, a hub pushed, or the page is gone
    # whether the page, or all its rows, may be gone; the next probe, which is made soon, must confirm it
    is_doubtful: bool = False
    present: tuple[str, ...] = ()  # the ids of the items that it shows
    unfit_values: int = 0  # number of values that do not fit their declared type and read as null
    starts_afresh: bool = False  # whether the stored items belong to another document
    changed_guids: int = 0  # number of items whose guid changed; they were recognised by their content
    # the kinds of events that rules wait for; other updates are only kept for people
    kept_kinds: frozenset[EventKind] = frozenset(EventKind)

    @property
    def events(self) -> tuple[StoredEvent, ...]:
        """The events of the window."""
        return self.window.events

    @property
    def unawaited(self) -> list[StoredEvent]:
        """The updates that no rule waits for."""
        awaited = EventKind.UPDATE in self.kept_kinds
        own = [] if awaited else [each for each in self.events if each.kind is EventKind.UPDATE]
        return [*own, *self.window.unawaited]

    @property
    def updates(self) -> int:
        """The number of items that changed."""
        return sum(e.kind is EventKind.UPDATE for e in self.events) + len(self.window.unawaited)

    @property
    def delays_s(self) -> list[float]:
        """The delays from publication to discovery of what was found with a time of its own."""
        return [e.seen_s - e.event_s for e in self.events if e.exact and not e.seed]

    @property
    def items_without_time(self) -> int:
        """How much of what was found has no such delay."""
        return sum(not e.exact and not e.seed for e in self.events)


@dataclass(frozen=True, slots=True)
class _Change:
    """An event before ordering; ``time_s`` is the source's own time."""

    kind: EventKind
    item: Item
    time_s: float | None
    old: Item | None = None


def find_events(
    context: SourceContext, outcome: ProbeOutcome, known: Mapping[str, Item], shown: Sequence[Item] = ()
) -> Discovery:
    """Return the events in an outcome; ``known`` holds the stored items needed, ``shown`` the last ones if read."""
    if context.source.site is not None:  # it has no items; a page that is not found is not gone, but a failure
        return Discovery(outcome, is_seen=outcome.kind.is_success)
    outcome = _as_it_counts(context, with_probe(outcome) if context.reads_probe else outcome)
    if not (outcome.is_push or outcome.kind.is_success or _has_vanished(context, outcome)):
        # a page that was there before, but is missed not yet often enough to be gone
        is_known_page = context.shape is not Shape.FEED and context.state.first_contact_s is not None
        return Discovery(outcome, is_doubtful=outcome.is_missing and is_known_page)
    if _is_emptied(context, outcome, known):
        detail = f"{outcome.detail}; if the next probe finds no rows either, they count as deleted"
        unseen = replace(outcome, kind=OutcomeKind.SAME_BODY, validators=NO_VALIDATORS, body_hash=None, detail=detail)
        return Discovery(unseen, is_doubtful=True)
    is_feed = context.shape is Shape.FEED
    seen_s = outcome.finished_s
    if outcome.kind in _UNCHANGED:  # most probes: there is no item to be identified
        found = Identities({})
    elif is_feed:
        found = find_identities(outcome.items, known, shown, seen_s=seen_s)
    else:
        found = find_row_identities(outcome.items, known, context.page_class)
        items = (item.with_memory_of(found.known.get(item.item_id)) for item in outcome.items)
        outcome = replace(outcome, items=tuple(items))
    if found.changed_guids:
        detail = f"{outcome.detail}; guids changed: {found.changed_guids} items recognised by their content"
        outcome = replace(outcome, detail=detail)
    if is_feed and outcome.items and not outcome.is_push:
        found = _without_old(context, outcome, found, shown)
    if context.starts_afresh:
        found = replace(found, known={})  # the stored items are another document's
    window = _window(context, outcome, found)
    if is_silent(context, outcome):
        window = replace(window, evidence=None)
    return Discovery(
        outcome,
        window,
        is_seen=True,
        present=() if outcome.is_push else tuple(item.item_id for item in outcome.items),
        unfit_values=outcome.misfits + sum(_unfit_values(context, event.item) for event in window.events),
        starts_afresh=context.starts_afresh,
        changed_guids=found.changed_guids,
        kept_kinds=context.kinds_to_await,
    )


def _without_old(context: SourceContext, outcome: ProbeOutcome, found: Identities, shown: Sequence[Item]) -> Identities:
    """Return the identities with the unknown items of the page that are not news."""
    last_s = context.state.last_success_s
    if context.state.first_contact_s is None or last_s is None or outcome.is_unordered:
        return found
    items = _newest_first(_distrust_constant(outcome.items))
    if is_first_page(context.state, items, found.known):
        return found
    old = find_old_items(items, found.known, shown, last_s=last_s, is_moved=outcome.is_redirected)
    return replace(found, old=found.old | old)


def _as_it_counts(context: SourceContext, outcome: ProbeOutcome) -> ProbeOutcome:
    """Return the outcome; if a hub pushed a newer document while the probe ran, it counts as unchanged."""
    pushed_s = context.state.last_push_s
    is_older = pushed_s is not None and not outcome.is_push and outcome.started_s < pushed_s
    if is_older and context.shape is not Shape.FEED and outcome.kind is OutcomeKind.CHANGED:
        return replace(outcome, kind=OutcomeKind.SAME_BODY, items=(), validators=NO_VALIDATORS, body_hash=None)
    return outcome


def _has_vanished(context: SourceContext, outcome: ProbeOutcome) -> bool:
    """Return whether a page is gone; a single 404 may be a mistake of the origin."""
    if context.shape is Shape.FEED:
        return False
    needed = _EMPTY_AFTER if context.state.first_contact_s is None else _MISSING_AFTER
    is_missing_again = outcome.is_missing and context.state.missing + 1 >= needed
    return outcome.kind is OutcomeKind.GONE or is_missing_again


def _is_emptied(context: SourceContext, outcome: ProbeOutcome, known: Mapping[str, Item]) -> bool:
    """Return whether a list that had rows is empty for the first time, which may be a mistake of the origin."""
    is_empty = outcome.kind is OutcomeKind.CHANGED and not (outcome.items or outcome.truncated or outcome.is_push)
    is_list = context.shape is Shape.ROWS and bool(known) and not context.starts_afresh
    return is_empty and is_list and context.state.missing + 1 < _EMPTY_AFTER


def _gone_s(context: SourceContext, outcome: ProbeOutcome) -> float | None:
    """Return when what is gone now was first missed; 410 says so at once."""
    health = context.state.health
    spell = health.silent.get(ITEMS) if outcome.kind.is_success else health.failing
    return None if spell is None or context.state.missing == 0 else spell.since_s


def _window(context: SourceContext, outcome: ProbeOutcome, found: Identities) -> WindowEvents:
    """Return what the items of an outcome, the whole window in document order, add to what is known.

    Items of one time, or without one, are taken from the end of a document that lists the newest first.
    At first contact every item is a seed: it is not an event, but its time is evidence.
    """
    state, seen_s, known = context.state, outcome.finished_s, found.known
    if outcome.kind in _UNCHANGED:
        return WindowEvents(evidence=None if state.watched_s is None else ItemCount(state.watched_s, seen_s, 0))
    items = _newest_first(_distrust_constant(outcome.items))[::-1]
    new = [item for item in items if item.item_id not in known and item.item_id not in found.old]
    misdated = _find_misdated(items, known, last_s=state.last_success_s, asked_s=outcome.started_s)
    edited = tuple(item for item in items if _is_edited(item, known) or _is_moved(item, known))
    if state.first_contact_s is None or state.last_success_s is None:
        first = _without_dates(new, misdated)
        return WindowEvents(
            _seeds(first, state, seen_s), edited, _evidence_of_history(first, seen_s), renamed=found.renamed
        )
    is_feed, is_pushed = context.shape is Shape.FEED, outcome.is_push
    is_first = is_feed and not is_pushed and is_first_page(state, items, known)
    silent = _seeds(_silent(items, new, found.old, state, is_first=is_first), state, seen_s)
    old = found.old.union(event.item.item_id for event in silent)
    changes = list(_changes(context, outcome, items, replace(found, old=old)))
    if misdated:  # what is stored keeps the date that is shown, by which others are found out later
        changes = [replace(each, time_s=None) if each.item.item_id in misdated else each for each in changes]
    events = _clip_times(changes, replace(state, next_seq=state.next_seq + len(silent)), state.last_success_s, seen_s)
    since_s = state.watched_s or state.last_success_s
    if context.shape is Shape.PAGE:
        return _page(context, WindowEvents(events, edited, renamed=found.renamed), since_s, seen_s)
    news, lost = [item for item in new if item.item_id not in old], None
    if is_feed and not is_pushed:
        dated = _without_dates(items, misdated)
        lost = lost_items(dated, news, state, seen_s=seen_s, rate_per_s=lambda: context.rate_per_s(seen_s))
    evidence = _evidence_of(events, since_s, seen_s, overflowed=lost is not None)
    window = WindowEvents((*silent, *events), edited, evidence, lost or 0.0, found.renamed)
    if not is_feed:
        return window
    told = found.quiet.union(event.item.item_id for event in events)
    updates = [
        _Change(EventKind.UPDATE, item, _time_of_update_s(item))
        for item in edited
        if item.item_id not in told and _is_edited(item, known)
    ]
    after = replace(state, next_seq=state.next_seq + len(window.events))
    return replace(window, unawaited=_clip_times(updates, after, state.last_success_s, seen_s))


def _unfit_values(context: SourceContext, item: Item) -> int:
    """Count the item's values that do not fit their declared type; rules read them as null."""
    return sum(
        value is not None and coerce(value, declared.type, path=declared.path.lower()) is None
        for declared in context.page_class.fields
        for value in [item.fields.get(declared.path.lower())]
    )


def _is_newest_first(items: Sequence[Item]) -> bool:
    """Return whether a document lists its newest items first, which is so unless its dated items show otherwise.

    >>> _is_newest_first([Item(str(n), {}, float(n), "") for n in (1, 2, 3)]), _is_newest_first([])
    (False, True)
    """
    times = [item.published_s for item in items if item.published_s is not None]
    return sum(b < a for a, b in pairwise(times)) >= sum(b > a for a, b in pairwise(times))


def _newest_first(items: Sequence[Item]) -> Sequence[Item]:
    return items if _is_newest_first(items) else items[::-1]


def _silent(
    items: Sequence[Item], new: Sequence[Item], old: Collection[str], state: SourceState, *, is_first: bool
) -> list[Item]:
    """Return the items that are stored without being news by themselves; ``is_first`` says that this is a first page.

    Old ones lose their time, and so count for no rule. Those of a feed's first page keep it, and so count for rules
    that start before it; later than the first contact they are news, as are those without a time if the feed was
    surely empty before.
    """
    known_before = [replace(item, published_s=None) for item in items if item.item_id in old]
    if not is_first:
        return known_before
    contact_s, is_surely_new = state.first_contact_s or 0.0, has_been_empty(state)
    of_first = (each for each in new if _latest_s(each, inf if is_surely_new else 0.0) <= contact_s)
    return [*known_before, *of_first]


def _latest_s(item: Item, undated_s: float) -> float:
    """Return when an item was published at the latest: most feeds leave out the parts of a second."""
    at_s = item.published_s or undated_s
    return at_s + 1.0 if at_s.is_integer() and item.published_s else at_s


def _is_edited(item: Item, known: Mapping[str, Item]) -> bool:
    before = known.get(item.item_id)
    return before is not None and before.content_hash != item.content_hash


def _is_moved(item: Item, known: Mapping[str, Item]) -> bool:
    """Return whether a known item shows another time; the stored one tells later whether a time has moved again."""
    before = known.get(item.item_id)
    times_s = (None, None) if before is None else (before.published_s, item.published_s)
    return None not in times_s and times_s[0] != times_s[1]


def _changes(
    context: SourceContext, outcome: ProbeOutcome, items: Sequence[Item], found: Identities
) -> Iterator[_Change]:
    """Yield what happened, in the order of the items; removals come last."""
    is_feed, fields, nullable_paths = context.shape is Shape.FEED, context.page_class.fields, context.nullable_paths
    has_updates = not is_feed or EventKind.UPDATE in context.kinds_to_await
    for item in items:
        before = found.known.get(item.item_id)
        if item.item_id in found.quiet or item.item_id in found.old:
            continue
        if before is None:
            yield _Change(EventKind.INSERT, item, item.published_s)
        elif has_updates and _is_update(item, before, fields, nullable_paths):
            yield _Change(EventKind.UPDATE, item, _time_of_update_s(item) if is_feed else None, before)
    if not is_feed and not outcome.truncated:
        present, gone_s = {item.item_id for item in items}, _gone_s(context, outcome)
        gone = (item for key, item in found.known.items() if key not in present)
        yield from (_Change(EventKind.DELETE, item, gone_s) for item in gone)


def _is_update(item: Item, before: Item, fields: Sequence[Field], nullable_paths: frozenset[str]) -> bool:
    """Return whether a known item's content changed so that one of its fields shows it, or may show it."""
    if before.content_hash == item.content_hash:
        return False
    # a value that comes back after a silence is no update if it is the last known one
    old = before.with_last_known(item, nullable_paths)
    return not (fields and before.fields) or any(_differs(each, old, item) for each in fields)


def _differs(field: Field, before: Item, item: Item) -> bool:
    path = field.path.lower()
    old, new = before.fields.get(path), item.fields.get(path)
    return differ(old, new, field.type, path) or is_cut(new)  # beyond the stored part of a text nothing can be shown


def _time_of_update_s(item: Item) -> float | None:
    updated_s = item.fields.get(_UPDATED)
    return updated_s if isinstance(updated_s, float) else None


def _distrust_constant(items: Sequence[Item]) -> Sequence[Item]:
    """Drop the times of a feed that gives the same time to all its items."""
    times = {item.published_s for item in items}
    if len(items) < _FEWEST_DATED or len(times) > 1 or None in times:
        return items
    return [replace(item, published_s=None) for item in items]


def _find_misdated(
    items: Sequence[Item], known: Mapping[str, Item], *, last_s: float | None, asked_s: float
) -> frozenset[str]:
    """Return the ids of unknown items whose dates say when the document was made, and not when they came.

    Either the making took all dates, one after the other; or it gave most of the known items a new one since the last
    probe, at ``last_s``, and that of the unknown one is not apart from these.
    """
    new = {item.item_id: item.published_s for item in items if item.item_id not in known}
    if not new:
        return frozenset()
    times_s = [item.published_s for item in items if item.published_s is not None]
    is_complete = _FEWEST_DATED <= len(times_s) == len(items)
    if is_complete and min(times_s) > asked_s - _ASKED_S and max(times_s) - min(times_s) < _MAKING_S * len(items):
        return frozenset(new)
    again = [(item.published_s, _is_moved(item, known)) for item in items if item.item_id in known]
    dated = [(at_s, has_moved) for at_s, has_moved in again if at_s is not None]
    moved_s = [at_s for at_s, has_moved in dated if has_moved and at_s > (inf if last_s is None else last_s)]
    if len(moved_s) < max(_FEWEST_DATED, _MOST_MOVED * len(dated)):
        return frozenset()
    apart_s = max(moved_s) - min(moved_s)
    first_s, end_s = min(moved_s) - apart_s, max(moved_s) + apart_s
    return frozenset(name for name, at_s in new.items() if at_s is not None and first_s <= at_s <= end_s)


def _without_dates(items: Sequence[Item], misdated: Collection[str]) -> Sequence[Item]:
    if not misdated:
        return items
    return [replace(item, published_s=None) if item.item_id in misdated else item for item in items]


def _seeds(new: Sequence[Item], state: SourceState, seen_s: float) -> tuple[StoredEvent, ...]:
    def time_s(item: Item) -> float:
        return min(item.published_s, seen_s) if item.published_s is not None else seen_s

    order = sorted(range(len(new)), key=lambda i: (time_s(new[i]), i))
    return tuple(
        StoredEvent(
            seq=state.next_seq + number,
            item=new[index],
            event_s=time_s(new[index]),
            seen_s=seen_s,
            exact=_is_within(new[index].published_s, -inf, seen_s),
            seed=True,
        )
        for number, index in enumerate(order)
    )


def _clip_times(
    changes: Sequence[_Change], state: SourceState, since_s: float, seen_s: float
) -> tuple[StoredEvent, ...]:
    """Clip the source's times to (last probe, now]; use the middle if there is no time."""

    def time_s(change: _Change) -> float:
        if change.time_s is None:
            return min((since_s + seen_s) / 2, seen_s)  # the clock may have been set back between the probes
        return min(max(change.time_s, since_s), seen_s)

    def key(index: int) -> tuple[float, float, int]:
        change = changes[index]
        return time_s(change), time_s(change) if change.time_s is None else change.time_s, index

    return tuple(
        StoredEvent(
            seq=state.next_seq + number,
            item=changes[index].item,
            event_s=time_s(changes[index]),
            seen_s=seen_s,
            exact=changes[index].kind is not EventKind.DELETE and _is_within(changes[index].time_s, since_s, seen_s),
            seed=False,
            kind=changes[index].kind,
            old=changes[index].old,
        )
        for number, index in enumerate(sorted(range(len(changes)), key=key))
    )


def _is_within(time_s: float | None, since_s: float, until_s: float) -> bool:
    """Whether an item's own time is plausible; feeds truncate times to seconds, and clocks differ a little."""
    return time_s is not None and since_s - _CLOCK_TOLERANCE_S <= time_s <= until_s + _CLOCK_TOLERANCE_S


def _page(context: SourceContext, window: WindowEvents, since_s: float, seen_s: float) -> WindowEvents:
    """Return whether a one-item source changed; the number of changes, and of unseen overwrites, is estimated."""
    has_changed = bool(window.events)
    # of a Poisson process that expects x events, x / (1 - exp(-x)) are expected given at least one
    expected = context.rate_per_s(seen_s) * (seen_s - since_s) if has_changed else 0.0
    lost = expected / -expm1(-expected) - 1.0 if expected > 1e-9 else 0.0
    return replace(window, evidence=ChangedBit(since_s, seen_s, has_changed), lost_items=lost)
