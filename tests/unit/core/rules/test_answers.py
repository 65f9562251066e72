"""Rules with THEN over edits: what waited for an answer goes with the THEN."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from tests.fleets import Drive, changed, item

T0 = 1_000_000_000.0
SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
FOLLOWED = "ON INSERT TO ONE THEN INSERT TO OTHER WITHIN 1 HOUR"


def declared(trigger: str) -> Declaration:
    text = f"""CREATE DOMAIN "D" AS CLASS::ONE(channel.item.title:String) CLASS::OTHER(channel.item.title:String);
    CREATE PROFILE "P" AS (DOMAIN "D"); CREATE SOURCE a OF ONE AT 'https://a.example/';
    CREATE SOURCE b OF OTHER AT 'https://b.example/';
    INSERT NOTIFICATION r INTO "P" SET QUERY "SELECT ONE.title FROM ONE, OTHER" SET TRIGGER "{trigger}";"""
    found = check([SourceText("t", text)]).declaration
    assert found is not None
    return found


async def begun(trigger: str) -> tuple[Decider, str]:
    """Return a decider in which an event waits, and the id of what it waits with."""
    found = Decider(SETTINGS, np.random.default_rng(1))
    found.declare(declared(trigger), {"r": T0}, T0)
    drive = Drive(found)
    for name in ("a", "b"):
        await drive.see(changed(name, [item("old", T0 - 9.0)], T0))
    observation = await drive.see(changed("a", [item("new", T0 + 30.0), item("old", T0 - 9.0)], T0 + 60.0))
    (waiting,) = observation.rules.joint
    return found, waiting.interval_id


@pytest.mark.parametrize(("before", "after"), [(FOLLOWED, "ON INSERT TO ONE"), ("ON INSERT TO ONE", FOLLOWED)])
async def test_what_waits_ends_if_an_edit_takes_or_gives_the_rule_a_then(before: str, after: str) -> None:
    found, waiting = await begun(before)
    found.declare(declared(after), {"r": T0}, T0 + 70.0)
    assert found.captures.take_orphans() == [waiting]
    assert not found.captures.is_overdue(T0 + 1e9)


async def test_what_waits_stays_over_other_edits() -> None:
    found, _ = await begun(FOLLOWED)
    found.declare(declared(FOLLOWED.replace("1 HOUR", "2 HOURS")), {"r": T0}, T0 + 70.0)
    assert found.captures.take_orphans() == []
    seen = await Drive(found).see(changed("b", [item("x", T0 + 5000.0), item("old", T0 - 9.0)], T0 + 5400.0))
    assert len(seen.rules.notifications) == 1
