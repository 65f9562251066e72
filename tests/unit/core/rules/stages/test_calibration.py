"""Accounts against chance: what probes of Poisson sources find is what was predicted, over many of them."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid, Epoch
from proxyd.core.rates.model_fit import NO_FIT, ModelFit, SourceModel
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rules.answers.explanation import Explainer, Explanation
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.stages.observation import Observation
from proxyd.core.rules.stages.payload import ProbeFacts
from proxyd.core.rules.stages.rule_tasks import RuleTask, advance
from proxyd.core.rules.stages.source_state import Calibration, Gap, predict
from proxyd.store.backups import open_store
from tests.databases import migrated_file
from tests.fleets import Drive, changed, decider, declaration, item, rule, source, unchanged
from tests.observations import observed
from tests.rehearsal import Origins, plan

GRID = ChrononGrid(10.0)
T0 = MONDAY_S + 2800 * WEEK_S
HOUR_S = 3600.0
RULES = {
    "each": rule("r"),
    "every third": rule("r", when="COUNT(*) % 3 = 0"),
    "a window of an hour": rule("r", clauses="SET LIFE WINDOW(1 HOUR)"),
    "every second, a window": rule("r", when="COUNT(*) % 2 = 1", clauses="SET LIFE WINDOW(10 MINUTES)"),
}
ALIKE = {"every third", "a window of an hour"}  # to the last one, which has both


def summed(accounts: list[Calibration]) -> Calibration:
    def add(one: Calibration, other: Calibration) -> Calibration:
        return Calibration(*(getattr(one, f.name) + getattr(other, f.name) for f in fields(Calibration)))

    return reduce(add, accounts, Calibration())


async def probed(found: Decider, times_s: np.ndarray, every_s: float, until_s: float) -> list[Observation]:
    """Return what probes of source ``s`` at an even pace find, without asking the planner."""
    origins, seen = Origins({"s": times_s}, window=60), []
    for at_s in np.arange(T0, until_s, every_s).tolist():
        outcome, known = origins.answer("s", at_s)
        observation = found.observe(outcome, known)
        assert observation is not None
        found.outcomes.finish(outcome, observation)
        seen.append(observation)
    return seen


def poisson(per_day: float, since_s: float, until_s: float, seed: int) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(seed))
    return np.sort(rng.uniform(since_s, until_s, rng.poisson(per_day * (until_s - since_s) / 86400.0)))


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, marks=[pytest.mark.long] * (name in ALIKE)) for name, text in RULES.items()],
    ids=RULES,
)
@pytest.mark.parametrize("gap_s", [pytest.param(3000.0, marks=pytest.mark.long), 4 * HOUR_S])
async def test_on_poisson_sources_what_is_found_is_what_was_predicted(text: str, gap_s: float) -> None:
    found = decider(declaration(source("s"), text), now_s=T0)
    times_s = poisson(20.0, T0 - 20 * 86400.0, T0 + 90 * 86400.0, seed=8)
    seen = await probed(found, times_s, gap_s, T0 + 90 * 86400.0)
    total = summed([each.calibration for each in seen if each.calibration is not None])
    assert total.probes == len(seen) - 1
    assert total.items == total.timed_items == len(times_s[(times_s > T0) & (times_s <= seen[-1].outcome.finished_s)])
    assert total.predicted_items == pytest.approx(total.items, rel=0.06)
    assert total.predicted_timed_items == pytest.approx(total.items, rel=0.06)
    assert total.predicted_delay_item_s == pytest.approx(total.delay_item_s, rel=0.06)
    assert total.predicted_captured == pytest.approx(total.captured, rel=0.04, abs=3 * total.captured**0.5)
    assert total.predicted_missed == pytest.approx(total.missed, rel=0.04, abs=3 * total.missed**0.5)


@pytest.mark.parametrize("text", RULES.values(), ids=RULES)
def test_one_gap_predicts_the_mean_of_many(text: str) -> None:
    """Each draw is taken by the stream where the last one left it, as if all gaps were one after the other."""
    found = decider(declaration(source("s"), text), now_s=T0)
    program, stream = found.known.compiled.programs["r"], found.known.streams["r", "s"]
    rng = np.random.Generator(np.random.PCG64(3))
    gap_s, draws, captured, missed = 2 * HOUR_S, 2000, 0, 0
    drive = Drive(found)
    template = drive.decider.observe(changed("s", [item("seed", T0 - 60.0)], T0))
    assert template is not None
    (seed,) = template.found.events
    for _ in range(draws):
        times_s = np.sort(rng.uniform(0.0, gap_s, rng.poisson(3.0)))
        events = [replace(seed, event_s=T0 + t, seen_s=T0 + gap_s, seed=False) for t in times_s.tolist()]
        step = advance(RuleTask(program, stream, events, ProbeFacts("", GRID)))
        stream = step.streams[0]
        captured += sum(record.captured for record in step.intervals)
        missed += sum(not record.captured for record in step.intervals)
    gap = Gap(T0, T0 + gap_s)
    account = predict(SourceModel(3.0 / gap_s), gap, [(program, found.known.streams["r", "s"])], GRID)
    assert account.predicted_captured == pytest.approx(captured / draws, abs=3 * captured**0.5 / draws)
    assert account.predicted_missed == pytest.approx(missed / draws, abs=3 * missed**0.5 / draws)


def test_items_without_times_have_no_delay_and_one_interval() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    rules = [(found.known.compiled.programs["r"], found.known.streams["r", "s"])]
    untimed = predict(SourceModel(0.01), Gap(T0, T0 + 100.0, is_timed=False), rules, GRID)
    assert (untimed.predicted_timed_items, untimed.predicted_delay_item_s) == (0.0, 0.0)
    assert untimed.predicted_items == pytest.approx(1.0)
    assert untimed.predicted_captured == pytest.approx(1.0 - np.exp(-1.0))
    assert untimed.predicted_missed == 0.0
    page = predict(SourceModel(0.01), Gap(T0, T0 + 100.0, is_page=True, is_timed=False), rules, GRID)
    assert page.predicted_items == pytest.approx(1.0 - np.exp(-1.0))


def test_a_rule_that_is_not_active_predicts_nothing() -> None:
    found = decider(declaration(source("s"), rule("r", start="NOW + '1 DAY'")), now_s=T0)
    rules = [(found.known.compiled.programs["r"], found.known.streams["r", "s"])]
    account = predict(SourceModel(0.01), Gap(T0, T0 + 100.0), rules, GRID)
    assert (account.predicted_captured, account.predicted_missed) == (0.0, 0.0)
    late = predict(SourceModel(0.01), Gap(T0 + 86300.0, T0 + 86500.0), rules, GRID)
    half = predict(SourceModel(0.01), Gap(T0 + 86400.0, T0 + 86500.0), rules, GRID)
    assert late.predicted_captured == pytest.approx(half.predicted_captured)


async def test_first_contacts_failures_and_pushes_have_no_account() -> None:
    drive = Drive(decider(declaration(source("s"), rule("r")), now_s=T0))
    first = await drive.see(changed("s", [item("a", T0 - 100.0)], T0))
    second = await drive.see(unchanged("s", T0 + 600.0))
    pushed = await drive.see(replace(changed("s", [item("b", T0 + 700.0)], T0 + 710.0), is_push=True))
    after = await drive.see(unchanged("s", T0 + 1200.0))
    later = await drive.see(unchanged("s", T0 + 1800.0))
    assert [each.calibration is None for each in (first, second, pushed, after, later)] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert second.calibration is not None
    assert (second.calibration.items, second.calibration.probes) == (0, 1)
    assert second.calibration.predicted_items > 0
    assert after.state.fit.found == pytest.approx(1.0, rel=0.01)  # the model is judged by pushes too


# -- a source whose week is off


def day_and_night(seed: int, *, flips_s: float, weeks: int) -> np.ndarray:
    """Return items of working hours, from ``flips_s`` on of the nights, about 40 a week; four weeks are history."""
    rng = np.random.Generator(np.random.PCG64(seed))
    hours = np.arange(T0 - 4 * WEEK_S, T0 + weeks * WEEK_S, HOUR_S)
    of_day, of_week = (hours - MONDAY_S) % 86400.0 / HOUR_S, (hours - MONDAY_S) % WEEK_S / 86400.0
    is_work = (of_day >= 9) & (of_day < 17) & (of_week < 5)
    is_night = (of_day < 6) & (of_week < 7)
    rates = np.where(hours < flips_s, np.where(is_work, 1.0, 0.02), np.where(is_night, 1.0, 0.02))
    counts = rng.poisson(rates)
    return np.sort(np.repeat(hours, counts) + rng.random(counts.sum()) * HOUR_S)


@pytest.mark.long
async def test_a_source_whose_week_turns_is_planned_evenly_and_told_so(tmp_path: Path) -> None:
    flips_s = T0 + 2 * WEEK_S
    names = [f"s{number}" for number in range(6)]
    times_s = {name: day_and_night(n, flips_s=flips_s if n < 2 else np.inf, weeks=4) for n, name in enumerate(names)}
    found = decider(
        declaration(*map(source, names), rule("r")),
        now_s=T0,
        chronon_s=600.0,
        budget=Budget(60 * 6 / WEEK_S),
        price_item_s=6 * HOUR_S,
        host_spacing_s=0.0,
    )
    origins, plan_s = Origins(times_s, window=200), T0 + HOUR_S
    off_s: dict[str, float] = {}
    told: list[Explanation] = []
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(600.0)) as store, store.writer.running():
        for now in Epoch(int(T0 // 600), int((T0 + 4 * WEEK_S) // 600)):
            if plan_s <= now * 600.0:
                plan(found, plan_s)
                if off := [each for each in Explainer.of(found).misfits() if each.fit.week_off_since_s is not None]:
                    week = found.planner.week
                    assert week is not None
                    evenly = {name for name in names if np.ptp(week.intensity(name)) < 1e-9}
                    assert evenly == {misfit.source_id for misfit in off}
                    explained = Explainer.of(found).explain(min(evenly), int(plan_s // 600))
                    assert explained is not None
                    assert explained.misfit is not None
                    assert explained.misfit.fit == found.known.states[min(evenly)].fit
                    told.append(explained)
                plan_s += 43_200.0
            for planned in found.choose(now).probes:
                name, at_s = planned.probe.source_id, planned.start_s
                found.planner.start(planned, at_s)
                outcome, known = origins.answer(name, at_s)
                observation = found.observe(outcome, known)
                assert observation is not None
                found.outcomes.finish(outcome, observation)
                if observation.state.fit.week_off_since_s is not None:
                    off_s.setdefault(name, at_s)
        for state in found.known.states.values():
            await store.record(observed(state, outcome))
        kept = await store.load_states()
    assert set(off_s) == {"s0", "s1"}  # and never one that goes on as it did
    assert all(flips_s < at_s < flips_s + 2 * WEEK_S for at_s in off_s.values())
    assert {name: state.fit for name, state in kept.items()} == {n: s.fit for n, s in found.known.states.items()}
    assert told
    assert not Explainer.of(found).misfits()  # both have learned their week again


def test_a_page_read_otherwise_begins_without_a_fit() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    found.known.estimates.keep(
        replace(found.known.estimates.state(found.known.compiled.sources["s"], "x"), fit=ModelFit(1.0))
    )
    assert found.known.estimates.state(found.known.compiled.sources["s"], "y").fit == NO_FIT
