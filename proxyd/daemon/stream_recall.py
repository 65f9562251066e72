"""Restores the decider's streams from stored events."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

import structlog

from proxyd.core.rules.decider import Decider
from proxyd.core.rules.observation import RuleResults
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.streams import Backlog, RuleFailure
from proxyd.core.rules.state import MAX_PENDING, StoredEvent, StreamState
from proxyd.daemon.rule_evaluation import RuleEvaluation
from proxyd.signals import Signal
from proxyd.store import SqlStore

_TURN = 500  # sources that are looked at before other tasks have their turn
log = structlog.get_logger("rules")


def log_failures(failures: Iterable[RuleFailure]) -> None:
    """Log each rule that failed, once."""
    for each in dict.fromkeys(failures):
        log.warning("a rule failed", rule=each.rule, source=each.source_id, reason=each.reason)


class StreamRecall:
    """Reads stored events for streams; ``news`` is notified whenever replayed events make notifications."""

    def __init__(self, decider: Decider, store: SqlStore, evaluation: RuleEvaluation) -> None:
        self.decider = decider
        self._recalls = decider.recalls
        self._evaluation = evaluation
        self._captures = decider.captures
        self.store = store
        self.news = Signal()

    async def pending(self, now_s: float) -> None:
        """Restore the streams' events since they last fired, and their windows."""
        for program, stream in self._recalls.lost():
            await self._restore(program, stream, now_s)

    async def pending_of(self, sources: Iterable[str], now_s: float) -> None:
        """Restore the same of the streams of some sources, which another planner has had until now."""
        seen: set[tuple[str, str]] = set()
        for number, source_id in enumerate(sources):
            if number % _TURN == 0:
                await asyncio.sleep(0)
            for program, stream in self._recalls.lost_of(source_id):
                if (stream.rule, stream.source_id) not in seen:
                    seen.add((stream.rule, stream.source_id))
                    await self._restore(program, stream, now_s)

    async def _restore(self, program: RuleProgram, stream: StreamState, now_s: float) -> None:
        task = self._recalls.recall(stream, await self._events_of(program, stream, now_s), now_s)
        self.decider.known.keep_streams(await self._evaluation.run([task]))

    async def requeried(self, rules: Collection[str], now_s: float) -> None:
        """Let the events that streams hold have what the edited queries of these rules read."""
        for program, stream in self._recalls.waiting_of(rules) if rules else ():
            events = await self._events_of(program, stream, now_s)
            self._recalls.refill(stream.rule, stream.source_id, events)

    async def rows_of_queries(self) -> None:
        """Tell joint intervals what their queries' sources showed last, and delete those that are no longer awaited."""
        shown = self._captures.shown
        for source_id in shown.unseen():
            items = await self.store.present_items(source_id)
            if shown.get(source_id) is None:  # a probe may have shown newer ones meanwhile
                shown.see(source_id, items)
        await self.store.forget_joint_intervals(self._captures.take_orphans())

    async def _events_of(self, program: RuleProgram, stream: StreamState, now_s: float) -> dict[str, list[StoredEvent]]:
        """Return the stored events that a stream must see again, by source."""
        kind, windows_s = program.rule.trigger.kind, now_s - program.trigger.longest_s
        if not stream.source_id:
            since_s = min(stream.fired_s, windows_s)
            return {
                source_id: await self.store.load_events(source_id, since_s, kind=kind)
                for source_id in program.event_sources
            }
        source_id = stream.source_id
        events = await self.store.load_events_after(source_id, stream.fired_seq, kind=kind, limit=MAX_PENDING)
        if program.trigger.longest_s > 0:
            known = {event.seq for event in events}
            recent = await self.store.load_events(source_id, windows_s, kind=kind)
            events = sorted([*events, *(e for e in recent if e.seq not in known)], key=lambda event: event.seq)
        return {source_id: events}

    async def replay(self, entry: Backlog, now_s: float) -> None:
        """Run a source's earlier events through a new stream; events that arrive during this are left out."""
        source_id = entry.source.source_id
        kind = entry.program.rule.trigger.kind
        events = await self.store.load_events(source_id, entry.program.start_s, kind=kind)
        results = await self._replayed(entry, [each for each in events if each.seq < entry.before_seq], now_s)
        await self.store.record_results(results)
        log_failures(results.failures)
        if results.notifications:
            self.news.notify()

    async def _replayed(self, entry: Backlog, events: Sequence[StoredEvent], now_s: float) -> RuleResults:
        """Return what a replay means; it is made again if its stream moved while it was evaluated."""
        while True:
            task = self._recalls.replay(entry, events, now_s)
            async with self._evaluation.turn([task]):
                (step,) = await self._evaluation.run([task])
                if self.decider.known.is_unmoved(task.program, task.stream, task.across):
                    return self._recalls.replayed(step)
