"""A snapshot of the fleet, gathered source by source for a plan of the week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from proxyd.core.model.profile import Source
from proxyd.core.planning.allocation.losses import Losses
from proxyd.core.planning.allocation.week_plan import SLOT_S, WeekPlan
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.planning.planner_settings import PlannerSettings
from proxyd.core.politeness import HostBudgets
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.estimates import Estimates, Fleet, Floats, zone_s
from proxyd.core.rules.programs.importance import source_weights
from proxyd.core.rules.programs.rule_program import RuleProgram


class Snapshot:
    """Data gathered of sources, without those that are not planned or were not seen yet.

    Sources are added in their state at that time; later changes are followed up when the plan is taken over.
    """

    def __init__(self, estimates: Estimates, hosts: HostBudgets, now_s: float, length_s: float) -> None:
        self._estimates = estimates
        self._budgets = hosts
        self._now_s = now_s
        self._length_s = length_s
        self._week_s = estimates.cycle.week_s(now_s)
        self._source_ids: list[str] = []
        self._weeks: list[WeekCounts] = []
        self._numbers: list[Floats] = []
        self._even: list[bool] = []
        self._doe: dict[str, tuple[tuple[int, float], ...]] = {}
        self._importances: list[Floats | None] = []
        self._losses: list[Losses] = []
        self._kinds: dict[tuple[str, ...], int] = {}
        self._hosts: dict[str, int] = {}
        self._asked_of: dict[str, float] = {}
        self._asked_per_s = 0.0

    def add(
        self, planned: list[PlannedSource], programs: Mapping[str, RuleProgram], sources: Mapping[str, Source]
    ) -> None:
        """Take in some sources."""
        for source in planned:
            if asked_per_s := source.demands.asked_per_s(self._length_s):
                self._asked_per_s += asked_per_s
                self._asked_of[source.host] = self._asked_of.get(source.host, 0.0) + asked_per_s
        seen = [
            source
            for source in planned
            if source.last_seen_s is not None and (source.demands.is_priced or source.demands.doe)
        ]
        rows = [
            (
                source.rate_per_s,
                source.priced_weight,
                source.last_seen_s or 0.0,
                zone,
                self._kind(source, programs),
                self._hosts.setdefault(source.host, len(self._hosts)),
                source.demands.passing,
            )
            for source in seen
            for zone in (zone_s(sources[source.source_id].zone, self._now_s),)
        ]
        self._numbers.append(np.array(rows, dtype=np.float64).reshape(len(rows), 7))
        self._source_ids += [source.source_id for source in seen]
        self._weeks += [self._estimates.week(source.source_id, self._now_s) for source in seen]
        self._even += [self._estimates.week_is_off(source.source_id) for source in seen]
        self._doe |= {p.source_id: tuple((d.probes, d.per_s) for d in p.demands.doe) for p in seen if p.demands.doe}

    def _kind(self, source: PlannedSource, programs: Mapping[str, RuleProgram]) -> int:
        """Return the index of what waiting costs these rules; sources with the same rules share it."""
        demands = source.demands
        names = tuple(demands.detecting if demands.only_detects else demands.in_week)
        kind = self._kinds.get(names)
        if kind is None:
            kind = self._kinds[names] = len(self._importances)
            self._importances.append(source_weights((programs[name] for name in names), self._week_s))
            self._losses.append(demands.losses)
        return kind

    def _slots_s(self) -> list[float]:
        """Return when each slot of this week begins, in unix seconds."""
        slots_s = (self._week_s - MONDAY_S) // WEEK_S * WEEK_S + MONDAY_S + SLOT_S * np.arange(round(WEEK_S / SLOT_S))
        found: list[float] = self._estimates.cycle.time_s(slots_s).tolist()
        return found

    def fleet(self, week: WeekPlan | None, settings: PlannerSettings, changes: Sequence[tuple[int, str]]) -> Fleet:
        """Return the sources gathered, the probes that the budget leaves for them, and the previous plan's data.

        ``changes`` says which sources changed when, in the form that ``siblings_of`` takes.
        """
        spare_per_s = np.array(settings.spare_per_s(self._slots_s(), self._asked_per_s))
        return Fleet(
            **self._columns(),
            probes_per_s=float(spare_per_s.mean()),
            most_per_s=spare_per_s,
            trust=self._estimates.trust.share,
            chronon_s=self._length_s,
            price_item_s=0.0 if settings.spend else settings.price_item_s,
            slot_factor=None if week is None else week.slot_factor,
            changes=changes,
        )

    def _columns(self) -> dict[str, Any]:
        """Return the gathered columns by the names of the fleet's fields."""
        columns = np.concatenate([np.zeros((0, 7)), *self._numbers]).T.copy()
        rate_per_s, weights, last_seen_s, zones_s, kind_of, host_of, passing = columns
        most_per_s = [(self._budgets.most_per_s(host), self._asked_of.get(host, 0.0)) for host in self._hosts]
        return {
            "source_ids": self._source_ids,
            "rate_per_s": rate_per_s,
            "weights": weights,
            "last_seen_s": last_seen_s,
            "weeks": self._weeks,
            "importances": self._importances,
            "losses": self._losses,
            "kind_of": kind_of.astype(np.int64),
            "zones_s": zones_s,
            "passing": passing if np.any(passing != 1.0) else None,
            "host_of": host_of.astype(np.int64),
            "host_per_s": np.array([max(0.1 * most, most - asked) for most, asked in most_per_s]),
            "even": np.array(self._even) if any(self._even) else None,
            "doe": self._doe,
            "now_s": self._now_s,
            "cycle": self._estimates.cycle,
        }
