"""The work of rules as values: each task runs here or in another process, under a meter, and fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import UpdateEvent
from proxyd.core.rules.known.context import History, SourceContext
from proxyd.core.rules.known.failing import RuleFailure
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.meter import Limits, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.joint_intervals import Announcement
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.core.rules.stages.payload import ProbeFacts, joint_notifications, notifications_of_firings
from proxyd.core.rules.stages.streams import advance, answers, recall_stream

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
class RuleTask:
    """Takes the events that were ``found`` on a source into a rule's stream, and makes the notifications."""

    program: RuleProgram
    stream: StreamState
    found: Sequence[StoredEvent]
    facts: ProbeFacts
    across: StreamState | None = None
    history: History = field(default_factory=dict)  # fields of stored items, for tables that look back
    is_replay: bool = False  # past intervals that several sources must capture are counted, but not notified
    # whether the source has the class of the rule's trigger, and that of its THEN
    is_first: bool = True
    is_answer: bool = False

    @property
    def counting(self) -> Sequence[StoredEvent]:
        """The events that may count; a seed of the source itself counts for a rule that has not seen any event yet."""
        if not self.program.is_of_source:
            return self.found if self.is_first else ()
        return [replace(each, seed=False) for each in self.found if not each.seed or not self.stream.seen]

    def run(self, meter: Meter) -> RuleResults:
        """Return the advanced streams, and the notifications of the firings that this source alone decides."""
        program = self.program
        declared_s = self.facts.declared_s
        step = advance(program, self.stream, self.counting, self.facts.grid, self.across, meter, declared_s=declared_s)
        if not program.is_joint:
            told = notifications_of_firings(program, step.firings, self.history, self.found, meter, self.facts)
            failures = (*step.failures, *told.failures)
            return replace(step, firings=(), notifications=told.notifications, failures=failures)
        if self.is_replay:
            return replace(step, firings=())
        if not self.is_answer:
            return step
        given = answers(program, self.stream.source_id, self.found, meter, declared_s=declared_s)
        return replace(step, answers=given.answers, failures=(*step.failures, *given.failures))

    def failure(self, reason: str) -> RuleResults:
        """Return the streams as they were; the events are lost to the rule."""
        streams = (self.stream,) if self.across is None else (self.stream, self.across)
        return RuleResults(streams, failures=(RuleFailure(self.program.rule.name, self.stream.source_id, reason),))


def tasks_of(
    context: SourceContext,
    found: Sequence[StoredEvent],
    of_source: Sequence[StoredEvent],
    history: History,
    picture: str | None,
) -> tuple[RuleTask, ...]:
    """Return the tasks of a source's rules: on ``found`` events of items, and on events ``of_source`` itself."""
    facts = ProbeFacts(context.source.url, context.grid, context.declared_s, picture=picture)
    work = [(*each, found) for each in context.own_rules if found]
    work += [(*each, of_source) for each in context.source_rules if of_source]
    return tuple(
        RuleTask(
            program,
            stream,
            events,
            facts,
            context.across.get(program.rule.name),
            {key: rows for key, rows in history.items() if key[0] == program.rule.name},
            is_first=program.is_of_source or program.event_class == context.page_class,
            is_answer=program.answer is not None and program.answer.page_class == context.page_class,
        )
        for program, stream, events in work
    )


@dataclass(frozen=True, slots=True)
class JointTask:
    """Makes the notification of an interval that several sources had to capture.

    ``picture`` is the hash of the picture that the completing probe took.
    """

    announced: Announcement
    grid: ChrononGrid
    picture: str | None = None

    @property
    def program(self) -> RuleProgram:
        """The rule."""
        return self.announced.program

    def run(self, meter: Meter) -> RuleResults:
        """Return the notification, with the rows of the query over what the sources showed."""
        return joint_notifications(self.announced, meter, grid=self.grid, picture=self.picture)

    def failure(self, reason: str) -> RuleResults:
        """Return no notification."""
        failure = RuleFailure(self.program.rule.name, self.announced.interval.event.source_id, reason)
        return RuleResults(failures=(failure,))


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
