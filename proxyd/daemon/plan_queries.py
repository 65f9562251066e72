"""Answers about the plan: which probes come and why, and how intervals ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import cast

from proxyd.base.ports import Clock
from proxyd.core.errors import ConflictError
from proxyd.core.language import no_such, no_such_source
from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.plan_preview import preview_in_rounds
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.politeness.host_budgets import HostTally
from proxyd.core.rules.answers.advice import Advice, advise
from proxyd.core.rules.answers.explanation import Explainer, Explanation
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import Compiled
from proxyd.core.rules.known.rule_counts import CaptureCounts
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.plan_loop import in_parts


@dataclass(frozen=True, slots=True)
class _AskedProbe:
    """A probe that somebody asked for: when it can start, in unix seconds, and what it waits for.

    It is under way already if ``is_under_way``.
    """

    source_id: str
    at_s: float
    waits_for: str | None = None
    is_under_way: bool = False


_MOST_ASKED = 1000  # sources of one request to probe now
_ADVICE_KEPT_S = 60.0
_LONGEST_WAIT_S = 31 * 86400.0  # for room in the budget


@dataclass(frozen=True, slots=True)
class _HostStanding(HostTally):
    """How a host answers, and when it may be asked again; times in unix seconds."""

    host: str = ""
    spacing_s: float = 0.0  # the least time between two probes
    free_s: float = 0.0  # when the next probe may start; 0 if it may start now
    throttled_until_s: float = 0.0  # until when it wants no probe, or one that is throttled with it; 0 if it does not


@dataclass(frozen=True, slots=True)
class _KeptAdvice:
    """Advice for a plan and a declaration, and when it is too old."""

    advice: Advice
    week: WeekPlan | None
    compiled: Compiled
    until_s: float


class PlanQueries:
    """Answers from the decider's plan and the stored probes."""

    def __init__(self, decider: Decider, profiles: Declarations, clock: Clock) -> None:
        self._explainer = Explainer.of(decider)
        self._decider = decider
        self._planner = decider.planner
        self._known = decider.known
        self._profiles = profiles
        self._clock = clock
        self._advising = asyncio.Lock()
        self._advised: _KeptAdvice | None = None

    async def plan(self, *, limit: int) -> list[PlannedProbe]:
        """Return the coming probes, assuming that every probe finds what is expected; played in a thread."""
        epoch = self._explainer.epoch(self._next_chronon())
        rounds, played = preview_in_rounds(self._planner, epoch, limit=limit), None
        while True:
            try:
                work = rounds.send(played)
            except StopIteration as end:
                return cast("list[PlannedProbe]", end.value)
            played = await asyncio.to_thread(work)

    async def hosts(self, *, after: str | None, limit: int) -> list[_HostStanding]:
        """Return the hosts after a name, in order, which this planner has asked since it started."""
        known = list(self._planner.limits.hosts.tallies)
        some = await asyncio.to_thread(
            lambda: nsmallest(limit, (each for each in known if after is None or each > after))
        )
        return [found for each in some if (found := self._host(each)) is not None]

    def _host(self, host: str) -> _HostStanding | None:
        limits, now_s = self._planner.limits, self._clock.time_s()
        tally = limits.hosts.tallies.get(host)
        if tally is None:  # forgotten meanwhile
            return None
        until_s = limits.blocks.until_s(self._known.settings.throttle_scope(host))
        free_s = max(limits.hosts.earliest_s(host), until_s)
        spacing_s = limits.hosts.spacing_s(host)
        return _HostStanding(
            **asdict(tally),
            host=host,
            spacing_s=spacing_s,
            free_s=_if_coming(free_s, now_s),
            throttled_until_s=_if_coming(until_s, now_s),
        )

    async def plan_of(self, source_id: str, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes of one source, computed in a thread from a copy of it."""
        preview = self._explainer.preview_of(source_id, self._next_chronon())
        return await asyncio.to_thread(lambda: list(islice(preview, limit)))

    async def advise(self) -> Advice:
        """Return what other budgets would capture, computed in a thread from a copy of the rules' demands."""
        # It is kept for a minute, unless there is another plan or declaration
        async with self._advising:  # who asks meanwhile gets the same
            now_s, week, compiled = self._clock.time_s(), self._planner.week, self._known.compiled
            kept = self._advised
            if kept is None or kept.week is not week or kept.compiled is not compiled or now_s >= kept.until_s:
                ahead = await in_parts(self._explainer.ahead(self._next_chronon()))
                forecast = await asyncio.to_thread(ahead.forecast)
                work = partial(advise, self._planner.settings, week, forecast)
                found = await self._profiles.compute(work, len(self._planner.sources))
                kept = self._advised = _KeptAdvice(found, week, compiled, now_s + _ADVICE_KEPT_S)
            return kept.advice

    def explain(self, source_id: str) -> Explanation:
        """Return when a source is probed next and why; raises ``NotFoundError``."""
        declared = self._profiles.ready()
        found = self._explainer.explain(source_id, self._next_chronon())
        if found is None:
            raise no_such_source(source_id, declared)
        return found

    def outline(self, source_id: str) -> Explanation | None:
        """Return the same without the factors of its week, or ``None`` if there is no such source."""
        return self._explainer.explain(source_id, self._next_chronon(), with_week=False)

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
            self._decider.placement.place_if_waiting(each, self._clock.time_s())
        there = [each for each in names if each in self._planner.sources]
        if not names:
            raise ConflictError(f"{name} has no source yet")
        if not there:
            why = "is paused" if names[0] in self._known.paused else "is not read by any rule"
            raise ConflictError(f"source {names[0]} {why}, so it is not probed")
        now_s, settings = self._clock.time_s(), self._planner.settings
        now, last = settings.grid.chronon_at(now_s), settings.grid.chronon_at(now_s + _LONGEST_WAIT_S)
        room = settings.next_room(now, last)
        return [self._ask(each, now_s, now_s if room == now else settings.grid.start_s(room)) for each in there]

    def _ask(self, source_id: str, now_s: float, room_s: float) -> _AskedProbe:
        self._planner.ask(source_id, now_s)
        source, limits = self._planner.sources[source_id], self._planner.limits
        if source_id in self._planner.in_flight:
            return _AskedProbe(source_id, now_s, is_under_way=True)
        own_s, waits_for = max(now_s, limits.earliest_s(source)), limits.obstacle_at(source, now_s)
        return _AskedProbe(source_id, max(own_s, room_s), Constraint.BUDGET if room_s > own_s else waits_for)

    def meant(self, name: str) -> Sequence[str]:
        """Return the sources of a name, which may be a source, a rule or a profile; raises ``NotFoundError``."""
        declared = self._profiles.ready()
        if name in declared.sources:
            return [name]
        if (rule := declared.rules.get(name)) is not None:
            return rule.source_ids
        if name not in declared.profiles:
            raise no_such("source, rule or profile", name, [*declared.sources, *declared.rules, *declared.profiles])
        rules = (rule for rule in declared.rules.values() if name in rule.profiles)
        return list(dict.fromkeys(source_id for rule in rules for source_id in rule.source_ids))

    def capture_counts(self, rules: Iterable[str]) -> CaptureCounts:
        """Return how the execution intervals of some rules ended."""
        return self._known.streams.of_rules(rules)

    def _next_chronon(self) -> int:
        return self._known.grid.chronon_at(self._clock.time_s()) + 1


def _if_coming(time_s: float, now_s: float) -> float:
    return time_s if time_s > now_s else 0.0
