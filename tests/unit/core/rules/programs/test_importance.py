"""SET IMPORTANCE: which hour weighs what, and what that does to the plan."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from proxyd.core.model.profile import ImportanceTerm
from proxyd.core.planning.chunks import run_all
from proxyd.core.rates.week_bins import HOURS, MONDAY_S, WEEK_S, Cycle
from proxyd.core.rules.programs.rule_program import importance_by_hour
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

MONDAY = MONDAY_S + 2900 * WEEK_S
DAY_S = 86400.0
OFFICE = "SET IMPORTANCE 10 DURING 'Mon-Fri 09:00-17:00', 1 OTHERWISE"


def term(weight: float, during: str | None = None, zone: str | None = None) -> ImportanceTerm:
    return ImportanceTerm(Decimal(weight), during, zone)


def test_the_first_term_that_holds_decides_and_elsewhere_the_weight_is_one() -> None:
    weights = importance_by_hour((term(5, "Mon 09:00-12:00"), term(2, "Mon-Tue")), MONDAY)
    assert weights[:24].tolist() == [2.0] * 9 + [5.0] * 3 + [2.0] * 12
    assert set(weights[24:48]) == {2.0}
    assert set(weights[48:]) == {1.0}


def test_a_part_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    weights = importance_by_hour((term(4, "Fri 22:00-02:00"), term(0)), MONDAY)
    assert np.flatnonzero(weights).tolist() == [4 * 24 + hour for hour in (22, 23, 24, 25)]


def test_hours_are_those_of_the_zone_in_that_week() -> None:
    berlin = (term(3, "Mon 09:00-10:00", "Europe/Berlin"),)
    winter, summer = 1_768_200_000.0, 1_784_000_000.0
    assert np.flatnonzero(importance_by_hour(berlin, winter) == 3.0).tolist() == [8]
    assert np.flatnonzero(importance_by_hour(berlin, summer) == 3.0).tolist() == [7]


def test_the_weeks_of_a_short_cycle_have_hours_beyond_the_year_9999() -> None:
    now_s = float(Cycle(300.0).week_s(1_796_049_658.0))
    weights = importance_by_hour((term(3, "Mon 09:00-10:00", "Etc/GMT-1"),), now_s)
    assert np.flatnonzero(weights == 3.0).tolist() == [8]


async def delays_by_hour(clauses: str) -> tuple[float, float, int]:
    """Return the mean delay of items in office hours and outside, and the probes, over two weeks of even items."""
    found = decider(
        declaration(source("s"), rule("r", clauses=clauses)), now_s=MONDAY, chronon_s=600.0, price_item_s=20_000.0
    )
    drive = Drive(found)
    times = MONDAY - DAY_S + np.arange(0.0, 3 * WEEK_S, 1700.0)
    await drive.see(changed("s", [item(repr(t), t) for t in times[times <= MONDAY][-20:][::-1]], MONDAY))
    week = found.fleet(MONDAY).plan()
    assert week is not None
    run_all(found.switch_plan(week, MONDAY))
    probes = []
    for now in range(found.settings.grid.chronon_at(MONDAY), found.settings.grid.chronon_at(MONDAY + 2 * WEEK_S)):
        for planned in found.choose(now).probes:
            at_s = planned.start_s
            await drive.see(changed("s", [item(repr(t), t) for t in times[times <= at_s][-20:][::-1]], at_s))
            probes.append(at_s)
    late = times[(times > MONDAY) & (times < probes[-1])]
    delays = np.array(probes)[np.searchsorted(probes, late)] - late
    hours = (late - MONDAY_S) // 3600.0 % HOURS
    is_office = (hours < 120) & (hours % 24 >= 9) & (hours % 24 < 17)
    return float(delays[is_office].mean()), float(delays[~is_office].mean()), len(probes)


async def test_what_comes_when_it_matters_is_found_sooner() -> None:
    office_s, other_s, _ = await delays_by_hour(OFFICE)
    even_office_s, even_other_s, _ = await delays_by_hour("")
    assert office_s < 0.6 * other_s
    assert even_office_s == pytest.approx(even_other_s, rel=0.2)


async def test_what_never_matters_is_not_probed_for_detection() -> None:
    found = decider(declaration(source("s"), rule("r", clauses="SET IMPORTANCE 0 OTHERWISE")), now_s=MONDAY)
    drive = Drive(found)
    await drive.see(changed("s", [item(str(n), MONDAY - 600.0 * n) for n in range(1, 9)], MONDAY))
    now = found.settings.grid.chronon_at(MONDAY)
    assert found.choose(now + 1000).probes == []
    week = found.fleet(MONDAY).plan()
    assert week is not None
    run_all(found.switch_plan(week, MONDAY))
    assert found.choose(now + 5000).probes == []
