"""Rows that the store reads to be listed: probes, items, intervals, notifications and their deliveries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MadeProbe:
    """A probe that was made; times in unix seconds, ``delay_s`` the mean over new items that give their own time."""

    position: int
    source_id: str
    started_s: float
    finished_s: float
    reason: str
    rule: str | None
    outcome: str
    status: int | None
    detail: str
    items: int
    updates: int
    delay_s: float | None
    body_bytes: int
    requests: int

    @property
    def duration_s(self) -> float:
        """The time from its start to its end."""
        return self.finished_s - self.started_s


@dataclass(frozen=True, slots=True)
class RecentItems:
    """How many items of a source came on each of some days, oldest first, and when the newest came (unix seconds)."""

    days: tuple[int, ...]
    newest_s: float


@dataclass(frozen=True, slots=True)
class SeenItem:
    """When an item was published, by its own time, and when it was seen; unix seconds."""

    came_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A stored item that a search found, or that a list shows."""

    position: int  # its number among all items: one that was seen later has a greater one
    source_id: str
    event: int  # its number among the events of its source
    item_id: str
    # Its title, and its other texts without markup
    title: str
    text: str
    link: str | None
    # When it came by its own time, or by our estimate, and when it was seen; unix seconds
    event_s: float
    seen_s: float
    # Whether the item gives its own time, and whether its source has removed it
    is_exact: bool
    is_gone: bool
    is_update: bool = False  # whether it tells of a change of an item of a page
    # Whether the person who asks has read and starred it
    is_read: bool = False
    is_starred: bool = False


@dataclass(frozen=True, slots=True)
class DecidedInterval:
    """A decided execution interval; times in unix seconds, ``deadline_s`` is ``None`` if nothing ended it.

    If not ``seen``, no probe saw the source before the interval was given up.
    """

    source_id: str
    start_s: float
    deadline_s: float | None
    probed_s: float
    captured: bool
    exact: bool
    delay_s: float
    utility: float
    seen: bool


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
class DeadDelivery:
    """A dead delivery, which was given up."""

    position: int
    notification_id: str
    rule: str
    endpoint: str
    attempts: int
    done_s: float | None
    last_error: str
