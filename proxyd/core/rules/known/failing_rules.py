"""Rules that fail: what they failed on, and when they failed too often to be evaluated."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from proxyd.core.errors import EvaluationError
from proxyd.core.model.profile import NotificationRule
from proxyd.core.rules.programs.rule_program import RuleProgram

MOST_FAILURES = 5
"""Failures in a row that suspend a rule."""


@dataclass(frozen=True, slots=True)
class FailingRule:
    """A rule that failed the last time it was evaluated."""

    rule: str
    meaning: str  # a digest of what is evaluated of the rule; an edit that changes it resets the count
    failures: int  # in a row; 0 once it succeeds
    # ``source_id``, ``reason``, ``failed_s``: what it failed on last, why, and when (unix seconds)
    source_id: str
    reason: str
    failed_s: float
    suspended_s: float | None = None  # since when it is not evaluated, if it failed too often


class FailingRules:
    """The rules that fail, by name."""

    def __init__(self) -> None:
        self._known: dict[str, FailingRule] = {}

    def restore(self, known: Mapping[str, FailingRule]) -> None:
        """Take over what a store remembers."""
        self._known = dict(known)

    def keep(self, programs: Mapping[str, RuleProgram]) -> None:
        """Forget rules that are gone or were edited."""
        self._known = {
            name: each
            for name, each in self._known.items()
            if name in programs and rule_meaning(programs[name].rule) == each.meaning
        }

    def all(self) -> Mapping[str, FailingRule]:
        """Return the rules that failed the last time."""
        return self._known

    def of(self, rule: str) -> FailingRule | None:
        """Return how a rule fails, or ``None`` if it does not."""
        return self._known.get(rule)

    def is_suspended(self, rule: str) -> bool:
        """Whether a rule is not evaluated because it failed too often."""
        found = self._known.get(rule)
        return found is not None and found.suspended_s is not None

    @property
    def suspended(self) -> int:
        """Number of rules that are suspended."""
        return sum(each.suspended_s is not None for each in self._known.values())

    def resume(self, rule: str) -> None:
        """Evaluate a rule again, as if it had never failed."""
        self._known.pop(rule, None)

    def count(
        self,
        ended: Iterable[tuple[NotificationRule, Sequence[RuleFailure]]],
        now_s: float,
        undecided: Container[str] = (),
    ) -> tuple[FailingRule, ...]:
        """Count the failures of evaluations that ``ended``, and return the states of rules that this changed."""
        found = [
            self._count_failure(rule, failures[-1], now_s) if failures else self._forget_failures(rule.name)
            for rule, failures in ended
            if failures or rule.name not in undecided  # the notifications of others are still to be made
        ]
        return tuple(each for each in found if each is not None)

    def _count_failure(self, rule: NotificationRule, failure: RuleFailure, now_s: float) -> FailingRule:
        before = self._known.get(rule.name)
        failures = 1 if before is None else before.failures + 1
        is_too_often = failures >= MOST_FAILURES
        now = FailingRule(
            rule.name,
            rule_meaning(rule) if before is None else before.meaning,
            failures,
            failure.source_id,
            failure.reason,
            now_s,
            now_s if is_too_often else None,
        )
        self._known[rule.name] = now
        return now

    def _forget_failures(self, rule: str) -> FailingRule | None:
        before = self._known.pop(rule, None)
        return None if before is None else replace(before, failures=0, suspended_s=None)


def rule_meaning(rule: NotificationRule) -> str:
    """Return a digest of everything in a rule that is evaluated; its position in the text does not count."""
    parts = (rule.query, rule.trigger, rule.message, rule.start, rule.end)
    return hashlib.sha256(repr([_structure(part) for part in parts]).encode()).hexdigest()[:32]


def _structure(value: object) -> object:
    """Return a value whose ``repr`` shows what is compared: no positions in the text."""
    if isinstance(value, tuple):
        return [_structure(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [_structure(getattr(value, each.name)) for each in fields(value) if each.compare]
    return repr(value)


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule whose expressions failed on what a source showed, and why."""

    rule: str
    source_id: str
    reason: str

    @classmethod
    def of(cls, program: RuleProgram, source_id: str, error: Exception) -> RuleFailure:
        """Return the failure of a rule's program."""
        reason = str(error) if isinstance(error, EvaluationError) else type(error).__name__
        return cls(program.rule.name, source_id, reason)
