"""Streams that see stored events: new ones with an earlier START, and those that lost their events in a restart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from proxyd.core.rules.known.compiled import Swap
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.payload import ProbeFacts
from proxyd.core.rules.stages.rule_tasks import Backlog, RecallTask, RuleTask, counts, refill_stream


class Recalls:
    """Opens streams, and says what stored events mean for them."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known

    def follow(self, swap: Swap, now_s: float) -> list[Backlog]:
        """Let streams follow a declaration; return the new ones through which the past must be replayed."""
        known, programs = self._known, self._known.compiled.programs
        known.streams.keep(programs)
        rules = [name for name in swap.rules if name in programs]
        for name in rules:
            program, streams = programs[name], known.streams.of_rule(name)
            is_kept = known.compiled.continues(name, swap.before)
            kept = streams.items() if is_kept else ()
            opened = [program.open_stream(each, known.next_seq(source_id, program), now_s) for source_id, each in kept]
            known.streams.replace(name, opened)
        gained = {name: programs[name].rule.source_ids for name in rules} | dict(swap.gained)
        return [
            each
            for name, sources in gained.items()
            for each in self._open_streams(programs[name], sources, swap.fresh.get(name, ()))
        ]

    def _open_streams(
        self, program: RuleProgram, sources: Iterable[str], fresh: Iterable[StreamState]
    ) -> Iterator[Backlog]:
        """Open the missing streams of a rule, and yield those through which the past must be replayed."""
        name, known = program.rule.name, self._known
        if program.trigger.counts_across:
            known.streams.setdefault((name, ""), program.new_stream(""))
        there = known.streams.of_rule(name)
        new = [source_id for source_id in dict.fromkeys(sources) if source_id not in there]
        known.streams.begin(name, [each for each in fresh if each.source_id not in there])  # most of them
        there = known.streams.of_rule(name)
        known.streams.begin(name, program.new_streams([source_id for source_id in new if source_id not in there]))
        for source_id in () if program.is_of_source else new:
            state = known.states.get(source_id)
            if state is None or state.first_contact_s is None or not known.has(source_id):
                continue
            if program.looks_back(known.compiled.declaration_s(source_id)):
                yield Backlog(program, known.compiled.sources[source_id], state.next_seq)

    def replay(self, entry: Backlog, stored: Sequence[StoredEvent], now_s: float) -> RuleTask:
        """Return the replay of stored events through a new stream; the streams of its result are to be kept."""
        name, source_id = entry.program.rule.name, entry.source.source_id
        return RuleTask(
            entry.program,
            self._known.streams[name, source_id],
            stored,
            ProbeFacts(entry.source.url, self._known.grid, self._known.compiled.declaration_s(source_id), now_s),
            self._known.streams.get((name, "")),
            is_replay=True,  # past joint intervals are counted, but not notified
            is_first=self._known.compiled.declaration.page_class(entry.source) == entry.program.event_class,
        )

    def lost(self) -> list[tuple[RuleProgram, StreamState]]:
        """Return our streams that lost their events in a restart, each with its rule."""
        programs, streams = self._known.compiled.programs, self._known.streams.values()
        return [(programs[each.rule], each) for each in streams if _is_lost(each) and self.is_ours(each)]

    def lost_of(self, source_id: str) -> list[tuple[RuleProgram, StreamState]]:
        """Return the streams of a source of another planner, whose events that one alone has, each with its rule."""
        known = self._known
        keys = [
            (program, known.streams.get((program.rule.name, stream_of)))
            for program in known.compiled.programs_of(source_id)
            for stream_of in ((source_id, "") if program.trigger.counts_across else (source_id,))
        ]
        return [(program, stream) for program, stream in keys if stream is not None and _is_lost(stream)]

    def is_ours(self, stream: StreamState) -> bool:
        """Whether this planner lets a stream see events; one of all sources of a rule has no source."""
        return self._known.has(stream.source_id) if stream.source_id else self._known.has_rule(stream.rule)

    def recall(self, stream: StreamState, stored: Mapping[str, Sequence[StoredEvent]], now_s: float) -> RecallTask:
        """Return what restores the events and windows of a stream, which are not stored with it."""
        program = self._known.compiled.programs[stream.rule]
        found = (
            program.own_view(each.event(source_id))
            for source_id, events in stored.items()
            for each in events
            if counts(program, each, self._known.compiled.declaration_s(source_id))
        )
        return RecallTask(program, stream, [event for event in found if event is not None], now_s)

    def waiting_of(self, rules: Collection[str]) -> list[tuple[RuleProgram, StreamState]]:
        """Return the streams of some rules that hold events since they last fired, each with its rule."""
        programs, streams = self._known.compiled.programs, self._known.streams.values()
        return [(programs[each.rule], each) for each in streams if each.rule in rules and each.pending]

    def refill(self, rule: str, source_id: str, stored: Mapping[str, Sequence[StoredEvent]]) -> None:
        """Let the events that a stream holds have what its rule's query reads now."""
        program, stream = self._known.compiled.programs.get(rule), self._known.streams.get((rule, source_id))
        if program is not None and stream is not None:
            events = (program.own_view(each.event(name)) for name, found in stored.items() for each in found)
            self._known.streams[rule, source_id] = refill_stream(program, stream, filter(None, events))


def _is_lost(stream: StreamState) -> bool:
    """Return whether a stream has counted events and holds none."""
    return stream.count > 0 and not stream.pending
