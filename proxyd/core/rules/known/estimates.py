"""What is learned of each source: its state, its update rate, and the hours of the week in which its items come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from math import inf, isfinite, sqrt
from zoneinfo import ZoneInfo

from proxyd.core.model.arrays import Floats
from proxyd.core.model.profile import Source
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rates.count_distributions import gamma_quantile
from proxyd.core.rates.model_fit import NO_FIT, ModelFit, SourceModel, count_probe
from proxyd.core.rates.rate_blend import (
    HALF_LIVES_S,
    NO_EVIDENCE,
    Blend,
    Evidence,
    ItemTimes,
    SavedDelay,
    ShortMemory,
    item_times,
    leave_out,
    traits_of,
    unpack_recent,
)
from proxyd.core.rates.week_bins import WEEK_S, Cycle, is_odd_week
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rates.week_shapes import WeekSums, WeekTrust
from proxyd.core.rules.known.state import AcceptedMove, SourceHealth, SourceState

_TURNED, _TURN_HALF_LIFE_S = 0.35, WEEK_S / 2  # the share of all items, of whose sources the weeks turned lately
_MOST_OF_ONE = 0.2  # of all items, so that one busy source alone says nothing of the others
_NEVER_TURNED, _NEVER_MOVED = (0.0, 0.0, 0.0), (0, 0.0)
_LONGEST_WAIT_S = 30 * 86400.0
_TOLD_S = 4 * WEEK_S  # for so long it is told that all weeks turned
_FIRST_PLAN = 8  # the first plan is made after this part of the time between two plans


class Estimates:
    """States, rates and weeks of sources, by name, as they were last read."""

    def __init__(self, prior_mean_per_s: float, cycle: Cycle) -> None:
        self.states: dict[str, SourceState] = {}
        self.off: set[str] = set()  # whose models predict badly
        self.failing: set[str] = set()
        self.silent: set[str] = set()  # that show no items, or a field without a value
        self.moved: set[str] = set()
        self.accepted: dict[str, AcceptedMove] = {}
        self.weeks: dict[str, WeekCounts] = {}
        self.trust = WeekTrust()
        self.memory = ShortMemory()
        self.thinning = SavedDelay()  # whether rates without mass changes save delay
        self._moved_at_s = 0.0
        self._moved = _NEVER_MOVED  # by how many hours all weeks turned last, and when in the time of the week
        self._turned = _NEVER_TURNED  # the rate of sources whose week turned lately, as of when; when all turned
        self.cycle = cycle
        half_lives_s = [half_life_s / cycle.speed for half_life_s in HALF_LIVES_S]
        self.blend = Blend(prior_mean_per_s * cycle.speed, half_lives_s=half_lives_s)

    def restore(self, states: Mapping[str, SourceState], weeks: Mapping[str, WeekCounts]) -> None:
        """Take over what a store remembers."""
        for state in states.values():
            self.keep(state)
        self.weeks = dict(weeks)

    def record(self) -> FleetRecord:
        """Return what was learned of all sources together."""
        return FleetRecord(
            *self.blend.credits,
            self.trust.likelihoods,
            self._turned,
            self.memory.pack(),
            self.thinning.values,
            self._moved,
        )

    def restore_fleet(self, record: FleetRecord) -> None:
        """Take over what was learned of all sources together, except for what is damaged or of another version."""
        record = record.fit(self.record())
        self.blend.restore(record.credit, record.expected)
        self.trust = WeekTrust(record.trust)
        self._turned, self._moved = record.turned, record.moved
        self._moved_at_s = float(self.cycle.time_s(self.moved_s))
        self.memory.unpack(record.memory)
        self.thinning.restore(record.thinning)
        self.blend.is_thin = self.thinning.is_used

    def state(self, source: Source, reading: str) -> SourceState:
        """Return the state of a source under a reading; a fresh one if the address or the reading changed."""
        known = self.states.get(source.source_id)
        if known is not None and known.reading == reading:
            return known
        if known is not None and not known.reading and known.url == source.url:  # stored before readings were kept
            return replace(known, reading=reading)
        # A new address or reading makes it another document, but its events continue in the same numbered stream.
        if known is None:
            return SourceState(source.source_id, source.url, reading=reading)
        health = SourceHealth(next_seq=known.health.next_seq)
        if source.site is not None:  # an outage ends, also at another address
            health = replace(health, failing=known.health.failing, is_sure=known.health.is_sure)
        return SourceState(
            *(source.source_id, source.url),
            next_seq=known.next_seq,
            unawaited=known.unawaited,
            reading=reading,
            health=health,
        )

    def keep(self, state: SourceState) -> None:
        """Keep a state as the newest."""
        old = self.states.get(state.source_id)
        self.blend.replace(old.rate if old else NO_EVIDENCE, state.rate)
        self.states[state.source_id] = state
        for names, is_marked in (
            (self.off, state.fit.is_off),
            (self.failing, state.failures > 0),
            (self.silent, bool(state.health.silent)),
            (self.moved, state.health.moved is not None),
        ):
            (names.add if is_marked else names.discard)(state.source_id)
        if state.health.accepted is not None:
            self.accepted[state.source_id] = state.health.accepted
        else:
            self.accepted.pop(state.source_id, None)

    def rate_per_s(self, state: SourceState, source: Source, now_s: float) -> float:
        """Return the update rate, in items per second."""
        return self.blend.rate_per_s(state.rate, now_s, expect_per_s=source.expected_per_s)

    def rate_to_plan_by(self, state: SourceState, source: Source, now_s: float, week: WeekPlan | None) -> float:
        """Return the rate that is expected of a source until its next probe by ``week``, in items per second."""
        rate_per_s = self.rate_per_s(state, source, now_s)
        # of those that are planned by the age of their newest item, recent items say nothing more
        if not self.memory.is_used or state.rate.as_of_s is None or state.fit.gaps.shape_to_plan_by:
            return rate_per_s
        wait_s = None if week is None else week.mean_gap_s(source.source_id)
        middle_s = now_s + min(wait_s or 0.0, _LONGEST_WAIT_S) / 2.0
        return rate_per_s * float(self.memory.factors(self._traits(state, rate_per_s, middle_s))[0])

    def _traits(self, state: SourceState, rate_per_s: float, at_s: float) -> Floats:
        """Return the traits of a source at a time that is not before its last probe."""
        fit, odd = state.fit, bool(is_odd_week(self.cycle.week_s(at_s)))
        recent = unpack_recent(fit.recent, at_s - (fit.as_of_s or at_s), self.cycle.speed, odd=odd)
        age_s = inf if fit.gaps.newest_s is None else max(0.0, at_s - fit.gaps.newest_s)
        return traits_of(recent, self.blend.evidence(state.rate, at_s), rate_per_s, age_s)

    def _note_probe(self, source: Source, before: SourceState, evidence: Evidence, week: WeekPlan | None) -> None:
        """Learn from a probe what recent items say of a rate."""
        if evidence.until_s <= evidence.since_s or before.fit.gaps.shape_to_plan_by:
            return
        rate_per_s = self.rate_per_s(before, source, evidence.since_s)
        model = self.model(source, rate_per_s, week, evidence.until_s).model_to_plan_by(before.fit)
        found, expected = count_probe(evidence, model.expect(evidence.since_s, evidence.until_s)[0])
        middle_s = (evidence.since_s + evidence.until_s) / 2.0
        known = self._traits(before, rate_per_s, middle_s)
        counts = [sqrt(self.blend.mean_per_s / rate_per_s)]
        self.memory.learn(known, [found], [expected], counts, float(self.cycle.week_s(evidence.until_s)))

    def _compare_rates(self, before: SourceState, own: Evidence) -> None:
        """Learn from a probe whether mass changes should be left out, by the items that did not come in them."""
        gap_s = own.until_s - own.since_s
        if self.thinning.begin_day(float(self.cycle.week_s(own.until_s))):
            self.blend.is_thin = self.thinning.is_used
        if gap_s > 0:
            rates = (self.blend.rate_per_s(before.rate, own.since_s, thin=thin) for thin in (False, True))
            found, _ = count_probe(own, 0.0)
            usual, other = ((found / sqrt(per_s), gap_s * sqrt(per_s)) for per_s in rates)
            self.thinning.note(found, usual, other)

    def see(
        self,
        source: Source,
        before: SourceState,
        evidence: Evidence,
        week: WeekPlan | None,
        *,
        turned: bool = False,
        mass_s: Sequence[float] = (),
    ) -> WeekCounts | None:
        """Learn from the evidence of a probe; return the week's counts, or ``None`` if they did not change.

        ``turned`` says that the probe showed that the week is not what it was; ``mass_s`` are the times of its items
        that came in mass changes.
        """
        own = leave_out(evidence, mass_s) if mass_s else evidence
        evidence = own if self.blend.is_thin else evidence
        if before.rate.as_of_s is not None and source.expect is None:  # a first contact says nothing about half-lives
            self._note_probe(source, before, evidence, week)
            self.blend.weigh(before.rate, evidence)
            if self.blend.has_mass:
                self._compare_rates(before, own)
        told = self.cycle.evidence(evidence, zone_s(source.zone, evidence.until_s))  # in the source's own time zone
        sums, timed = None if week is None else week.sums(source.source_id), item_times(told)
        # while its week is off, a source is not planned by it
        is_off = before.fit.week_off_since_s is not None
        is_used = not turned and not (is_off and before.fit.since_turn(self._moved_at_s).week_off_since_s)
        if week is not None and sums is not None and timed is not None and is_used:
            rate_per_s = self.rate_per_s(before, source, evidence.since_s)
            ahead_s = week.ahead_s(source.source_id)
            self.trust = self._trust_after(sums, _later(timed, ahead_s), rate_per_s, week.fleet_dispersion)
        if turned and week is not None:
            self._note_turn(self.rate_per_s(before, source, evidence.until_s), week.items_per_s, told.until_s)
        old = self.weeks.get(source.source_id)
        known = old or self._begun(source, before, evidence.since_s)
        if self._moved[0]:
            known = self._move(known, source, evidence.until_s)
        if turned or known.since_s < self._turned[-1] - WEEK_S:
            known = known.forgotten(told.until_s)
        new = known.seen(told)
        self.weeks[source.source_id] = new
        return None if new is old or not new.items else new

    def _note_turn(self, rate_per_s: float, all_per_s: float, now_s: float) -> None:
        """Note that a source's week turned; if several with a third of the items did within days, all weeks did."""
        turned_per_s, as_of_s, all_turned_s = self._turned
        turned_per_s *= 2.0 ** (-max(0.0, now_s - as_of_s) / _TURN_HALF_LIFE_S)
        turned_per_s += min(rate_per_s, _MOST_OF_ONE * all_per_s)
        if turned_per_s > _TURNED * all_per_s:
            turned_per_s, all_turned_s = 0.0, now_s
        self._turned = (turned_per_s, now_s, all_turned_s)

    def turn_weeks(self, by_h: int, now_s: float) -> None:
        """Note that all weeks have turned by some hours; what else showed that they turned is explained by it."""
        self._moved, self._moved_at_s = (by_h, float(self.cycle.week_s(now_s))), now_s
        self._turned = (0.0, self._moved[1], self._turned[-1])

    def _move(self, known: WeekCounts, source: Source, now_s: float) -> WeekCounts:
        by_h, at_s = self._moved
        return known.turned(by_h, at_s + zone_s(source.zone, now_s))

    @property
    def moved_s(self) -> float:
        """When all weeks turned by some hours, in the time of the week; 0 if they never did."""
        return self._moved[1]

    def last_turn(self, now_s: float) -> tuple[int, float] | None:
        """Return by how many hours all weeks turned in the last month, and when; 0 hours if they are learned again."""
        by_h, moved_s = self._moved
        week_s = max(moved_s, self.all_turned_s)
        if not week_s or float(self.cycle.week_s(now_s)) - week_s > _TOLD_S:
            return None
        return (by_h if moved_s == week_s else 0), float(self.cycle.time_s(week_s))

    @property
    def all_turned_s(self) -> float:
        """When the weeks of all sources turned, in the time of the week; 0 if they never did."""
        return self._turned[-1]

    def _trust_after(self, sums: WeekSums, told: ItemTimes, rate_per_s: float, dispersion: float) -> WeekTrust:
        """Return the trust in learned weeks after a probe showed the times of a source's items."""
        per_s = rate_per_s / self.cycle.speed
        shaped = per_s * sums.between(told.since_s, told.until_s)[0]
        factors = [sums.factor(time_s) for time_s in told.times_s]
        even = per_s * (told.until_s - told.since_s)
        return self.trust.seen(factors, even=even, shaped=shaped, weight=1 / dispersion)

    def model(self, source: Source, rate_per_s: float, week: WeekPlan | None, now_s: float) -> SourceModel:
        """Return the model of a source at a rate and with its learned week."""
        if week is None or (sums := week.sums(source.source_id)) is None:
            return SourceModel(rate_per_s, cycle=self.cycle, dispersion=1.0 if week is None else week.dispersion)
        ahead_s = zone_s(source.zone, now_s) + week.ahead_s(source.source_id)
        return SourceModel(rate_per_s, sums, self.cycle, ahead_s, week.dispersion, self._moved_at_s)

    def week_is_off(self, source_id: str) -> bool:
        """Whether the learned week of a source predicted worse than an even one; the source is then planned evenly."""
        state = self.states.get(source_id)
        return state is not None and state.fit.since_turn(self._moved_at_s).week_off_since_s is not None

    def misfit(self, source_id: str) -> Misfit | None:
        """Return which part of a source's model predicts badly, or ``None`` if none does."""
        state = self.states.get(source_id)
        fit = NO_FIT if state is None else state.fit.since_turn(self._moved_at_s)
        return Misfit(source_id, fit) if fit.is_off else None

    def rate_range_per_day(self, state: SourceState, rate_per_s: float, now_s: float) -> tuple[float, float]:
        """Return the range in which the update rate lies in four of five cases, in items a day."""
        shape = self.blend.items_known(state.rate, now_s)
        per_day = rate_per_s / shape * 86400.0
        return gamma_quantile(shape, 0.1) * per_day, gamma_quantile(shape, 0.9) * per_day

    def week(self, source: Source, now_s: float) -> WeekCounts:
        """Return the counts of a source's items over the week."""
        known = self.weeks.get(source.source_id) or self._begun(source, self.states.get(source.source_id), now_s)
        if self._moved[0]:
            known = self._move(known, source, now_s)
        return known.forgotten(self.all_turned_s) if known.since_s < self.all_turned_s - WEEK_S else known

    def _begun(self, source: Source, state: SourceState | None, now_s: float) -> WeekCounts:
        """Return the counts of a source that has shown nothing since its first contact; these are not stored."""
        first_s = now_s if state is None or state.first_contact_s is None else min(now_s, state.first_contact_s)
        return WeekCounts.begun(float(self.cycle.week_s(first_s)) + zone_s(source.zone, first_s))


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """What was learned of all sources together, stored with each probe."""

    # ``credit``, ``expected``: the items credited to each member of the blend of rates, and those that it expected
    credit: tuple[float, ...]
    expected: tuple[float, ...]
    trust: tuple[float, ...]  # the logarithms of the likelihoods behind the trust in learned weeks
    # of sources whose week turned lately: their items a second, as of when; when all turned, in the time of the week
    turned: tuple[float, float, float] = (0.0, 0.0, 0.0)
    memory: str = ""  # how recent items correct rates, packed (``rates.rate_blend``)
    thinning: tuple[float, ...] = ()  # whether rates without mass changes save delay
    moved: tuple[int, float] = (0, 0.0)  # by how many hours all weeks turned last, and when in the time of the week

    def fit(self, other: FleetRecord) -> FleetRecord:
        """Return this record with what ``other`` has where the length is not the same, or a number is not finite.

        >>> known = FleetRecord((1.0,), (1.0,), (), moved=(3, 7.0))
        >>> found = FleetRecord((inf,), (2.0,), (), turned=(4.0, 5.0, 6.0), moved=(1,)).fit(known)
        >>> found == replace(known, turned=(4.0, 5.0, 6.0))
        True
        """
        fitting = {
            each.name: value
            for each in fields(self)
            if len(value := getattr(self, each.name)) == len(getattr(other, each.name))
            and (isinstance(value, str) or all(map(isfinite, value)))
        }
        if not {"credit", "expected"} <= fitting.keys():  # one says nothing without the other
            fitting = {name: value for name, value in fitting.items() if name not in ("credit", "expected")}
        return replace(other, **fitting)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A source whose model predicts badly, in its week or its rate."""

    source_id: str
    fit: ModelFit


def until_next_plan_s(passed_s: float, every_s: float) -> float:
    """Return how long to wait for the next plan of the week, given the time since the start.

    Plans are frequent at first, because much is learned soon: the first is made an eighth of ``every_s`` after the
    start, and the next each time that the time since the start has doubled.

    >>> [until_next_plan_s(hours * 3600.0, 86400.0) / 3600.0 for hours in (0, 3, 6, 12, 24, 48)]
    [3.0, 3.0, 6.0, 12.0, 24.0, 24.0]
    """
    return min(every_s, max(passed_s, every_s / _FIRST_PLAN))


def _later(told: ItemTimes, by_s: float) -> ItemTimes:
    if not by_s:
        return told
    return ItemTimes(told.since_s + by_s, told.until_s + by_s, tuple(time_s + by_s for time_s in told.times_s))


def zone_s(zone: str | None, at_s: float) -> float:
    """Return the offset of a zone's clocks from UTC, in seconds.

    >>> zone_s("Europe/Berlin", 1_760_000_000.0), zone_s(None, 0.0)
    (7200.0, 0.0)
    """
    if zone is None:
        return 0.0
    ahead = datetime.fromtimestamp(at_s, ZoneInfo(zone)).utcoffset()
    return 0.0 if ahead is None else ahead.total_seconds()
