"""A promise is kept while the rate of a source falls between two plans of the week."""

from __future__ import annotations

from itertools import pairwise

import pytest

from proxyd.core.model.item import Item
from proxyd.core.planning.chunks import Steps
from proxyd.core.rules.decider import Decider
from tests.fleets import Drive, changed, decider, declaration

T0 = 1_795_599_400.0


def plan(found: Decider, now_s: float) -> None:
    steps = Steps(found.snapshot(now_s))
    for _ in steps:
        pass
    week = steps.made.plan()
    assert week is not None
    for _ in Steps(found.switch_plan(week, now_s)):
        pass


@pytest.mark.parametrize("is_first_day", [True, False])
async def test_a_page_that_changed_once_is_probed_as_its_rule_asks_however_long_it_is_quiet(is_first_day: bool) -> None:
    watch = "WATCH 'https://s.example/shop' OF PAGE AS \"q\" WITHIN 1 MINUTE FOR 95 %;\n"
    first_day_s = 86400.0 if is_first_day else 0.0
    found = decider(
        declaration(watch),
        now_s=T0,
        chronon_s=1.0,
        settings={"source_spacing_s": 5.0},
        price_item_s=None,
        first_day_s=first_day_s,
    )
    drive, starts = Drive(found), list[int]()
    for second in range(2400):
        if second in {600, 1500}:
            plan(found, T0 + second)
        for planned in found.choose(int(T0) + second).probes:
            name, text = planned.probe.source_id, "a" if second < 360 else "b"
            starts.append(second)
            await drive.see(changed(name, [Item(name, {"text": text}, None, f"hash {text}")], T0 + second))
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert max(gaps) <= 80
    assert sum(gaps) / len(gaps) == pytest.approx(60.0 / 0.95, rel=0.1)
