"""A snapshot of the fleet that is gathered while declarations change."""

from __future__ import annotations

from proxyd.core.rules.snapshot import Fleet
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0


async def test_sources_of_a_rule_that_is_removed_between_two_parts_are_left_out_of_the_second_one() -> None:
    sources = source("a"), source("b")
    found = decider(declaration(*sources, rule("r", clauses="WITHIN 1 HOUR FOR 90 %")), now_s=T0, price_item_s=None)
    for name in ("a", "b"):
        await Drive(found).see(changed(name, [item("0", T0)], T0 + 60.0))
    fleet = Fleet(found.known, found.planner.limits.hosts, T0 + 120.0)
    first, second = (found.planner.sources[name] for name in ("a", "b"))
    fleet.add([first])
    found.declare(declaration(*sources, rule("other")), {"other": T0 + 120.0}, T0 + 120.0, in_parts=True)
    fleet.add([second])
    assert fleet.source_ids == ["a"]
