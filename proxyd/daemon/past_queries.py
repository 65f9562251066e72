"""Answers about the past: which probes were made, what they found, and how intervals ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from proxyd.base.ports import Clock
from proxyd.core.errors import NotFoundError
from proxyd.core.language import find_named, find_source
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import PAGE_TEXT
from proxyd.core.rules.answers.item_fates import ItemFate, SourceSince, item_fate
from proxyd.core.rules.answers.number_series import NumberEvent, NumberSeries, number_series
from proxyd.core.rules.answers.shown_events import ShownEvent, shown_event
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.state import StoredEvent
from proxyd.daemon.declarations import Declarations
from proxyd.store.history import SqlHistory
from proxyd.store.listed_rows import DecidedInterval, MadeProbe, SeenItem, StoredNotification

_DAY_S = 86400.0
_PART, _MOST_NUMBERS, _MOST_CHARACTERS = 50, 500, 4_000_000  # of events whose numbers are shown
_MOST_FATES = 100  # rules of one source whose answers are shown


@dataclass(frozen=True, slots=True)
class ToldOf:
    """What a rule made of an event, the notification that told of it, and how the rule fails, if it does."""

    fate: ItemFate
    notification: StoredNotification | None
    failure: str | None


class PastQueries:
    """Answers from the stored probes, events and intervals of what is declared."""

    def __init__(self, decider: Decider, profiles: Declarations, history: SqlHistory, clock: Clock) -> None:
        self._known = decider.known
        self._profiles = profiles
        self._history = history
        self._clock = clock

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[MadeProbe]:
        """Return the probes of a source in the last days, newest first."""
        find_source(source_id, self._profiles.ready())
        found = await self._history.made_probes(source_id, before=before, limit=limit)
        seen = self._profiles.shown.rules
        if seen is self._profiles.declaration.rules:
            return found
        return [each if each.rule in seen else replace(each, rule=None) for each in found]

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[SeenItem]:
        """Return when items of a source were published and seen, newest first."""
        find_source(source_id, self._profiles.ready())
        return await self._history.seen_items(source_id, self._clock.time_s() - days * _DAY_S, limit=limit)

    async def shown_events(self, source_id: str, *, before: int | None, limit: int) -> list[ShownEvent]:
        """Return what happened to the items of a source, newest first; ``before`` is the position of an event."""
        find_source(source_id, self._profiles.ready())
        found = await self._history.events(source_id, before=before, limit=limit)
        first_s = self._first_contact_s(source_id)
        return await asyncio.to_thread(lambda: [shown_event(each, first_s) for each in found])

    def _first_contact_s(self, source_id: str) -> float | None:
        """Return when a source first answered; ``None`` if it has not, or another planner looks after it."""
        state = self._known.states.get(source_id)
        return None if state is None else state.first_contact_s

    async def item_fates(self, source_id: str, position: int) -> tuple[ShownEvent, list[ToldOf]]:
        """Return what happened to an item, and what each rule that reads its source made of it.

        Raises ``NotFoundError``: there is no event of that number.
        """
        rules, declared = self._profiles.ready().rules, self._profiles.ready()
        find_source(source_id, declared)
        event = await self._history.event(source_id, position)
        if event is None:
            raise NotFoundError(f"{source_id} has no item at {position}; it may be older than the setting retention")
        compiled = self._known.compiled
        programs = [each for each in compiled.programs_of(source_id) if not each.is_of_source]
        programs = [each for each in programs if each.rule.name in rules][:_MOST_FATES]
        since = SourceSince(compiled.declaration_s(source_id), self._first_contact_s(source_id))
        # The conditions of 100 rules may take a second, and the difference of a long page a third of one
        fates = await asyncio.to_thread(lambda: [item_fate(each, event, source_id, since) for each in programs])
        told = await self._history.notifications_of([each.notification_id for each in fates])
        answers = [await self._told_of(fate, told.get(fate.notification_id), source_id, event) for fate in fates]
        return await asyncio.to_thread(shown_event, event, since.first_contact_s), answers

    async def page_text(self, source_id: str, position: int) -> str | None:
        """Return the text of a page after an event, or ``None`` if the source is no text or nothing was there then."""
        if not self._profiles.ready().is_text_of_page(source_id):
            return None
        event = await self._history.event(source_id, position)
        text = None if event is None or event.kind is EventKind.DELETE else event.item.fields.get(PAGE_TEXT)
        return text if isinstance(text, str) else None

    async def numbers_of(self, source_id: str) -> list[NumberSeries]:
        """Return how the numbers of a source changed, of its newest events; none if its class has no numbers."""
        declared = self._profiles.ready()
        names = declared.page_class(find_source(source_id, declared)).numbers
        if not names:
            return []
        found: list[NumberEvent] = []
        before, size = None, 0
        while len(found) < _MOST_NUMBERS and size < _MOST_CHARACTERS:  # other fields may be long
            events = await self._history.events(source_id, before=before, limit=_PART)
            found += [NumberEvent.of(each, names) for each in events]
            if len(events) < _PART:
                break
            before = events[-1].seq
            size += sum(len(each) for event in events for each in event.item.fields.values() if isinstance(each, str))
        return number_series(found)

    async def _told_of(
        self, fate: ItemFate, own: StoredNotification | None, source_id: str, event: StoredEvent
    ) -> ToldOf:
        """Return the fate of an event with the notification that told of it, if one did."""
        if own is None and fate.is_counted:
            own = await self._history.next_notification(fate.rule, source_id, event.seen_s)
        failing = self._known.failing.of(fate.rule)
        return ToldOf(fate, own, None if failing is None else failing.reason)

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[DecidedInterval]:
        """Return the execution intervals of a rule that were decided in the last days, newest first."""
        find_named("rule", rule, self._profiles.ready().rules)
        return await self._history.intervals(rule, self._clock.time_s() - days * _DAY_S, limit=limit)
