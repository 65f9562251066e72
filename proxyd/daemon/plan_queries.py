"""Answers about the plan: which probes come and why, and how intervals ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from proxyd.base.clock import Signal
from proxyd.base.ports import Clock
from proxyd.core.errors import BusyError, ConflictError
from proxyd.core.language import no_such, no_such_source
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rules.answers.advice import Advice, advise
from proxyd.core.rules.answers.explanation import (
    Explainer,
    Explanation,
    KeptPromise,
    RuleWeek,
    fallen_shortest,
    promises_kept,
)
from proxyd.core.rules.answers.shown_events import ShownEvent, shown_event
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import Compiled
from proxyd.core.rules.known.estimates import Misfit
from proxyd.core.rules.known.rule_counts import CaptureCounts
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.plan_loop import in_parts
from proxyd.daemon.source_choices import SourceChoice, SourceChoices
from proxyd.store import SqlStore
from proxyd.store.told_rows import DecidedInterval, FoundItem, MadeProbe, RecentItems, SeenItem


@dataclass(frozen=True, slots=True)
class Report:
    """What was found and predicted on each day with data (since 1970-01-01, UTC), and models that now fit badly.

    ``promises`` compares what rules promise with what they kept, week by week. If there are many, it holds those that
    fell shortest, and ``promises_left_out`` counts the others.
    """

    days: tuple[tuple[int, Calibration], ...]
    off: tuple[Misfit, ...]
    promises: tuple[KeptPromise, ...] = ()
    promises_left_out: int = 0


@dataclass(frozen=True, slots=True)
class _AskedProbe:
    """A probe that somebody asked for: when it can start, in unix seconds, and what it waits for.

    It is under way already if ``is_under_way``.
    """

    source_id: str
    at_s: float
    waits_for: str | None = None
    is_under_way: bool = False


_MOST_WEEKS = 4  # that are remembered
_Totals: TypeAlias = Mapping[str, RuleWeek]
_NOTHING: tuple[int | None, _Totals] = (None, MappingProxyType({}))


class RuleWeeks:
    """Adds up the stored intervals of each rule and week, and remembers the sums of the newest weeks.

    A report of a fleet reads a million intervals. Stored intervals are numbered and do not change.
    """

    def __init__(self, store: SqlStore) -> None:
        self._history = store.history
        self._known: dict[tuple[float, float], tuple[int | None, _Totals]] = {}

    async def of(self, week_s: float, within_s: float) -> list[RuleWeek]:
        """Return what became of each rule's intervals in the week that began then; ``in_time`` is within the time."""
        after, totals = self._known.get((week_s, within_s), _NOTHING)
        newest = await self._history.newest_interval()
        if after is not None and newest < after:  # all were deleted, and their numbers begin again
            after, totals = _NOTHING
        if after is None or newest > after:
            found = await self._history.rule_week(week_s, week_s + WEEK_S, within_s, after=after, until=newest)
            totals = await asyncio.to_thread(_together, totals, found)
            self._known[week_s, within_s] = newest, totals
            for old in sorted(self._known)[:-_MOST_WEEKS]:
                del self._known[old]
        return list(totals.values())


def _together(totals: _Totals, found: Iterable[RuleWeek]) -> _Totals:
    """Return the sums of both.

    >>> week = RuleWeek(0.0, "r", intervals=10, captured=9, in_time=8, utility=9.0)
    >>> _together({"r": week}, [week])["r"].captured
    18
    """
    together = dict(totals)
    for each in found:
        known = together.get(each.rule)
        together[each.rule] = each if known is None else _sum(known, each)
    return together


def _sum(one: RuleWeek, other: RuleWeek) -> RuleWeek:
    return replace(
        one,
        intervals=one.intervals + other.intervals,
        captured=one.captured + other.captured,
        in_time=one.in_time + other.in_time,
        utility=one.utility + other.utility,
    )


_DAY_S = 86400.0
_MOST_ASKED = 1000  # sources of one request to probe now
_ADVICE_KEPT_S = 60.0
_MOST_PROMISES = 1000  # of rules and weeks, in a report


@dataclass(frozen=True, slots=True)
class _KeptAdvice:
    """Advice for a plan and a declaration, and when it is too old."""

    advice: Advice
    week: WeekPlan | None
    compiled: Compiled
    until_s: float


class PlanQueries:
    """Answers from the decider's plan and the stored probes."""

    def __init__(self, decider: Decider, profiles: Declarations, store: SqlStore, clock: Clock) -> None:
        self._explainer = Explainer.of(decider)
        self._decider = decider
        self._planner = decider.planner
        self._known = decider.known
        self._choices = SourceChoices(decider.known, clock)
        self._weeks = RuleWeeks(store)
        self._profiles = profiles
        self._store = store
        self._clock = clock
        self._advising = asyncio.Lock()
        self._advised: _KeptAdvice | None = None

    def plan(self, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes."""
        return self._explainer.plan(self._next_chronon(), limit=limit)

    async def plan_of(self, source_id: str, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes of one source, computed in a thread from a copy of it."""
        preview = self._explainer.preview_of(source_id, self._next_chronon())
        return await asyncio.to_thread(lambda: list(islice(preview, limit)))

    async def advise(self) -> Advice:
        """Return what other budgets would capture, computed in a thread from a copy of the rules' demands.

        It is kept for a minute, unless there is another plan or declaration.
        """
        async with self._advising:  # who asks meanwhile gets the same
            now_s, week, compiled = self._clock.time_s(), self._planner.week, self._known.compiled
            kept = self._advised
            if kept is None or kept.week is not week or kept.compiled is not compiled or now_s >= kept.until_s:
                ahead = await in_parts(self._explainer.ahead(self._next_chronon()))
                found = await asyncio.to_thread(lambda: advise(self._planner.settings, week, ahead.forecast()))
                kept = self._advised = _KeptAdvice(found, week, compiled, now_s + _ADVICE_KEPT_S)
            return kept.advice

    async def report(self, *, days: int, with_promises: bool = True) -> Report:
        """Return what was found and predicted on each day, and the sources whose models fit badly."""
        since_s = self._clock.time_s() - (days - 1) * _DAY_S
        accounts = tuple(await self._store.history.accounts(since_s))
        if not with_promises:
            return Report(accounts, tuple(self._explainer.misfits()))
        promises, count = await self._promises(max(since_s, accounts[0][0] * _DAY_S) if accounts else since_s)
        left_out = count - len(promises)
        return Report(accounts, tuple(self._explainer.misfits()), tuple(promises), promises_left_out=left_out)

    async def _promises(self, since_s: float) -> tuple[list[KeptPromise], int]:
        """Return what rules kept of their promises in each week since a time, of many the worst, and their number."""
        worst: list[KeptPromise] = []
        count = 0
        week_s = MONDAY_S + (since_s - MONDAY_S) // WEEK_S * WEEK_S
        while week_s < self._clock.time_s():
            found = await self._kept_by_all(week_s)
            count += len(found)
            worst = await asyncio.to_thread(fallen_shortest, [*worst, *found], _MOST_PROMISES)
            week_s += WEEK_S
        return worst, count

    async def kept(self, source_id: str) -> list[KeptPromise]:
        """Return what rules kept of their promises for a source in the last seven days."""
        since_s, within_s, read = self._clock.time_s() - WEEK_S, self._within_s, self._store.history.rule_week
        return await self._kept(lambda: read(since_s, since_s + WEEK_S, within_s, source_id=source_id))

    async def _kept_by_all(self, week_s: float) -> list[KeptPromise]:
        """Return what all rules kept of their promises in the week that began then."""
        return await self._kept(lambda: self._weeks.of(week_s, self._within_s))

    async def _kept(self, read: Callable[[], Awaitable[list[RuleWeek]]]) -> list[KeptPromise]:
        """Return what rules kept of their promises, if they have targets; only then are their intervals read."""
        settings, programs = self._planner.settings, self._known.compiled.programs
        if not settings.has_targets:
            return []
        return await asyncio.to_thread(promises_kept, programs, settings, await read())

    @property
    def _within_s(self) -> float:
        """The time in which items are to be seen, for rules that say none."""
        return self._planner.settings.default_target.parts[0][0]

    def explain(self, source_id: str, *, with_week: bool = True) -> Explanation | None:
        """Return when a source is probed next and why, without the factors of its week if these are not wanted."""
        return self._explainer.explain(source_id, self._next_chronon(), with_week=with_week)

    async def source_names(self) -> Sequence[str]:
        """Return the names of the declared sources, in natural order."""
        return await self._choices.names()

    async def keep_ready(self, declared: Signal) -> NoReturn:
        """Have the names ready before somebody asks; ``declared`` is notified of each declaration."""
        await self._choices.follow(declared)

    async def choose_sources(self, choice: SourceChoice) -> Sequence[str]:
        """Return the names of some declared sources, in order."""
        return await self._choices.choose(choice)

    async def recent_items(self, source_ids: Sequence[str], *, days: int) -> Mapping[str, RecentItems]:
        """Return the items of some sources that came or changed in the last days, including today."""
        return await self._store.history.recent_items(source_ids, self._clock.time_s(), days=days)

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""
        return self._explainer.failing()

    def silent(self) -> list[str]:
        """Return the declared sources that show no items, or a field without a value."""
        return self._explainer.silent()

    def ask(self, name: str) -> list[_AskedProbe]:
        """Have a source, or the sources of a rule or of a profile, probed as soon as politeness allows."""
        names = self.meant(name)
        if len(names) > _MOST_ASKED:
            raise ConflictError(f"{name} has {len(names)} sources; at most {_MOST_ASKED} are probed at once on request")
        for each in names:
            self._decider.settle(each, self._clock.time_s())
        there = [each for each in names if each in self._planner.sources]
        if not names:
            raise ConflictError(f"{name} has no source yet")
        if not there:
            why = "is paused" if names[0] in self._known.paused else "is not read by any rule"
            raise ConflictError(f"source {names[0]} {why}, so it is not probed")
        return [self._ask(each, self._clock.time_s()) for each in there]

    def _ask(self, source_id: str, now_s: float) -> _AskedProbe:
        self._planner.ask(source_id, now_s)
        source, limits = self._planner.sources[source_id], self._planner.limits
        if source_id in self._planner.in_flight:
            return _AskedProbe(source_id, now_s, is_under_way=True)
        waits_for = limits.obstacle_at(source, now_s)
        return _AskedProbe(source_id, max(now_s, limits.earliest_s(source)), waits_for)

    def meant(self, name: str) -> Sequence[str]:
        """Return the sources of a name, which may be a source, a rule or a profile; raises ``NotFoundError``."""
        declared = self._declaration()
        if name in declared.sources:
            return [name]
        if (rule := declared.rules.get(name)) is not None:
            return rule.source_ids
        if name not in declared.profiles:
            raise no_such("source, rule or profile", name, [*declared.sources, *declared.rules, *declared.profiles])
        rules = (rule for rule in declared.rules.values() if name in rule.profiles)
        return list(dict.fromkeys(source_id for rule in rules for source_id in rule.source_ids))

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[MadeProbe]:
        """Return the probes of a source in the last days, newest first."""
        declared = self._declaration()
        if source_id not in declared.sources:
            raise no_such_source(source_id, declared)
        return await self._store.history.made_probes(source_id, before=before, limit=limit)

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[SeenItem]:
        """Return when items of a source were published and seen, newest first."""
        declared = self._declaration()
        if source_id not in declared.sources:
            raise no_such_source(source_id, declared)
        return await self._store.history.seen_items(source_id, self._clock.time_s() - days * _DAY_S, limit=limit)

    async def shown_events(self, source_id: str, *, before: int | None, limit: int) -> list[ShownEvent]:
        """Return what happened to the items of a source, newest first; ``before`` is the position of an event."""
        declared = self._declaration()
        if source_id not in declared.sources:
            raise no_such_source(source_id, declared)
        found = await self._store.history.events(source_id, before=before, limit=limit)
        return await asyncio.to_thread(lambda: [shown_event(each) for each in found])

    async def search_items(
        self, text: str, *, source_id: str | None, before: int | None, limit: int
    ) -> list[FoundItem]:
        """Return the stored items of all sources, or of one, that match a text, those seen last first."""
        return await self._store.items.search(text, source_id=source_id, before=before, limit=limit)

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[DecidedInterval]:
        """Return the execution intervals of a rule that were decided in the last days, newest first."""
        rules = self._declaration().rules
        if rule not in rules:
            raise no_such("rule", rule, rules)
        return await self._store.history.intervals(rule, self._clock.time_s() - days * _DAY_S, limit=limit)

    def capture_counts(self, rules: Iterable[str]) -> CaptureCounts:
        """Return how the execution intervals of some rules ended."""
        return self._known.capture_counts(rules)

    def _declaration(self) -> Declaration:
        if not self._profiles.has_started:
            raise BusyError("the daemon is starting; try again in a few seconds")
        return self._profiles.declaration

    def _next_chronon(self) -> int:
        return self._known.grid.chronon_at(self._clock.time_s()) + 1
