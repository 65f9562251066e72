"""The rule engine: observations in, effects to record out."""

from proxyd.rules.decider import Backlog, Decider, DeciderSettings, Explanation
from proxyd.rules.engine import (
    Observation,
    PageContext,
    RuleProgram,
    StreamStep,
    advance,
    compile_rule,
    observe,
    source_rate,
)
from proxyd.rules.state import IntervalRecord, Notification, SourceState, StoredItem, StreamState
from proxyd.rules.values import iso_time

__all__ = [
    "Backlog",
    "Decider",
    "DeciderSettings",
    "Explanation",
    "IntervalRecord",
    "Notification",
    "Observation",
    "PageContext",
    "RuleProgram",
    "SourceState",
    "StoredItem",
    "StreamState",
    "StreamStep",
    "advance",
    "compile_rule",
    "iso_time",
    "observe",
    "source_rate",
]
