"""Rules with THEN: first events that wait for an answer, and answers that were found before their first events.

Both are kept, over restarts, until no later probe can change the outcome: until all sources of the other event were
seen after the time in question, but no longer than a day after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace

from proxyd.core.model.item import UpdateEvent
from proxyd.core.planning.policies.demands import OnceDemand
from proxyd.core.rules.knowledge import Knowledge
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.trigger_program import AnswerProgram
from proxyd.core.rules.stages.answer_matches import Match, MatchTask
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.stages.joint_intervals import LONGEST_S, Announcement, IntervalStep, JointInterval, Obtained
from proxyd.core.rules.stages.streams import Answer, Firing, actual_interval
from proxyd.core.rules.state import SourceState

MOST_WAITING = 1000
"""First events of a rule, and answers, that are kept; the oldest are dropped."""
_MOST_ASKED = 100  # sources that are probed once more when nothing has answered in time, and that are named as missing
_PATIENCE_CHRONONS = 10  # in which they are probed
_ANSWER_PREFIX = "ans_"  # of the ids of answers


class Watermark:
    """The time until which all of some sources have been seen.

    Examples
    --------
    >>> states = {name: SourceState(name, "", last_success_s=seen_s) for name, seen_s in (("a", 5.0), ("b", 7.0))}
    >>> mark = Watermark(["a", "b"])
    >>> mark.seen_s(states)
    5.0
    >>> mark.seen_s(states | {"a": SourceState("a", "", last_success_s=9.0)})
    7.0
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
    first_mark: Watermark = field(init=False)
    answer_mark: Watermark = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.sources = frozenset(program.event_sources)
        self.answer_mark = Watermark(program.answer_sources)
        self.first_mark = Watermark(self.sources.difference(program.answer_sources))

    def __iter__(self) -> Iterator[JointInterval]:
        yield from self.firsts.values()
        yield from self.answers.values()

    def group_of(self, kept: JointInterval) -> dict[str, JointInterval]:
        """Return the first events or the answers, whichever an event is kept with."""
        return self.answers if _is_answer(kept) else self.firsts

    def decided_s(self, kept: JointInterval) -> float:
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

    def asked_once(self, source_id: str) -> Iterator[OnceDemand]:
        """Yield the probes that a source needs to show that nothing has answered in time."""
        for rule, waiting in self._waiting.items():
            if not self._sources_to_probe(waiting) or source_id not in waiting.program.answer_sources:
                continue
            seen_s = last_success_s(self._known.states, source_id)
            open_s = {waiting.decided_s(each) for each in waiting.firsts.values() if waiting.decided_s(each) >= seen_s}
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

    def take_in(self, found: Discovery, matches: Iterable[Match]) -> list[IntervalStep]:
        """Return what a probe changed: firsts that began to wait or were answered, and all that need not wait longer.

        The streams of the rules, and the state of the source, must already hold what the probe found.
        """
        now_s = found.outcome.finished_s
        steps = [step for match in matches for step in self._keep_match(self._waiting[match.rule], match, now_s)]
        if found.is_seen and not found.outcome.is_push:
            steps += self._end_decided(found.outcome.source_id, now_s)
        return steps

    def give_up(self, kept: JointInterval, now_s: float) -> IntervalStep | None:
        """End what has waited too long; ``None`` if it no longer waits. Where nothing answered, that is announced."""
        waiting = self._waiting[kept.rule]
        if waiting.group_of(kept).pop(kept.interval_id, None) is None:
            return None
        states, decided_s = self._known.states, waiting.decided_s(kept)
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
                if self._seen_s(waiting, kept) > waiting.decided_s(kept):
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
        return self._announce(waiting, kept, waiting.decided_s(kept), now_s)

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
        """Announce a first event that was decided at ``fired_s``, as was found at ``now_s``; both in unix seconds.

        ``events`` are the first one and an answer of its own class, ``obtained`` holds one of another class.
        """
        program, first = waiting.program, kept.event
        decided = UpdateEvent(first.source_id, first.seq, first.kind, first.item, fired_s, now_s, first.exact)
        record = actual_interval(program, decided, None, self._known.grid)
        shown = replace(
            kept, events=events or kept.events, obtained=obtained, opened=record.start, deadline=record.deadline
        )
        url = self._known.compiled.url_of(first.source_id)
        return IntervalStep(shown, True, Announcement(program, shown, {}, url, now_s), (record,))


def _is_answer(kept: JointInterval) -> bool:
    """Whether an event is kept as an answer, not as a first event."""
    return kept.interval_id.startswith(_ANSWER_PREFIX)


def _drop_oldest(kept: dict[str, JointInterval]) -> Iterator[IntervalStep]:
    """Drop the oldest events beyond the limit."""
    for oldest in list(kept.values())[: max(0, len(kept) - MOST_WAITING)]:
        del kept[oldest.interval_id]
        yield IntervalStep(oldest, is_over=True)
