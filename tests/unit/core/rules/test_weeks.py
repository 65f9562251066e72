"""What planning the week gains: the daemon's own decisions on synthetic weeks, against uniform probing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from proxyd.api.wire import explained
from proxyd.core.model.chronon import Budget, ChrononGrid, Epoch
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.plan_preview import preview
from proxyd.core.rates.week_bins import WEEK_S, Cycle
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.estimates import Estimates
from proxyd.lab.traces import MONDAY_S, STEADY, Week, model_trace
from proxyd.store.backups import open_store
from tests.databases import migrated_file
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

SOURCES, WEEKS, PER_WEEK = 40, 6, 10.0
PRICE_ITEM_S = PER_WEEK / WEEK_S * 86400.0**2 / 2  # a source of mean rate is due after about a day


@dataclass(frozen=True)
class Run:
    """Mean delay and number of probes in the second half of a run."""

    delay_s: float
    probes: int
    sources: int = SOURCES

    @property
    def to_uniform(self) -> float:
        """Mean delay over what the same number of probes at an even pace have: half the time between them."""
        return self.delay_s / (WEEKS / 2 * WEEK_S * self.sources / self.probes / 2)


async def run(model: str, week: Week | None = None, *, plans: bool) -> Run:
    """Drive a decider through a trace, planning the week every day."""
    rng = np.random.Generator(np.random.PCG64(3))
    trace = model_trace(model, sources=SOURCES, weeks=WEEKS, rng=rng, rate_per_week=PER_WEEK, week=week)
    return (await run_events(trace.events_s, plans=plans))[0]


async def run_events(
    events_s: Sequence[np.ndarray], *, plans: bool, price_item_s: float = PRICE_ITEM_S
) -> tuple[Run, Decider]:
    """Drive a decider through the events of each source, planning the week every day."""
    events = dict(zip((f"s{number}" for number in range(len(events_s))), events_s, strict=True))
    found = decider(
        declaration(*map(source, events), rule("r")),
        now_s=MONDAY_S,
        chronon_s=600.0,
        budget=Budget(70 * len(events) / WEEK_S),
        price_item_s=price_item_s,
        host_spacing_s=0.0,
    )
    drive, probes = Drive(found), defaultdict(list)
    grid = found.settings.grid
    for now in range(grid.chronon_at(MONDAY_S), grid.chronon_at(MONDAY_S + WEEKS * WEEK_S)):
        now_s = grid.start_s(now)
        if plans and now % grid.ceil(86400.0) == 0 and (week_plan := found.fleet(now_s).plan()) is not None:
            run_all(found.switch_plan(week_plan, now_s))
        for planned in found.choose(now).probes:
            name, at_s = planned.probe.source_id, planned.start_s
            shown = [t for t in events[name] if t <= at_s][-20:]
            await drive.see(changed(name, [item(f"{name} {t!r}", t) for t in reversed(shown)], at_s))
            probes[name].append(at_s)
    return _measured(events, probes), found


def _measured(events: dict[str, np.ndarray], probes: dict[str, list[float]]) -> Run:
    half_s, end_s = MONDAY_S + WEEKS / 2 * WEEK_S, MONDAY_S + WEEKS * WEEK_S
    delays = []
    for name, times in events.items():
        late = times[times >= half_s]
        found_s = np.append(probes[name], end_s)
        delays.append(found_s[np.searchsorted(found_s[:-1], late)] - late)
    count = sum(at_s >= half_s for all_of_one in probes.values() for at_s in all_of_one)
    return Run(float(np.concatenate(delays).mean()), count, len(events))


@pytest.mark.parametrize("model", ["poisson", "drift"])
@pytest.mark.long
async def test_on_a_working_week_planning_halves_the_delay_nearly_with_no_more_probes(model: str) -> None:
    planned, unplanned = await run(model, plans=True), await run(model, plans=False)
    assert planned.probes <= unplanned.probes
    assert planned.delay_s < 0.93 * unplanned.delay_s
    assert planned.to_uniform <= 0.6


@pytest.mark.long
async def test_without_a_week_planning_costs_nothing() -> None:
    planned, unplanned = await run("poisson", STEADY, plans=True), await run("poisson", STEADY, plans=False)
    assert planned.to_uniform <= 1.04 * unplanned.to_uniform
    assert planned.to_uniform < 0.95


async def test_sources_with_regular_items_are_planned_by_the_age_of_the_newest() -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    gaps = WEEK_S / PER_WEEK * rng.gamma(25.0, 1 / 25.0, (8, 80))
    events_s = [MONDAY_S + times[times < WEEKS * WEEK_S] for times in np.cumsum(gaps, axis=1)]
    planned, found = await run_events(events_s, plans=True, price_item_s=PRICE_ITEM_S / 16)
    assert planned.to_uniform < 0.7  # 0.95 by rate and week
    end = found.settings.grid.chronon_at(MONDAY_S + WEEKS * WEEK_S)
    told = Explainer.of(found).explain("s1", end)
    assert told is not None
    assert told.factor is None
    assert told.next_probe is not None
    known = found.known.states["s1"].fit.gaps
    assert told.expected == pytest.approx(known.expect(known_until_s(found, "s1"), told.next_probe.start_s))
    (line,) = (line for line in explained.explanation(told).summary if line.startswith("planned"))
    assert line.startswith("planned by the age of its newest item: the next one comes about 17 hours later, give or ")
    coming = [each.start_s for each in preview(found.planner.part(["s1"]), Epoch(end, end + 1008))]
    # near the end of each gap, not all the time after the first one
    assert 10 < len(coming) < 60


async def test_mass_changes_do_not_count_in_rates_where_they_touch_any_source() -> None:
    rng = np.random.Generator(np.random.PCG64(7))
    own = PER_WEEK / WEEK_S / 4.0 * 4.0 ** rng.uniform(-2.0, 2.0, 24)
    mass_s = np.sort(rng.uniform(0.0, WEEKS * WEEK_S, 5 * WEEKS))
    times = [np.cumsum(rng.exponential(1 / per_s, 400)) for per_s in own]
    all_s = [np.concatenate([each, (mass_s + rng.uniform(0, 600.0))[rng.random(len(mass_s)) < 0.8]]) for each in times]
    events_s = [MONDAY_S + np.sort(each[each < WEEKS * WEEK_S]) for each in all_s]
    _, found = await run_events(events_s, plans=True, price_item_s=PRICE_ITEM_S / 16)
    blend, end_s = found.known.estimates.blend, MONDAY_S + WEEKS * WEEK_S
    assert blend.is_thin
    rates = np.array([blend.rate_per_s(found.known.states[f"s{n}"].rate, end_s) for n in range(24)])
    both = np.array([blend.rate_per_s(found.known.states[f"s{n}"].rate, end_s, thin=False) for n in range(24)])
    # the first sources of each mass change still count
    assert np.abs(np.log(rates / own)).mean() < 0.9 * np.abs(np.log(both / own)).mean()
    told = Explainer.of(found).explain("s1", found.settings.grid.chronon_at(end_s))
    assert told is not None
    assert "items that came together with those of many other sources do not count in that rate" in (
        explained.explanation(told).summary
    )


async def test_sources_whose_items_come_in_sessions_are_planned_by_what_came_last() -> None:
    rng = np.random.Generator(np.random.PCG64(6))
    gaps = WEEK_S / PER_WEEK * rng.exponential(np.where(rng.random((20, 160)) < 0.8, 0.1, 4.6))
    events_s = [MONDAY_S + times[times < WEEKS * WEEK_S] for times in np.cumsum(gaps, axis=1)]
    planned, found = await run_events(events_s, plans=True, price_item_s=PRICE_ITEM_S / 16)
    assert planned.to_uniform < 0.88  # 1.02 by rate and week
    assert found.known.estimates.memory.is_used
    told = Explainer.of(found).explain("s1", found.settings.grid.chronon_at(MONDAY_S + WEEKS * WEEK_S))
    assert told is not None
    assert told.recent_factor is not None
    (line,) = (line for line in explained.explanation(told).summary if line.startswith("planned"))
    assert line.endswith(" times that rate, because of what came in the last hours, days and weeks")


def known_until_s(found: Decider, name: str) -> float:
    seen_s = found.planner.sources[name].last_seen_s
    assert seen_s is not None
    return seen_s


def test_an_unknown_source_has_the_same_items_a_week_however_short_the_week_is() -> None:
    week, minute = Estimates(1e-5, Cycle()), Estimates(1e-5, Cycle(60.0))
    assert minute.blend.mean_per_s * 60.0 == pytest.approx(week.blend.mean_per_s * WEEK_S)


async def test_weeks_survive_a_restart(tmp_path: Path) -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=MONDAY_S)
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        outcome = changed("s", [item("a", MONDAY_S + 60.0), item("b", MONDAY_S + 4000.0)], MONDAY_S + 9000.0)
        observation = found.observe(outcome)
        assert observation is not None
        await store.record(observation)
        (kept,) = (await store.load_weeks()).values()
    assert kept.items == 1.0  # the older one begins what is known
    np.testing.assert_array_equal(kept.counts, found.known.estimates.weeks["s"].counts)
    assert (kept.since_s, kept.as_of_s) == (
        found.known.estimates.weeks["s"].since_s,
        found.known.estimates.weeks["s"].as_of_s,
    )


async def test_an_explanation_tells_the_price_and_the_week() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=MONDAY_S)
    drive = Drive(found)
    await drive.see(changed("s", [item(str(n), MONDAY_S - 3600.0 * n) for n in range(1, 20)], MONDAY_S))
    week_plan = found.fleet(MONDAY_S).plan()
    assert week_plan is not None
    run_all(found.switch_plan(week_plan, MONDAY_S))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(MONDAY_S))
    assert told is not None
    assert told.price_item_s == pytest.approx(found.settings.planner.price_item_s)
    assert len(told.week) == 168
    assert np.mean(told.week) == pytest.approx(1.0)


@pytest.mark.parametrize("binds", [False, True])
async def test_an_explanation_says_where_a_host_binds(binds: bool) -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=MONDAY_S)
    items = [item(str(n), MONDAY_S - 60.0 * n) for n in range(1, 200)]
    await Drive(found).see(changed("s", items, MONDAY_S))
    if binds:  # robots.txt asks for an hour between any two
        found.planner.limits.hosts.space("example.org", 3600.0)
    week_plan = found.fleet(MONDAY_S).plan()
    assert week_plan is not None
    run_all(found.switch_plan(week_plan, MONDAY_S))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(MONDAY_S))
    assert told is not None
    assert told.is_host_bound == binds
    (line,) = (line for line in explained.explanation(told).summary if line.startswith("price"))
    assert ("limit the probes of its host" in line, "lower probe_price" in line) == (binds, not binds)


async def in_zone(options: str, clauses: str = "") -> Decider:
    """Return a decider that planned the week of a source with items on Mondays, 6:00 to 8:00 UTC, in winter."""
    winter_s = MONDAY_S + 2870 * WEEK_S  # the first Monday of 2025
    found = decider(declaration(source("s", options=options), rule("r", clauses=clauses)), now_s=winter_s)
    items = [item(f"{w} {n}", winter_s + w * WEEK_S + 21600 + 72 * n) for w in range(8) for n in range(100)]
    await Drive(found).see(changed("s", [item("seed", winter_s), *items][::-1], winter_s + 8 * WEEK_S))
    plan = found.fleet(winter_s + 8 * WEEK_S).plan()
    assert plan is not None
    run_all(found.switch_plan(plan, winter_s + 8 * WEEK_S))
    return found


async def test_the_week_of_a_source_lives_in_its_zone_and_is_told_in_utc() -> None:
    tokyo = await in_zone("ZONE 'Asia/Tokyo'")
    told = Explainer.of(tokyo).explain("s", tokyo.settings.grid.chronon_at(MONDAY_S + 2878 * WEEK_S))
    assert told is not None
    assert tokyo.planner.week is not None
    assert int(np.argmax(tokyo.planner.week.intensity("s"))) in {15, 16}
    assert int(np.argmax(told.week)) in {6, 7}


@pytest.mark.parametrize("zone", ["", "ZONE 'Asia/Tokyo'"])
async def test_doe_probes_where_its_own_hours_matter(zone: str) -> None:
    """Items come on Mondays, but until the end of the week nobody minds their waiting."""
    clauses = "SET POLICY DOE(1 PROBE PER 1 WEEK) SET IMPORTANCE 0 DURING 'Mon-Fri', 1 OTHERWISE"
    found = await in_zone(zone, clauses)
    last_s = MONDAY_S + 2878 * WEEK_S
    (planned,) = preview(found.planner, Epoch(int(last_s // 10), int((last_s + WEEK_S) // 10)), limit=1)
    assert planned.probe.reason is Reason.DOE
    assert 4.5 <= (planned.start_s - last_s) / 86400.0 <= 6.5
