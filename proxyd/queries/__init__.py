"""The daemon's ports for the REST API and the dashboard: each is implemented by the object that owns the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from proxyd.base.metrics import Samples
from proxyd.base.ports import Clock
from proxyd.queries.access import Access as Access
from proxyd.queries.access import HubCallbacks as HubCallbacks
from proxyd.queries.access import Scope as Scope
from proxyd.queries.access import StoredAnswer as StoredAnswer
from proxyd.queries.access import Token as Token
from proxyd.queries.deliveries import DeadDelivery as DeadDelivery
from proxyd.queries.deliveries import Deliveries as Deliveries
from proxyd.queries.deliveries import DeliveryAttempt as DeliveryAttempt
from proxyd.queries.deliveries import DeliveryStatus as DeliveryStatus
from proxyd.queries.deliveries import DeliveryTest as DeliveryTest
from proxyd.queries.deliveries import FoundEvent as FoundEvent
from proxyd.queries.deliveries import NotificationTrace as NotificationTrace
from proxyd.queries.deliveries import SentText as SentText
from proxyd.queries.deliveries import StoredNotification as StoredNotification
from proxyd.queries.deliveries import StoredNotifications as StoredNotifications
from proxyd.queries.deliveries import Wanted as Wanted
from proxyd.queries.deliveries import WebhookStatus as WebhookStatus
from proxyd.queries.plans import AskedProbe as AskedProbe
from proxyd.queries.plans import DecidedInterval as DecidedInterval
from proxyd.queries.plans import FoundItem as FoundItem
from proxyd.queries.plans import MadeProbe as MadeProbe
from proxyd.queries.plans import Plans as Plans
from proxyd.queries.plans import RecentItems as RecentItems
from proxyd.queries.plans import Report as Report
from proxyd.queries.plans import SeenItem as SeenItem
from proxyd.queries.plans import SourceChoice as SourceChoice
from proxyd.queries.plans import SourceKind as SourceKind
from proxyd.queries.profiles import DeclarationChanges as DeclarationChanges
from proxyd.queries.profiles import Discovered as Discovered
from proxyd.queries.profiles import Discovering as Discovering
from proxyd.queries.profiles import MoveAccepted as MoveAccepted
from proxyd.queries.profiles import MovePlace as MovePlace
from proxyd.queries.profiles import Moving as Moving
from proxyd.queries.profiles import OnlyIf as OnlyIf
from proxyd.queries.profiles import Profiles as Profiles
from proxyd.queries.profiles import SourceMove as SourceMove
from proxyd.queries.profiles import Suspending as Suspending
from proxyd.queries.profiles import SuspensionChange as SuspensionChange


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
