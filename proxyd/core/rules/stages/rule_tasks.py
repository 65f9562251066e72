"""The work of rules as values: each task runs here or in another process, under a meter, and fails alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import UpdateEvent
from proxyd.core.rules.known.context import History, SourceContext
from proxyd.core.rules.known.failing import RuleFailure
from proxyd.core.rules.known.state import IntervalRecord, Notification, StoredEvent
from proxyd.core.rules.programs.meter import Limits, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.captures import Captured
from proxyd.core.rules.stages.joint_intervals import Announcement
from proxyd.core.rules.stages.payload import (
    MadeNotifications,
    ProbeFacts,
    joint_notifications,
    notifications_of_firings,
)
from proxyd.core.rules.stages.streams import Answer, Firing, advance, answers, recall_stream

R_co = TypeVar("R_co", covariant=True)


class Task(Protocol[R_co]):
    """Work of one rule that depends on nothing but its own values."""

    @property
    def program(self) -> RuleProgram:
        """The rule."""

    def run(self, meter: Meter) -> R_co:
        """Return the result; once the meter is spent, the rest fails. Raises nothing."""

    def failure(self, reason: str) -> R_co:
        """Return the result of a task that could not be run, for this reason."""


@dataclass(frozen=True, slots=True)
class RuleStep:
    """The result of a rule's task: what the events of one probe change for the rule."""

    # the rule's stream on the source, and its stream of all sources if it counts across them
    streams: tuple[StreamState, ...]
    intervals: tuple[IntervalRecord, ...] = ()
    # ``firings``, ``answers``: the firings that this source does not decide alone, and the events that may answer
    # some. All other firings are in ``notifications`` already.
    firings: tuple[Firing, ...] = ()
    notifications: tuple[Notification, ...] = ()
    failures: tuple[RuleFailure, ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleTask:
    """Takes the events that were ``found`` on a source into a rule's stream, and makes the notifications."""

    program: RuleProgram
    stream: StreamState
    found: Sequence[StoredEvent]
    grid: ChrononGrid
    across: StreamState | None = None
    history: History = field(default_factory=dict)  # fields of stored items, for tables that look back
    url: str = ""
    declared_s: float = 0.0
    made_s: float | None = None  # when notifications are made; by default when their events were seen
    # the events are old: intervals that several sources must capture have ended, and are not notified
    is_replay: bool = False
    # ``is_first``, ``is_answer``: whether the source has the class of the rule's trigger, and that of its THEN
    is_first: bool = True
    is_answer: bool = False
    picture: str | None = None  # the hash of the picture that the probe took

    @classmethod
    def all_of(
        cls,
        context: SourceContext,
        found: Sequence[StoredEvent],
        history: History,
        of_source: Sequence[StoredEvent] = (),
        picture: str | None = None,
    ) -> tuple[RuleTask, ...]:
        """Return the tasks of a source's rules: on ``found`` events of items, and on events ``of_source`` itself."""
        of_items = cls._of_rules(context, context.own_rules, found, history) if found else ()
        of_itself = cls._of_rules(context, context.source_rules, of_source, history) if of_source else ()
        return tuple(replace(each, picture=picture) for each in (*of_items, *of_itself))

    @property
    def counting(self) -> Sequence[StoredEvent]:
        """The events that may count; a seed of the source itself counts for a rule that has not seen any event yet."""
        if not self.program.is_of_source:
            return self.found if self.is_first else ()
        return [replace(each, seed=False) for each in self.found if not each.seed or not self.stream.seen]

    @classmethod
    def _of_rules(
        cls,
        context: SourceContext,
        rules: Iterable[tuple[RuleProgram, StreamState]],
        found: Sequence[StoredEvent],
        history: History,
    ) -> tuple[RuleTask, ...]:
        return tuple(
            cls(
                program,
                stream,
                found,
                context.grid,
                context.across.get(program.rule.name),
                {key: rows for key, rows in history.items() if key[0] == program.rule.name},
                context.source.url,
                context.declared_s,
                is_first=program.is_of_source or program.event_class == context.page_class,
                is_answer=program.answer is not None and program.answer.page_class == context.page_class,
            )
            for program, stream in rules
        )

    def run(self, meter: Meter) -> RuleStep:
        """Return the advanced streams, and the notifications of the firings that this source alone decides."""
        program = self.program
        step = advance(program, self.stream, self.counting, self.grid, self.across, meter, declared_s=self.declared_s)
        if program.is_joint:
            firings = () if self.is_replay else step.firings
            given, failures = self._answers(meter)
            failures = (*step.failures, *failures)
            return RuleStep(step.streams, step.intervals, firings, failures=failures, answers=given)
        facts = ProbeFacts(self.url, self.grid, self.made_s, self.picture)
        told = notifications_of_firings(program, step.firings, self.history, self.found, meter, facts)
        failures = (*step.failures, *told.failures)
        return RuleStep(step.streams, step.intervals, (), told.notifications, failures)

    def _answers(self, meter: Meter) -> tuple[tuple[Answer, ...], tuple[RuleFailure, ...]]:
        if not self.is_answer or self.is_replay:
            return (), ()
        return answers(self.program, self.stream.source_id, self.found, meter, declared_s=self.declared_s)

    def failure(self, reason: str) -> RuleStep:
        """Return the streams as they were; the events are lost to the rule."""
        streams = (self.stream,) if self.across is None else (self.stream, self.across)
        return RuleStep(streams, failures=(RuleFailure(self.program.rule.name, self.stream.source_id, reason),))


@dataclass(frozen=True, slots=True)
class JointTask:
    """Makes the notification of an interval that several sources had to capture.

    ``picture`` is the hash of the picture that the completing probe took.
    """

    announced: Announcement
    grid: ChrononGrid
    picture: str | None = None

    @classmethod
    def all_of(cls, captured: Captured, grid: ChrononGrid, picture: str | None = None) -> list[JointTask]:
        """Return the tasks of the intervals that are to be notified."""
        return [cls(each, grid, picture) for each in captured.announcements]

    @property
    def program(self) -> RuleProgram:
        """The rule."""
        return self.announced.program

    def run(self, meter: Meter) -> MadeNotifications:
        """Return the notification, with the rows of the query over what the sources showed."""
        return joint_notifications(self.announced, meter, grid=self.grid, picture=self.picture)

    def failure(self, reason: str) -> MadeNotifications:
        """Return no notification."""
        failure = RuleFailure(self.program.rule.name, self.announced.interval.event.source_id, reason)
        return MadeNotifications(failures=(failure,))


@dataclass(frozen=True, slots=True)
class RecallTask:
    """Restores the part of a stream that is not stored with it, from the events of its sources."""

    program: RuleProgram
    stream: StreamState
    found: Sequence[UpdateEvent]
    now_s: float

    def run(self, meter: Meter) -> StreamState:
        """Return the stream after the events."""
        return recall_stream(self.program, self.stream, self.found, self.now_s, meter)

    def failure(self, reason: str) -> StreamState:
        """Return the stream as it was stored."""
        return self.stream


def run_task(task: Task[R_co], limits: Limits) -> R_co:
    """Return the result of one task under ``limits``; worker processes call this."""
    return task.run(Meter(limits))


def merge(steps: Iterable[RuleStep]) -> RuleStep:
    """Return the steps of several rules as one."""
    found = list(steps)
    return RuleStep(
        streams=tuple(stream for each in found for stream in each.streams),
        intervals=tuple(record for each in found for record in each.intervals),
        firings=tuple(firing for each in found for firing in each.firings),
        notifications=tuple(told for each in found for told in each.notifications),
        failures=tuple(failure for each in found for failure in each.failures),
        answers=tuple(answer for each in found for answer in each.answers),
    )
