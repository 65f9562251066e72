"""Finds which events answer the first events of a rule with THEN, as work that any process may do. Pure.

A first event has the earliest answer that comes after it in time and fits. Where a rule compares a field of FIRST by
``=``, answers are found by an index: on a page of 2,000 items the pairs alone held up the event loop for 70 s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge

from proxyd.core.model.item import UpdateEvent, Value
from proxyd.core.model.profile import FIRST
from proxyd.core.rules.programs.expression_compiler import Closure, Row
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.trigger_program import AnswerProgram
from proxyd.core.rules.stages.streams import RuleFailure
from proxyd.errors import WorkLimitError

_STEPS_PER_EVENT, _STEPS_PER_PAIR = 10, 20  # a pair copies the row of its answer


@dataclass(frozen=True, slots=True)
class Match:
    """What a probe's first events and answers mean for those of a rule.

    Parameters
    ----------
    answered
        The answers of first events that waited, by the ids under which these are kept.
    firsts
        The new first events, each with its answer or ``None``.
    given
        The new events that may answer others, in order.
    """

    rule: str
    answered: Mapping[str, UpdateEvent] = field(default_factory=dict)
    firsts: tuple[tuple[UpdateEvent, UpdateEvent | None], ...] = ()
    given: tuple[UpdateEvent, ...] = ()
    failures: tuple[RuleFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Lets the new events of a rule with THEN, and those that wait, answer each other.

    Parameters
    ----------
    waiting
        The first events that wait, by the ids under which they are kept.
    kept
        The answers that are kept.
    firsts, given
        The new first events, and the new events that may answer some.
    """

    program: RuleProgram
    source_id: str
    waiting: Mapping[str, UpdateEvent]
    kept: Sequence[UpdateEvent]
    firsts: Sequence[UpdateEvent]
    given: Sequence[UpdateEvent]

    def run(self, meter: Meter) -> Match:
        """Return the matches; once the meter is spent, the rule has failed, and what waits goes on waiting."""
        try:
            return self._match(meter)
        except WorkLimitError as error:
            return self.failed(str(error))

    def failed(self, reason: str) -> Match:
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
        """Return the first event that answers a first one, or ``None``; raises ``WorkLimitError``.

        A pair whose condition fails is no answer.
        """
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
