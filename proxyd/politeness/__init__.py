"""Politeness rules: when the next request may start. Pure; nothing here waits."""

from proxyd.politeness.backoff import BackOff, back_off
from proxyd.politeness.connectivity import Connectivity
from proxyd.politeness.endpoints import EndpointLimits, Endpoints
from proxyd.politeness.freshness import fresh_until_s
from proxyd.politeness.hosts import HostBudgets
from proxyd.politeness.retry import retry_after_s
from proxyd.politeness.spacing import PolitenessBudget, ProbeLog
from proxyd.politeness.throttle import HostThrottle, Throttles, throttled

__all__ = [
    "BackOff",
    "Connectivity",
    "EndpointLimits",
    "Endpoints",
    "HostBudgets",
    "HostThrottle",
    "PolitenessBudget",
    "ProbeLog",
    "Throttles",
    "back_off",
    "fresh_until_s",
    "retry_after_s",
    "throttled",
]
