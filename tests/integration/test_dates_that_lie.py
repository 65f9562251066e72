"""Sitemaps whose dates lie, in the decider over weeks: they bring no probes, prevent none, and hide no news."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget
from proxyd.core.model.item import EventKind, Item
from proxyd.core.planning.chunks import run_all
from proxyd.core.rules.known.context import StoredContext
from tests.fleets import changed, decider, declaration, item, rule, source

DAY_S, STEP_S = 86400.0, 900.0
T0 = 11_000 * DAY_S
DAYS, LEARNING, EACH, A_DAY = 18, 8, 3, 6.0
SHOWN = 30  # five days of pages
END_S = T0 + (DAYS - 1) * DAY_S
Date = Callable[[float, float], float | None]
"""Returns the date of a page by when it came and when it is looked at."""
DATES: dict[str, Date] = {
    "true": lambda came_s, now_s: came_s,
    "none": lambda came_s, now_s: None,
    "always now": lambda came_s, now_s: now_s,
    "this instant": lambda came_s, now_s: now_s - came_s % 7.0 * 1e-6,  # written one after the other
    "now and then": lambda came_s, now_s: now_s - came_s % 7.0,
    "long ago": lambda came_s, now_s: came_s - 3000 * DAY_S,
}


@pytest.fixture(scope="module")
def figures() -> dict[str, tuple[float, float, float]]:
    """Return of each kind of date the mean delay in hours, the probes a day, and the share of the pages told once."""
    rng = np.random.default_rng(7)
    names = [f"{kind} {n}" for kind in DATES for n in range(EACH)]
    probes_per_s = 4.0 * len(names) / DAY_S
    texts = [source(name, host=f"host{number}.example") for number, name in enumerate(names)]
    found = decider(
        declaration(*texts, rule("r")), now_s=T0, chronon_s=STEP_S, budget=Budget(probes_per_s), price_item_s=1e-9
    )
    same = [T0 - DAY_S + np.sort(rng.uniform(0, (DAYS + 1) * DAY_S, int(A_DAY * DAYS))) for _ in range(EACH)]
    times = {name: same[int(name[-1])] for name in names}
    known: dict[str, dict[str, Item]] = defaultdict(dict)
    delays: dict[str, list[float]] = defaultdict(list)
    told: dict[str, list[str]] = defaultdict(list)
    probes: dict[str, int] = defaultdict(int)
    for number in range(int(DAYS * DAY_S / STEP_S)):
        now_s = T0 + number * STEP_S
        if number % 96 == 48 and (week := found.fleet(now_s).plan(probes_per_s=probes_per_s)) is not None:
            run_all(found.switch_plan(week, now_s))
        for planned in found.choose(found.settings.planner.grid.chronon_at(now_s)).probes:
            name = planned.probe.source_id
            date, came = DATES[name[:-2]], times[name][times[name] <= now_s][-SHOWN:].tolist()
            dated = ((f"{name} {at_s!r}", date(at_s, now_s)) for at_s in came)
            shown = [replace(item(page, date_s), content_hash=repr(date_s)) for page, date_s in dated]
            outcome = replace(changed(name, shown, now_s), is_unordered=True)
            observation = found.observe(outcome, StoredContext(known[name]))
            found.outcomes.finish(outcome, observation)
            assert observation is not None
            new = [
                each.item.item_id
                for each in observation.found.events
                if each.kind is EventKind.INSERT and not each.seed
            ]
            known[name].update((each.item.item_id, each.item) for each in observation.found.events)
            known[name].update((each.item_id, each) for each in observation.found.window.edited)
            if now_s > T0 + LEARNING * DAY_S:
                probes[name[:-2]] += 1
                delays[name[:-2]] += [now_s - float(each.rpartition(" ")[2]) for each in new]
            told[name[:-2]] += new
    pages = sum(int(((each > T0 + DAY_S) & (each < END_S)).sum()) for each in same)
    days = (DAYS - LEARNING) * EACH
    counts = {kind: sum(T0 + DAY_S < float(page.rpartition(" ")[2]) < END_S for page in told[kind]) for kind in DATES}
    return {kind: (float(np.mean(delays[kind])) / 3600.0, probes[kind] / days, counts[kind] / pages) for kind in DATES}


@pytest.mark.parametrize("kind", [kind for kind in DATES if kind != "true"])
def test_a_date_that_lies_neither_brings_probes_nor_prevents_them(
    figures: dict[str, tuple[float, float, float]], kind: str
) -> None:
    (true_h, true, _), (delay_h, probes, told) = figures["true"], figures[kind]
    assert probes == pytest.approx(true, rel=0.1)
    assert delay_h < 1.10 * true_h
    assert told == 1.0
