"""What the observation of a source depends on: its context, and what the store holds of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from enum import Enum

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import PageClass, Source
from proxyd.core.rates.model_fit import SourceModel
from proxyd.core.rates.rate_blend import Blend
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState


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
class DomainAnswer:
    """What RDAP said of the registered domain of a host at ``asked_s``: when it expires, or why that is not known."""

    asked_s: float
    name: str = ""
    end_s: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """A source, its rules and what is known of it before an outcome is taken in."""

    source: Source
    page_class: PageClass
    shape: Shape
    state: SourceState
    rules: Sequence[tuple[RuleProgram, StreamState]]  # the rules on the source, each with its stream there
    across: Mapping[str, StreamState]  # by rule, the stream of those that count across sources
    grid: ChrononGrid
    spacing_s: float
    blend: Blend
    freshness_cap_s: float = 0.0
    declared_s: float = 0.0
    model: SourceModel | None = None  # by the plan; ``None`` while it is not planned
    pushed_until_s: float = 0.0  # until when its hub pushes, in unix seconds
    # ``is_excused``, ``is_sure``: whether a failure is on our side, not the source's; whether it is certainly the
    # source's
    is_excused: bool = False
    is_sure: bool = True
    # until when the source or its host was left alone because the host had asked for that, in unix seconds
    throttled_until_s: float = 0.0
    domain: DomainAnswer | None = None  # what RDAP said of the domain of a site
    zone: tzinfo | None = UTC  # of the times in sentences for people; ``None`` is that of this machine

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
    def kinds_to_await(self) -> frozenset[EventKind]:
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


History = Mapping[tuple[str, int], Sequence[Mapping[str, Value]]]
"""Fields of stored items, by rule and number of the table that reads them."""


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """A query for the insertions of some sources since a time, for a table of a rule's query."""

    rule: str
    position: int
    source_ids: tuple[str, ...]
    since_s: float


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """What to read: the items in ``item_ids`` (``None``: all of the source), with or without ``fields``; histories."""

    item_ids: tuple[str, ...] | None
    fields: bool
    histories: tuple[HistoryQuery, ...] = ()
    former_ids: tuple[str, ...] = ()  # further items, which are stored only if an earlier version stored them
    shown: bool = False  # whether to read the items that the source showed last if one of ``item_ids`` is not stored

    def wants_shown(self, found: Container[str]) -> bool:
        """Return whether items are unknown, which may have been there before under other identities."""
        return self.shown and any(item_id not in found for item_id in self.item_ids or ())


@dataclass(frozen=True, slots=True)
class StoredContext:
    """The result of a query: items by id, and histories by rule and position of the table that reads them."""

    items: Mapping[str, Item] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    shown: Sequence[Item] = ()  # by the source last, if they were asked for


NO_CONTEXT = StoredContext()


def store_query(
    outcome: ProbeOutcome, shape: Shape, state: SourceState, programs: Sequence[RuleProgram], *, completes: bool
) -> StoreQuery | None:
    """Return what must be read to observe an outcome; ``completes`` says that a joint interval waits for it."""
    is_feed = shape is Shape.FEED
    histories = history_query(programs, outcome.source_id, outcome.finished_s)
    item_ids = tuple(item.item_id for item in outcome.items)
    if is_feed and item_ids:
        return replace(
            histories,
            item_ids=item_ids,
            fields=any(EventKind.UPDATE in program.kinds for program in programs),
            former_ids=tuple(dict.fromkeys(name for item in outcome.items for name in item.former_ids)),
            shown=not outcome.is_push and state.first_contact_s is not None,
        )
    if not is_feed and outcome.truncated:  # rows that are not shown are not gone, and there may be any number of them
        return replace(histories, item_ids=item_ids, fields=True)
    if not is_feed and (outcome.kind is OutcomeKind.CHANGED or outcome.is_missing):
        return replace(histories, item_ids=None, fields=True)
    return histories if completes and histories.histories else None  # a rule may fire without a new event


def history_query(programs: Iterable[RuleProgram], source_id: str, now_s: float) -> StoreQuery:
    """Return a query, without items, for the histories that rules read when they fire on a source."""
    return StoreQuery((), fields=False, histories=tuple(_histories(programs, source_id, now_s)))


def _histories(programs: Iterable[RuleProgram], source_id: str, now_s: float) -> Iterator[HistoryQuery]:
    for program in programs:
        for position, table in enumerate(program.query.tables):
            if table.over_s is not None:
                is_own = table.page_class == program.event_class and not program.trigger.counts_across
                sources = (source_id,) if is_own else program.table_sources[position]
                yield HistoryQuery(program.rule.name, position, sources, now_s - table.over_s)
