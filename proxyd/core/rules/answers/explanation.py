"""Explanations of the plan: the coming probes, and why a source is probed when it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from math import expm1, inf, sqrt
from types import MappingProxyType
from typing import Any

from proxyd.core.model.chronon import Chronon, Epoch, Target
from proxyd.core.model.profile import PolicyName, Source
from proxyd.core.model.schedule import Constraint, Reason
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.plan_preview import PlanForecast, play, preview, preview_source
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.rule_demand import CountedAhead
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rates.count_distributions import gamma_share
from proxyd.core.rates.model_fit import ItemGaps
from proxyd.core.rates.week_bins import HOUR_S, MONDAY_S, WEEK_S
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import url_after_move
from proxyd.core.rules.known.estimates import Misfit, zone_s
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.known.subscriptions import Hubs, Subscription
from proxyd.core.rules.placement import is_counted, target_of
from proxyd.core.rules.programs.rule_program import RuleProgram


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """What speaks for the next probe of a source."""

    reason: Reason
    rule: str  # the first rule that it serves; empty if it serves none
    # the probability that a new item, which the rule of the target counts, is there by then; ``None`` before the
    # first contact
    chance: float | None = None
    # the narrowest target of the source's rules that leave the times to the plan, if they have targets
    target: Target | None = None
    counted: CountedAhead | None = None  # the item that the rule waits for, if it goes by a count

    def __str__(self) -> str:
        return _WORDS[self.reason](self)


def _ordinal(number: int) -> str:
    """Return a number as one counts.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def item_to_count(ahead: CountedAhead) -> str:
    """Return which item a rule that counts waits for.

    >>> item_to_count(CountedAhead(3, False, 0.5, 0.0))
    'the 3rd item since its last notification'
    """
    return f"the {_ordinal(ahead.number)} item{'' if ahead.is_first else ' since its last notification'}"


def _worth(case: ProbeCase) -> str:
    """Return until when what is expected must be seen, or that it is worth a probe.

    >>> str(ProbeCase(Reason.DETECTION, "r", 0.3, Target(0.9, ((600.0, 1.0),))))
    'there is a 30 % chance of an item by then, which must be seen within 10 minutes'
    """
    if case.target is None:
        return "which is worth the price of a probe"
    if len(case.target.parts) > 1:
        return "which loses worth while it waits"
    return f"which must be seen {within(case.target)}"


def _item(case: ProbeCase) -> str:
    if case.chance is None:
        return "its items are not known yet"
    return f"there is {chance_text(case.chance)} of an item by then, {_worth(case)}"


def chance_text(chance: float) -> str:
    """Return a chance with its article.

    >>> chance_text(0.3), chance_text(0.8), chance_text(0.11), chance_text(0.0001)
    ('a 30 % chance', 'an 80 % chance', 'an 11 % chance', 'less than a 1 % chance')
    """
    if chance < 0.005:
        return "less than a 1 % chance"
    percent = f"{chance * 100:.0f}"
    return f"{'an' if percent in {'8', '11', '18'} or percent.startswith('8') else 'a'} {percent} % chance"


def _count_text(case: ProbeCase) -> str:
    if case.counted is None:
        return f"rule {case.rule} counts its items, {_worth(case)}"
    return f"there is {chance_text(case.counted.chance)} of {item_to_count(case.counted)} by then, {_worth(case)}"


_WORDS: Mapping[Reason, Callable[[ProbeCase], str]] = MappingProxyType(
    {
        Reason.FIRST_CONTACT: lambda _: "it has never been probed",
        Reason.ASKED: lambda _: "somebody asked for a probe now",
        Reason.CONFIRMATION: lambda _: "the last probe found nothing, which another one must confirm",
        Reason.INTERVAL: lambda case: f"rule {case.rule} expects an event by then",
        Reason.FEEDBACK: lambda case: f"rule {case.rule} still waits for items that the last probe did not find",
        Reason.FIXED: lambda case: f"rule {case.rule} has it probed at fixed intervals",
        Reason.EVERY: lambda case: f"rule {case.rule} has it probed at least this often",
        Reason.DOE: lambda case: f"rule {case.rule} gives it a number of probes, and this is the next one's best time",
        Reason.OVERFLOW: lambda _: "its feed shows only so many items, and some may slide off it unseen after that",
        Reason.DETECTION: _item,
        Reason.COUNTED: _count_text,
        Reason.SIBLING: lambda _: "sources that often change together with it have changed",
        Reason.GOLDEN: lambda case: f"rule {case.rule} spreads its probes evenly, and this is the next one",
        Reason.MEMORYLESS: lambda case: f"rule {case.rule} has it probed at random, as often as its items call for",
        Reason.ADAPTIVE: lambda case: (
            f"rule {case.rule} has it probed at random, as often as its events so far call for"
        ),
        Reason.SPEND: lambda _: "some of the budget is left, and it helps most here",
        Reason.LEARNING: lambda _: "it is new: asked often for an hour, and for a day until two items have come",
        Reason.RETRY: lambda _: "the last probe failed",
        Reason.SAFETY: lambda _: "its hub pushes its items, and a probe now and then finds what the hub left out",
    }
)


_MOST_INTERVALS = 50_000
_MOST_CHRONONS = 100_000  # a week has 60,480 chronons of 10 s


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """The policy of a rule for a source, and what the rule may expect of it."""

    name: str
    because: str
    promised: str | None = None  # the target of the rule in words, or ``None`` if its policy has none
    # the share of the rule's items that the plan is expected to see in time, 0 to 1, if there is such a plan
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a source is probed when it is; times are in unix seconds, rates in items a day."""

    source_id: str
    url: str
    rate_per_day: float
    next_probe: PlannedProbe | None
    blocked_by: str | None  # what holds the next probe back, in words: a limit, or why none is planned
    earliest_s: float | None  # when a probe may start, if it may not start now
    rules: tuple[str, ...]
    postponed: Mapping[Constraint, int]
    unmet_intervals: int  # planned intervals that ended without a probe since they were last laid
    state: SourceState
    moved_url: str | None = None
    subscription: Subscription | None = None
    # ``price_item_s``, ``fleet_price_item_s``: the delay that a detection probe must save, in item-seconds, if there
    # is a price; and what it would be if the limit of the source's host did not bind
    price_item_s: float | None = None
    fleet_price_item_s: float | None = None
    week: tuple[float, ...] = ()  # factors of the rate by hour of the week in UTC, once the week is planned
    gaps: ItemGaps | None = None  # if it is planned by the age of its newest item, not by its week
    week_ahead_h: int = 0  # how much earlier than the week that all sources share its own is
    turned: tuple[int, float] | None = None  # by how many hours all weeks turned lately, and when (``last_turn``)
    recent_factor: float | None = None  # by which recent items correct its rate until the next probe, if they do
    leaves_out_mass: bool = False  # whether its rate leaves out items that came in mass changes
    misfit: Misfit | None = None
    rate_range_per_day: tuple[float, float] = (0.0, inf)  # the range in which the rate lies in four of five cases
    # ``policies``, ``intervals``, ``counted``: by rule: its policy, the start and end of the interval that it expects
    # next, and the item that it waits for if it fires on every n-th one
    policies: Mapping[str, RulePolicy] = field(default_factory=dict)
    picturing: tuple[str, ...] = ()  # rules that keep a picture of what a browser shows
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counted: Mapping[str, CountedAhead] = field(default_factory=dict)
    # ``host_free_s``, ``fresh_until_s``: when the budget of the host lets a probe start, and until when the origin
    # says that nothing changes
    host_free_s: float | None = None
    fresh_until_s: float | None = None
    paused: Suspension | None = None
    # the number of items that are expected to wait at the next probe; ``None`` if that is the first
    expected: float | None = None
    because: str = ""
    # whether the targets of the rules decide the price, and whether all of the budget is spent
    has_targets: bool = False
    spends_all: bool = False
    is_learning: bool = False  # whether it is so new that its rate is hardly known
    is_declared: bool = False  # by a declared frequency

    @property
    def chance(self) -> float | None:
        """The probability of a new item at the next probe; ``None`` if that is the first."""
        return None if self.expected is None else -expm1(-self.expected)

    @property
    def factor(self) -> float | None:
        """How many times its mean rate a source has in the hour of the next probe, if its week is planned."""
        if self.next_probe is None or not self.week or self.gaps is not None:
            return None
        return self.week[int((self.next_probe.start_s - MONDAY_S) % WEEK_S // HOUR_S)]

    @property
    def is_host_bound(self) -> bool:
        """Whether the limit of the host, not the budget, holds probes back; only a higher limit allows more."""
        return (self.price_item_s or 0.0) > (self.fleet_price_item_s or inf) * (1.0 + 1e-9)


def without_rule(planned: PlannedProbe) -> PlannedProbe:
    """Return a planned probe without the rule that asks for it."""
    return replace(planned, probe=replace(planned.probe, rule=None))


def only_of(found: Explanation, rules: Collection[str]) -> Explanation:
    """Return an explanation for somebody who sees only these of the rules."""
    probe = None if found.next_probe is None else found.next_probe.probe
    if found.next_probe is not None and probe is not None and probe.rule not in {None, *rules}:
        found = replace(found, next_probe=without_rule(found.next_probe), because="somebody else asks for it")
    return replace(
        found,
        rules=tuple(each for each in found.rules if each in rules),
        picturing=tuple(each for each in found.picturing if each in rules),
        policies={name: each for name, each in found.policies.items() if name in rules},
        intervals={name: each for name, each in found.intervals.items() if name in rules},
        counted={name: each for name, each in found.counted.items() if name in rules},
    )


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains the state of a decider without changing it."""

    known: Knowledge
    planner: Planner
    hubs: Hubs

    @classmethod
    def of(cls, decider: Decider) -> Explainer:
        """Return the explainer of what a decider decides."""
        return cls(decider.known, decider.planner, decider.hubs)

    def plan(self, now: Chronon, *, limit: int) -> list[PlannedProbe]:
        """Return the coming probes of the rolling epoch, assuming that every probe finds what is expected."""
        return preview(self.planner, self.epoch(now), limit=limit)

    def epoch(self, now: Chronon) -> Epoch:
        """Return the rolling epoch, whose coming probes can be told."""
        return Epoch(now, now + self.known.grid.ceil(self.known.settings.epoch_s))

    def preview_of(self, source_id: str, now: Chronon) -> Iterator[PlannedProbe]:
        """Return the coming probes of one source; the planner is copied at once and played on demand."""
        if source_id not in self.planner.sources:
            return iter(())
        part = self.planner.part([source_id])
        epoch = Epoch(now, now + self.known.grid.ceil(self.known.settings.epoch_s))
        return (planned for _, choice in play(part, epoch) for planned in choice.probes)

    def ahead(self, now: Chronon, *, most_chronons: int = _MOST_CHRONONS) -> Chunked[PlanForecast]:
        """Return the forecast of a cycle, or of less if many probes are asked for, in parts; it is played elsewhere."""
        grid, per_s = self.known.grid, 0.0
        for sources in self.planner.in_parts(self.planner.timed):
            per_s += sum(source.demands.demand_per_s(grid.length_s) for source in sources)
            yield
        length_s = min(
            self.known.estimates.cycle.length_s, _MOST_INTERVALS / max(per_s, 1e-12), most_chronons * grid.length_s
        )
        return (yield from PlanForecast.of(self.planner, Epoch(now, now + grid.ceil(length_s))))

    def explain(self, source_id: str, now: Chronon, *, with_week: bool = True) -> Explanation | None:
        """Return why and when a source is probed next, or ``None`` if it is not declared."""
        source = self.known.compiled.sources.get(source_id)
        if source is None:
            return None
        now_s = self.known.grid.start_s(now)
        planned, state = self.planner.sources.get(source_id), self.known.state(source)
        programs = self.known.compiled.programs_of(source_id)
        rate_per_s = self.known.estimates.rate_per_s(state, source, now_s)
        stop = now + self.known.grid.ceil(self.known.settings.epoch_s)
        earliest = self.planner.limits.earliest_s(planned) if planned else -inf
        pictured = (program.rule.name for program in programs if program.rule.keeps_screenshot)
        next_probe = preview_source(self.planner, source_id, Epoch(now, stop)) if planned else None
        expected = self._expectation(source, planned, next_probe)
        return Explanation(
            source_id=source_id,
            url=source.url,
            rate_per_day=rate_per_s * 86400.0,
            next_probe=next_probe,
            expected=expected,
            because=self._reason(source_id, next_probe, expected),
            blocked_by=self._next_obstacle(source_id, planned, now_s, next_probe),
            paused=self.known.paused.get(source_id),
            earliest_s=earliest if earliest > now_s else None,
            is_learning=not all(program.is_of_source for program in programs)
            and (state.first_contact_s is None or (planned is not None and planned.learns_until_s > now_s)),
            is_declared=source.expected_per_s is not None,
            rules=tuple(program.rule.name for program in programs),
            postponed=self.planner.postponements(source_id) if planned else {},
            unmet_intervals=sum(demand.missed for demand in planned.demands.rules) if planned else 0,
            state=state,
            moved_url=url_after_move(state, source),
            subscription=self.hubs.of(source_id),
            recent_factor=self._recent_factor(source, planned),
            leaves_out_mass=self.known.estimates.blend.is_thin and state.rate.in_mass is not None,
            misfit=self.known.estimates.misfit(source_id),
            rate_range_per_day=self.known.estimates.rate_range_per_day(state, rate_per_s, now_s),
            policies={program.rule.name: self._policy(program, rate_per_s) for program in programs},
            picturing=tuple(sorted(pictured if source.rendering is not None else ())),  # only a browser takes pictures
            **self._prices_of(source),
            week=self._week_of(source, now_s) if with_week else (),
            gaps=planned.gaps if planned and self.planner.week and self.planner.week.is_by_age(source_id) else None,
            week_ahead_h=0 if self.planner.week is None else round(self.planner.week.ahead_s(source_id) / HOUR_S),
            turned=self.known.estimates.last_turn(now_s),
            **(self._constraints_of(planned, now) if planned else {}),
        )

    def _recent_factor(self, source: Source, planned: PlannedSource | None) -> float | None:
        """Return by how much recent items correct the rate of a source until its next probe, if they do."""
        estimates, state = self.known.estimates, self.known.state(source)
        if planned is None or not estimates.memory.is_used or state.rate.as_of_s is None:
            return None
        return planned.rate_per_s / estimates.rate_per_s(state, source, state.rate.as_of_s)

    def _policy(self, program: RuleProgram, rate_per_s: float) -> RulePolicy:
        week, settings = self.planner.week, self.known.settings.planner
        outlook = None if week is None else week.outlooks.get(program.rule.name)
        name, because = _policy_in_words(program, settings, outlook, rate_per_s)
        has_target = settings.has_targets and program.rule.policy.leaves_times
        promised = promise(target_of(program, settings)) if has_target else None
        is_expected = outlook is not None and program.rule.policy.leaves_times
        return RulePolicy(name, because, promised, outlook.expected if outlook is not None and is_expected else None)

    def _reason(self, source_id: str, coming: PlannedProbe | None, expected: float | None) -> str:
        if coming is None:
            return ""
        settings, rule = self.known.settings.planner, coming.probe.rule or ""
        programs = self.known.compiled.programs_of(source_id) if settings.has_targets else ()
        targets = [(target_of(each, settings), each.rule.name) for each in programs if each.rule.policy.leaves_times]
        target, judged = min(targets, key=lambda found: found[0].parts[0][0], default=(None, ""))
        counted = self.planner.due_times.items_ahead(self.planner.sources[source_id]).get(rule)
        matching = self.known.matching_share(judged, source_id) if judged else 1.0
        chance = None if expected is None else -expm1(-expected * matching)
        return str(ProbeCase(coming.probe.reason, rule, chance, target, counted))

    def _expectation(self, source: Source, planned: PlannedSource | None, coming: PlannedProbe | None) -> float | None:
        """Return how many new items are expected at the next probe; ``None`` if that is the first."""
        if planned is None or coming is None or planned.last_seen_s is None:
            return None
        estimates, state, week = self.known.estimates, self.known.state(source), self.planner.week
        if week is not None and week.is_by_age(source.source_id):
            return planned.gaps.expect(planned.last_seen_s, coming.start_s)
        model = estimates.model(source, planned.rate_per_s, self.planner.week, coming.start_s).model_to_plan_by(
            state.fit
        )
        return float(model.expect(planned.last_seen_s, coming.start_s)[0])

    def _next_obstacle(
        self, source_id: str, planned: PlannedSource | None, now_s: float, coming: PlannedProbe | None
    ) -> str | None:
        """Return what holds the next probe back; a limit that ends a chronon or more before it does not."""
        if planned is None and source_id in self.known.paused:
            return "it is paused"
        if planned is None and not self.known.has(source_id):
            return "no planner has it yet, or the one that has it does not answer"
        if planned is None:
            return "it is about to be planned" if source_id in self.known.compiled.rules_of else "no rule uses it"
        last_s = now_s if coming is None else max(now_s, coming.start_s - self.known.grid.length_s)
        obstacle = self.planner.limits.obstacle_at(planned, last_s)
        if obstacle is None and coming is None and not self.known.settings.planner.budget.mean_per_s > 0:
            return "the budget allows no probe"
        return Constraint.BUDGET if obstacle is None and self._waits_for_budget(source_id, now_s, coming) else obstacle

    def _waits_for_budget(self, source_id: str, now_s: float, coming: PlannedProbe | None) -> bool:
        """Return whether the budget has held a source back, and has no room before its next probe either."""
        before = -1 if coming is None else self.known.grid.chronon_at(coming.start_s) - 1
        is_to_come = before >= self.known.grid.chronon_at(now_s)
        no_room = is_to_come and not self.known.settings.planner.capacity(before)
        return no_room and Constraint.BUDGET in self.planner.postponements(source_id)

    def _constraints_of(self, planned: PlannedSource, now: Chronon) -> dict[str, Any]:
        grid, now_s = self.known.grid, self.known.grid.start_s(now)
        laid = (demand for demand in planned.demands.copy().rules if demand.has_intervals)
        expected = {demand.rule: interval for demand in laid if (interval := demand.pending(now)) is not None}
        host_free_s = self.planner.limits.hosts.earliest_s(planned.host)
        return {
            "intervals": {rule: (grid.start_s(i.start), grid.start_s(i.deadline + 1)) for rule, i in expected.items()},
            "counted": self.planner.due_times.items_ahead(self.planner.sources[planned.source_id]),
            "host_free_s": host_free_s if host_free_s > now_s else None,
            "fresh_until_s": planned.fresh_until_s if planned.fresh_until_s > now_s else None,
        }

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""
        return self._still(self.known.estimates.failing, lambda state: state.failures > 0)

    def silent(self) -> list[str]:
        """Return the declared sources that show no items, or a field without a value."""
        return self._still(self.known.estimates.silent, lambda state: bool(state.health.silent))

    def _still(self, names: set[str], holds: Callable[[SourceState], bool]) -> list[str]:
        """Return those of the sources that are declared, and in whose present reading something holds; by name."""
        # a start fills the sets in another thread
        found = ((name, self.known.compiled.sources.get(name)) for name in sorted(names.copy()))
        return [name for name, source in found if source is not None and holds(self.known.state(source))]

    def misfits(self) -> list[Misfit]:
        """Return the sources whose rate or week predicts badly, by name."""
        wanted = sorted(name for name in self.known.estimates.off.copy() if name in self.known.compiled.rules_of)
        found = (self.known.estimates.misfit(source_id) for source_id in wanted)
        return [misfit for misfit in found if misfit is not None]

    def _week_of(self, source: Source, now_s: float) -> tuple[float, ...]:
        week = self.planner.week
        if week is None or source.source_id not in week:
            return ()
        ahead = round(zone_s(source.zone, now_s) / HOUR_S)
        local = week.intensity(source.source_id).tolist()
        return (*local[ahead:], *local[:ahead])

    def _prices_of(self, source: Source) -> dict[str, Any]:
        week = self.planner.week
        if week is None and self.known.settings.planner.spend:
            return {}
        price_item_s = None if week is None else week.price_of(source.source_id)
        without_host = None if week is None else week.price_without_host(source.source_id)
        fleet_price_item_s = without_host or self.planner.due_times.price_item_s
        return {
            "price_item_s": price_item_s or fleet_price_item_s,
            "fleet_price_item_s": fleet_price_item_s,
            "has_targets": self.known.settings.planner.has_targets,
            "spends_all": self.known.settings.planner.spend,
        }


_UNITS = ((604800.0, "week"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_TENTH = 0.1
_PLANNED = frozenset({PolicyName.SUP, PolicyName.FBSUP})


@dataclass(frozen=True, slots=True)
class RuleWeek:
    """What became of a rule's intervals in a week from Monday (UTC)."""

    week_s: float  # when the week began, in unix seconds
    rule: str
    intervals: int
    # ``captured``, ``in_time``: intervals probed before they ended, and those probed within the time of the default
    # target
    captured: int
    in_time: int
    utility: float  # utility gained, at most 1 for each interval


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """The share of its items' worth that a rule was promised, and the one that it got, in a week from Monday (UTC)."""

    week_s: float
    rule: str
    intervals: int
    promised: float
    kept: float

    @property
    def is_off(self) -> bool:
        """Whether it fell short by more than chance."""
        return falls_short(self.kept, self.promised, self.intervals)


def falls_short(share: float, expected: float, count: int) -> bool:
    """Return whether a share of ``count`` events lies below the expected one by more than a tenth and than chance.

    Chance is two standard deviations of independent events.

    >>> falls_short(0.488, 0.911, 40), falls_short(0.5, 0.9, 2), falls_short(0.85, 0.9, 1000)
    (True, False, False)
    """
    return share < expected - max(_TENTH, 2.0 * sqrt(expected * (1.0 - expected) / max(1, count)))


def promise(target: Target) -> str:
    """Return a target in words.

    >>> promise(Target(0.95, ((600.0, 1.0),))), promise(Target(0.9, ((inf, 1.0),)))
    ('95 % within 10 minutes', '90 % before the next item')
    """
    share = f"{target.share * 100:.3g} %"
    return f"{share} of their worth" if len(target.parts) > 1 else f"{share} {within(target)}"


def within(target: Target) -> str:
    """Return the time in which an item is to be seen, in words; that of the first part if its worth falls in steps.

    >>> within(Target(0.95, ((600.0, 1.0),))), within(Target(0.9, ((inf, 1.0),)))
    ('within 10 minutes', 'before the next item')
    """
    after_s = target.parts[0][0]
    return "before the next item" if after_s == inf else f"within {_time(after_s)}"


def _policy_in_words(
    program: RuleProgram, settings: PlannerSettings, outlook: RuleOutlook | None, rate_per_s: float
) -> tuple[str, str]:
    """Return the name of a rule's policy and the reason for it, with what its ``outlook`` in the plan lets expect."""
    named = program.rule.policy.name
    if named in _PLANNED:
        return named.value, f"the rule sets it{_comparison_text(program, rate_per_s)}"
    period = program.rule.policy.period
    if period is not None and period.unit.seconds:  # not a period in chronons
        every = _time(float(period.amount) * period.unit.seconds).removeprefix("1 ")
        return named.value, f"a probe every {every}, as the rule says"
    if named is not PolicyName.AUTO:
        return named.value, "the rule sets it"
    why = "a probe is made when it is worth its price"
    if settings.has_targets:
        why = f"it is to see {promise(target_of(program, settings))}, with no more probes than that takes"
    elif settings.spend:
        why = "probes are made where the budget helps most"
    if is_counted(program):
        why += f"; every {program.trigger.firing.every} items count as one"
    if program.rule.importance:
        why += "; a probe is worth more in the hours of the rule's importance"
    return named.value, f"{why}{_expectation_text(outlook)}"


def _promise_kept(program: RuleProgram, settings: PlannerSettings, week: RuleWeek) -> KeptPromise | None:
    """Return what a rule kept of its promise in a week, or ``None`` if its policy promises nothing."""
    if not program.rule.policy.leaves_times or not week.intervals:
        return None
    in_time = week.in_time if program.rule.life is None else week.captured
    got = in_time if program.decay_s is None else week.utility
    share = target_of(program, settings).share
    return KeptPromise(week.week_s, week.rule, week.intervals, share, got / week.intervals)


def promises_kept(
    programs: Mapping[str, RuleProgram], settings: PlannerSettings, weeks: Iterable[RuleWeek]
) -> list[KeptPromise]:
    """Return what declared rules kept of their promises, without those that promise nothing."""
    kept = (_promise_kept(programs[week.rule], settings, week) for week in weeks if week.rule in programs)
    return [each for each in kept if each is not None]


def fallen_shortest(promises: Iterable[KeptPromise], most: int) -> list[KeptPromise]:
    """Return the promises that fell shortest, at most ``most``, by week and rule.

    >>> kept, broken = KeptPromise(0.0, "a", 9, 0.9, 0.95), KeptPromise(7.0, "b", 9, 0.9, 0.5)
    >>> [each.rule for each in fallen_shortest([kept, broken], 1)], len(fallen_shortest([broken, kept], 2))
    (['b'], 2)
    """
    worst = nsmallest(most, promises, key=lambda each: each.kept - each.promised)
    return sorted(worst, key=lambda each: (each.week_s, each.rule))


def _expectation_text(outlook: RuleOutlook | None) -> str:
    if outlook is None:
        return ""
    because = "" if outlook.limit is None else f", because of {outlook.limit}"
    return f"; {outlook.expected * 100:.3g} % expected{because}"


def _comparison_text(program: RuleProgram, rate_per_s: float) -> str:
    """Return what a rule with planned intervals sees in time, and what AUTO would see with as many probes."""
    every, life_s = program.trigger.firing.every, program.life_s
    if not rate_per_s > 0:
        return ""
    # SUP probes once where the mean says that the n-th item is, and that of a Poisson process is rarely there
    gap_s = every / rate_per_s
    if life_s is None:
        # exactly so many items of a Poisson process
        seen = gamma_share(every, every + 1.0) - gamma_share(every + 1.0, every + 1.0)
        even = gamma_share(1.0, 1.0) if every == 1 else 0.0
    else:
        seen = gamma_share(every, every + rate_per_s * life_s) - gamma_share(every, every)
        even = min(1.0, life_s / gap_s)
    return (
        f"; it sees about {seen:.0%} in time, and AUTO at least {even:.0%} with as many probes" if even > seen else ""
    )


def _time(seconds: float) -> str:
    unit_s, name = next(each for each in _UNITS if seconds % each[0] == 0 or each[0] == 1.0)
    amount = seconds / unit_s
    return f"{amount:g} {name}" + ("" if amount == 1 else "s")
