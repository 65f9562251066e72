"""What the API asks about notifications and their deliveries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from proxyd.core.model.outcome import Picture
from proxyd.queries.plans import DecidedInterval


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of notifications; only those of ``rules`` are wanted, or all if it is ``None``."""

    rules: frozenset[str] | None = None
    source_id: str | None = None
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """The status of a delivery; ``endpoint`` is safe to show, times are unix seconds.

    ``kind`` is that of its channel; ``form`` and ``payload`` (a version) are a webhook's.
    """

    endpoint: str
    state: str
    attempts: int
    next_s: float
    done_s: float | None
    last_error: str
    kind: str
    form: str
    payload: int


@dataclass(frozen=True, slots=True)
class StoredNotification:
    """A stored notification; times in unix seconds. Lists may leave out the deliveries.

    It is ``muted`` if it was made while its rule was, and ``limited`` if the rule's limit kept it from being sent.
    ``picture`` is the hash of its picture, if that is stored.
    """

    position: int
    notification_id: str
    rule: str
    source_id: str
    event_s: float
    created_s: float
    late: bool
    body: bytes
    deliveries: tuple[DeliveryStatus, ...] = ()
    muted: bool = False
    limited: bool = False
    picture: str | None = None


@dataclass(frozen=True, slots=True)
class StoredNotifications:
    """Notifications in order.

    ``rest`` is the position after which others follow that a limit of rows or of bytes left out, or ``None``.
    """

    rows: list[StoredNotification]
    rest: int | None = None


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """An event found by the probe that led to a notification."""

    kind: str
    item_id: str
    event_s: float


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """An attempt to deliver, by itself or in a digest (``digest_id``)."""

    endpoint: str
    digest_id: str | None
    attempted_s: float
    duration_s: float
    result: str
    detail: str


@dataclass(frozen=True, slots=True)
class SentText:
    """The text of a notification as some of its receivers get it; the title is empty if their messages have none."""

    endpoints: tuple[str, ...]
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class NotificationTrace:
    """Everything that led to a notification, its deliveries, and its texts."""

    notification: StoredNotification
    intervals: tuple[DecidedInterval, ...]
    findings: tuple[FoundEvent, ...]
    attempts: tuple[DeliveryAttempt, ...]
    texts: tuple[SentText, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """A webhook, whether it answered its ping, and the rules that it permanently ``refused``."""

    endpoint: str
    form: str
    secret_name: str
    state: str
    since_s: float
    detail: str
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadDelivery:
    """A dead delivery, which was given up."""

    position: int
    notification_id: str
    rule: str
    endpoint: str
    attempts: int
    done_s: float | None
    last_error: str


@dataclass(frozen=True, slots=True)
class DeliveryTest:
    """A receiver's answer to a test message; ``error`` is ``None`` if it accepted."""

    endpoint: str
    error: str | None


class Deliveries(Protocol):
    """Notifications and their deliveries."""

    async def notifications(self, wanted: Wanted, *, before: int | None, limit: int) -> StoredNotifications:
        """Return notifications, newest first, each with its deliveries; ``before`` is a position."""

    async def notifications_between(self, wanted: Wanted, after: int, until: int, *, limit: int) -> StoredNotifications:
        """Return the oldest notifications after a position, up to and with another, in order, without deliveries."""

    async def newest_position(self) -> int:
        """Return the position of the newest notification, or 0 if there is none; positions only grow."""

    def next_news(self) -> asyncio.Event:
        """Return an event that is set when notifications are recorded after this call; read the store after it."""

    async def trace(self, notification_id: str) -> NotificationTrace:
        """Return everything that led to a notification, and its deliveries; raises ``NotFoundError``."""

    async def picture(self, notification_id: str) -> Picture:
        """Return the picture of a notification; raises ``NotFoundError`` if there is none."""

    async def test_deliveries(self, rule: str) -> list[DeliveryTest]:
        """Send a test message to every endpoint of a rule; raises ``NotFoundError``."""

    async def webhooks(self) -> list[WebhookStatus]:
        """Return every webhook."""

    async def dead_letters(self, *, before: int | None, limit: int) -> list[DeadDelivery]:
        """Return the dead deliveries, newest first; ``before`` is the position of a delivery."""

    async def replay(self, notification_id: str | None) -> int:
        """Send a notification again, or every dead delivery; return the number of deliveries."""
