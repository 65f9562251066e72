"""Hubs that push only a part, in the daemon's decider over weeks: a bad one costs nothing, a good one saves probes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget
from proxyd.core.planning.chunks import run_all
from proxyd.core.rules.known.context import StoredContext
from proxyd.core.rules.known.subscriptions import Subscription, SubscriptionStatus
from tests.fleets import changed, decider, declaration, item, rule, source

DAY_S, STEP_S = 86400.0, 600.0
T0 = 11_000 * DAY_S
DAYS, LEARNING = 22, 8
PARTS = {"none": None, "forgets all": 0.0, "forgets half": 0.5, "forgets few": 0.97, "forgets nothing": 1.0}
EACH, A_DAY = 3, 8.0


@pytest.fixture(scope="module")
def figures() -> dict[str, tuple[float, float]]:
    """Return the mean delay in hours and the probes a day of each kind of source, after the days of learning."""
    rng = np.random.default_rng(7)
    names = [f"{kind} {n}" for kind in PARTS for n in range(EACH)]
    texts = [source(name, host=f"host{number}.example") for number, name in enumerate(names)]
    probes_per_s = 4.0 * len(names) / DAY_S
    found = decider(
        declaration(*texts, rule("r")), now_s=T0, chronon_s=STEP_S, budget=Budget(probes_per_s), price_item_s=1e-9,
        settings={"subscribes": True},
    )  # fmt: skip
    for name in names:
        if PARTS[name[:-2]] is not None:
            url = found.known.compiled.sources[name].url
            promise = Subscription(name, url, "https://hub.example/", url, SubscriptionStatus.ACTIVE, verified_s=T0)
            found.hubs.keep(replace(promise, callback_id=name, due_s=T0 + 99 * DAY_S, lease_until_s=T0 + 99 * DAY_S))
    times = {name: T0 + np.sort(rng.uniform(0, DAYS * DAY_S, rng.poisson(A_DAY * DAYS))) for name in names}
    pushed = {name: rng.random(len(times[name])) < (PARTS[name[:-2]] or 0.0) for name in names}
    told: dict[str, set[float]] = defaultdict(set)
    delays: dict[str, list[float]] = defaultdict(list)
    probes: dict[str, int] = defaultdict(int)

    def take_in(name: str, shown: list[float], now_s: float, *, is_push: bool = False) -> None:
        news = [time_s for time_s in shown if time_s not in told[name]]
        if now_s > T0 + LEARNING * DAY_S:
            delays[name[:-2]] += [now_s - time_s for time_s in news]
            probes[name[:-2]] += not is_push
        known = {f"{name} {time_s!r}": item(f"{name} {time_s!r}", time_s) for time_s in told[name]}
        outcome = changed(name, [item(f"{name} {time_s!r}", time_s) for time_s in reversed(shown)], now_s)
        outcome = replace(outcome, is_push=is_push)
        observation = found.observe(outcome, StoredContext(known))
        found.outcomes.finish(outcome, observation)
        told[name].update(news)

    for number in range(int(DAYS * DAY_S / STEP_S)):
        now_s = T0 + number * STEP_S
        if number % 144 == 72 and (week := found.fleet(now_s).plan(probes_per_s=probes_per_s)) is not None:
            run_all(found.switch_plan(week, now_s))
        for name in names:
            now = (times[name] > now_s - STEP_S) & (times[name] <= now_s) & pushed[name]
            if now.any() and told[name]:
                take_in(name, times[name][now].tolist(), now_s, is_push=True)
        for planned in found.choose(found.settings.planner.grid.chronon_at(now_s)).probes:
            name = planned.probe.source_id
            take_in(name, times[name][times[name] <= now_s][-20:].tolist(), now_s)
    days = (DAYS - LEARNING) * EACH
    return {kind: (float(np.mean(delays[kind])) / 3600.0, probes[kind] / days) for kind in PARTS}


def test_a_hub_that_pushes_nothing_costs_nothing(figures: dict[str, tuple[float, float]]) -> None:
    (alone_h, alone), (delay_h, probes) = figures["none"], figures["forgets all"]
    assert delay_h < 1.1 * alone_h
    assert probes == pytest.approx(alone, rel=0.15)


def test_a_hub_that_forgets_half_is_of_use(figures: dict[str, tuple[float, float]]) -> None:
    (alone_h, alone), (delay_h, probes) = figures["none"], figures["forgets half"]
    assert delay_h < 0.8 * alone_h
    assert probes < 1.05 * alone


@pytest.mark.parametrize("kind", ["forgets few", "forgets nothing"])
def test_a_good_hub_saves_probes_for_the_other_sources(figures: dict[str, tuple[float, float]], kind: str) -> None:
    (alone_h, alone), (delay_h, probes) = figures["none"], figures[kind]
    assert delay_h < 0.3 * alone_h
    assert probes < 0.25 * alone
    assert alone > 5.0  # of a budget of 4 for each source and day
