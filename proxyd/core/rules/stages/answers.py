"""Rules with THEN: first events that wait for an answer, and answers that were found before their first events.

Both are kept, over restarts, until no later probe can change the outcome: until all sources of the other event were
seen after the time in question, but no longer than a day after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace, merge

from proxyd.core.errors import WorkLimitError
from proxyd.core.model.item import UpdateEvent, Value
from proxyd.core.model.profile import FIRST
from proxyd.core.planning.policies.demands import OnceDemand
from proxyd.core.rules.known.failing_rules import RuleFailure
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import LONGEST_S, IntervalRecord, JointInterval, Obtained, SourceState
from proxyd.core.rules.programs.expression_compiler import Closure, Row
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.trigger_program import AnswerProgram
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.stages.observation import Answer, Firing
from proxyd.core.rules.stages.payload import Announcement
from proxyd.core.rules.stages.rule_tasks import actual_interval

_STEPS_PER_EVENT, _STEPS_PER_PAIR = 10, 20  # a pair copies the row of its answer


@dataclass(frozen=True, slots=True)
class IntervalStep:
    """One step of a joint interval."""

    interval: JointInterval
    is_over: bool = False
    announced: Announcement | None = None
    records: tuple[IntervalRecord, ...] = ()  # whether each source that is decided now captured the interval
    asks: tuple[str, ...] = ()  # the sources that the interval wants probed from now on, or no longer


@dataclass(frozen=True, slots=True)
class Match:
    """What a probe's first events and answers mean for those of a rule."""

    rule: str
    # the answers of first events that waited, by the ids under which these are kept
    answered: Mapping[str, UpdateEvent] = field(default_factory=dict)
    # the new first events, each with its answer or ``None``
    firsts: tuple[tuple[UpdateEvent, UpdateEvent | None], ...] = ()
    given: tuple[UpdateEvent, ...] = ()  # the new events that may answer others, in order
    failures: tuple[RuleFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Lets the new events of a rule with THEN, and those that wait, answer each other."""

    program: RuleProgram
    source_id: str
    waiting: Mapping[str, UpdateEvent]  # the first events that wait, by the ids under which they are kept
    kept: Sequence[UpdateEvent]  # the answers that are kept
    # ``firsts``, ``given``: the new first events, and the new events that may answer some
    firsts: Sequence[UpdateEvent]
    given: Sequence[UpdateEvent]

    def run(self, meter: Meter) -> Match:
        """Return the matches; once the meter is spent, the rule has failed, and what waits goes on waiting."""
        try:
            return self._match(meter)
        except WorkLimitError as error:
            return self.failure(str(error))

    def failure(self, reason: str) -> Match:
        """Return no match; the new events are lost to the rule, and not evaluated again."""
        return Match(self.program.rule.name, failures=(RuleFailure(self.program.rule.name, self.source_id, reason),))

    def _match(self, meter: Meter) -> Match:
        assert self.program.answer is not None
        new = Answers(self.program.answer, self.given, meter)
        answered = {name: answer for name, first in self.waiting.items() if (answer := new.first_of(first)) is not None}
        known = Answers(self.program.answer, [*self.given, *self.kept], meter) if self.kept else new
        firsts = tuple((first, known.first_of(first)) for first in self.firsts)
        return Match(self.program.rule.name, answered, firsts, tuple(new.events))


@dataclass(slots=True)
class Answers:
    """The events that may answer first events, in order of time; their pairs are counted by ``meter``."""

    answer: AnswerProgram
    events: Sequence[UpdateEvent]
    meter: Meter
    _times: list[tuple[float, int]] = field(init=False)
    _places: dict[object, list[int]] | None = field(init=False)

    def __post_init__(self) -> None:
        self.meter.spend(_STEPS_PER_EVENT * len(self.events))
        self.events = sorted(self.events, key=_order)
        self._times = [_order(event) for event in self.events]
        self._places = None if self.answer.keys is None else self._by_key()

    def first_of(self, first: UpdateEvent) -> UpdateEvent | None:
        """Return the first event that answers a first one, or ``None``; raises ``WorkLimitError``."""
        self.meter.spend(_STEPS_PER_EVENT)
        begin = bisect_right(self._times, (first.time_s, -1))
        for place in self._candidates(first, begin):
            event = self.events[place]
            if event.time_s > first.time_s + self.answer.within_s:
                return None
            self.meter.spend(_STEPS_PER_PAIR)
            if _follows(event, first, self.answer) and self._fits(first, event):
                return event
        return None

    def _candidates(self, first: UpdateEvent, begin: int) -> Iterable[int]:
        if self._places is None or self.answer.keys is None:
            return range(begin, len(self.events))
        row = Row({}, tables={FIRST: first.item.fields}, meter=self.meter)
        found = [self._places.get(name, []) for name in _names_of(self._value(self.answer.keys[0], row))]
        later = (map(places.__getitem__, range(bisect_left(places, begin), len(places))) for places in found)
        return merge(*later)

    def _by_key(self) -> dict[object, list[int]]:
        assert self.answer.keys is not None
        places: dict[object, list[int]] = {}
        for place, event in enumerate(self.events):
            value = self._value(self.answer.keys[1], Row.of(event, meter=self.meter))
            for name in _names_of(value):
                places.setdefault(name, []).append(place)
        return places

    def _value(self, key: Closure, row: Row) -> Value:
        try:
            return key(row)
        except WorkLimitError:
            raise
        except Exception:  # noqa: BLE001 - what cannot be evaluated is equal to nothing
            return None

    def _fits(self, first: UpdateEvent, event: UpdateEvent) -> bool:
        try:
            return self.answer.fits(first, event, self.meter)
        except WorkLimitError:
            raise
        except Exception:  # noqa: BLE001 - what cannot be evaluated is no answer
            return False


def _order(event: UpdateEvent) -> tuple[float, int]:
    return event.time_s, event.seq


def _follows(event: UpdateEvent, first: UpdateEvent, answer: AnswerProgram) -> bool:
    """Whether an event comes after a first one: by its number on the same source, on others by its time."""
    if event.source_id == first.source_id:
        return event.seq > first.seq
    return answer.is_elsewhere and event.time_s > first.time_s


def _names_of(value: Value) -> list[tuple[str, Value]]:
    """Return the entries of the index under which a value stands: numbers also equal texts that are spelt like them."""
    if value is None:
        return []
    text = ("text", str(value))
    return [text] if isinstance(value, str) else [("number", value), text]


MOST_WAITING = 1000
"""First events of a rule, and answers, that are kept; the oldest are dropped."""
_MOST_ASKED = 100  # sources that are probed once more when nothing has answered in time, and that are named as missing
_PATIENCE_CHRONONS = 10  # in which they are probed
_ANSWER_PREFIX = "ans_"  # of the ids of answers


class _Watermark:
    """The time until which all of some sources have been seen.

    >>> states = {name: SourceState(name, "", last_success_s=seen_s) for name, seen_s in (("a", 5.0), ("b", 7.0))}
    >>> mark = _Watermark(["a", "b"])
    >>> mark.seen_s(states), mark.seen_s(states | {"a": SourceState("a", "", last_success_s=9.0)})
    (5.0, 7.0)
    """

    def __init__(self, sources: Iterable[str]) -> None:
        self._heap = [(0.0, source_id) for source_id in sources]
        heapify(self._heap)

    def seen_s(self, states: Mapping[str, SourceState]) -> float:
        """Return the earliest last success of the sources, in unix seconds; 0 if one was never seen."""
        while self._heap:
            noted_s, source_id = self._heap[0]
            now_s = last_success_s(states, source_id)
            if now_s <= noted_s:
                return noted_s
            heapreplace(self._heap, (now_s, source_id))
        return 0.0


def last_success_s(states: Mapping[str, SourceState], source_id: str) -> float:
    """Return when a source was last seen, in unix seconds; 0 if it never was."""
    state = states.get(source_id)
    return (state.last_success_s or 0.0) if state is not None else 0.0


@dataclass(slots=True)
class _Waiting:
    """The first events and the answers of one rule, by id, and how far the sources of either have been seen."""

    program: RuleProgram
    answer: AnswerProgram
    firsts: dict[str, JointInterval] = field(default_factory=dict)
    answers: dict[str, JointInterval] = field(default_factory=dict)
    sources: frozenset[str] = field(init=False)
    first_mark: _Watermark = field(init=False)
    answer_mark: _Watermark = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.sources = frozenset(program.event_sources)
        self.answer_mark = _Watermark(program.answer_sources)
        self.first_mark = _Watermark(self.sources.difference(program.answer_sources))

    def __iter__(self) -> Iterator[JointInterval]:
        yield from self.firsts.values()
        yield from self.answers.values()

    def group_of(self, kept: JointInterval) -> dict[str, JointInterval]:
        """Return the first events or the answers, whichever an event is kept with."""
        return self.answers if _is_answer(kept) else self.firsts

    def decision_s(self, kept: JointInterval) -> float:
        """Return the time, in unix seconds, after which the sources of the other event can add nothing."""
        return kept.event.time_s + (0.0 if _is_answer(kept) else self.answer.within_s)


class AwaitedAnswers:
    """The first events and the answers of all rules with THEN."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._waiting: dict[str, _Waiting] = {}

    def declare(self, programs: Mapping[str, RuleProgram]) -> None:
        """Follow a declaration; events stay if their rule does."""
        before = self._waiting
        self._waiting = {
            name: _Waiting(program, program.answer) for name, program in programs.items() if program.answer is not None
        }
        for kept in [kept for name, each in before.items() if name in self._waiting for kept in each]:
            self.adopt(kept)

    def release(self, is_ours: Callable[[str], bool]) -> None:
        """Forget what rules wait for that another planner has."""
        for name, each in self._waiting.items():
            if not is_ours(name):
                each.firsts.clear()
                each.answers.clear()

    def takes(self, rule: str) -> bool:
        """Whether a rule has THEN."""
        return rule in self._waiting

    def adopt(self, kept: JointInterval) -> None:
        """Take over what a rule with THEN kept before."""
        self._waiting[kept.rule].group_of(kept)[kept.interval_id] = kept

    def __iter__(self) -> Iterator[JointInterval]:
        """Yield everything that is kept."""
        for each in self._waiting.values():
            yield from each

    def single_demands(self, source_id: str) -> Iterator[OnceDemand]:
        """Yield the probes that a source needs to show that nothing has answered in time."""
        for rule, waiting in self._waiting.items():
            if not self._sources_to_probe(waiting) or source_id not in waiting.program.answer_sources:
                continue
            seen_s = last_success_s(self._known.states, source_id)
            open_s = {
                waiting.decision_s(each) for each in waiting.firsts.values() if waiting.decision_s(each) >= seen_s
            }
            for end in sorted({self._known.grid.chronon_at(end_s) for end_s in open_s}):
                yield OnceDemand(rule, end + 1, end + _PATIENCE_CHRONONS)

    def match_tasks(self, firings: Iterable[Firing], given: Iterable[Answer], source_id: str) -> list[MatchTask]:
        """Return the tasks that find what new first events and answers of a source mean for each other."""
        fresh: dict[str, tuple[list[UpdateEvent], list[UpdateEvent]]] = {}
        for firing in firings:
            fresh.setdefault(firing.rule, ([], []))[0].append(firing.events[-1])
        for answer in given:
            fresh.setdefault(answer.rule, ([], []))[1].append(answer.event)
        return [self._match_task(self._waiting[rule], source_id, *events) for rule, events in fresh.items()]

    def _match_task(
        self, waiting: _Waiting, source_id: str, firsts: Sequence[UpdateEvent], given: Sequence[UpdateEvent]
    ) -> MatchTask:
        """Return the task of a rule; only answers of another class concern first events of other sources."""
        concerned = (
            (name, kept.event)
            for name, kept in waiting.firsts.items()
            if given and (waiting.answer.is_elsewhere or kept.event.source_id == source_id)
        )
        kept = [each.event for each in waiting.answers.values()] if firsts else []
        return MatchTask(waiting.program, source_id, dict(concerned), kept, firsts, given)

    def update(self, found: Discovery, matches: Iterable[Match]) -> list[IntervalStep]:
        """Return what a probe changed: firsts that began to wait or were answered, and all that need not wait longer.

        The streams of the rules, and the state of the source, must already hold what the probe found.
        """
        now_s = found.outcome.finished_s
        steps = [step for match in matches for step in self._keep_match(self._waiting[match.rule], match, now_s)]
        if found.is_seen and not found.outcome.is_push:
            steps += self._end_decided(found.outcome.source_id, now_s)
        return steps

    def end_overdue(self, kept: JointInterval, now_s: float) -> IntervalStep | None:
        """End what has waited too long; ``None`` if it no longer waits. Where nothing answered, that is announced."""
        waiting = self._waiting[kept.rule]
        if waiting.group_of(kept).pop(kept.interval_id, None) is None:
            return None
        states, decided_s = self._known.states, waiting.decision_s(kept)
        unseen = (each for each in waiting.program.answer_sources if last_success_s(states, each) <= decided_s)
        missing = tuple(each for each, _ in zip(unseen, range(_MOST_ASKED), strict=False))
        return self._end(waiting, replace(kept, wanted=missing), now_s)

    # -- how

    def _sources_to_probe(self, waiting: _Waiting) -> tuple[str, ...]:
        """Return the sources that a rule needs probed once more when nothing has answered in time."""
        sources = waiting.program.answer_sources
        return sources if waiting.answer.is_absent and len(sources) <= _MOST_ASKED else ()

    def _keep_match(self, waiting: _Waiting, match: Match, now_s: float) -> Iterator[IntervalStep]:
        """End the first events that were answered, and keep what may still matter, the newest up to the limit."""
        for name, answer in match.answered.items():
            if (kept := waiting.firsts.pop(name, None)) is not None:
                yield self._end_answered(waiting, kept, answer, now_s)
        answered = [(first, answer) for first, answer in match.firsts if answer is not None]
        for first, answer in answered:
            yield self._end_answered(waiting, self._kept_first(waiting, first), answer, now_s)
        open_firsts = [first for first, answer in match.firsts if answer is None]
        for first in open_firsts[-MOST_WAITING:]:
            kept = self._kept_first(waiting, first)
            waiting.firsts[kept.interval_id] = kept
            yield IntervalStep(kept, asks=self._sources_to_probe(waiting))
        for event in match.given[-MOST_WAITING:] if waiting.answer.is_elsewhere else ():
            kept = self._kept(waiting, event, _ANSWER_PREFIX + waiting.program.notification_id(event), 0.0)
            waiting.answers[kept.interval_id] = kept
            yield IntervalStep(kept)
        yield from _drop_oldest(waiting.firsts)
        yield from _drop_oldest(waiting.answers)

    def _kept_first(self, waiting: _Waiting, first: UpdateEvent) -> JointInterval:
        return self._kept(waiting, first, waiting.program.notification_id(first), waiting.answer.within_s)

    def _kept(self, waiting: _Waiting, event: UpdateEvent, name: str, within_s: float) -> JointInterval:
        """Return an event to keep until the sources of the other one were seen ``within_s`` seconds after it."""
        until_s, grid = event.time_s + within_s, self._known.grid
        return JointInterval(
            interval_id=name,
            rule=waiting.program.rule.name,
            events=(event,),
            opened=grid.chronon_at(event.time_s),
            opened_s=event.seen_s,
            deadline=grid.chronon_at(until_s),
            ends_s=max(until_s, event.seen_s) + LONGEST_S,
            wanted=(),
        )

    def _end_decided(self, source_id: str, now_s: float) -> Iterator[IntervalStep]:
        """End the events that no source can decide otherwise any more, now that one has been seen again."""
        for waiting in self._waiting.values():
            is_concerned = source_id in waiting.sources and (waiting.firsts or waiting.answers)
            for kept in list(waiting) if is_concerned else ():
                if self._seen_s(waiting, kept) > waiting.decision_s(kept):
                    del waiting.group_of(kept)[kept.interval_id]
                    yield self._end(waiting, kept, now_s)

    def _seen_s(self, waiting: _Waiting, kept: JointInterval) -> float:
        """Return the time, in unix seconds, until which all sources that may decide about an event have been seen."""
        states = self._known.states
        if not waiting.answer.is_elsewhere:
            return last_success_s(states, kept.event.source_id)
        return (waiting.first_mark if _is_answer(kept) else waiting.answer_mark).seen_s(states)

    def _end(self, waiting: _Waiting, kept: JointInterval, now_s: float) -> IntervalStep:
        """End a kept event: it is dropped, unless it is a first one without the answer that THEN NO rules out."""
        if not waiting.answer.is_absent or _is_answer(kept):
            return IntervalStep(kept, is_over=True)
        return self._announce(waiting, kept, waiting.decision_s(kept), now_s)

    def _end_answered(self, waiting: _Waiting, kept: JointInterval, answer: UpdateEvent, now_s: float) -> IntervalStep:
        """End a first event with its answer: that is announced, unless the rule fires without one."""
        if waiting.answer.is_absent:
            return IntervalStep(kept, is_over=True)
        if waiting.answer.is_elsewhere:
            rows = Obtained(answer.source_id, answer.seen_s, captured=True, rows=(answer.item.fields,))
            return self._announce(waiting, kept, answer.time_s, now_s, obtained=(rows,))
        return self._announce(waiting, kept, answer.time_s, now_s, events=(*kept.events, answer))

    def _announce(
        self,
        waiting: _Waiting,
        kept: JointInterval,
        fired_s: float,
        now_s: float,
        *,
        events: tuple[UpdateEvent, ...] = (),
        obtained: tuple[Obtained, ...] = (),
    ) -> IntervalStep:
        """Announce a first event, with its answer if any, that was decided at ``fired_s`` as was found at ``now_s``."""
        program, first = waiting.program, kept.event
        decided = UpdateEvent(first.source_id, first.seq, first.kind, first.item, fired_s, now_s, first.exact)
        record = actual_interval(program, decided, None, self._known.grid)
        shown = replace(
            kept, events=events or kept.events, obtained=obtained, opened=record.start, deadline=record.deadline
        )
        url = self._known.compiled.url_of(first.source_id)
        return IntervalStep(shown, True, Announcement(program, shown, {}, url, now_s), (record,))


def _is_answer(kept: JointInterval) -> bool:
    return kept.interval_id.startswith(_ANSWER_PREFIX)


def _drop_oldest(kept: dict[str, JointInterval]) -> Iterator[IntervalStep]:
    for oldest in list(kept.values())[: max(0, len(kept) - MOST_WAITING)]:
        del kept[oldest.interval_id]
        yield IntervalStep(oldest, is_over=True)
