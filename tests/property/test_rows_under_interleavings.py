"""Probes, slow probes, pushes, failures, restarts in any order: what is known of a page is there, and told once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.budget import Budget
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.decider_settings import DeciderSettings
from proxyd.core.rules.stages.stored import StoreQuery
from tests.examples import examples
from tests.fleets import Drive, RecordingMemory, changed

T0 = 1_000_000_000.0
TEXT = """CREATE DOMAIN "D" AS CLASS::ROW EACH CSS 'tr' KEY id (id:String FROM CSS 'td', n:Integer FROM CSS 'td.n');
CREATE SOURCE "s" OF ROW AT 'https://example.org/page';
CREATE PROFILE "P" AS (DOMAIN "D");
"""
RULES = "".join(
    f'INSERT NOTIFICATION "{kind}" INTO "P" SET QUERY "SELECT id FROM ROW" SET TRIGGER "ON {kind} TO ROW"\n'
    "START NOW END NEVER SET UTILITY STRICT;\n"
    for kind in ("INSERT", "UPDATE", "DELETE")
)
HAPPENINGS = ["probe", "slow", "end slow", "push", "404", "304", "restart", "cut"]
operations = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.just("drop"), st.sampled_from("abc"), st.just(0)),
    st.tuples(
        st.sampled_from(["probe", "slow", "end slow", "push", "404", "304", "restart", "cut"]), st.just(""), st.just(0)
    ),
)


def declared() -> Declaration:
    checked = check([SourceText("t", TEXT + RULES)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return checked.declaration


class World:
    """A page that changes, and a daemon that hears of it."""

    def __init__(self) -> None:
        self.page: dict[str, int] = {}
        self.memory = RecordingMemory()
        self.now_s = T0
        self.slow: ProbeOutcome | None = None
        self.drive = self.started(None)

    def started(self, before: Decider | None) -> Drive:
        planner = PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0))
        found = Decider(DeciderSettings(planner), np.random.default_rng(1))
        if before is not None:
            found.restore(
                dict(before.known.states),
                {key: replace(s, pending=(), windows=()) for key, s in before.known.streams.items()},
            )
        found.declare(declared(), dict.fromkeys(("INSERT", "UPDATE", "DELETE"), T0), self.now_s)
        drive = Drive(found)
        drive.memory = self.memory
        return drive

    def shown(self) -> ProbeOutcome:
        items = [Item(name, {"id": name, "n": n}, None, f"{name}{n}") for name, n in self.page.items()]
        return changed("s", items, self.now_s)

    async def do(self, what: str, name: str, number: int) -> None:
        self.now_s += 7.0
        if what == "set":
            self.page[name] = number
        elif what == "drop":
            self.page.pop(name, None)
        elif what == "restart":
            self.drive, self.slow = self.started(self.drive.decider), None
        elif what == "slow":
            self.slow = self.shown()
        elif what == "end slow" and self.slow is not None:
            outcome, self.slow = replace(self.slow, finished_s=self.now_s), None
            await self.drive.see(outcome)
        elif (
            what == "push"
            and self.drive.decider.known.states.get("s")
            and self.drive.decider.known.states["s"].first_contact_s
        ):
            await self.drive.see(replace(self.shown(), is_push=True))
        elif what in {"probe", "cut"}:
            await self.probe(truncated=what == "cut")
        elif what == "404" and not self.page:
            await self.drive.see(ProbeOutcome("s", OutcomeKind.HTTP_ERROR, self.now_s, self.now_s, 404))
        elif what == "304":
            await self.drive.see(ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, self.now_s, self.now_s, 304))

    async def probe(self, *, truncated: bool = False) -> None:
        """Probe now; a source has one probe at a time, so a slow one ended before."""
        self.slow = None
        await self.drive.see(replace(self.shown(), truncated=truncated))


@given(st.lists(operations, max_size=25))
@examples(300)
async def test_what_is_known_of_a_page_is_what_is_there(steps: list[tuple[str, str, int]]) -> None:
    world = World()
    for step in steps:
        await world.do(*step)
    for _ in range(2):  # the first that finds no rows must be confirmed
        world.now_s += 7.0
        await world.probe()
    known = await world.memory.known("s", StoreQuery(None, fields=True))
    assert {name: item.fields["n"] for name, item in known.items.items()} == world.page
    told: dict[str, EventKind] = {}
    for observation in world.memory.observations:
        for event in observation.found.events:
            before = told.get(event.item.item_id)
            is_there = before in {EventKind.INSERT, EventKind.UPDATE}
            assert is_there == (event.kind is not EventKind.INSERT)
            told[event.item.item_id] = event.kind
    ids = [sent.notification_id for o in world.memory.observations for sent in o.rules.notifications]
    assert len(ids) == len(set(ids))
    events = [event for o in world.memory.observations for event in o.found.events if not event.seed]
    assert len(ids) == len(events)
    seqs = [event.seq for o in world.memory.observations for event in o.found.events]
    assert seqs == sorted(set(seqs))
