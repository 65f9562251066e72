"""The policies of a replay by name, among them the daemon's own decider, and their results on a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, copysign, floor, sqrt
from typing import Protocol

import numpy as np

from proxyd.core.errors import UnknownPolicyError
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Budget, Chronon
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration, PolicyName
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.policies.registry import POLICIES as LANGUAGE
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rates.model_fit import ItemGaps, ModelFit
from proxyd.core.rates.rate_blend import NO_EVIDENCE, Blend, ItemTimes, SavedDelay, leave_out, note_recent
from proxyd.core.rates.siblings import in_mass_changes
from proxyd.core.rates.week_bins import WEEK_S, Cycle
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.known.context import NO_CONTEXT, StoredContext
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import SourceState
from proxyd.lab.replay.replay import (
    MeasuredDelays,
    ProbesMade,
    ReplayPolicy,
    Terms,
    clairvoyant_probes,
    measures_of_probes,
    replay,
)
from proxyd.lab.replay.replay_policies import (
    DAY_S,
    EdfPolicy,
    Learner,
    Timer,
    UniformPolicy,
    WeeklyPolicy,
    WicPolicy,
    best_powers_policy,
    due_policy,
    golden_cycle_policy,
    greedy_policy,
    parametric_slots,
    powers_policy,
)

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86400.0
_LOG_FACTORS = (-40.0, 40.0)
_NEAR_ENOUGH = 0.002
_NEW_DAYS, _FEWEST_DAYS, _MOST_OVERRUN = 3.0, 3.5, 0.2
_DAY_LATER = 2.0 ** (-1.0 / 14.0)  # what a day counts after another
_FINEST = 1e-3  # the number of probes may jump with the factor: then a finer one comes no closer


class _Formula(Protocol):
    """A program's state of its sources, and the waits that it computes."""

    def first_s(self) -> Floats:
        """Return the initial waits in seconds, shape (sources,)."""

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the waits in seconds after these probes found these items (times in unix seconds)."""


class RoundRobin:
    """Miniflux's ``round_robin``: every feed at the same interval."""

    def __init__(self, terms: Terms) -> None:
        self._sources = terms.sources

    def first_s(self) -> Floats:
        """Return an hour for each source."""
        return np.full(self._sources, _HOUR_S)

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return an hour for each probe."""
        return np.full(len(probed), _HOUR_S)


class EntryFrequency:
    """Miniflux's ``entry_frequency``: a week divided by the last week's entries, from 5 minutes to 24 hours."""

    def __init__(self, terms: Terms) -> None:
        self._recent = [times[times > terms.start_s - WEEK_S] for times in terms.history]
        self._start_s = terms.start_s

    def first_s(self) -> Floats:
        """Return the waits after the last week of the history."""
        return self._waits_s(np.arange(len(self._recent)))

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the waits after the last week's entries."""
        for source, new in zip(probed, items, strict=True):
            times = np.concatenate([self._recent[source], new]) if new.size else self._recent[source]
            self._recent[source] = times[times > now_s - WEEK_S]
        return self._waits_s(probed)

    def _waits_s(self, sources: Ints) -> Floats:
        weekly = np.array([max(self._recent[source].size, 1e-9) for source in sources])
        waits: Floats = np.clip(WEEK_S / weekly, 5 * _MINUTE_S, _DAY_S)
        return waits


class CommaFeed:
    """CommaFeed's empirical interval: half the mean time between entries, longer for silent feeds.

    It is 5 minutes to an hour if an entry is younger than a week; a quarter, half or all of 4 hours for feeds silent
    for 7, 14 or 30 days.
    """

    def __init__(self, terms: Terms) -> None:
        self._count = np.array([times.size for times in terms.history], dtype=np.float64)
        self._first_s = np.array([times[0] if times.size else np.nan for times in terms.history])
        self._last_s = np.array([times[-1] if times.size else np.nan for times in terms.history])
        self._start_s = terms.start_s

    def first_s(self) -> Floats:
        """Return the waits after the history."""
        return self._waits_s(np.arange(len(self._count)), self._start_s)

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the waits after all entries so far."""
        for source, new in zip(probed, items, strict=True):
            if new.size:
                self._count[source] += new.size
                self._first_s[source] = np.fmin(self._first_s[source], new[0])
                self._last_s[source] = new[-1]
        return self._waits_s(probed, now_s)

    def _waits_s(self, sources: Ints, now_s: float) -> Floats:
        longest = 4 * _HOUR_S
        silent_s = np.nan_to_num(now_s - self._last_s[sources], nan=np.inf)
        between_s = (self._last_s[sources] - self._first_s[sources]) / np.maximum(self._count[sources] - 1, 1)
        usual = np.clip(between_s / 2, 5 * _MINUTE_S, longest / 4)
        waits = np.select(
            [silent_s >= 30 * _DAY_S, silent_s >= 14 * _DAY_S, silent_s >= 7 * _DAY_S, self._count[sources] > 1],
            [
                np.full(len(sources), longest),
                np.full(len(sources), longest / 2),
                np.full(len(sources), longest / 4),
                usual,
            ],
            longest,
        )
        return np.asarray(waits, dtype=np.float64)


class Nutch:
    """Nutch's ``AdaptiveFetchSchedule``: a change shortens the interval by a fifth, no change extends it by two fifths.

    It starts at 30 days, stays between a minute and a year, is never less than the time since the last change, and
    probes earlier by three tenths of that time to synchronise with the changes.
    """

    def __init__(self, terms: Terms) -> None:
        self._interval_s = np.full(terms.sources, 30 * _DAY_S)
        self._modified_s = np.full(terms.sources, terms.start_s)

    def first_s(self) -> Floats:
        """Return 30 days for each source."""
        return self._interval_s.copy()

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the adapted intervals."""
        changed = np.array([new.size > 0 for new in items])
        interval_s = self._interval_s[probed] * np.where(changed, 0.8, 1.4)
        self._modified_s[probed[changed]] = now_s
        since_s = now_s - self._modified_s[probed]
        interval_s = np.clip(np.maximum(interval_s, since_s), _MINUTE_S, 365 * _DAY_S)
        self._interval_s[probed] = interval_s
        waits: Floats = np.maximum(interval_s - 0.3 * since_s, _MINUTE_S)
        return waits


class StormCrawler:
    """StormCrawler's ``AdaptiveScheduler``: a change halves the distance to an hour, no change extends it by half.

    It starts at a day and stays below two weeks.
    """

    def __init__(self, terms: Terms) -> None:
        self._interval_s = np.full(terms.sources, _DAY_S)

    def first_s(self) -> Floats:
        """Return a day for each source."""
        return self._interval_s.copy()

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the adapted intervals."""
        changed = np.array([new.size > 0 for new in items])
        before_s = self._interval_s[probed]
        after_s = np.where(changed, 0.5 * before_s + 0.5 * _HOUR_S, np.minimum(1.5 * before_s, 14 * _DAY_S))
        self._interval_s[probed] = after_s
        return self._interval_s[probed]


class WaitingPolicy:
    """Probes each source when its wait, times a factor, is over; the first probes are spread evenly."""

    def __init__(self, terms: Terms, formula: _Formula, *, factor: float) -> None:
        self._terms, self._formula, self._factor = terms, formula, factor
        spread = turns(np.arange(terms.sources))
        self._due_s = terms.start_s + spread * factor * formula.first_s()

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the due sources, the longest due first."""
        now_s = self._terms.grid.start_s(now)
        due = np.flatnonzero(self._due_s <= now_s + 1e-6)
        return due[np.argsort(self._due_s[due], kind="stable")[:room]]

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Ask the formula for the next waits."""
        now_s = self._terms.grid.start_s(now)
        items = np.split(times_s, np.searchsorted(item_of, np.arange(1, len(probed))))
        self._due_s[probed] = now_s + self._factor * self._formula.after_s(probed, items, now_s)


def factor_for(probes_at: Callable[[float], int], probes: int) -> float:
    """Return the factor of the waits at which a formula makes almost, and at most, ``probes`` probes.

    It bisects the logarithm: longer waits make fewer probes.

    >>> 2.0 <= factor_for(lambda factor: int(1000 / factor), 500) < 2.01
    True
    """
    low, high = _LOG_FACTORS
    while high - low > _FINEST:
        middle = (low + high) / 2
        made = probes_at(2.0**middle)
        if made > probes:
            low = middle
        else:
            high = middle
            if made >= probes * (1 - _NEAR_ENOUGH):
                break
    return float(2.0**high)


PEERS: dict[str, Callable[[Terms], _Formula]] = {
    "miniflux": RoundRobin,
    "miniflux-frequency": EntryFrequency,
    "commafeed": CommaFeed,
    "nutch": Nutch,
    "stormcrawler": StormCrawler,
}


_LINES = 10_000  # of a text, which may have 8 MiB
_DOMAIN = """CREATE DOMAIN "feeds" AS CLASS::RSS(channel.item.title:String);
CREATE PROFILE "replay" AS (DOMAIN "feeds", LANGUAGE "SQL", USER "replay");
"""
_RULE = """INSERT NOTIFICATION {part} SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT{lived}
SET POLICY {policy};
"""


class Overrun:
    """By what factor plans surely make more probes than they were asked for, or fewer, over about three weeks.

    A plan does not foresee what will be found. Regular sources took 7 % more than they were planned for, which a replay
    had to save in its last weeks. The first days say nothing, because new sources are probed more.

    >>> even, uneven = Overrun(), Overrun()
    >>> for day in range(60):
    ...     even.note(110.0, 100.0, after_days=day)
    ...     uneven.note(60.0 + 100.0 * (day % 2), 100.0, after_days=day)
    >>> round(even.factor, 3), round(uneven.factor, 3)
    (1.1, 1.0)
    """

    def __init__(self) -> None:
        self._sums = np.zeros(3)  # days, and the sums of what they made of what was asked, and of its squares

    @property
    def factor(self) -> float:
        """The mean of made over asked probes, nearer to 1 by two standard errors of it."""
        days, made, squares = self._sums.tolist()
        if days < _FEWEST_DAYS:
            return 1.0
        off = made / days - 1.0
        error = sqrt(max(0.0, squares / days - (made / days) ** 2) / days)
        return 1.0 + copysign(min(max(0.0, abs(off) - 2.0 * error), _MOST_OVERRUN), off)

    def note(self, made: float, asked: float, *, after_days: float) -> None:
        """Note the probes of a day that began so many days after the start."""
        if after_days >= _NEW_DAYS:
            share = made / max(asked, 1e-9)
            self._sums = self._sums * _DAY_LATER + [1.0, share, share * share]


class DeciderPolicy:
    """Probes as the daemon would, with one rule for all sources alike; the remaining budget decides the price."""

    def __init__(self, terms: Terms, policy: str = "AUTO") -> None:
        self._terms = terms
        most = terms.sources if terms.per_chronon is None else terms.per_chronon
        budget = Budget(most / terms.grid.length_s)
        # a replay loses nothing: the windows of its outcomes are not a feed's
        price = 1e-9 if terms.target is None else None
        planner = PlannerSettings(terms.grid, budget, price_item_s=price, host_spacing_s=0.0, overflow=1.0)
        settings = DeciderSettings(planner, source_spacing_s=terms.grid.length_s)
        self._decider = Decider(settings, np.random.Generator(np.random.PCG64(terms.seed)))
        self._planner = self._decider.planner
        fleet = _fleet_of_history(terms)
        states, weeks = _states_of_history(terms, fleet)
        changes = sorted((at_s, str(n)) for n, times in enumerate(terms.history) for at_s in times.tolist())
        self._decider.restore(states, {}, weeks=weeks, changes=[(name, at_s) for at_s, name in changes])
        self._decider.restore_plan(PlanRecord(fleet=fleet))
        declared = _declaration(terms, policy)
        self._decider.declare(declared, dict.fromkeys(declared.rules, terms.start_s), terms.start_s)
        self._day = Timer(terms, DAY_S)
        self._left = terms.probes
        self._overrun, self._planned = Overrun(), (terms.start_s, terms.probes, 0.0)

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the decider's choice, with a new plan of the week every day."""
        now_s = self._terms.grid.start_s(now)
        if self._day.ring_if_due(now):
            probes_per_s = self._next_budget_per_s(now_s)
            if (week := self._decider.fleet(now_s).plan(probes_per_s=probes_per_s)) is not None:
                run_all(self._decider.switch_plan(week, now_s))
        planned = self._decider.choose(now).probes
        for late in planned[room:]:
            self._planner.drop(late, now_s)
        self._left -= len(planned[:room])
        return np.array([int(each.probe.source_id) for each in planned[:room]], dtype=np.int64)

    def _next_budget_per_s(self, now_s: float) -> float:
        """Return what the next plan is asked for, so that it makes an even share of the probes left."""
        since_s, left, per_s = self._planned
        if now_s > since_s:
            after_days = (since_s - self._terms.start_s) / DAY_S
            self._overrun.note(left - self._left, per_s * (now_s - since_s), after_days=after_days)
        next_per_s = max(1, self._left) / (self._terms.stop_s - now_s) / self._overrun.factor
        self._planned = now_s, self._left, next_per_s
        return next_per_s

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Feed back the result of each probe."""
        now_s = self._terms.grid.start_s(now)
        cuts = np.searchsorted(item_of, np.arange(1, len(probed)))
        for source, times in zip(probed.tolist(), np.split(times_s, cuts), strict=True):
            outcome, known = _outcome(str(source), times, now_s)
            self._decider.outcomes.finish(outcome, self._decider.observe(outcome, known))


def _outcome(source_id: str, times_s: Floats, now_s: float) -> tuple[ProbeOutcome, StoredContext]:
    """Return an outcome that shows new items above a known one: nothing disappeared unseen."""
    if not len(times_s):
        return ProbeOutcome(source_id, OutcomeKind.SAME_BODY, now_s, now_s, 200), NO_CONTEXT
    old = Item("old", {}, None, "")
    items = (*(Item(repr(time_s), {}, time_s, "") for time_s in reversed(times_s.tolist())), old)
    outcome = ProbeOutcome(source_id, OutcomeKind.CHANGED, now_s, now_s, 200, items, body_hash=repr(now_s))
    return outcome, StoredContext({"old": old})


def _declaration(terms: Terms, policy: str) -> Declaration:
    """Return a declaration of numbered sources, all on one host, and a rule for those of each importance."""
    sources = terms.sources
    life = "OVERWRITE" if terms.life_s is None else f"WINDOW({terms.life_s:.0f} SECONDS)"
    target = "" if terms.target is None else f" SET TARGET {terms.target:.1%}"
    lived = f" SET LIFE {life}{target}" if terms.in_time else ""
    rules = "".join(_RULE.format(part=part, lived=lived, policy=policy) for part in _parts(terms))
    lines = [f"CREATE SOURCE \"{number}\" OF RSS AT 'https://example/{number}';\n" for number in range(sources)]
    parts = ["".join(lines[first : first + _LINES]) for first in range(0, sources, _LINES)]
    texts = [SourceText(f"replay {place}", part) for place, part in enumerate([_DOMAIN + rules, *parts])]
    checked = check(texts, CheckSettings())
    assert checked.declaration is not None
    return checked.declaration


def _parts(terms: Terms) -> list[str]:
    """Return the name of each rule, and which sources it is for if their items are not worth the same."""
    if terms.importance is None:
        return ['"all" INTO "replay"']
    parts = []
    for worth in np.unique(terms.importance).tolist():
        names = ", ".join(f'"{number}"' for number in np.flatnonzero(terms.importance == worth).tolist())
        parts.append(f'"{worth:g}" INTO "replay" FROM SOURCES {names} SET IMPORTANCE {worth:g} DURING \'Mon-Sun\'')
    return parts


def _fleet_of_history(terms: Terms) -> FleetRecord:
    """Return what the history shows of all sources together, as if they had been probed every day."""
    model = Learner(terms).model
    memory, thinning = model.memory.pack(), model.thinning.values
    return FleetRecord(*model.chosen.credits, model.trust.likelihoods, memory=memory, thinning=thinning)


def _states_of_history(terms: Terms, fleet: FleetRecord) -> tuple[dict[str, SourceState], dict[str, WeekCounts]]:
    """Return what the history shows of each source, as if it had been probed every week."""
    states, weeks, blend, thinning = {}, {}, Blend(), SavedDelay()
    thinning.restore(fleet.thinning)
    in_mass = _mass_times(terms.history)
    known_s = np.full(terms.sources, terms.history_start_s if terms.known_from_s is None else terms.known_from_s)
    for number, (times, begun_s) in enumerate(zip(terms.history, known_s.tolist(), strict=True)):
        rate, counts, recent = NO_EVIDENCE, WeekCounts.begun(begun_s), b""
        for since_s, until_s in pairwise([*np.arange(begun_s, terms.start_s, WEEK_S).tolist(), terms.start_s]):
            found = tuple(times[(times > since_s) & (times <= until_s)].tolist())
            mass_s, evidence = tuple(in_mass[number].intersection(found)), ItemTimes(since_s, until_s, found)
            rate = blend.seen(rate, evidence, mass_s=mass_s)
            counted = leave_out(evidence, mass_s) if thinning.is_used else evidence
            counts = counts.seen(counted)
            recent = note_recent(recent, until_s - since_s, counted, 0.0, 1.0, 1.0, Cycle().in_odd_weeks(counted))
        name = str(number)
        states[name] = SourceState(
            *(name, f"https://example/{name}"),
            first_contact_s=terms.start_s,
            last_success_s=terms.start_s,
            rate=rate,
            fit=ModelFit(gaps=ItemGaps.of_times(times[times > begun_s].tolist()), as_of_s=terms.start_s, recent=recent),
        )
        weeks[name] = counts
    return states, weeks


def _mass_times(history: Sequence[Floats]) -> list[set[float]]:
    """Return of each source the times of its items that came in mass changes."""
    sources = np.repeat(np.arange(len(history)), [len(times) for times in history])
    times_s = np.concatenate([np.zeros(0), *history])
    order = np.argsort(times_s, kind="stable")
    late = order[in_mass_changes(times_s[order], sources[order])]
    return [set(times_s[late[sources[late] == source]].tolist()) for source in range(len(history))]


_CLAIRVOYANT = "clairvoyant"
_LEAST_WEEKS, _WHOLE = 4, 1e-9


def _doe(terms: Terms) -> str:
    """Return DOE with about the budget's probes; a week may hold one more."""
    each = max(1, terms.probes) / (terms.stop_s - terms.start_s) * WEEK_S / max(1, terms.sources)
    weeks = max(_LEAST_WEEKS, ceil(1 / each))
    return f"DOE({floor(each * weeks + _WHOLE)} PROBES PER {weeks} WEEKS)"


def _of_the_language(name: PolicyName) -> Callable[[Terms], ReplayPolicy]:
    """Return a policy that a rule can set, run by the daemon's own decider."""
    return lambda terms: DeciderPolicy(terms, _doe(terms) if name is PolicyName.DOE else name.value)


LEARNING: dict[str, Callable[[Terms], ReplayPolicy]] = {
    **{name.value.lower(): _of_the_language(name) for name in LANGUAGE},
    "uniform": UniformPolicy,
    "due": due_policy,
    "greedy": greedy_policy,
    "golden-cycle": golden_cycle_policy,
    "powers": powers_policy,
    "powers-improved": best_powers_policy,
    "threshold": lambda terms: WeeklyPolicy(terms, parametric_slots("threshold")),
    "first-arrival": lambda terms: WeeklyPolicy(terms, parametric_slots("first-arrival")),
    "wic": WicPolicy,
    "edf": EdfPolicy,
}
POLICIES: tuple[str, ...] = (*LEARNING, *PEERS, _CLAIRVOYANT)
"""All names, in the order of listings."""

_SCALING_ROOM = 2  # times the budget while scaling: a formula that uses all of it makes too many probes


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The results of one policy."""

    policy: str
    achieved: MeasuredDelays
    factor: float | None = None  # of the waits of a peer, at which it makes as many probes


def expand_policies(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with ``all`` replaced by every name; ``UnknownPolicyError`` if one is unknown."""
    for name in names:
        if name != "all" and name not in POLICIES:
            raise UnknownPolicyError(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}, or all")
    return POLICIES if "all" in names else tuple(dict.fromkeys(names))


def run(name: str, events_s: Sequence[Floats], terms: Terms) -> PolicyRow:
    """Return the results of a policy, one of ``POLICIES``, on each source's events of the epoch, ascending."""
    if name == _CLAIRVOYANT:
        return PolicyRow(name, measures_of_probes(events_s, _clairvoyant(events_s, terms), terms))
    if name in PEERS:
        return _run_peer(name, events_s, terms)
    return PolicyRow(name, measures_of_probes(events_s, replay(events_s, LEARNING[name](terms), terms), terms))


def _run_peer(name: str, events_s: Sequence[Floats], terms: Terms) -> PolicyRow:
    roomy = replace(terms, probes=terms.probes * _SCALING_ROOM)

    def made(factor: float) -> ProbesMade:
        return replay(events_s, WaitingPolicy(roomy, PEERS[name](roomy), factor=factor), roomy)

    factor = factor_for(lambda tried: made(tried).count, terms.probes)
    return PolicyRow(name, measures_of_probes(events_s, made(factor), terms), factor)


def _clairvoyant(events_s: Sequence[Floats], terms: Terms) -> ProbesMade:
    schedule = clairvoyant_probes(events_s, terms.probes, epoch=terms.epoch, grid=terms.grid)
    sources = np.repeat(np.arange(len(schedule)), [times.size for times in schedule])
    # it probes at the end of a chronon, which is the start of the next
    chronons = np.concatenate([np.zeros(0), *schedule]) / terms.grid.length_s
    return ProbesMade(sources, np.floor(chronons + 0.5).astype(np.int64))
