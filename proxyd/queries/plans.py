"""What the API asks about the plan and its results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.answers.advice import Advice
from proxyd.core.rules.answers.explanation import Explanation
from proxyd.core.rules.answers.promises import KeptPromise
from proxyd.core.rules.answers.shown_events import ShownEvent
from proxyd.core.rules.capture_counts import CaptureCounts
from proxyd.core.rules.estimates import Misfit
from proxyd.core.rules.stages.calibration import Calibration


@dataclass(frozen=True, slots=True)
class MadeProbe:
    """A probe that was made; times in unix seconds, ``delay_s`` the mean over new items that give their own time."""

    position: int
    source_id: str
    started_s: float
    finished_s: float
    reason: str
    rule: str | None
    outcome: str
    status: int | None
    detail: str
    items: int
    delay_s: float | None
    body_bytes: int


@dataclass(frozen=True, slots=True)
class SeenItem:
    """When an item was published, by its own time, and when it was seen; unix seconds."""

    came_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class DecidedInterval:
    """A decided execution interval; times in unix seconds, ``deadline_s`` is ``None`` if nothing ended it.

    If not ``seen``, no probe saw the source before the interval was given up.
    """

    source_id: str
    start_s: float
    deadline_s: float | None
    probed_s: float
    captured: bool
    exact: bool
    delay_s: float
    utility: float
    seen: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What was found and predicted on each day with data (since 1970-01-01, UTC), and models that now fit badly.

    ``promises`` compares what rules promise with what they kept, week by week. If there are many, it holds those that
    fell shortest, and ``promises_left_out`` counts the others.
    """

    days: tuple[tuple[int, Calibration], ...]
    off: tuple[Misfit, ...]
    promises: tuple[KeptPromise, ...] = ()
    promises_left_out: int = 0


@dataclass(frozen=True, slots=True)
class AskedProbe:
    """A probe that somebody asked for: when it can start, in unix seconds, and what it waits for.

    It is under way already if ``is_under_way``.
    """

    source_id: str
    at_s: float
    waits_for: str | None = None
    is_under_way: bool = False


class Plans(Protocol):
    """The plan, its reasons and its results."""

    def plan(self, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes, in order."""

    async def plan_of(self, source_id: str, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes of one source, in order, as if it had the whole budget."""

    async def advise(self) -> Advice:
        """Return what other budgets would capture, and which rules cannot be met within the current one."""

    async def report(self, *, days: int) -> Report:
        """Return what was found and predicted on each of the last ``days``, including today."""

    def explain(self, source_id: str) -> Explanation | None:
        """Return why and when a source is probed next, or ``None`` if it is not declared."""

    async def kept(self, source_id: str) -> list[KeptPromise]:
        """Return what rules kept of their targets for the items of a source in the last seven days."""

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""

    def silent(self) -> list[str]:
        """Return the declared sources that show no items, or a field without a value."""

    def ask(self, name: str) -> list[AskedProbe]:
        """Have a source, or the sources of a rule or of a profile, probed as soon as politeness allows.

        A source comes before a rule, and a rule before a profile, of the same name. Raises ``NotFoundError`` for an
        unknown name, and ``ConflictError`` if nothing of it can be probed or its sources are too many.
        """

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[MadeProbe]:
        """Return the probes of a source in the last days, newest first; ``before`` is the position of a probe."""

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[SeenItem]:
        """Return the items of a source that give their own time, newest first."""

    async def shown_events(self, source_id: str, *, before: int | None, limit: int) -> list[ShownEvent]:
        """Return what happened to the items of a source, newest first; ``before`` is the position of an event."""

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[DecidedInterval]:
        """Return the execution intervals of a rule that were decided in the last days, newest first.

        Raises ``NotFoundError`` if the rule is not declared. An event that no probe ever showed has no interval.
        """

    def capture_counts(self, rules: Iterable[str]) -> CaptureCounts:
        """Return how the execution intervals of declared rules since their START ended, added up."""
