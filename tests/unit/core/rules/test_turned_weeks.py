"""A week that turned is forgotten: that of a source by its own probes, and all of them if many sources' did."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter

import numpy as np
import pytest

from proxyd.api.wire import explained
from proxyd.core.model.chronon import Budget
from proxyd.core.model.field_values import iso_time
from proxyd.core.planning.allocation.fleet_state import FleetState, pack, unpack
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import run_all
from proxyd.core.rates.rate_blend import ItemTimes
from proxyd.core.rates.week_bins import HOUR_S, MONDAY_S, WEEK_S, Cycle
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rates.week_shapes import WeekShapes
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.estimates import Estimates
from proxyd.core.rules.known.state import SourceState
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

NAMES = ("a", "b", "c", "d", "e")
SOURCES = declaration(*map(source, NAMES), rule("r")).sources
DAY_S = 86400.0
T0 = MONDAY_S + 8 * WEEK_S


def counts(items: int) -> WeekCounts:
    times_s = tuple((MONDAY_S + 60.0 * np.arange(1, items + 1)).tolist())
    return WeekCounts.begun(MONDAY_S).seen(ItemTimes(MONDAY_S, MONDAY_S + 8 * WEEK_S, times_s))


def test_of_a_week_that_turned_one_item_is_kept() -> None:
    forgotten = counts(50).forgotten(T0)
    assert forgotten.items == 1.0
    assert forgotten.squares < counts(50).squares
    assert forgotten.since_s == T0 - WEEK_S
    assert counts(1).forgotten(T0).items == 1.0


def lines_about(found: Decider, name: str, now_s: float, what: str) -> list[str]:
    """Return the lines of a source's explanation that begin so."""
    told = Explainer.of(found).explain(name, found.settings.grid.chronon_at(now_s))
    assert told is not None
    return [line for line in explained.explanation(told).summary if line.startswith(what)]


def estimates_and_plan(rate_per_s: float = 1e-5) -> tuple[Estimates, WeekPlan]:
    weeks = WeekShapes(np.ones((1, 168)), np.zeros(5, dtype=np.int64))
    state = FleetState(list(NAMES), np.full(5, rate_per_s), np.ones(5), np.full(5, T0), weeks, 1e-3)
    found = Estimates(1e-5, Cycle())
    found.weeks = {name: counts(50) for name in NAMES}
    return found, WeekPlan.of(state)


def turn(found: Estimates, plan: WeekPlan, name: str, at_s: float) -> WeekCounts | None:
    before = SourceState(name, f"https://{name}/")
    return found.see(SOURCES[name], before, ItemTimes(at_s - 60.0, at_s, ()), plan, turned=True)


@pytest.mark.parametrize("rate_per_s", [1e-5, 1e-6], ids=["as many as others", "most of all"])
def test_the_week_of_one_source_says_nothing_of_the_others_however_many_items_it_has(rate_per_s: float) -> None:
    found, plan = estimates_and_plan(rate_per_s)
    turned = turn(found, plan, "a", T0)
    assert turned is not None
    assert turned.items == 1.0
    assert [found.week(SOURCES[name], T0).items for name in NAMES] == [1.0, 50.0, 50.0, 50.0, 50.0]


def test_all_weeks_are_forgotten_once_those_of_many_turned_within_days() -> None:
    found, plan = estimates_and_plan()
    turn(found, plan, "a", T0)
    turn(found, plan, "b", T0 + DAY_S)
    assert [found.week(SOURCES[name], T0 + DAY_S).items for name in NAMES] == [1.0] * 5
    record, restarted = found.record(), Estimates(1e-5, Cycle())
    restarted.weeks = {"c": counts(50)}
    restarted.restore_fleet(record)
    assert restarted.week(SOURCES["c"], T0 + DAY_S).items == 1.0
    assert found.last_turn(T0 + DAY_S) == (0, T0 + DAY_S)
    later = T0 + 2 * DAY_S
    told = ItemTimes(later - DAY_S, later, tuple(later - HOUR_S * hour for hour in range(9, 0, -1)))
    found.see(SOURCES["c"], SourceState("c", "https://c/"), told, plan)
    assert found.week(SOURCES["c"], later).items > 9.0  # forgotten once, and learned again


def test_weeks_that_turn_far_apart_are_not_those_of_all() -> None:
    found, plan = estimates_and_plan()
    turn(found, plan, "a", T0)
    turn(found, plan, "b", T0 + 4 * WEEK_S)
    assert found.week(SOURCES["c"], T0 + 4 * WEEK_S).items == 50.0


async def test_a_week_that_turned_is_not_taken_for_batches() -> None:
    rng = np.random.default_rng(4)
    office = np.tile(np.repeat([0.2, 6.0, 0.2], [4, 4, 4]), 7)
    sizes = rng.poisson(np.concatenate([np.tile(office, 6), np.tile(np.roll(office, 6), 6)]))
    now_s = MONDAY_S + 12 * WEEK_S
    found = decider(declaration(source("s"), rule("r")), now_s=now_s)
    changes = [
        (str(each), MONDAY_S + 7200.0 * number) for number, size in enumerate(sizes.tolist()) for each in range(size)
    ]
    found.restore({}, {}, changes=changes)
    found.declare(declaration(source("s"), rule("r")), {"r": now_s}, now_s)
    await Drive(found).see(changed("s", [item("1", now_s - 60.0)], now_s))
    unaware = found.fleet(now_s).state()
    record = replace(found.known.estimates.record(), turned=(0.0, 0.0, MONDAY_S + 6 * WEEK_S))
    found.known.estimates.restore_fleet(record)
    aware = found.fleet(now_s).state()
    assert unaware is not None
    assert aware is not None
    assert unaware.together > 2.5
    assert aware.together < 1.3


async def test_a_source_whose_items_come_in_the_other_half_of_the_day_learns_its_week_again() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=MONDAY_S, budget=Budget(1.0))
    drive, shown, rng = Drive(found), list[float](), np.random.default_rng(6)
    for day in range(42):
        begin_s = MONDAY_S + DAY_S * day + (12.0 if day < 35 else 0.0) * HOUR_S
        shown += [begin_s + HOUR_S * hour for hour in sorted(rng.uniform(0.0, 12.0, 9).tolist())]
        for hour in range(2, 26, 2):
            at_s = MONDAY_S + DAY_S * day + HOUR_S * hour
            new = [item(repr(time_s), time_s) for time_s in reversed(shown[-30:]) if time_s <= at_s]
            await drive.see(changed("s", new, at_s))
        week = found.fleet(at_s).plan()
        assert week is not None
        run_all(found.switch_plan(week, at_s))
    by_hour = found.known.estimates.weeks["s"].counts.reshape(7, 24).sum(axis=0)
    assert by_hour[:12].sum() > 5 * by_hour[12:].sum()


async def test_a_plan_that_finds_that_all_weeks_turned_turns_what_was_counted_once_also_after_a_restart() -> None:
    rng, names = np.random.default_rng(8), [f"s{number}" for number in range(20)]
    declared = declaration(*map(source, names), rule("r"))
    found = decider(declared, now_s=T0, budget=Budget(1.0))
    weeks, changes = dict[str, WeekCounts](), list[tuple[str, float]]()
    for name in names:
        begin_s = MONDAY_S + DAY_S * np.arange(56) + np.where(np.arange(56) < 54, 0.0, 8 * HOUR_S)
        times_s = np.sort((begin_s[:, None] + rng.uniform(0.0, 6 * HOUR_S, (56, 12))).ravel())
        weeks[name] = WeekCounts.begun(MONDAY_S).seen(ItemTimes(MONDAY_S, T0, tuple(times_s.tolist())))
        changes += [(name, time_s) for time_s in times_s.tolist()]
    found.restore({}, {}, weeks=weeks, changes=sorted(changes, key=itemgetter(1)))
    found.declare(declared, {"r": T0}, T0)
    for name in names:
        await Drive(found).see(changed(name, [item("1", T0 - 60.0)], T0))
    plan = found.fleet(T0 + 60.0).plan()
    assert plan is not None
    assert plan.turned_h == 8
    run_all(found.switch_plan(plan, T0 + 60.0))
    known, restarted = found.known.estimates, Estimates(1e-5, Cycle())
    by_hour = known.week(found.known.compiled.sources["s0"], T0 + 60.0).counts.reshape(7, 24).sum(axis=0)
    assert by_hour[8:14].sum() > 10 * by_hour[:6].sum()
    restarted.weeks, later_s = dict(known.weeks), T0 + DAY_S
    restarted.restore_fleet(known.record())
    told = ItemTimes(later_s - DAY_S, later_s, (later_s - 60.0,))
    for _ in range(2):
        restarted.see(found.known.compiled.sources["s0"], SourceState("s0", "https://s0/"), told, plan)
    by_hour = restarted.weeks["s0"].counts.reshape(7, 24).sum(axis=0)
    assert by_hour[8:14].sum() > 10 * by_hour[:6].sum()
    after = found.fleet(later_s).plan()
    assert after is not None
    assert after.turned_h == 0
    assert lines_about(found, "s0", T0 + 60.0, "since ") == [
        f"since {iso_time(T0 + 60.0)} the items of all sources come 8 hours later than before"
    ]
    assert not lines_about(found, "s0", T0 + 5 * WEEK_S, "since ")


async def test_a_source_is_planned_by_a_week_that_is_moved_to_its_hours() -> None:
    names = [f"s{number}" for number in range(24)]
    found = decider(declaration(*map(source, names), rule("r")), now_s=T0, budget=Budget(1.0))
    rng = np.random.default_rng(7)
    for zone, name in enumerate(names):
        morning_s = MONDAY_S + DAY_S * np.arange(56)[:, None] + HOUR_S * zone
        times_s = np.sort((morning_s + rng.uniform(0.0, 6 * HOUR_S, (56, 4))).ravel())
        told = ItemTimes(MONDAY_S, T0, tuple(times_s[times_s < T0].tolist()))
        found.known.estimates.weeks[name] = WeekCounts.begun(MONDAY_S).seen(told)
        await Drive(found).see(changed(name, [item("1", T0 - 60.0)], T0))
    plan = found.fleet(T0).plan()
    assert plan is not None
    run_all(found.switch_plan(plan, T0))
    first: list[int] = []
    for zone, name in enumerate(names):
        week = np.array(plan.intensity(name)).reshape(7, 24).mean(axis=0)
        busy = (np.arange(6) + zone) % 24
        assert week[busy].mean() > 3.0 * np.delete(week, busy).mean()
        model = found.known.estimates.model(found.known.compiled.sources[name], 1e-4, plan, T0)
        busy_s, quiet_s = (MONDAY_S + DAY_S + HOUR_S * ((zone + hour) % 24) for hour in (2, 14))
        assert model.expect(busy_s, busy_s + HOUR_S)[0] > 3.0 * model.expect(quiet_s, quiet_s + HOUR_S)[0]
        told_week = Explainer.of(found).explain(name, found.settings.grid.chronon_at(T0))
        assert told_week is not None
        np.testing.assert_allclose(told_week.week, plan.intensity(name))
        for line in lines_about(found, name, T0, "its week is the one that all sources share, "):
            hours, way = line.rpartition(", ")[2].split()[::2]
            first.append((zone - int(hours) * (1 if way == "later" else -1)) % 24)
    assert len(first) == 23  # one follows it at its own hours
    assert len(set(first)) == 1
    state = found.fleet(T0).state()
    assert state is not None
    kept = unpack(pack(state))
    assert kept.weeks.ahead_h is not None
    np.testing.assert_array_equal(kept.weeks.ahead_h, state.weeks.ahead_h)
