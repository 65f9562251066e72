"""Probes that were planned, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from proxyd.model.chronon import Chronon


class Reason(Enum):
    """Why a probe is in the plan."""

    FIRST_CONTACT = "first contact"
    INTERVAL = "execution interval"
    FEEDBACK = "feedback"
    FIXED = "fixed interval"
    DOE = "optimal schedule"
    OVERFLOW = "full window"  # items may slide off the feed unseen
    DETECTION = "detection"
    SIBLING = "a sibling changed"
    GOLDEN = "golden ratio"
    MEMORYLESS = "memoryless"
    ADAPTIVE = "adaptive"
    SPEND = "spare budget"
    RETRY = "retry"
    SAFETY = "safety"  # the source's hub pushes; does it push everything?


@dataclass(frozen=True, slots=True)
class Probe:
    """One request to one source, planned for one chronon.

    Parameters
    ----------
    rule
        The rule it serves first, or ``None`` when it serves detection alone.
    rate_per_day
        The source's estimated update rate when the probe was planned, in items a day.
    """

    source_id: str
    chronon: Chronon
    reason: Reason
    rule: str | None = None
    rate_per_day: float = 0.0
