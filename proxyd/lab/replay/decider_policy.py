"""The daemon's decider as a policy of a replay, with its own estimates, week plans and feedback."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.budget import Budget
from proxyd.core.model.chronon import Chronon
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.chunks import run_all
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
from proxyd.lab.replay.replay import Floats, Ints, Terms
from proxyd.lab.replay.replay_policies import DAY_S, Learner, Timer

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
