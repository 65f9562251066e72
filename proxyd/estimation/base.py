"""What every rate estimator promises."""

from __future__ import annotations

from typing import Protocol

from proxyd.estimation.evidence import Evidence


class RateEstimator(Protocol):
    """Learns the update rate of one source from the evidence of its probes, one probe after the other."""

    def update(self, evidence: Evidence) -> None:
        """Take in what one probe showed."""

    def rate_per_s(self, now_s: float) -> float:
        """Return the estimated update rate in items per second."""
