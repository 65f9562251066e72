"""A page that changes and a daemon that hears of it, step by step, for laws that hold in any order of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.stages.observation import Observation
from tests.fleets import Drive, RecordingMemory, changed

T0 = 1_000_000_000.0
STEP_S = 7.0


def declared(text: str) -> Declaration:
    """Return a sound declaration."""
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    return checked.declaration


class World:
    """The page of the source ``s``: its items by id, and a ``noise`` that changes its content and no field."""

    def __init__(self, declaration: Declaration) -> None:
        self.page: dict[str, Mapping[str, Value]] = {}
        self.noise = 0
        self.memory = RecordingMemory()
        self.now_s = T0
        self.slow: ProbeOutcome | None = None
        self._declaration = declaration
        self.drive = self._started(None)

    def _started(self, before: Decider | None) -> Drive:
        planner = PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0))
        found = Decider(DeciderSettings(planner), np.random.default_rng(1))
        if before is not None:
            found.restore(
                dict(before.known.states),
                {key: replace(s, pending=(), windows=()) for key, s in before.known.streams.items()},
            )
        found.declare(self._declaration, dict.fromkeys(self._declaration.rules, T0), self.now_s)
        drive = Drive(found)
        drive.memory = self.memory
        return drive

    def shown(self) -> ProbeOutcome:
        """Return what a probe finds now."""
        items = [
            Item(name, dict(fields), None, f"{self.noise} {sorted(fields.items())}")
            for name, fields in self.page.items()
        ]
        return changed("s", items, self.now_s)

    async def do(self, what: str) -> None:
        """Let something happen; what makes no sense now does not happen."""
        self.now_s += STEP_S
        if what == "restart":
            self.drive, self.slow = self._started(self.drive.decider), None
        elif what == "slow":
            self.slow = self.shown()
        elif what == "end slow" and self.slow is not None:
            outcome, self.slow = replace(self.slow, finished_s=self.now_s), None
            await self.drive.see(outcome)
        elif what == "push" and self._is_known():
            await self.drive.see(replace(self.shown(), is_push=True))
        elif what in {"probe", "cut"}:
            await self.probe(truncated=what == "cut")
        elif what in {"404", "500"}:
            await self.drive.see(ProbeOutcome("s", OutcomeKind.HTTP_ERROR, self.now_s, self.now_s, int(what)))
        elif what == "304":
            await self.drive.see(ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, self.now_s, self.now_s, 304))

    async def probe(self, *, truncated: bool = False) -> Observation:
        """Probe now; a source has one probe at a time, so a slow one ended before."""
        self.slow = None
        return await self.drive.see(replace(self.shown(), truncated=truncated))

    def _is_known(self) -> bool:
        state = self.drive.decider.known.states.get("s")
        return state is not None and state.first_contact_s is not None
