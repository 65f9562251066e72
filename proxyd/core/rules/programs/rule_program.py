"""Rules ready to run: compiled, with their periods resolved and the sources of other classes that they need."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from math import log
from zoneinfo import ZoneInfo

import numpy as np

from proxyd.core.language import counting_of, format_after
from proxyd.core.model.arrays import Floats
from proxyd.core.model.day_parts import parse_during
from proxyd.core.model.decimal_marks import Languages
from proxyd.core.model.expression import Column, Expression, FromClass, IsNull, Select, children, conjuncts
from proxyd.core.model.field_values import differ
from proxyd.core.model.item import EventKind, Item, UpdateEvent, Value, is_cut
from proxyd.core.model.profile import (
    PROBE_FIELDS,
    SOURCE_CLASS,
    Anchor,
    Declaration,
    Domain,
    ImportanceTerm,
    MessageName,
    NotificationRule,
    PageClass,
    Source,
    Trigger,
    UtilityKind,
)
from proxyd.core.rates.week_bins import HOUR_S, HOURS, MONDAY_S, WEEK_S
from proxyd.core.rules.programs.expression_compiler import Closure, Compiler, Row, columns_of, is_true, qualifiers_of
from proxyd.core.rules.programs.message_program import MessagePlan, message_plan
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.query_program import QueryProgram, compile_query
from proxyd.core.rules.programs.stream_state import Lasting, StreamState
from proxyd.core.rules.programs.trigger_program import AnswerProgram, TriggerProgram, compile_answer, compile_trigger

_WEIGHED_S = 3600.0
LEAST_WEIGHT, MOST_WEIGHT = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class _JoinedClass:
    """A class other than the trigger's that a query reads; its sources are probed when the rule fires."""

    position: int
    table: str
    sources: tuple[str, ...]
    correlation: Closure | None  # the conditions that depend only on one of its rows and the event


@dataclass(frozen=True, slots=True)
class AwaitedEvent:
    """An event of a source itself that a rule waits for, and how long its condition must last.

    >>> from proxyd.core.model.expression import ClassName
    >>> str(AwaitedEvent.of(Trigger(EventKind.FAILURE, ClassName("SOURCE", None)), 10.0))
    'FAILURE AFTER 1 PROBE'
    """

    kind: EventKind
    words: str
    lasting: Lasting

    @classmethod
    def of(cls, trigger: Trigger, chronon_s: float) -> AwaitedEvent:
        """Return what a trigger waits for."""
        return cls(trigger.kind, format_after(trigger.lasting), Lasting.of(trigger, chronon_s))

    def __str__(self) -> str:
        """Return the words of the language; stored events are called so."""
        return f"{self.kind.name} {self.words}" if self.kind.can_persist else self.kind.name


@dataclass(frozen=True, slots=True)
class RuleProgram:
    """A rule ready to run: its period in unix seconds, its life and the length of its utility's decay in seconds."""

    rule: NotificationRule
    trigger: TriggerProgram
    query: QueryProgram
    message: MessagePlan
    event_class: PageClass
    event_sources: AbstractSet[str]  # whose events its trigger takes, in order, with those of its THEN
    table_sources: tuple[tuple[str, ...], ...]  # of each table of its query
    joined: tuple[_JoinedClass, ...]
    is_of_source: bool  # whether it waits for events of sources themselves, and not of their items
    # whether more than the event itself decides the rule's intervals: other sources, or a later event
    is_joint: bool
    accepted_s: float
    start_s: float
    end_s: float
    life_s: float | None
    decay_s: float | None
    counting: str  # what its counters count
    chronon_s: float
    limit_key: Closure | None = None  # returns the value that has a limit of its own
    mark: str | None = None  # the decimal mark by the LOCALE that its sources share
    reads_probe: bool = False  # whether it reads how the probe went that found an item
    # fields, in lower case, whose missing values say something to it, or are missing by design
    nullable_paths: frozenset[str] = frozenset()
    answer: AnswerProgram | None = None  # its THEN
    answer_sources: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[[bytes], RuleProgram], tuple[bytes]]:
        """Let another process compile the rule again: closures cannot be sent."""
        classes = (self.event_class, *(table.page_class for table in self.query.tables))
        classes += () if self.answer is None else (self.answer.page_class,)
        joined = tuple(each.sources for each in self.joined)
        rule = replace(self.rule, source_ids=())
        return _compile_again, (pickle.dumps((rule, classes, self.accepted_s, self.chronon_s, joined, self.mark)),)

    def new_stream(self, source_id: str) -> StreamState:
        """Return the state of a stream that has seen no events."""
        return next(self.new_streams([source_id]))

    def new_streams(self, sources: Iterable[str]) -> Iterator[StreamState]:
        """Yield the states of streams that have seen no events."""
        zero, rule, counting = self.trigger.zero, self.rule.name, self.counting
        return (
            StreamState(rule, source_id, zero.totals, counting=counting, windows=zero.windows) for source_id in sources
        )

    def open_stream(self, stream: StreamState, next_seq: int, now_s: float) -> StreamState:
        """Return a stream, perhaps of an earlier form of the rule, with this form's counters; what was sent is kept.

        A counter goes on if it counts the same events by the same expression, otherwise it starts again. If the events
        are others, the next notification holds those from now on: the number ``next_seq``, or the time ``now_s``. The
        windows of a stored stream are empty until it is recalled.
        """
        zero = self.trigger.zero
        if stream.counting == self.counting or (not stream.counting and self._fits(stream)):
            windows = stream.windows if len(stream.windows) == len(zero.windows) else zero.windows
            return replace(stream, counting=self.counting, windows=windows)
        counted, *words = stream.counting.split(" ")
        if counted != self.rule.counted:
            fired_seq, fired_s = max(stream.fired_seq, next_seq - 1), max(stream.fired_s, now_s)
            begun = replace(stream, totals=zero.totals, windows=zero.windows, counting=self.counting)
            return replace(begun, seen=0, pending=(), fired_seq=fired_seq, fired_s=fired_s)
        totals = dict(zip(words, stream.totals, strict=True))
        windows_of = dict(zip(words, stream.windows, strict=False))
        own = self.counting.split(" ")[1:]
        return replace(
            stream,
            counting=self.counting,
            totals=tuple(totals.get(word, empty) for word, empty in zip(own, zero.totals, strict=True)),
            windows=tuple(windows_of.get(word, empty) for word, empty in zip(own, zero.windows, strict=True)),
        )

    def _fits(self, stream: StreamState) -> bool:
        """Return whether a stream of an earlier version has as many totals as this rule, and of the same kinds."""
        shapes = [(total.seen is None) for total in self.trigger.zero.totals]
        return [(total.seen is None) for total in stream.totals] == shapes

    def is_active(self, now_s: float) -> bool:
        """Whether the rule's period is running; probes are made for it only then."""
        return self.start_s <= now_s < self.end_s

    def starts_at(self, declared_s: float) -> float:
        """Return START on a source that was declared at ``declared_s``; its NOW is never before that."""
        is_relative = self.rule.start.anchor is Anchor.NOW
        return self.start_s + max(0.0, declared_s - self.accepted_s) if is_relative else self.start_s

    @property
    def longest_gap_s(self) -> float | None:
        """The longest time between two probes that it allows beside its policy's; on SOURCE that is its policy."""
        gap = None if self.is_of_source else self.rule.longest_gap
        return None if gap is None else gap.in_seconds(chronon_s=self.chronon_s)

    @property
    def may_look_back(self) -> bool:
        """Whether ``looks_back`` holds of any source; for a START after NOW it holds of none."""
        return self.rule.start.anchor is not Anchor.NOW or self.start_s < self.accepted_s

    def looks_back(self, declared_s: float) -> bool:
        """Whether START on that source lies before the source was declared or the rule was accepted."""
        return self.starts_at(declared_s) < max(self.accepted_s, declared_s)

    @property
    def awaited(self) -> AwaitedEvent:
        """The event of a source itself that it waits for."""
        return AwaitedEvent.of(self.rule.trigger, self.chronon_s)

    def wants(self, event: Item, kind: EventKind) -> bool:
        """Return whether an event is of its kind; of sources themselves, rules wait for different lengths of time."""
        return kind is self.rule.trigger.kind and (not self.is_of_source or event.item_id == str(self.awaited))

    @property
    def kinds(self) -> frozenset[EventKind]:
        """The kinds of events that it waits for."""
        own = self.rule.trigger.kind
        return frozenset({own} if self.answer is None else {own, self.answer.kind})

    def own_view(self, event: UpdateEvent) -> UpdateEvent | None:
        """Return an event as the rule sees it, or ``None`` if it is no update for the rule."""
        if event.old is None or not event.old.last_known:
            return event
        # what speaks again has its last known value, unless its missing value says something to the rule
        old = event.old.with_last_known(event.item, self.nullable_paths)
        if old is event.old:
            return event
        pairs = ((path, value, event.item.fields.get(path)) for path, value in old.fields.items())
        has_changed = any(differ(before, now, path=path) or is_cut(now) for path, before, now in pairs)
        return replace(event, old=old) if has_changed else None

    @property
    def kept_paths(self) -> tuple[frozenset[str], frozenset[str]]:
        """The fields of an event, and of its old item, that are read after the event was taken in."""
        query, answer = self.query, self.answer
        if answer is None:
            return query.paths, query.old_paths
        return query.paths | answer.paths, query.old_paths | answer.old_paths

    def is_event_table(self, position: int) -> bool:
        """Whether a table of the query holds the events since the last firing."""
        table = self.query.tables[position]
        return table.over_s is None and table.page_class == self.event_class

    def notification_id(self, event: UpdateEvent) -> str:
        """Return the id of a firing's notification; it is the same each time the firing is computed."""
        identity = f"{self.rule.name}\0{self.accepted_s!r}\0{event.source_id}\0{event.item.item_id}\0{event.seq}"
        return "ntf_" + hashlib.sha256(identity.encode()).hexdigest()[:32]

    def limit_of(self, event: UpdateEvent, meter: Meter) -> str:
        """Return whose limit a firing's notification counts toward: that of the rule, a source or a field's value."""
        limit = self.rule.limit
        if limit is not None and limit.per_source:
            return event.source_id
        return "" if self.limit_key is None else _short(self.limit_key(Row.of(event, meter=meter)))

    @property
    def weight(self) -> float:
        """The share of utility that a delay costs, relative to a strict rule; a decay over an hour weighs the same."""
        if self.decay_s is None:
            return 1.0
        slope = log(2) if self.rule.utility.kind is UtilityKind.EXPONENTIAL else 1.0
        return min(max(slope * _WEIGHED_S / self.decay_s, LEAST_WEIGHT), MOST_WEIGHT)

    def utility(self, delay_s: float, *, captured: bool) -> float:
        """Return the value of a capture ``delay_s`` after its event."""
        kind = self.rule.utility.kind
        if kind is UtilityKind.STRICT or self.decay_s is None:
            return 1.0 if captured else 0.0
        if kind is UtilityKind.LINEAR:
            # a decay gives its value at the capture, even if the interval has ended
            return max(0.0, 1.0 - delay_s / self.decay_s)
        return float(0.5 ** (delay_s / self.decay_s))


def _short(value: Value) -> str:
    """Return a text that stands for a value, of at most 64 characters."""
    text = repr(value)
    return text if len(text) <= 64 else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def compile_rule(
    rule: NotificationRule, declaration: Declaration, *, accepted_s: float, chronon_s: float, mark: str | None = None
) -> RuleProgram:
    """Return the program of a checked rule; ``mark`` is given if the declaration does not hold the rule's sources."""
    mark = mark or _common_mark(declaration.sources[each] for each in rule.source_ids)
    event_class = _class(declaration, rule.trigger.page_class.domain, rule.trigger.page_class.name)
    classes = [_class(declaration, each.page_class.domain, each.page_class.name) for each in rule.query.sources]
    window, decay = rule.life.window if rule.life else None, rule.utility.length
    message = message_plan(rule, classes)
    then = rule.trigger.then
    answer_class = None if then is None else _class(declaration, then.page_class.domain, then.page_class.name)
    trigger = compile_trigger(rule.trigger, event_class, chronon_s, mark)
    sources_of = {each: _of_class(rule, declaration, each) for each in {event_class, *classes, answer_class} if each}
    answer_sources = () if answer_class is None else sources_of[answer_class]
    joined = tuple(
        _JoinedClass(
            number,
            source.alias or page_class.name,
            sources_of[page_class],
            _correlation(rule.query, source, page_class, event_class, mark),
        )
        for number, (source, page_class) in enumerate(zip(rule.query.sources, classes, strict=True))
        if page_class != event_class and source.over is None
    )
    return RuleProgram(
        rule=rule,
        trigger=trigger,
        query=compile_query(
            rule.query, classes, event_class, chronon_s, (*message.expressions, *_limiting_field(rule)), mark
        ),
        message=message,
        event_class=event_class,
        event_sources=dict.fromkeys((*sources_of[event_class], *answer_sources)).keys(),
        table_sources=tuple(sources_of[each] for each in classes),
        joined=joined,
        is_of_source=rule.trigger.kind.is_of_source,
        is_joint=bool(joined) or trigger.counts_across or then is not None,
        accepted_s=accepted_s,
        start_s=rule.start.resolve(accepted_s, chronon_s=chronon_s),
        end_s=rule.end.resolve(accepted_s, chronon_s=chronon_s),
        life_s=window.in_seconds(chronon_s=chronon_s) if window else None,
        decay_s=None if decay is None else decay.in_seconds(chronon_s=chronon_s),
        counting=counting_of(rule.counted, [each.aggregate for each in trigger.counters]),
        chronon_s=chronon_s,
        limit_key=next((Compiler(event_class, mark=mark).compile(key) for key in _limiting_field(rule)), None),
        mark=mark,
        reads_probe=any(
            each.path.lower() in PROBE_FIELDS for read in _read_expressions(rule) for each in columns_of(read)
        ),
        nullable_paths=_nullable_paths(rule, [event_class, *classes, *filter(None, [answer_class])]),
        answer=compile_answer(rule.trigger, answer_class, event_class, chronon_s, mark),
        answer_sources=answer_sources,
    )


def _nullable_paths(rule: NotificationRule, classes: Iterable[PageClass]) -> frozenset[str]:
    """Return the fields whose missing values say something: those tested by IS NULL, or declared with OR NULL."""
    declared = {each.path.lower() for page_class in classes for each in page_class.fields if each.is_nullable}
    return frozenset(declared.union(*(map(_paths_of_tests, _read_expressions(rule)))))


def _paths_of_tests(expression: Expression) -> set[str]:
    if isinstance(expression, IsNull) and isinstance(expression.operand, Column):
        return {expression.operand.path.lower()}
    return set().union(*map(_paths_of_tests, children(expression)))


def _read_expressions(rule: NotificationRule) -> list[Expression]:
    query, message = rule.query, rule.message.parts if rule.message is not None else ()
    then = rule.trigger.then
    read = [
        rule.trigger.where,
        rule.trigger.condition,
        then.where if then else None,
        query.where,
        query.having,
        *query.group_by,
    ]
    read += [each.expression for each in query.columns] + [each.expression for each in query.order_by]
    read += [each for each in message if not isinstance(each, str | MessageName)]
    return [each for each in read if each is not None]


def _limiting_field(rule: NotificationRule) -> tuple[Expression, ...]:
    return () if rule.limit is None or rule.limit.key is None else (rule.limit.key,)


def _common_mark(sources: Iterable[Source]) -> str | None:
    marks = {Languages(locale).mark_of_locale for locale in {each.locale for each in sources}}
    return marks.pop() if len(marks) == 1 else None


@lru_cache(64)
def _compile_again(sent: bytes) -> RuleProgram:
    """Return a program that another process sent; of its sources it knows those that its query joins."""
    rule, classes, accepted_s, chronon_s, joined, mark = pickle.loads(sent)
    names: dict[str, dict[str, PageClass]] = {}
    for each in classes:
        names.setdefault(each.domain, {})[each.name] = each
    domains = {name: Domain(name, of_domain) for name, of_domain in names.items()}
    declaration = Declaration(domains, {}, {}, {})
    program = compile_rule(rule, declaration, accepted_s=accepted_s, chronon_s=chronon_s, mark=mark)
    known = [replace(each, sources=sources) for each, sources in zip(program.joined, joined, strict=True)]
    return replace(program, joined=tuple(known))


def _class(declaration: Declaration, domain: str | None, name: str) -> PageClass:
    return declaration.domains[domain or ""].classes[name]


def _of_class(rule: NotificationRule, declaration: Declaration, page_class: PageClass) -> tuple[str, ...]:
    def fits(source: Source) -> bool:
        return (source.domain, source.page_class) == (page_class.domain, page_class.name)

    if page_class == SOURCE_CLASS:
        return rule.source_ids
    return tuple(each for each in rule.source_ids if fits(declaration.sources[each]))


def _correlation(
    query: Select, source: FromClass, page_class: PageClass, event_class: PageClass, mark: str | None
) -> Closure | None:
    """Return the conjunction of conditions that depend only on a row of one table and the event, or ``None``."""
    name = source.alias or page_class.name
    is_alone = len(query.sources) == 1
    terms = [*conjuncts(query.where), *conjuncts(source.on)]
    own = [term for term in terms if qualifiers_of(term) <= {None if is_alone else name, "NEW", "OLD"}]
    related = [term for term in own if qualifiers_of(term) & {"NEW", "OLD"}]
    if not related:
        return None
    compiler = Compiler(event_class, {} if is_alone else {name: page_class}, page_class, mark)
    closures = [compiler.compile(term) for term in related]

    def correlates(row: Row) -> bool:
        return all(is_true(closure(row)) for closure in closures)

    return correlates


def source_weights(programs: Iterable[RuleProgram], at_s: float) -> Floats | None:
    """Return the cost of a delay for a source's rules by hour of the week, shape (168,), or ``None`` if it is constant.

    In each hour the rule with the highest weight decides.
    """
    asked = [(program.weight, program.rule.importance) for program in programs]
    if not any(importance for _, importance in asked):
        return None
    weights: Floats = np.max([weight * importance_by_hour(terms, at_s) for weight, terms in asked], axis=0)
    return weights


def importance_by_hour(terms: tuple[ImportanceTerm, ...], at_s: float) -> Floats:
    """Return the weight of each hour of the week of ``at_s``, from Monday 00:00 UTC, shape (168,).

    The first term that holds at the middle of an hour decides; if none does, the weight is 1.

    >>> from decimal import Decimal
    >>> office = ImportanceTerm(Decimal(3), "Mon-Fri 09:00-18:00", "Europe/Berlin")
    >>> importance_by_hour((office,), 1_760_000_000.0)[6:17].tolist()  # summer: two hours ahead of UTC
    [1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0]
    """
    return _by_hour(terms, MONDAY_S + (at_s - MONDAY_S) // WEEK_S * WEEK_S)


_CALENDAR_S = 146_097 * 86400.0  # 400 years


@lru_cache(1024)
def _by_hour(terms: tuple[ImportanceTerm, ...], monday_s: float) -> Floats:
    # the weeks of a short cycle are counted beyond the year 9999, and the calendar repeats after 400 years
    middles = (datetime.fromtimestamp((monday_s + (hour + 0.5) * HOUR_S) % _CALENDAR_S, UTC) for hour in range(HOURS))
    return np.array([_weight(terms, middle) for middle in middles])


def _weight(terms: Sequence[ImportanceTerm], moment: datetime) -> float:
    for term in terms:
        during = None if term.during is None else parse_during(term.during)
        local = moment.astimezone(ZoneInfo(term.zone)) if term.zone else moment
        if during is None or during.holds(local):
            return float(term.weight)
    return 1.0
