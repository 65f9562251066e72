"""A snapshot of the fleet, gathered source by source for a plan of the week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Target
from proxyd.core.planning.allocation.fleet_state import SLOT_S, FleetState, pack
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.kernels.losses import MISSED_S, Losses
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import HostBudgets
from proxyd.core.rates.siblings import BIN_S, TOGETHER_S, concentrations, late_share, siblings_of, together
from proxyd.core.rates.week_bins import HOUR_S, HOURS, MONDAY_S, WEEK_S
from proxyd.core.rates.week_counts import WeekCounts, fleet_shapes
from proxyd.core.rates.week_shapes import WeekShapes
from proxyd.core.rates.week_turns import LONGEST_S, hours_turned
from proxyd.core.rules.known.estimates import zone_s
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.programs.rule_program import RuleProgram, source_weights

_COLUMNS = ("rate_per_s", "weights", "last_seen_s", "zone_s", "kind", "host", "least_gap_s", "passing", "counted_s")
_DAY_S = 86400.0


class Fleet:
    """The sources that a plan of the week is for; those that are not planned or were not seen yet are left out.

    Sources are added in their state at that time; later changes are followed up when the plan is taken over. Once the
    snapshot is closed, nothing changes it, so that the plan may be made in a thread or in another process.
    """

    def __init__(self, known: Knowledge, hosts: HostBudgets, now_s: float) -> None:
        self._known = known
        self._budgets = hosts
        self._now_s = now_s
        self._week_s = float(known.estimates.cycle.week_s(now_s))
        self.source_ids: list[str] = []
        self._rows: list[Floats] = []  # part by part, the values of the columns of each source
        self._weeks: list[WeekCounts] = []
        self._gaps: list[tuple[float, ...]] = []  # shape, mean and newest item of those that are planned by age
        self._even: list[bool] = []  # whether its week is off, so that it is planned as if every hour were alike
        self._doe: dict[str, tuple[tuple[int, float], ...]] = {}  # the probes and seconds of DOE rules
        self._matching: list[float] = []  # the share of each source's events that each of its rules counts
        self._kinds: dict[tuple[str, ...], int] = {}  # sources with the same rules share what waiting costs these
        self._importances: list[Floats | None] = []
        self._losses: list[Losses] = []
        self._rules_of: list[tuple[int, ...]] = []
        self._asking: list[tuple[str, ...]] = []  # the names of the rules of each kind that have targets
        self._targets: dict[str, tuple[int, Target]] = {}
        self._hosts: dict[str, int] = {}
        self._asked_of: dict[str, float] = {}  # by host
        self.asked_per_s = 0.0  # by rules that are not planned by the week
        self._chronon_s = known.grid.length_s

    def __getstate__(self) -> dict[str, Any]:
        """Return what ``state`` needs, without what the sources are taken from."""
        return {name: value for name, value in vars(self).items() if name not in ("_known", "_budgets")}

    def add(self, planned: Sequence[PlannedSource], week: WeekPlan | None = None) -> None:
        """Take in some sources; ``week`` is the running plan."""
        known, length_s = self._known, self._chronon_s
        programs, sources = known.compiled.programs, known.compiled.sources
        rows, source_ids = list[tuple[float, ...]](), list[str]()
        for source in planned:
            demands, host = source.demands, source.host
            asked_per_s = 0.0 if demands.only_detects else demands.demand_per_s(length_s)
            self.asked_per_s += asked_per_s
            self._asked_of[host] = self._asked_of.get(host, 0.0) + asked_per_s
            names, declared = tuple(demands.in_week), sources.get(source.source_id)
            # a declaration may have removed a rule since the last part, whose sources are not placed again yet
            is_asked = bool(names) and programs.keys() >= set(names)
            if source.last_seen_s is None or not is_asked or declared is None:
                continue
            kind, gaps = self._kind(demands, names, programs), source.gaps
            row = (
                source.rate_per_s,
                source.weight_at_price,
                source.last_seen_s,
                zone_s(declared.zone, self._now_s),
                kind,
                self._hosts.setdefault(host, len(self._hosts)),
                max(length_s, 1.0 / source.log.budget.most_per_s),
                source.passing,
            )
            rows.append(row)
            source_ids.append(source.source_id)
            if asking := self._asking[kind]:
                self._matching += [known.matching_share(name, source.source_id) for name in asking]
            self._weeks.append(known.estimates.week(declared, self._now_s))
            self._gaps.append((gaps.shape_to_plan_by, gaps.mean_s, gaps.newest_s or 0.0))
            self._even.append(known.estimates.week_is_off(source.source_id))
            if not demands.only_detects and (quotas := tuple(d.quota for d in demands.rules if d.quota is not None)):
                self._doe[source.source_id] = quotas
        if rows:
            columns = np.array(rows, dtype=np.float64)
            seen_s = columns[:, _COLUMNS.index("last_seen_s")]
            counted_s = seen_s if week is None else week.counted_s(source_ids, seen_s)
            self._rows.append(np.column_stack([columns, counted_s]))
            self.source_ids += source_ids

    def _kind(self, demands: Demands, names: tuple[str, ...], programs: Mapping[str, RuleProgram]) -> int:
        kind = self._kinds.get(names)
        if kind is None:
            kind = self._kinds[names] = len(self._importances)
            self._importances.append(source_weights((programs[name] for name in names), self._week_s))
            self._losses.append(demands.losses)
            numbers = [self._targets.setdefault(name, (len(self._targets), each))[0] for name, each in demands.targets]
            self._rules_of.append(tuple(numbers))
            self._asking.append(tuple(name for name, _ in demands.targets))
        return kind

    def close(self, week: WeekPlan | None, settings: PlannerSettings, changes: Sequence[tuple[int, str]]) -> Fleet:
        """Add the running plan, the settings, and which sources changed when, in the form of ``siblings_of``."""
        self._changes = changes
        self._slot_factor = None if week is None else week.slot_factor
        self._trust = self._known.estimates.trust.share
        self._turned_s = max(self._known.estimates.all_turned_s, self._known.estimates.moved_s)
        self._cycle = self._known.estimates.cycle
        self.price_item_s = 0.0 if settings.spend or settings.price_item_s is None else settings.price_item_s
        most_per_s = [(self._budgets.most_per_s(host), self._asked_of[host]) for host in self._hosts]
        self._host_per_s = np.array([max(0.1 * most, most - asked) for most, asked in most_per_s])
        first_s = (self._week_s - MONDAY_S) // WEEK_S * WEEK_S + MONDAY_S
        slots_s = self._cycle.time_s(first_s + SLOT_S * np.arange(round(WEEK_S / SLOT_S))).tolist()
        self._spare_per_s = np.array(settings.spare_per_s(slots_s, self.asked_per_s))
        return self

    @property
    def hosts(self) -> set[str]:
        """The hosts of all sources, also of those that are left out."""
        return set(self._asked_of)

    def plan(self, **others: Any) -> WeekPlan | None:
        """Return the plan of the week, or ``None`` if there are no sources; ``others`` replace values of its state."""
        state = self.state()
        return None if state is None else WeekPlan.of(replace(state, **others))

    def plan_and_state(self) -> tuple[WeekPlan, bytes] | None:
        """Return the plan of the week with what it is made of, packed; ``None`` if there are no sources."""
        state = self.state()
        return None if state is None else (WeekPlan.of(state), pack(state))

    def state(self) -> FleetState | None:
        """Return the input of the plan of the week, with the weeks learned; ``None`` if there are no sources."""
        if not self.source_ids:
            return None
        column, zones_s = self._columns, self._columns["zone_s"]
        host_of = column["host"].astype(np.int64)
        # a week that turned is no batch
        before, since = list[tuple[int, str]](), list[tuple[int, str]]()
        for change in self._changes:
            (before if change[0] * TOGETHER_S < self._turned_s else since).append(change)
        batches = max(together(before, self._turned_s), together(since, self._week_s))
        weeks = fleet_shapes(self._weeks, self._week_s + zones_s, together=batches)
        turned_h = self._hours_turned(weeks, zones_s)
        if turned_h:
            weeks = replace(weeks, shapes=np.roll(weeks.shapes, turned_h, axis=1))
        rates = column["rate_per_s"] / self._cycle.speed
        of_week = weeks.in_place()
        if weeks.ahead_h is not None:
            zones_s = column["zone_s"] = zones_s + HOUR_S * weeks.ahead_h
        return FleetState(
            self.source_ids,
            column["rate_per_s"],
            column["weights"],
            column["last_seen_s"],
            weeks,
            float(self._spare_per_s.mean()),
            self.price_item_s,
            self._kinds_of_importance(),
            losses=self._kinds_of_losses(),
            rules=tuple(self._targets),
            targets=self._fleet_targets(host_of),
            counted_s=column["counted_s"],
            passing=column["passing"] if np.any(column["passing"] != 1.0) else None,
            trust=self._trust,
            chronon_s=self._chronon_s,
            cycle=self._cycle,
            zone_s=zones_s if zones_s.any() else None,
            doe=self._doe,
            siblings=siblings_of(self._changes, now_s=self._week_s),
            most_per_s=self._spare_per_s,
            slot_factor=self._slot_factor,
            even=np.array(self._even) if any(self._even) and not turned_h else None,
            gaps=np.array(self._gaps) if any(shape for shape, *_ in self._gaps) else None,
            host_of=host_of,
            host_per_s=self._host_per_s,
            host_k=concentrations(self._changes_by_number, host_of, rates, of_week, self._week_s),
            together=batches,
            turned_h=turned_h,
        )

    def _hours_turned(self, weeks: WeekShapes, zones_s: Floats) -> int:
        """Return by how many hours all weeks turned, as far as the newest changes show it."""
        begun = (self._week_s - LONGEST_S) / TOGETHER_S  # as batches seem to come since then, if they turned
        batches = together([change for change in self._changes if change[0] < begun], LONGEST_S + begun * TOGETHER_S)
        changes = np.array(self._changes_by_number, dtype=np.int64).reshape(-1, 2)
        return hours_turned(
            (changes[:, 0], changes[:, 1]),
            weeks.in_place(),
            self._columns["rate_per_s"],
            self._cycle.week_s(self._columns["last_seen_s"]),
            zones_s,
            since_s=self._turned_s,
            dispersion=batches,
        )

    @cached_property
    def _columns(self) -> dict[str, Floats]:
        return dict(zip(_COLUMNS, np.concatenate(self._rows).T.copy(), strict=True))

    @cached_property
    def _changes_by_number(self) -> list[tuple[int, int]]:
        """Which sources, by number, changed when."""
        numbers = {source_id: number for number, source_id in enumerate(self.source_ids)}
        return [(at, numbers[source_id]) for at, source_id in self._changes if source_id in numbers]

    @property
    def _kind_of(self) -> Ints:
        return self._columns["kind"].astype(np.int64)

    def _fleet_targets(self, host_of: Ints) -> FleetTargets | None:
        """Return what the rules ask for, or ``None`` if the budget or a price decides."""
        if not self._targets:
            return None
        return FleetTargets(
            [target for _, target in self._targets.values()],
            self._rules_of,
            self._kind_of,
            host_of,
            late_share(self._changes_by_number, host_of, self._week_s),
            late=BIN_S / self._cycle.speed + self._chronon_s,
            missed=MISSED_S / self._cycle.speed,
            matching=np.array(self._matching),
            most_gap=_DAY_S / self._cycle.speed,
            least_gap=self._columns["least_gap_s"],
        )

    def _kinds_of_losses(self) -> tuple[Sequence[Losses], Ints] | None:
        """Return the losses that occur and the index of each source's, or ``None`` if only the delay counts."""
        if not any(self._losses):
            return None
        # each pair of a week and of losses takes timetables of its own; most rules have the same losses
        numbers = {losses: number for number, losses in enumerate(dict.fromkeys(self._losses))}
        number_of = np.array([numbers[losses] for losses in self._losses], dtype=np.int64)
        return [*numbers], number_of[self._kind_of]

    def _kinds_of_importance(self) -> tuple[Floats, Ints] | None:
        """Return the importances that occur and the index of each source's, or ``None`` if all are even."""
        if all(each is None or not each.any() for each in self._importances):
            return None
        zones_s, zone_of = np.unique(self._columns["zone_s"], return_inverse=True)
        pairs, pair_of = np.unique(self._kind_of * len(zones_s) + zone_of, return_inverse=True)
        rows = [
            _local(self._importances[pair // len(zones_s)], zones_s[pair % len(zones_s)]) for pair in pairs.tolist()
        ]
        kinds, kind_of = np.unique(rows, axis=0, return_inverse=True)
        return kinds, kind_of.reshape(-1)[pair_of].astype(np.int64)


def _local(importance: Floats | None, zone_s: float) -> Floats:
    """Return the cost of waiting by hour in a zone, with mean 1."""
    if importance is None or not importance.any():
        return np.ones(HOURS)
    return np.roll(importance / importance.mean(), round(zone_s / HOUR_S))
