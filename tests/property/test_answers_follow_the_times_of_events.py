"""Rules with THEN: whatever the order of probes, and over restarts, the times of the events decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import JointInterval
from tests.fleets import Drive, RecordingMemory, changed, item

T0, WITHIN_S, END_S = 1_000_000_000.0, 60, 2000
A, B = ("a", "b"), ("x", "y")
WRITTEN = """CREATE DOMAIN "D" AS CLASS::FIRST_KIND(channel.item.title:String)
CLASS::OTHER_KIND(channel.item.title:String);
CREATE PROFILE "P" AS (DOMAIN "D");
CREATE SOURCE a OF FIRST_KIND AT 'https://a.example/'; CREATE SOURCE b OF FIRST_KIND AT 'https://b.example/';
CREATE SOURCE x OF OTHER_KIND AT 'https://x.example/'; CREATE SOURCE y OF OTHER_KIND AT 'https://y.example/';
INSERT NOTIFICATION "followed" INTO "P" SET QUERY "SELECT title FROM FIRST_KIND"
SET TRIGGER "ON INSERT TO FIRST_KIND THEN INSERT TO OTHER_KIND WITHIN 60 SECONDS";
INSERT NOTIFICATION "alone" INTO "P" SET QUERY "SELECT title FROM FIRST_KIND"
SET TRIGGER "ON INSERT TO FIRST_KIND THEN NO INSERT TO OTHER_KIND WITHIN 60 SECONDS";
"""
DECLARATION = check([SourceText("t", WRITTEN)]).declaration
SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
times = st.lists(st.integers(1, 400), max_size=8, unique=True)
courses = st.lists(st.tuples(st.sampled_from([*A, *B, "restart"]), st.integers(1, 80)), max_size=30)


@dataclass
class Course:
    """What a decider tells while sources with these items are probed; joint intervals outlive restarts."""

    items: dict[str, list[int]]
    told: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decider, self.joint = self._decider(None), dict[str, JointInterval]()
        self.memory = RecordingMemory()

    def _decider(self, before: Decider | None) -> Decider:
        assert DECLARATION is not None
        made = Decider(SETTINGS, np.random.default_rng(1))
        if before is not None:
            made.restore(dict(before.known.states), before.known.streams.copy(), joint=list(self.joint.values()))
        made.declare(DECLARATION, dict.fromkeys(DECLARATION.rules, T0), T0)
        return made

    def restart(self) -> None:
        self.decider = self._decider(self.decider)

    async def probe(self, name: str, now: int) -> None:
        drive = Drive(self.decider)
        drive.memory = self.memory
        shown = [item(f"{name}{at}", T0 + at) for at in sorted(self.items[name]) if at <= now]
        observation = await drive.see(changed(name, [*shown[::-1], item("old", T0 - 9.0)], T0 + now))
        self.joint |= {each.interval_id: each for each in observation.rules.joint}
        for ended in observation.rules.ended:
            self.joint.pop(ended, None)
        self.told += [
            (each.rule, f"{each.source_id}{each.event_s - T0:.0f}") for each in observation.rules.notifications
        ]


async def run(items: dict[str, list[int]], course: Sequence[tuple[str, int]]) -> Course:
    found, now = Course(items), 0
    for name in (*A, *B):
        await found.probe(name, 0)
    for name, later in course:
        now += later
        if name == "restart":
            found.restart()
        else:
            await found.probe(name, now)
    for name in (*A, *B, *A, *B):  # all is over, and all is seen
        await found.probe(name, now + END_S)
    return found


@given(st.fixed_dictionaries(dict.fromkeys((*A, *B), times)), courses)
@settings(max_examples=60, deadline=None)
async def test_each_first_event_is_told_once_as_followed_or_as_alone(
    items: dict[str, list[int]], course: list[tuple[str, int]]
) -> None:
    found = await run(items, course)
    firsts = [(name, at) for name in A for at in items[name]]
    answers = [at for name in B for at in items[name]]
    expected = [
        ("followed" if any(at < answer <= at + WITHIN_S for answer in answers) else "alone", f"{name}{at}")
        for name, at in firsts
    ]
    assert sorted(found.told) == sorted(expected)
    assert not found.joint
