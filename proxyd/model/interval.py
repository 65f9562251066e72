"""Execution intervals: when one probe of a source captures what a rule needs."""

from __future__ import annotations

from dataclasses import dataclass

from proxyd.model.chronon import Chronon


@dataclass(frozen=True, slots=True)
class ExecutionInterval:
    """Chronons ``start`` to ``deadline``, both inside, in which one probe of ``source_id`` serves ``rule``.

    ``deadline`` is ``None`` while the end is not known (an open interval under life *overwrite*).
    """

    source_id: str
    rule: str
    start: Chronon
    deadline: Chronon | None

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline < self.start:
            raise ValueError(f"an interval cannot end at {self.deadline} before it starts at {self.start}")

    def __contains__(self, chronon: object) -> bool:
        return (
            isinstance(chronon, int) and self.start <= chronon and (self.deadline is None or chronon <= self.deadline)
        )
