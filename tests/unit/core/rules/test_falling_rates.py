"""A promise is kept while the rate of a source falls between two plans of the week."""

from __future__ import annotations

from itertools import pairwise

import pytest

from proxyd.core.model.item import Item
from proxyd.core.planning.chunks import Steps
from proxyd.core.rules.decider import Decider
from tests.fleets import Drive, changed, decider, declaration, item

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


async def test_new_sources_are_asked_each_half_hour_though_a_plan_is_made_meanwhile() -> None:
    watches = "".join(f"WATCH 'https://h{k}.example/feed' AS \"w{k}\";\n" for k in range(10))
    found = decider(declaration(watches), now_s=T0, price_item_s=None, first_day_s=86400.0)
    drive, grid, probes = Drive(found), found.settings.grid, dict[str, int]()
    for now in range(grid.chronon_at(T0), grid.chronon_at(T0 + 2100.0)):
        at_s = grid.start_s(now)
        if now == grid.chronon_at(T0 + 450.0):
            plan(found, at_s)
        for planned in found.choose(now).probes:
            name = planned.probe.source_id
            probes[name] = probes.get(name, 0) + 1
            await drive.see(changed(name, [item(f"{name} {k}", T0 - k * 86400.0) for k in range(1, 20)], at_s))
    assert len(probes) == 10
    assert min(probes.values()) >= 2
