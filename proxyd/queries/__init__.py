"""The daemon's ports for the REST API and the dashboard: each is implemented by the object that owns the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from proxyd.base.metrics import Samples
from proxyd.base.ports import Clock
from proxyd.queries.access import Access, HubCallbacks, Scope, StoredAnswer, Token
from proxyd.queries.deliveries import (
    DeadDelivery,
    Deliveries,
    DeliveryAttempt,
    DeliveryStatus,
    DeliveryTest,
    FoundEvent,
    NotificationTrace,
    SentText,
    StoredNotification,
    StoredNotifications,
    Wanted,
    WebhookStatus,
)
from proxyd.queries.plans import (
    AskedProbe,
    DecidedInterval,
    FoundItem,
    MadeProbe,
    Plans,
    RecentItems,
    Report,
    SeenItem,
    SourceChoice,
    SourceKind,
)
from proxyd.queries.profiles import (
    DeclarationChanges,
    Discovered,
    Discovering,
    MoveAccepted,
    MovePlace,
    Moving,
    OnlyIf,
    Profiles,
    SourceMove,
    Suspending,
    SuspensionChange,
)

__all__ = [
    "Access",
    "AskedProbe",
    "DeadDelivery",
    "DecidedInterval",
    "DeclarationChanges",
    "Deliveries",
    "DeliveryAttempt",
    "DeliveryStatus",
    "DeliveryTest",
    "Discovered",
    "Discovering",
    "FoundEvent",
    "FoundItem",
    "HubCallbacks",
    "MadeProbe",
    "MoveAccepted",
    "MovePlace",
    "Moving",
    "NotificationTrace",
    "OnlyIf",
    "Plans",
    "Profiles",
    "Queries",
    "RecentItems",
    "Report",
    "Scope",
    "SeenItem",
    "SentText",
    "SourceChoice",
    "SourceKind",
    "SourceMove",
    "StoredAnswer",
    "StoredNotification",
    "StoredNotifications",
    "Suspending",
    "SuspensionChange",
    "Token",
    "Vitals",
    "Wanted",
    "WebhookStatus",
]


class Vitals(Protocol):
    """The daemon's own health."""

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format, with fresh gauges."""

    async def samples(self) -> Samples:
        """Return the metrics' samples, with fresh gauges."""

    @property
    def probers_aside(self) -> Mapping[str, str]:
        """The probers that have no work because they fail where others do not, and why."""

    async def readiness(self) -> dict[str, bool]:
        """Return the conditions of readiness, by name."""


@dataclass(frozen=True, slots=True)
class Queries:
    """All ports together, for a listener."""

    profiles: Profiles
    suspensions: Suspending
    moves: Moving
    plans: Plans
    discovery: Discovering
    deliveries: Deliveries
    access: Access
    callbacks: HubCallbacks
    vitals: Vitals
    clock: Clock
