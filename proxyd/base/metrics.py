"""The metrics, in their own registry, and reading them back; ``docs/metrics.md`` defines each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import isinf

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from proxyd import __version__
from proxyd.core.model.outcome import OutcomeKind
from proxyd.core.model.schedule import Constraint, Reason

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series beside each counter that nobody reads
ROLES = ("planner", "prober", "notifier")
_OF_EVERY_PROCESS = ("proxyd_build_info", "proxyd_role_active")
_ROLE_OF = {"proxyd_prober_hosts": "prober", "proxyd_outbox_stalled_seconds": "notifier"}
SHARES = (0.5, 0.9, 0.99)
_DELAYS_S = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 604800)
_FINE_DELAYS_S = (0.05, 0.1, 0.25, 0.5, *_DELAYS_S)
_LATENESS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_COMMITS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Everything the daemon exports."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.probes = Counter("proxyd_probes", "Probes that ended, by outcome.", ["outcome"], registry=r)
        for kind in OutcomeKind:
            self.probes.labels(kind.value)
        self.requests = Counter("proxyd_requests", "HTTP requests started for probes, redirects included.", registry=r)
        self.planned = Counter("proxyd_planned_probes", "Probes planned, by reason.", ["reason"], registry=r)
        for reason in Reason:
            self.planned.labels(reason.value)
        self.postponed = Counter(
            "proxyd_postponed_probes", "Probes that were due and held back, by constraint.", ["constraint"], registry=r
        )
        for constraint in Constraint:
            self.postponed.labels(constraint)
        self.dropped = Counter("proxyd_dropped_probes", "Planned probes whose chronon passed in a stall.", registry=r)
        self.lost = Counter(
            "proxyd_lost_probes", "Probes given to another machine that did not report back.", registry=r
        )
        self.allowed = Counter("proxyd_budget_probes", "Probes the budget allowed so far.", registry=r)
        self.budget_used = Gauge(
            "proxyd_budget_used_ratio",
            "Probes planned and not dropped as a share of those allowed, in the last hour.",
            registry=r,
        )
        self.plan_s = Gauge("proxyd_plan_duration_seconds", "How long the last plan of the week took.", registry=r)
        self.probe_price = Gauge(
            "proxyd_probe_price_item_hours", "Delay that a probe for detection must save, in item-hours.", registry=r
        )
        self.lateness = Histogram(
            "proxyd_scheduler_lateness_seconds",
            "Planned start to first request of a probe.",
            buckets=_LATENESS_S,
            registry=r,
        )
        self._add_findings()
        self._add_deliveries()
        self._add_process()
        self._add_fleet()

    def _add_fleet(self) -> None:
        r = self.registry
        self.unanswered = Gauge(
            "proxyd_probes_unanswered_seconds", "For how long probes have been started without any outcome.", registry=r
        )
        self.store_waits = Gauge(
            "proxyd_store_waits_seconds", "For how long the database has not been written: locked, or full.", registry=r
        )
        self.session_waits = Gauge(
            "proxyd_session_waits_seconds", "For how long a read has waited for a session of the database.", registry=r
        )
        self.prober_aside = Gauge(
            "proxyd_prober_aside",
            "1 for a prober that fails where others do not, and has no work.",
            ["prober"],
            registry=r,
        )
        self.probers = Gauge("proxyd_probers", "Probers that this planner knows.", registry=r)
        self.batches_waiting = Gauge(
            "proxyd_batches_waiting", "Batches of due probes that wait for a prober with room.", registry=r
        )
        self.batches = Counter("proxyd_batches", "Batches that came to this prober, by result.", ["result"], registry=r)
        for result in ("made", "refused", "given_up"):
            self.batches.labels(result)
        self.prober_hosts = Gauge("proxyd_prober_hosts", "Hosts that this prober is asking now.", registry=r)

    def _add_findings(self) -> None:
        r = self.registry
        self.items = Counter("proxyd_items", "New items seen, without first contacts.", registry=r)
        self.lost_items = Counter(
            "proxyd_items_lost_estimated", "Items estimated to have left an overflowed feed unseen.", registry=r
        )
        self.rules_suspended = Gauge(
            "proxyd_rules_suspended", "Rules that are not evaluated because they failed too often.", registry=r
        )
        self.slow_rules = Counter(
            "proxyd_slow_rules", "Evaluations of rules that were too long for the event loop.", registry=r
        )
        self.unfit_values = Counter(
            "proxyd_unfit_values", "Field values that did not fit their declared type and read as null.", registry=r
        )
        self.pushes = Counter("proxyd_pushes", "Documents that hubs pushed, by result.", ["result"], registry=r)
        for result in ("accepted", "unsigned", "unreadable", "ignored"):
            self.pushes.labels(result)
        self.hub_pushes = Counter(
            "proxyd_hub_pushes", "Feeds of profiles pushed to followers, by result.", ["result"], registry=r
        )
        for result in ("accepted", "retry", "ended"):
            self.hub_pushes.labels(result)
        self.subscriptions = Gauge("proxyd_subscriptions", "Sources whose hub pushes.", registry=r)
        self.connection_up = Gauge(
            "proxyd_connection_up", "0 while no host answers; failures do not count then.", registry=r
        )
        self.connection_up.set(1)
        self.clock_ahead = Gauge(
            "proxyd_clock_ahead_seconds", "How far the clock was set back and has not caught up yet.", registry=r
        )
        self.clock_off = Gauge(
            "proxyd_clock_off_seconds", "How far the machine's clock is ahead of the database's.", registry=r
        )
        self.item_delay = Histogram(
            "proxyd_item_delay_seconds",
            "Publication to being seen, of items with a time.",
            buckets=_FINE_DELAYS_S,
            registry=r,
        )
        self.items_untimed = Counter(
            "proxyd_items_untimed", "New items without a delay, because no time of their own is believed.", registry=r
        )
        self.notification_delay = Histogram(
            "proxyd_notification_delay_seconds",
            "Event to acceptance by the receiver, per delivery.",
            buckets=_FINE_DELAYS_S,
            registry=r,
        )
        self.intervals = Counter("proxyd_intervals", "Execution intervals decided, by fate.", ["fate"], registry=r)
        for fate in ("captured", "missed"):
            self.intervals.labels(fate)
        self._add_predictions()
        self.completeness = Gauge(
            "proxyd_completeness_ratio", "Captured execution intervals divided by all, for current rules.", registry=r
        )
        self.utility = Gauge(
            "proxyd_utility_ratio", "Utility gained divided by the possible, for the current rules.", registry=r
        )
        self.completeness.set(1.0)
        self.utility.set(1.0)

    def _add_predictions(self) -> None:
        r = self.registry
        self.predicted_items = Counter("proxyd_items_predicted", "New items that probes were to find.", registry=r)
        self.predicted_timed_items = Counter(
            "proxyd_timed_items_predicted", "Expected items that have a time of their own.", registry=r
        )
        self.predicted_delay = Counter(
            "proxyd_item_delay_predicted_seconds", "Expected delay, summed over the items with a time.", registry=r
        )
        self.predicted_intervals = Counter(
            "proxyd_intervals_predicted", "Execution intervals expected to be decided, by fate.", ["fate"], registry=r
        )
        for fate in ("captured", "missed"):
            self.predicted_intervals.labels(fate)
        self.models_off = Gauge("proxyd_models_off", "Sources whose rate or week is off.", registry=r)

    def _add_deliveries(self) -> None:
        r = self.registry
        self.notifications = Counter("proxyd_notifications", "Notifications made.", registry=r)
        self.deliveries = Counter("proxyd_deliveries", "Delivery attempts, by result.", ["result"], registry=r)
        for result in ("accepted", "retry", "dead"):
            self.deliveries.labels(result)
        self.circuits_opened = Counter(
            "proxyd_circuits_opened",
            "Times that an endpoint failed for several rules and was tried less often.",
            registry=r,
        )
        self.endpoints_gone = Counter(
            "proxyd_endpoints_gone", "Attempts answered with 410: nothing more is sent there.", registry=r
        )
        self.endpoints_disabled = Gauge(
            "proxyd_endpoints_disabled", "Endpoints that answered 410 to a rule and get nothing from it.", registry=r
        )
        self.outbox_depth = Gauge("proxyd_outbox_pending", "Deliveries waiting or under way.", registry=r)
        self.outbox_held = Gauge(
            "proxyd_outbox_held", "Deliveries held until their webhook accepts its ping.", registry=r
        )
        self.outbox_age = Gauge("proxyd_outbox_oldest_seconds", "Age of the oldest pending delivery.", registry=r)
        self.outbox_stalled = Gauge(
            "proxyd_outbox_stalled_seconds", "For how long a delivery has been due that nobody attempts.", registry=r
        )
        self.outbox_dead = Gauge("proxyd_outbox_dead", "Deliveries given up.", registry=r)
        self.sources = Gauge("proxyd_sources", "Sources declared.", registry=r)
        self.planned_sources = Gauge("proxyd_planned_sources", "Sources whose probes this process plans.", registry=r)
        self.rules = Gauge("proxyd_rules", "Notification rules declared.", registry=r)
        self.reload_ok = Gauge("proxyd_last_reload_ok", "1 if the last reload of the profiles succeeded.", registry=r)
        self.reload_s = Gauge("proxyd_last_reload_timestamp_seconds", "When profiles were last swapped in.", registry=r)

    def _add_process(self) -> None:
        r = self.registry
        ProcessCollector(registry=r)
        build = Gauge("proxyd_build_info", "1, with the version that runs.", ["version"], registry=r)
        build.labels(__version__).set(1)
        self.role_active = Gauge(
            "proxyd_role_active", "1 while this process does the work of a role.", ["role"], registry=r
        )
        self.take_roles()
        self.loop_lag = Histogram(
            "proxyd_loop_lag_seconds", "How late the event loop woke a sleeping task.", buckets=_LATENESS_S, registry=r
        )
        self.commit_s = Histogram(
            "proxyd_commit_duration_seconds",
            "Time from handing an observation to the store to its commit.",
            buckets=_COMMITS_S,
            registry=r,
        )
        self.backup_s = Gauge(
            "proxyd_last_backup_timestamp_seconds", "When the newest copy of the database was made.", registry=r
        )
        self.items_stored = Gauge(
            "proxyd_items_stored",
            "Items that are stored, as of the last count.",
            registry=r,
        )
        self.items_bytes = Gauge("proxyd_items_bytes", "Size of the stored items and their updates.", registry=r)
        self.disk_free = Gauge("proxyd_disk_free_bytes", "Free space on the disk of the database.", registry=r)
        self.disk_size = Gauge("proxyd_disk_size_bytes", "Size of the disk of the database.", registry=r)

    def take_roles(self, *roles: str) -> None:
        """Export these roles as the roles of this process."""
        for role in ROLES:
            self.role_active.labels(role).set(role in roles)

    def samples(self) -> Samples:
        """Return the figures as they are now."""
        return Samples.of(self.registry.collect())

    def render(self) -> bytes:
        """Return the text format that Prometheus scrapes, without the gauges of what this process does not do."""
        families = list(self.registry.collect())
        roles = Samples.of(families).roles
        shown = CollectorRegistry(auto_describe=False)
        shown.register(_Shown([each for each in families if _is_of(each, roles)]))
        return generate_latest(shown)


class _Shown(Collector):
    """Metrics that are collected already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families


def _is_of(metric: Metric, roles: Collection[str]) -> bool:
    """Whether a metric tells something of a process that does these roles; all gauges but a few are the planner's."""
    if metric.type != "gauge" or not metric.name.startswith("proxyd_") or metric.name in _OF_EVERY_PROCESS:
        return True
    return _ROLE_OF.get(metric.name, "planner") in roles


@dataclass(frozen=True, slots=True)
class _Delays:
    """Number and percentiles of delays, in seconds; ``None`` beyond the largest bucket or without delays."""

    count: int
    percentiles: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of the metrics: gauges and counters by name, histograms as cumulated counts by upper bound.

    ``roles`` are those that the process does.
    """

    values: dict[str, float]
    buckets: dict[str, list[tuple[float, float]]]
    roles: frozenset[str] = frozenset()

    @classmethod
    def read(cls, text: str) -> Samples:
        """Return the samples of Prometheus' text format."""
        return cls.of(text_string_to_metric_families(text))

    @classmethod
    def of(cls, families: Iterable[Metric]) -> Samples:
        """Return the samples of the library's metrics."""
        values: dict[str, float] = {}
        buckets: dict[str, list[tuple[float, float]]] = {}
        roles = set()
        for sample in (each for family in families for each in family.samples):
            if not sample.labels:
                values[sample.name] = sample.value
            elif set(sample.labels) == {"le"}:
                buckets.setdefault(sample.name, []).append((float(sample.labels["le"]), sample.value))
            elif sample.name == "proxyd_role_active" and sample.value:
                roles.add(sample.labels["role"])
        return cls(values, buckets, frozenset(roles))

    @property
    def is_delivered_elsewhere(self) -> bool:
        """Whether another process delivers what this one plans, and counts it."""
        return "planner" in self.roles and "notifier" not in self.roles

    def delays(self, name: str) -> _Delays:
        """Return the percentiles of a histogram."""
        found = sorted(self.buckets.get(f"{name}_bucket", []))
        return _Delays(int(found[-1][1]) if found else 0, tuple(percentile(found, share) for share in SHARES))


def percentile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Estimate the value below which a share lies, as if values were spread evenly within a bucket.

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
