"""Declarations in words, for tests: short texts of the rule language, checked by the real checker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock, MaySend, Memory, Transport, always
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import NO_CONTEXT, HistoryQuery, StoredContext, StoreQuery
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import StoredEvent
from proxyd.core.rules.outcome_decider import AT_ONCE, AtOnce, Evaluation
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.core.rules.stages.rule_tasks import Task
from proxyd.daemon import Observer, ProbeLoop
from proxyd.daemon.rule_evaluation import StreamRecall
from proxyd.store.plan_rows import SqlPlanRecord, StoredPlan
from proxyd.store.sql_store import SqlStore
from proxyd.tracing import NO_TRACES, Tracer

DOMAIN = """CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String, channel.item.link:URL,
channel.item.pubDate:Timestamp);
CREATE PROFILE "P" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");
"""
ONE_A_SECOND = Budget(1.0)
R = TypeVar("R")
WEBHOOK = "SET DELIVERY WEBHOOK 'https://receiver.example/hook' SECRET ENV 'SECRET_A'"


def source(name: str, *, host: str = "example.org", options: str = "") -> str:
    return f"CREATE SOURCE \"{name}\" OF RSS AT 'https://{host}/{quote(name)}' {options};\n"


def rule(
    name: str,
    *,
    where: str = "",
    when: str = "",
    clauses: str = "",
    query: str = "SELECT title FROM RSS",
    start: str = "NOW",
    end: str = "NEVER",
) -> str:
    condition = (f" WHERE {where}" if where else "") + (f" WHEN {when}" if when else "")
    return (
        f'INSERT NOTIFICATION "{name}" INTO "P" SET QUERY "{query}" SET TRIGGER "ON INSERT TO RSS{condition}"\n'
        f"START {start} END {end} SET UTILITY STRICT {clauses};\n"
    )


def declaration(*statements: str) -> Declaration:
    first, others = DOMAIN + "".join(statements[:500]), range(500, len(statements), 500)
    texts = [SourceText("test.profile", first)]
    texts += [SourceText(f"test{start}.profile", "".join(statements[start : start + 500])) for start in others]
    checked = check(texts, CheckSettings())
    assert checked.declaration is not None, "\n".join(str(error) for error in checked.errors)
    return checked.declaration


def decider(
    declared: Declaration,
    *,
    now_s: float,
    chronon_s: float = 10.0,
    budget: Budget = ONE_A_SECOND,
    settings: Mapping[str, Any] | None = None,
    **planner: object,
) -> Decider:
    """Return a decider that accepted ``declared`` at ``now_s``."""
    planner_settings = PlannerSettings(grid=ChrononGrid(chronon_s), budget=budget, **planner)  # type: ignore[arg-type]
    found = Decider(DeciderSettings(planner_settings, **(settings or {})), np.random.default_rng(1))
    found.declare(declared, dict.fromkeys(declared.rules, now_s), now_s)
    return found


def item(name: str, published_s: float | None = None, **fields: str) -> Item:
    values: dict[str, str | float | None] = {"channel.item.title": name, "channel.item.pubdate": published_s}
    return Item(
        name, values | {f"channel.item.{key}": value for key, value in fields.items()}, published_s, f"hash {name}"
    )


def changed(source_id: str, items: Sequence[Item], at_s: float, *, started_s: float | None = None) -> ProbeOutcome:
    start_s = at_s if started_s is None else started_s
    return ProbeOutcome(source_id, OutcomeKind.CHANGED, start_s, at_s, 200, tuple(items), body_hash=f"body {at_s}")


def unchanged(source_id: str, at_s: float) -> ProbeOutcome:
    return ProbeOutcome(source_id, OutcomeKind.NOT_MODIFIED, at_s, at_s, 304)


class RecordingMemory:
    """The Memory port in a dictionary; it keeps every observation it was given."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.fired: list[RuleResults] = []
        self._items: dict[str, dict[str, Item]] = {}
        self._present: dict[str, Sequence[str]] = {}

    can_record = True

    async def known(self, source_id: str, needed: StoreQuery) -> StoredContext:
        found = self._items.get(source_id, {})
        wanted = None if needed.item_ids is None else {*needed.item_ids, *needed.former_ids}
        items = {i: each for i, each in found.items() if wanted is None or i in wanted}
        shown = [found[i] for i in self._present.get(source_id, ())] if needed.wants_shown(items) else []
        history = {(each.rule, each.position): self._history(each) for each in needed.histories}
        return StoredContext(items, history, shown)

    def _history(self, needed: HistoryQuery) -> list[Mapping[str, Value]]:
        events = [
            event for o in self.observations for event in o.found.events if o.state.source_id in needed.source_ids
        ]
        inserted = [e for e in events if e.kind is EventKind.INSERT and e.event_s >= needed.since_s]
        return [event.item.fields for event in sorted(inserted, key=lambda event: (event.event_s, event.seq))]

    async def record_results(self, results: RuleResults) -> None:
        self.fired.append(results)

    async def record(self, observation: Observation) -> None:
        self.observations.append(observation)
        known = self._items.setdefault(observation.state.source_id, {})
        if observation.found.starts_afresh:
            known.clear()
        for old, new in observation.found.window.renamed:
            known[new] = replace(known.pop(old), item_id=new)
        self._present[observation.state.source_id] = observation.found.present
        known.update((item.item_id, item) for item in observation.found.window.edited)
        for event in observation.found.events:
            if event.kind is EventKind.DELETE:
                del known[event.item.item_id]
            else:
                known[event.item.item_id] = event.item


def stream_recall(found: Decider, store: SqlStore) -> StreamRecall:
    """Return what reads stored events for the streams of a decider."""
    return StreamRecall(found, store, AT_ONCE)


def recall(found: Decider, stream: StreamState, stored: Mapping[str, Sequence[StoredEvent]], now_s: float) -> None:
    """Restore a stream at once."""
    found.known.keep_streams([found.recalls.recall(stream, stored, now_s).run(Meter())])


def probe_loop(
    found: Decider,
    transport: Transport,
    memory: Memory,
    clock: Clock,
    metrics: Metrics,
    evaluation: Evaluation = AT_ONCE,
    tracer: Tracer = NO_TRACES,
    *,
    most_together_s: float = 0.2,
) -> ProbeLoop:
    """Return a probe loop whose outcomes go to a memory; rules run at once unless told otherwise."""
    taken_in = observer(found, memory, clock, metrics, evaluation, tracer)
    return ProbeLoop(found, transport, taken_in, clock, metrics, tracer, most_together_s=most_together_s)


class KeptPlan(SqlPlanRecord):
    """The last plan of the week, in memory."""

    def __init__(self) -> None:
        self.plan: StoredPlan | None = None

    async def load(self) -> StoredPlan | None:
        return self.plan

    async def save(self, plan: StoredPlan) -> None:
        self.plan = plan


def observer(
    found: Decider,
    memory: Memory,
    clock: Clock,
    metrics: Metrics,
    evaluation: Evaluation = AT_ONCE,
    tracer: Tracer = NO_TRACES,
) -> Observer:
    """Return an observer that runs rules at once unless told otherwise."""
    return Observer(found, memory, clock, metrics, evaluation, tracer)


class Meanwhile(AtOnce):
    """An evaluation during which something happens, once."""

    def __init__(self, happen: Callable[[], object]) -> None:
        self._happen = happen
        self.is_waiting = True

    async def run(self, tasks: Iterable[Task[R]]) -> list[R]:
        if self.is_waiting:
            self.is_waiting = False
            self._happen()
        return await super().run(tasks)


class Drive:
    """Feeds a decider outcomes without a loop: what was seen, step by step."""

    def __init__(self, found: Decider) -> None:
        self.decider = found
        self.memory = RecordingMemory()

    async def see(self, outcome: ProbeOutcome) -> Observation:
        needed = self.decider.outcomes.query_for(outcome)
        known = await self.memory.known(outcome.source_id, needed) if needed is not None else NO_CONTEXT
        observation = self.decider.observe(outcome, known)
        assert observation is not None
        await self.memory.record(observation)
        self.decider.outcomes.finish(outcome, observation)
        return observation


class PoissonOrigin:
    """The Prober port over feeds that gain an item at given times; the newest ``window`` items are shown."""

    def __init__(self, times_s: Mapping[str, Sequence[float]], time_s: object, *, window: int = 20) -> None:
        self._times_s = times_s
        self._time_s = time_s
        self._window = window
        self.started: list[tuple[float, str]] = []

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        now_s: float = self._time_s()  # type: ignore[operator]
        self.started.append((now_s, request.source_id))
        seen = [t for t in self._times_s[request.source_id] if t <= now_s][-self._window :]
        items = [item(f"{request.source_id} {t!r}", t) for t in reversed(seen)]
        return changed(request.source_id, items, now_s)
