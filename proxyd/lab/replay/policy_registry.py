"""The policies of a replay by name, among them the daemon's own decider, and their results on a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor

import numpy as np

from proxyd.core.errors import UnknownPolicyError
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.budget import Budget
from proxyd.core.model.chronon import Chronon
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration, PolicyName
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.policies.registry import POLICIES as LANGUAGE
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rates.evidence import ItemTimes
from proxyd.core.rates.rate_blend import NO_EVIDENCE, Blend
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.known.context import NO_CONTEXT, StoredContext
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import SourceState
from proxyd.lab.replay.peers import PEERS, WaitingPolicy, factor_for
from proxyd.lab.replay.reference_schedules import clairvoyant_probes
from proxyd.lab.replay.replay import Floats, Ints, MeasuredDelays, ProbesMade, ReplayPolicy, Terms, achieved, replay
from proxyd.lab.replay.replay_policies import (
    DAY_S,
    AutoPolicy,
    EdfPolicy,
    LearnedGreedyPolicy,
    Learner,
    Timer,
    UniformPolicy,
    WeeklyPolicy,
    WicPolicy,
    due_policy,
    improved_powers_policy,
    parametric_slots,
    powers_policy,
)

_LINES = 10_000  # of a text, which may have 8 MiB
_DOMAIN = """CREATE DOMAIN "feeds" AS CLASS::RSS(channel.item.title:String);
CREATE PROFILE "replay" AS (DOMAIN "feeds", LANGUAGE "SQL", USER "replay");
INSERT NOTIFICATION "all" INTO "replay" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT"""


class DeciderPolicy:
    """Probes as the daemon would, with one rule for all sources; the remaining budget decides the price.

    Parameters
    ----------
    policy
        What the rule sets as its policy, in words of the rule language.
    """

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
        states, weeks = _learned(terms)
        changes = sorted((at_s, str(n)) for n, times in enumerate(terms.history) for at_s in times.tolist())
        self._decider.restore(states, {}, weeks=weeks, changes=[(name, at_s) for at_s, name in changes])
        self._decider.restore_plan(PlanRecord(fleet=_learned_of_all(terms)))
        declared = _declaration(terms, policy)
        self._decider.declare(declared, dict.fromkeys(declared.rules, terms.start_s), terms.start_s)
        self._day = Timer(terms, DAY_S)
        self._left = terms.probes

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the decider's choice, with a new plan of the week every day."""
        terms, now_s = self._terms, self._terms.grid.start_s(now)
        if self._day.rings(now):
            fleet = self._decider.fleet(now_s)
            fleet = replace(fleet, probes_per_s=max(1, self._left) / (terms.stop_s - now_s))
            if (week := fleet.plan()) is not None:
                run_all(self._decider.switch_plan(week, now_s))
        planned = self._decider.choose(now)
        for late in planned[room:]:
            self._planner.drop(late, now_s)
        self._left -= len(planned[:room])
        return np.array([int(each.probe.source_id) for each in planned[:room]], dtype=np.int64)

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Feed back the result of each probe."""
        now_s = self._terms.grid.start_s(now)
        cuts = np.searchsorted(item_of, np.arange(1, len(probed)))
        for source, times in zip(probed.tolist(), np.split(times_s, cuts), strict=True):
            outcome, known = _outcome(str(source), times, now_s)
            self._decider.observing.finish(outcome, self._decider.observe(outcome, known))


def _outcome(source_id: str, times_s: Floats, now_s: float) -> tuple[ProbeOutcome, StoredContext]:
    """Return an outcome that shows new items above a known one: nothing disappeared unseen."""
    if not len(times_s):
        return ProbeOutcome(source_id, OutcomeKind.SAME_BODY, now_s, now_s, 200), NO_CONTEXT
    old = Item("old", {}, None, "")
    items = (*(Item(repr(time_s), {}, time_s, "") for time_s in reversed(times_s.tolist())), old)
    outcome = ProbeOutcome(source_id, OutcomeKind.CHANGED, now_s, now_s, 200, items, body_hash=repr(now_s))
    return outcome, StoredContext({"old": old})


def _declaration(terms: Terms, policy: str) -> Declaration:
    """Return a declaration of numbered sources, all on one host, and a rule with the life to plan for."""
    sources = terms.sources
    life = "OVERWRITE" if terms.life_s is None else f"WINDOW({terms.life_s:.0f} SECONDS)"
    target = "" if terms.target is None else f" SET TARGET {terms.target:.1%}"
    lived = f" SET LIFE {life}{target}" if terms.in_time else ""
    rule = f"{_DOMAIN}{lived} SET POLICY {policy};\n"
    lines = [f"CREATE SOURCE \"{number}\" OF RSS AT 'https://example/{number}';\n" for number in range(sources)]
    parts = ["".join(lines[first : first + _LINES]) for first in range(0, sources, _LINES)]
    texts = [SourceText(f"replay {place}", part) for place, part in enumerate([rule, *parts])]
    checked = check(texts, CheckSettings())
    assert checked.declaration is not None
    return checked.declaration


def _learned_of_all(terms: Terms) -> FleetRecord:
    """Return what the history shows of all sources together, as if they had been probed every day."""
    model = Learner(terms).model
    return FleetRecord(*model.rates.credits, model.trust.likelihoods)


def _learned(terms: Terms) -> tuple[dict[str, SourceState], dict[str, WeekCounts]]:
    """Return what the history shows of each source, as if it had been probed every week."""
    states, weeks, blend = {}, {}, Blend()
    known_s = np.full(terms.sources, terms.history_start_s if terms.known_from_s is None else terms.known_from_s)
    for number, (times, begun_s) in enumerate(zip(terms.history, known_s.tolist(), strict=True)):
        rate, counts = NO_EVIDENCE, WeekCounts.begun(begun_s)
        for since_s, until_s in pairwise([*np.arange(begun_s, terms.start_s, WEEK_S).tolist(), terms.start_s]):
            evidence = ItemTimes(since_s, until_s, tuple(times[(times > since_s) & (times <= until_s)].tolist()))
            rate = blend.seen(rate, evidence)
            counts = counts.seen(evidence)
        name = str(number)
        states[name] = SourceState(
            name, f"https://example/{name}", first_contact_s=terms.start_s, last_success_s=terms.start_s, rate=rate
        )
        weeks[name] = counts
    return states, weeks


CLAIRVOYANT = "clairvoyant"
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
    "auto": AutoPolicy,
    "daemon": DeciderPolicy,
    "uniform": UniformPolicy,
    "due": due_policy,
    "greedy": LearnedGreedyPolicy,
    "powers": powers_policy,
    "powers-improved": improved_powers_policy,
    "threshold": lambda terms: WeeklyPolicy(terms, parametric_slots("threshold")),
    "first-arrival": lambda terms: WeeklyPolicy(terms, parametric_slots("first-arrival")),
    "wic": WicPolicy,
    "edf": EdfPolicy,
}
POLICIES: tuple[str, ...] = (*LEARNING, *PEERS, CLAIRVOYANT)
"""All names, in the order of listings."""

_SCALING_ROOM = 2  # times the budget while scaling: a formula that uses all of it makes too many probes


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The results of one policy.

    Parameters
    ----------
    factor
        The factor of a peer's waits at which it makes as many probes; ``None`` for other policies.
    """

    policy: str
    achieved: MeasuredDelays
    factor: float | None = None


def checked_policies(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with ``all`` replaced by every name.

    Raises
    ------
    UnknownPolicyError
        A name is unknown.

    Examples
    --------
    >>> checked_policies(["auto", "uniform"])
    ('auto', 'uniform')
    """
    for name in names:
        if name != "all" and name not in POLICIES:
            raise UnknownPolicyError(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}, or all")
    return POLICIES if "all" in names else tuple(dict.fromkeys(names))


def run(name: str, events_s: Sequence[Floats], terms: Terms) -> PolicyRow:
    """Return the results of a policy on the events of the epoch.

    Parameters
    ----------
    name
        One of ``POLICIES``.
    events_s
        Each source's events in the epoch, ascending.

    Examples
    --------
    >>> from proxyd.core.model.chronon import ChrononGrid, Epoch
    >>> history = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(ChrononGrid(10.0), Epoch(0, 6), probes=3, history=history, history_start_s=0.0, slot_s=10.0)
    >>> run("uniform", (np.array([5.0]), np.array([7.0])), terms).achieved.probes
    3
    """
    if name == CLAIRVOYANT:
        return PolicyRow(name, achieved(events_s, _clairvoyant(events_s, terms), terms))
    if name in PEERS:
        return _run_peer(name, events_s, terms)
    return PolicyRow(name, achieved(events_s, replay(events_s, LEARNING[name](terms), terms), terms))


def _run_peer(name: str, events_s: Sequence[Floats], terms: Terms) -> PolicyRow:
    roomy = replace(terms, probes=terms.probes * _SCALING_ROOM)

    def made(factor: float) -> ProbesMade:
        return replay(events_s, WaitingPolicy(roomy, PEERS[name](roomy), factor=factor), roomy)

    factor = factor_for(lambda tried: made(tried).count, terms.probes)
    return PolicyRow(name, achieved(events_s, made(factor), terms), factor)


def _clairvoyant(events_s: Sequence[Floats], terms: Terms) -> ProbesMade:
    schedule = clairvoyant_probes(events_s, terms.probes, epoch=terms.epoch, grid=terms.grid)
    sources = np.repeat(np.arange(len(schedule)), [times.size for times in schedule])
    # it probes at the end of a chronon, which is the start of the next
    chronons = np.concatenate([np.zeros(0), *schedule]) / terms.grid.length_s
    return ProbesMade(sources, np.floor(chronons + 0.5).astype(np.int64))
