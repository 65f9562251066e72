"""Planned probes, each with its reason, and the constraints that prevented others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from proxyd.core.model.chronon import Chronon


class Reason(Enum):
    """Why a probe is planned."""

    FIRST_CONTACT = "first contact"
    ASKED = "asked for"  # somebody wants it now
    CONFIRMATION = "confirmation"  # the last probe may have found nothing by mistake
    INTERVAL = "execution interval"
    FEEDBACK = "feedback"
    FIXED = "fixed interval"
    DOE = "optimal schedule"
    OVERFLOW = "full window"  # items may slide off the feed unseen
    DETECTION = "detection"
    COUNTED = "counted items"
    SIBLING = "a sibling changed"
    GOLDEN = "golden ratio"
    MEMORYLESS = "memoryless"
    ADAPTIVE = "adaptive"
    SPEND = "spare budget"
    LEARNING = "first day"  # to learn a new source's rate
    RETRY = "retry"
    SAFETY = "safety"  # tests whether the source's hub still pushes everything


class Constraint(StrEnum):
    """Why a wanted probe is not made now."""

    BACK_OFF = "back-off"
    SOURCE_POLITENESS = "source politeness"
    HOST_POLITENESS = "host politeness"
    HOST_THROTTLED = "throttled host"
    BUDGET = "budget"
    OVERLOAD = "overload"  # this machine can do no more in a chronon
    FRESHNESS = "freshness"


@dataclass(frozen=True, slots=True)
class Probe:
    """One request to one source, planned for one chronon.

    Parameters
    ----------
    rule
        The first rule that it serves, or ``None`` if it serves only detection.
    rate_per_day
        The source's estimated update rate when the probe was planned, in items a day.
    """

    source_id: str
    chronon: Chronon
    reason: Reason
    rule: str | None = None
    rate_per_day: float = 0.0


@dataclass(frozen=True, slots=True)
class ExecutionInterval:
    """Chronons ``start`` to ``deadline``, both inclusive, in which one probe of ``source_id`` serves ``rule``.

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
