"""Probes go to the sources whose items match: notifications come earlier, at as many probes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.model.chronon import Budget, Epoch
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rules.known.context import StoredContext
from proxyd.core.rules.known.rule_counts import MatchingShare
from tests.fleets import decider, declaration, rule, source
from tests.rehearsal import Origins, rehearse

Floats = NDArray[np.float64]
CHRONON_S, HOUR_S = 1800.0, 3600.0
ITEMS_A_WEEK, PROBES_A_WEEK = 10.0, 10.0
LEARNING_WEEKS = 2


class Titled(Origins):
    """Feeds whose items are called yes in every tenth source and no elsewhere."""

    def answer(self, source_id: str, at_s: float) -> tuple[ProbeOutcome, StoredContext]:
        outcome, known = super().answer(source_id, at_s)
        title = "yes" if int(source_id) % 10 == 0 else "no"

        def called(each: Item) -> Item:
            return replace(each, fields={"channel.item.title": title})

        before = {name: called(each) for name, each in known.items.items()}
        return replace(outcome, items=tuple(map(called, outcome.items))), replace(known, items=before)


def delay_h(sources: int, weeks: int, where: str) -> float:
    """Return the mean delay of the items called yes after two weeks, in hours."""
    rng = np.random.default_rng(3)
    many = rng.poisson(ITEMS_A_WEEK * weeks, sources)
    times_s = {str(n): MONDAY_S + np.sort(rng.uniform(0, weeks * WEEK_S, size)) for n, size in enumerate(many)}
    declared = declaration(
        *(source(name, host=f"{name}.example", options=f"EXPECT {ITEMS_A_WEEK:g} PER WEEK") for name in times_s),
        rule("r", where=where),
    )
    found = decider(
        declared,
        now_s=MONDAY_S,
        chronon_s=CHRONON_S,
        budget=Budget(sources * PROBES_A_WEEK / WEEK_S),
        spend=True,
        settings={"source_spacing_s": CHRONON_S},
    )
    begin, stop_s = found.settings.grid.chronon_at(MONDAY_S), MONDAY_S + weeks * WEEK_S
    epoch = Epoch(begin, begin + round(weeks * WEEK_S / CHRONON_S))
    rehearsed = rehearse(found, Titled(times_s, window=50), epoch, plan_every_s=86400.0)
    assert len(rehearsed.probes) == pytest.approx(sources * PROBES_A_WEEK * weeks, rel=0.05)
    wanted = {name: times if int(name) % 10 == 0 else times[:0] for name, times in times_s.items()}
    return float(rehearsed.delays_s(wanted, start_s=MONDAY_S + LEARNING_WEEKS * WEEK_S, stop_s=stop_s).mean()) / HOUR_S


def delays_h(sources: int, weeks: int, where: str, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Return the mean delay with learned shares, and without them."""
    learned = delay_h(sources, weeks, where)
    monkeypatch.setattr(MatchingShare, "of", lambda *_: 1.0)
    return learned, delay_h(sources, weeks, where)


@pytest.mark.parametrize(
    ("sources", "weeks"), [pytest.param(40, 3, id="some"), pytest.param(200, 4, id="many", marks=pytest.mark.long)]
)
@pytest.mark.long
def test_what_matches_comes_much_earlier(sources: int, weeks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    learned, without = delays_h(sources, weeks, "title = 'yes'", monkeypatch)
    assert learned < 0.7 * without


@pytest.mark.long
@pytest.mark.parametrize(("sources", "weeks"), [pytest.param(40, 3, id="some"), pytest.param(200, 4, id="many")])
def test_what_always_matches_comes_no_later(sources: int, weeks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    learned, without = delays_h(sources, weeks, "title <> ''", monkeypatch)
    assert learned <= 1.02 * without
