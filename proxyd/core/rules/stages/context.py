"""What the observation of a source depends on, other than the outcome of its probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import PageClass, Source
from proxyd.core.rates.model_fit import SourceModel
from proxyd.core.rates.rate_blend import Blend
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.state import SourceState, StreamState


class Shape(Enum):
    """How the items of a source belong together, and so what a missing item means."""

    FEED = "feed"  # the newest items: old ones slide off
    ROWS = "rows"  # all rows: a missing row was removed
    PAGE = "page"  # one item: the page itself

    @classmethod
    def of(cls, page_class: PageClass) -> Shape:
        """Return the shape of a source of that class."""
        if page_class.is_feed:
            return cls.FEED
        return cls.ROWS if page_class.each is not None else cls.PAGE


@dataclass(frozen=True, slots=True)
class SourceContext:
    """A source, its rules and what is known of it before an outcome is taken in.

    Parameters
    ----------
    rules
        The rules on the source, each with its stream there.
    across
        By rule, the stream of those that count across sources.
    model
        The plan's prediction for the source; ``None`` while it is not planned.
    pushed_until_s
        Until when its hub pushes, in unix seconds.
    is_excused, is_sure
        Whether a failure is on our side, not the source's; whether it is certainly the source's.
    throttled_until_s
        Until when the source or its host was left alone because the host had asked for that, in unix seconds.
    """

    source: Source
    page_class: PageClass
    state: SourceState
    rules: Sequence[tuple[RuleProgram, StreamState]]
    across: Mapping[str, StreamState]
    grid: ChrononGrid
    spacing_s: float
    blend: Blend
    freshness_cap_s: float = 0.0
    declared_s: float = 0.0
    model: SourceModel | None = None
    pushed_until_s: float = 0.0
    is_excused: bool = False
    is_sure: bool = True
    throttled_until_s: float = 0.0

    @property
    def shape(self) -> Shape:
        """The shape of the source's items."""
        return Shape.of(self.page_class)

    @property
    def own_rules(self) -> list[tuple[RuleProgram, StreamState]]:
        """The rules that events of the source's own items trigger."""
        own = (each for each in self.rules if self.source.source_id in each[0].event_sources)
        return [each for each in own if not each[0].is_of_source]

    @property
    def source_rules(self) -> list[tuple[RuleProgram, StreamState]]:
        """The rules that events of the source itself trigger."""
        return [each for each in self.rules if each[0].is_of_source]

    @property
    def reads_probe(self) -> bool:
        """Whether a rule reads how the probe went that found an item."""
        return any(program.reads_probe for program, _ in self.rules)

    @property
    def awaited_kinds(self) -> frozenset[EventKind]:
        """The kinds of events that rules wait for."""
        return frozenset(kind for program, _ in self.rules for kind in program.kinds)

    @property
    def nullable_paths(self) -> frozenset[str]:
        """The fields whose missing values say something to a rule, or may be missing by design."""
        return frozenset(path for program, _ in self.rules for path in program.nullable_paths)

    @property
    def starts_afresh(self) -> bool:
        """Whether the stored items belong to another document, or were read in another way."""
        return self.is_another_page and self.shape is not Shape.FEED

    @property
    def is_another_page(self) -> bool:
        """Whether the source was another document before, or was read in another way."""
        return self.state.first_contact_s is None and self.state.next_seq > 1

    def rate_per_s(self, now_s: float) -> float:
        """Return the source's estimated update rate, in items per second."""
        return self.blend.rate_per_s(self.state.rate, now_s, expect_per_s=self.source.expected_per_s)
