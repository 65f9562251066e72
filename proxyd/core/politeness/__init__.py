"""Politeness rules: when the next request may start. No I/O; nothing here waits."""

from proxyd.core.politeness.endpoints import EndpointLimits, Endpoints, wait_after_attempt_s
from proxyd.core.politeness.faults import Connectivity, Outage, ProberTrust, may_be_its_own
from proxyd.core.politeness.host_budgets import (
    BackOff,
    HostBudgets,
    HostTally,
    HostThrottle,
    PolitenessBudget,
    ProbeLog,
    ScopeBlocks,
    Throttles,
    back_off,
    fresh_until_s,
    throttle_host,
)

__all__ = [
    "BackOff",
    "Connectivity",
    "EndpointLimits",
    "Endpoints",
    "HostBudgets",
    "HostTally",
    "HostThrottle",
    "Outage",
    "PolitenessBudget",
    "ProbeLog",
    "ProberTrust",
    "ScopeBlocks",
    "Throttles",
    "back_off",
    "fresh_until_s",
    "may_be_its_own",
    "throttle_host",
    "wait_after_attempt_s",
]
