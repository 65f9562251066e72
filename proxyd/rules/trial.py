"""What a declaration would ask of the budget if it were swapped in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from proxyd.model.profile import Declaration
from proxyd.rules.advice import RuleOutlook, outlook_of_rules
from proxyd.rules.decider import Decider
from proxyd.rules.explanation import DeciderSettings
from proxyd.rules.state import SourceState, StreamState
from proxyd.scheduling import Page
from proxyd.scheduling.detection import due_after_s

_TRIED_CHRONONS = 4_000  # whoever edits a profile waits for it


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a declaration asks for, in probes a second over all sources, and the rules that the budget fails soon.

    These are looked at for some thousand chronons ahead.

    Examples
    --------
    >>> PlanCost(budget_per_s=1.0, before_per_s=0.2, after_per_s=0.5, added=1, removed=0, unmet=()).after_per_s
    0.5
    """

    budget_per_s: float
    before_per_s: float
    after_per_s: float
    added: int
    removed: int
    unmet: tuple[RuleOutlook, ...]


@dataclass(frozen=True, eq=False)
class Trial:
    """A declaration to be tried beside the running one: taken at once, tried in a thread of its own.

    Parameters
    ----------
    accepted
        The NOW of each rule: the running one's where that would go on.
    """

    settings: DeciderSettings
    states: Mapping[str, SourceState]
    streams: Mapping[tuple[str, str], StreamState]
    accepted: Mapping[str, float]
    before_per_s: float
    before: frozenset[str]
    now_s: float

    @classmethod
    def beside(cls, decider: Decider, declaration: Declaration, now_s: float) -> Trial:
        """Return what a trial needs of the running daemon."""
        running, programs = decider.declaration.rules, decider.programs
        accepted = {
            name: programs[name].accepted_s
            if name in running and running[name].fingerprint == rule.fingerprint
            else now_s
            for name, rule in declaration.rules.items()
        }
        planner = replace(decider.settings.planner, price_item_s=decider.planner.price_item_s)
        return cls(
            replace(decider.settings, planner=planner),
            dict(decider.states),
            dict(decider.streams),
            accepted,
            asked_per_s(decider),
            frozenset(decider.planner.pages),
            now_s,
        )

    def cost(self, declaration: Declaration) -> PlanCost:
        """Return what the declaration would ask for; it may take some seconds for many sources."""
        tried = Decider(self.settings, np.random.Generator(np.random.PCG64(0)))
        tried.restore(self.states, self.streams)
        tried.declare(declaration, self.accepted, self.now_s)
        now = self.settings.grid.chronon_at(self.now_s) + 1
        coming = tried.ahead(now, most_chronons=_TRIED_CHRONONS).outlook()
        pages = tried.planner.pages.keys()
        return PlanCost(
            self.settings.planner.budget.mean_per_s,
            self.before_per_s,
            asked_per_s(tried),
            len(pages - self.before),
            len(self.before - pages),
            tuple(each for each in outlook_of_rules(coming) if each.unmet),
        )


def asked_per_s(decider: Decider) -> float:
    """Return how many probes a second all pages ask for: intervals, numbers of probes, and detection at its price."""
    length_s, price_item_s = decider.settings.grid.length_s, decider.planner.price_item_s
    return sum(_of_page(page, length_s, price_item_s) for page in decider.planner.pages.values())


def _of_page(page: Page, length_s: float, price_item_s: float) -> float:
    asked = page.demands.asked_per_s(length_s)
    if not page.demands.is_priced:
        return asked
    gap_s = due_after_s(page.rate_per_s, price_item_s=price_item_s, weight=page.priced_weight)
    spacing_s = max(page.log.budget.spacing_s, length_s)
    return max(asked, 0.0 if gap_s == inf else 1.0 / max(gap_s, spacing_s))
