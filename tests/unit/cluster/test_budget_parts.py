"""The parts of a budget that several planners spend."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.cluster.division import Division
from proxyd.cluster.shared_fleet import part_of_budget
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.store.databases.shards import SHARDS
from tests.fleets import decider, declaration, rule, source

T0 = 1_000_000_000.0
NAMES = [f"s{number}" for number in range(40)]


def fleet(*, expect: str = "") -> Decider:
    sources = [source(name, host=f"{name}.example", options=expect if name == "s0" else "") for name in NAMES]
    return decider(declaration(*sources, rule("r")), now_s=T0)


def parts(found: Decider, planners: int) -> list[float]:
    """Return the parts of so many planners, each of which has some of the shards."""
    shards = np.array_split(np.arange(SHARDS), planners)
    made = []
    for own in shards:
        found.known.owned = Division(frozenset(own.tolist()))
        made.append(part_of_budget(found.known, T0))
    return made


@pytest.mark.parametrize("planners", [1, 2, 5])
def test_the_parts_make_up_the_whole(planners: int) -> None:
    assert sum(parts(fleet(expect="EXPECT 50 PER DAY"), planners)) == pytest.approx(1.0)


def test_a_source_with_four_times_the_items_counts_twice() -> None:
    found = fleet()
    name = found.known.compiled.sources["s0"]
    own = Division(frozenset({Division().shard_of(name.url)}))
    alone = [each for each in NAMES if own.has(found.known.compiled.sources[each].url)]
    found.known.owned = own
    assert part_of_budget(found.known, T0) == pytest.approx(len(alone) / len(NAMES))
    rate_per_day = 86400.0 * found.known.rate_per_s(name, T0)
    faster = fleet(expect=f"EXPECT {4.0 * rate_per_day:.6f} PER DAY")
    faster.known.owned = own
    assert part_of_budget(faster.known, T0) == pytest.approx((len(alone) + 1) / (len(NAMES) + 1), rel=1e-3)


def test_a_planner_chooses_within_its_part() -> None:
    found = fleet()
    found.planner.share(0.25)
    now = int(T0 // 10)
    assert sum(len(found.choose(now + each).probes) for each in range(4)) == 10  # of ten a chronon
    assert found.planner.settings.capacity(now) < found.settings.planner.capacity(now)


def test_another_declaration_may_come_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fleet()
    has = Knowledge.has

    def removed(self: Knowledge, source_id: str) -> bool:
        found.declare(declaration(), {}, T0)
        return has(self, source_id)

    monkeypatch.setattr(Knowledge, "has", removed)
    assert 0.0 <= part_of_budget(found.known, T0) <= 1.0


def test_without_sources_a_planner_has_all() -> None:
    assert part_of_budget(decider(declaration(source("a")), now_s=T0).known, T0) == 1.0
