"""What the API asks about the plan and its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.answers.advice import Advice
from proxyd.core.rules.answers.explanation import Explanation
from proxyd.core.rules.answers.promises import KeptPromise
from proxyd.core.rules.answers.shown_events import ShownEvent
from proxyd.core.rules.known.capture_counts import CaptureCounts
from proxyd.core.rules.known.estimates import Misfit
from proxyd.core.rules.stages.source_state import Calibration


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
    updates: int
    delay_s: float | None
    body_bytes: int

    @property
    def duration_s(self) -> float:
        """The time from its start to its end."""
        return self.finished_s - self.started_s


class SourceKind(Enum):
    """What may be the matter with a source."""

    FAILING = "failing"
    SILENT = "silent"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """Which sources to list.

    Parameters
    ----------
    text
        What their names or addresses must contain, whatever the case; empty for all.
    kinds
        Those of any of these kinds, or all if it is empty.
    among
        The names from which to choose, or ``None`` for all.
    order
        By ``name``, or with the greatest first: the ``newest`` item, the last time they were ``probed``, their
        ``items``.
    """

    text: str = ""
    kinds: frozenset[SourceKind] = frozenset()
    among: AbstractSet[str] | None = None
    order: str = "name"

    @property
    def is_all(self) -> bool:
        """Whether it leaves no source out."""
        return not self.text and not self.kinds and self.among is None


@dataclass(frozen=True, slots=True)
class RecentItems:
    """How many items of a source came on each of some days, oldest first, and when the newest came (unix seconds)."""

    days: tuple[int, ...]
    newest_s: float


@dataclass(frozen=True, slots=True)
class SeenItem:
    """When an item was published, by its own time, and when it was seen; unix seconds."""

    came_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A stored item that a search found.

    Parameters
    ----------
    position
        Its number among all items: one that was seen later has a greater one.
    title, text
        Its title, and its other texts without markup.
    event_s, seen_s
        When it came by its own time, or by our estimate, and when it was seen; unix seconds.
    is_exact, is_gone
        Whether the item gives its own time, and whether its source has removed it.
    """

    position: int
    source_id: str
    item_id: str
    title: str
    text: str
    link: str | None
    event_s: float
    seen_s: float
    is_exact: bool
    is_gone: bool


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

    async def report(self, *, days: int, with_promises: bool = True) -> Report:
        """Return what was found and predicted on each of the last ``days``, including today.

        What rules kept of their promises is read from all their intervals, which takes a while if there are many.
        """

    def explain(self, source_id: str, *, with_week: bool = True) -> Explanation | None:
        """Return why and when a source is probed next, or ``None`` if it is not declared.

        Without ``with_week`` the factors of its week are left out.
        """

    async def kept(self, source_id: str) -> list[KeptPromise]:
        """Return what rules kept of their targets for the items of a source in the last seven days."""

    async def source_names(self) -> Sequence[str]:
        """Return the names of the declared sources, in natural order."""

    async def choose_sources(self, choice: SourceChoice) -> Sequence[str]:
        """Return the names of some declared sources, in order."""

    async def recent_items(self, source_ids: Sequence[str], *, days: int) -> Mapping[str, RecentItems]:
        """Return the items of some sources that came or changed in the last days, including today.

        Sources without any are left out.
        """

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""

    def silent(self) -> list[str]:
        """Return the declared sources that show no items, or a field without a value."""

    def meant(self, name: str) -> Sequence[str]:
        """Return the sources of a name, which may be a source, a rule or a profile; raises ``NotFoundError``."""

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

    async def search_items(
        self, text: str, *, source_id: str | None, before: int | None, limit: int
    ) -> list[FoundItem]:
        """Return the stored items of all sources, or of one, that match a text, those seen last first.

        ``before`` is the position of an item. Raises ``BadSearchError`` if the text has no words, or too many.
        """

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[DecidedInterval]:
        """Return the execution intervals of a rule that were decided in the last days, newest first.

        Raises ``NotFoundError`` if the rule is not declared. An event that no probe ever showed has no interval.
        """

    def capture_counts(self, rules: Iterable[str]) -> CaptureCounts:
        """Return how the execution intervals of declared rules since their START ended, added up."""
