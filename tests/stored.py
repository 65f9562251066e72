"""What a store would hold of a decider, as rows, so that tests on virtual time can restart it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

from sqlalchemy import Table

from proxyd.core.planning.allocation.fleet_state import FleetState, pack, unpack
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.stages.observation import Observation
from proxyd.store import rows
from proxyd.store.databases import tables as t


@lru_cache(4)
def _week_of(packed: bytes) -> WeekPlan:
    """Return the plan of a stored state; making it takes longer than all else."""
    return WeekPlan.of(unpack(packed))


class Stored:
    """The rows of a store."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, Any], dict[str, Any]] = {}
        self._changes: list[tuple[str, float]] = []
        self._plan: bytes | None = None

    def planned(self, state: FleetState) -> WeekPlan:
        """Store the plan of a state, and return it."""
        self._plan = pack(state)
        return deepcopy(_week_of(self._plan))

    def record(self, found: Observation) -> None:
        """Store an observation."""
        source_id = found.state.source_id
        self._rows["source", source_id] = rows.source_row(found.state, found.record)
        for hint in found.hints:
            self._rows["source", hint.source_id] |= {"hidden": hint.items, "hidden_since_s": hint.since_s}
        assert found.fleet is not None
        self._rows["fleet", 1] = rows.fleet_row(found.fleet)
        if found.week is not None:
            self._rows["week", source_id] = rows.week_row(source_id, found.week)
        for stream in found.rules.streams:
            self._rows["stream", (stream.rule, stream.source_id)] = rows.stream_row(stream)
        self._changes += [(source_id, event.event_s) for event in found.found.events if event.exact]

    def restore(self, found: Decider, now_s: float) -> None:
        """Let a new decider take over what is stored."""
        states = {key: rows.source_state(row).resume(now_s) for key, row in self._read("source").items()}
        found.restore(
            states,
            {key: rows.stream_state(row) for key, row in self._read("stream").items()},
            weeks={key: rows.week_counts(row) for key, row in self._read("week").items()},
            changes=sorted(self._changes, key=lambda change: change[1]),
        )
        records = {key: rows.source_record(row) for key, row in self._read("source").items()}
        fleet = next((rows.fleet_record(row) for row in self._read("fleet").values()), None)
        week = None if self._plan is None else deepcopy(_week_of(self._plan))
        found.restore_plan(PlanRecord({key: each for key, each in records.items() if each is not None}, fleet, week))

    def _read(self, kind: str) -> Mapping[Any, Any]:
        return {key: row_of(_TABLES[kind], row) for (of, key), row in self._rows.items() if of == kind}


def row_of(table: Table, values: Mapping[str, Any]) -> Any:
    """Return a row as a query of a whole table gives it."""
    return namedtuple("Row", table.columns.keys())(**values)


_TABLES = {"source": t.sources, "stream": t.streams, "week": t.weeks, "fleet": t.fleet}
