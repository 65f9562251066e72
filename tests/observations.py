"""Observations from plain facts, for tests."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from proxyd.core.model.outcome import ProbeOutcome
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.stages.events import Discovery, WindowEvents
from proxyd.core.rules.stages.observation import Observation, RuleResults

_PARTS: tuple[type[Any], ...] = (Observation, RuleResults, Discovery, WindowEvents)


def observed(state: SourceState, outcome: ProbeOutcome, **facts: Any) -> Observation:
    """Return an observation; ``facts`` are fields of it, of its results, its discovery or its window."""
    return altered(Observation(state, Discovery(outcome)), **facts)


def altered(observation: Observation, **facts: Any) -> Observation:
    """Return an observation with other facts."""
    of_part = {part: {name: facts.pop(name) for name in _names(part) & facts.keys()} for part in _PARTS}
    assert not facts, f"no such facts: {facts}"
    window = replace(observation.found.window, **of_part[WindowEvents])
    found = replace(observation.found, window=window, **of_part[Discovery])
    rules = replace(observation.rules, **of_part[RuleResults])
    return replace(observation, found=found, rules=rules, **of_part[Observation])


def _names(part: type[Any]) -> set[str]:
    return {each.name for each in fields(part)}
