"""How the fleet does, read from the daemon's own metrics."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from prometheus_client.parser import text_string_to_metric_families

SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Delays:
    """Percentiles of a delay in seconds, and of how many it is; ``None`` beyond the largest bucket or without any."""

    count: int
    percentiles: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of the metrics: gauges and counters by name, histograms as cumulated counts by upper bound."""

    values: dict[str, float]
    buckets: dict[str, list[tuple[float, float]]]

    @classmethod
    def read(cls, text: str) -> Samples:
        """Return the samples of Prometheus' text format."""
        values: dict[str, float] = {}
        buckets: dict[str, list[tuple[float, float]]] = {}
        for sample in (each for family in text_string_to_metric_families(text) for each in family.samples):
            if not sample.labels:
                values[sample.name] = sample.value
            elif set(sample.labels) == {"le"}:
                buckets.setdefault(sample.name, []).append((float(sample.labels["le"]), sample.value))
        return cls(values, buckets)

    def delays(self, name: str) -> Delays:
        """Return the percentiles of a histogram."""
        found = sorted(self.buckets.get(f"{name}_bucket", []))
        return Delays(int(found[-1][1]) if found else 0, tuple(percentile(found, share) for share in SHARES))


def percentile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Return about the value below which a share lies, as if values lay evenly in their bucket.

    >>> percentile([(1.0, 5.0), (2.0, 10.0), (float("inf"), 10.0)], 0.75)
    1.5
    """
    wanted = share * buckets[-1][1] if buckets else 0.0
    below, before = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted > 0:
            return None if isinf(bound) else below + (bound - below) * (wanted - before) / (count - before)
        below, before = bound, count
    return None
