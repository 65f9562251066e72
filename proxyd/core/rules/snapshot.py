"""A snapshot of the fleet, gathered source by source for a plan of the week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from proxyd.core.model.chronon import Target
from proxyd.core.planning.allocation.fleet_state import SLOT_S
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.kernels.losses import Losses
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness import HostBudgets
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.estimates import Fleet, Floats, zone_s
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.programs.rule_program import RuleProgram, source_weights

_COLUMNS = 8


class Snapshot:
    """Data gathered of sources, without those that are not planned or were not seen yet.

    Sources are added in their state at that time; later changes are followed up when the plan is taken over.
    """

    def __init__(self, known: Knowledge, hosts: HostBudgets, now_s: float) -> None:
        self._known, self._estimates = known, known.estimates
        self._budgets = hosts
        self._now_s = now_s
        self._length_s = known.grid.length_s
        self._week_s = known.estimates.cycle.week_s(now_s)
        self.hosts: set[str] = set()
        self._source_ids: list[str] = []
        self._weeks: list[WeekCounts] = []
        self._numbers: list[Floats] = []
        self._even: list[bool] = []
        self._doe: dict[str, tuple[tuple[int, float], ...]] = {}
        self._importances: list[Floats | None] = []
        self._losses: list[Losses] = []
        self._targets: dict[str, tuple[int, Target]] = {}
        self._rules_of: list[tuple[int, ...]] = []
        self._asking: list[tuple[str, ...]] = []  # the names of the rules of each kind that have targets
        self._matching: list[float] = []
        self._kinds: dict[tuple[str, ...], int] = {}
        self._hosts: dict[str, int] = {}
        self._asked_of: dict[str, float] = {}
        self._asked_per_s = 0.0

    def add(self, planned: list[PlannedSource]) -> None:
        """Take in some sources."""
        programs, sources = self._known.compiled.programs, self._known.compiled.sources
        for source in planned:
            if asked_per_s := source.demands.demand_per_s(self._length_s):
                self._asked_per_s += asked_per_s
                self._asked_of[source.host] = self._asked_of.get(source.host, 0.0) + asked_per_s
        self.hosts.update(source.host for source in planned)
        seen = [each for each in planned if each.last_seen_s is not None and each.demands.in_week]
        seen = [each for each in seen if each.source_id in sources and programs.keys() >= set(each.demands.in_week)]
        rows = [
            (
                source.rate_per_s,
                source.weight_at_price,
                source.last_seen_s or 0.0,
                zone,
                self._kind(source, programs),
                self._hosts.setdefault(source.host, len(self._hosts)),
                max(self._length_s, 1.0 / source.log.budget.most_per_s),
                source.passing,
            )
            for source in seen
            for zone in (zone_s(sources[source.source_id].zone, self._now_s),)
        ]
        for source, row in zip(seen, rows, strict=True):
            asking = self._asking[int(row[4])]
            self._matching += [self._known.matching_share(name, source.source_id) for name in asking]
        self._numbers.append(np.array(rows, dtype=np.float64).reshape(len(rows), _COLUMNS))
        self._source_ids += [source.source_id for source in seen]
        self._weeks += [self._estimates.week(sources[each.source_id], self._now_s) for each in seen]
        self._even += [self._estimates.week_is_off(source.source_id) for source in seen]
        asked = ((p.source_id, tuple(d.quota for d in p.demands.rules if d.quota is not None)) for p in seen)
        self._doe |= {name: numbers for name, numbers in asked if numbers}

    def _kind(self, source: PlannedSource, programs: Mapping[str, RuleProgram]) -> int:
        """Return the index of what waiting costs these rules; sources with the same rules share it."""
        demands = source.demands
        names = tuple(demands.in_week)
        kind = self._kinds.get(names)
        if kind is None:
            kind = self._kinds[names] = len(self._importances)
            self._importances.append(source_weights((programs[name] for name in names), self._week_s))
            self._losses.append(demands.losses)
            numbers = [self._targets.setdefault(name, (len(self._targets), each))[0] for name, each in demands.targets]
            self._rules_of.append(tuple(numbers))
            self._asking.append(tuple(name for name, _ in demands.targets))
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
            price_item_s=0.0 if settings.spend or settings.price_item_s is None else settings.price_item_s,
            slot_factor=None if week is None else week.slot_factor,
            changes=changes,
        )

    def _columns(self) -> dict[str, Any]:
        """Return the gathered columns by the names of the fleet's fields."""
        columns = np.concatenate([np.zeros((0, _COLUMNS)), *self._numbers]).T.copy()
        rate_per_s, weights, last_seen_s, zones_s, kind_of, host_of, least_gap_s, passing = columns
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
            "targets": [(name, target) for name, (_, target) in self._targets.items()],
            "rules_of": self._rules_of,
            "matching": np.array(self._matching),
            "least_gap_s": least_gap_s,
            "zones_s": zones_s,
            "passing": passing if np.any(passing != 1.0) else None,
            "host_of": host_of.astype(np.int64),
            "host_per_s": np.array([max(0.1 * most, most - asked) for most, asked in most_per_s]),
            "even": np.array(self._even) if any(self._even) else None,
            "doe": self._doe,
            "now_s": self._now_s,
            "cycle": self._estimates.cycle,
        }
