"""What the REST API and the dashboard ask of a daemon: small ports, each kept by the object that owns the matter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from proxyd.core.language import Parsed, Statement
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.answers.advice import Advice
from proxyd.core.rules.answers.explanation import Explanation
from proxyd.core.rules.answers.trial import PlanCost
from proxyd.core.rules.capture_counts import CaptureCounts
from proxyd.core.rules.estimates import Misfit
from proxyd.core.rules.stages.calibration import Calibration
from proxyd.metrics import Samples
from proxyd.ports import Clock

# -- what is declared


@dataclass(frozen=True, slots=True)
class DeclarationChanges:
    """What a new declaration changed, by rule name; a restarted rule lost its counters and got a new NOW."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    restarted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnlyIf:
    """What must be so for a declaration: ``takes`` says whether the text of a profile is the expected one.

    The text is empty where there is no such profile. ``profile`` is ``None`` for the one profile that is declared.
    """

    takes: Callable[[str], bool]
    profile: str | None = None


class Profiles(Protocol):
    """The running declaration, and how it is changed."""

    @property
    def has_started(self) -> bool:
        """Whether the declaration is loaded; before that the listeners are up, and every name is unknown."""

    @property
    def declaration(self) -> Declaration:
        """The running declaration."""

    def origin(self, file: str) -> str:
        """Return ``api``, or the file, of something whose ``file`` is given."""

    def text_of(self, profile: str) -> str:
        """Return a profile and its rules as text in the canonical layout."""

    def statements_of(self, profile: str) -> Sequence[Statement]:
        """Return the statements of a profile and its rules."""

    async def declare(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> DeclarationChanges:
        """Add texts, or what was read of other forms, all of them or none.

        Raises ``ProfileError`` with every error, ``ConflictError`` where a file owns a name, ``NotFoundError`` for a
        DROP of what the API never declared, and ``ChangedError`` where ``only_if`` does not take the text that its
        profile has at that time.
        """

    async def try_out(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> tuple[DeclarationChanges, PlanCost]:
        """Return what texts would change, and what they would ask of the budget; raises as ``declare`` does."""

    async def drop_profile(self, name: str, *, only_if: Callable[[str], bool] | None = None) -> DeclarationChanges:
        """Remove a profile of the API and the rules in no other.

        Raises as ``declare`` does, and ``ChangedError`` where ``only_if`` does not take its text.
        """

    async def reload(self) -> tuple[str, ...]:
        """Check the files and swap them in; return what is wrong with them, nothing where they are in."""


# -- what is planned, and what came of it


@dataclass(frozen=True, slots=True)
class MadeProbe:
    """A probe that was made; times in unix seconds, ``delay_s`` the mean of the new items that tell their time."""

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
    delay_s: float | None
    body_bytes: int


@dataclass(frozen=True, slots=True)
class SeenItem:
    """When an item came, by its own time, and when it was seen; unix seconds."""

    came_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class DecidedInterval:
    """An execution interval that was decided; times in unix seconds, ``deadline_s`` ``None`` where nothing ended it.

    Where not ``seen``, no probe saw the source before the interval was given up.
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
class Report:
    """What was found and predicted on the days that have any (since 1970-01-01, UTC), and whose models are off now."""

    days: tuple[tuple[int, Calibration], ...]
    off: tuple[Misfit, ...]


class Plans(Protocol):
    """The plan, why it is so, and what became of it."""

    def plan(self, *, limit: int) -> list[PlannedProbe]:
        """Return the coming probes, in order."""

    async def plan_of(self, source_id: str, *, limit: int) -> list[PlannedProbe]:
        """Return the coming probes of one source, in order, as if it had the budget to itself."""

    async def advise(self) -> Advice:
        """Return what other budgets would buy, and which rules the present one does not let be met."""

    async def report(self, *, days: int) -> Report:
        """Return what was found and predicted on each of the last ``days``, today included."""

    def explain(self, source_id: str) -> Explanation | None:
        """Return why and when a source is probed next, ``None`` where it is not declared."""

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[MadeProbe]:
        """Return the probes of a source in the last days, newest first; ``before`` is a position of one."""

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[SeenItem]:
        """Return the items of a source that tell their own time, newest first."""

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[DecidedInterval]:
        """Return the execution intervals of a rule that were decided in the last days, newest first.

        Raises ``NotFoundError`` where it is not declared. An event that no probe ever showed has none.
        """

    def capture_counts(self, rules: Iterable[str]) -> CaptureCounts:
        """Return what became of the execution intervals of declared rules since their START, added up."""


# -- notifications and deliveries


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which notifications are asked for; ``rules`` are the only ones whose notifications count, ``None`` all."""

    rules: frozenset[str] | None = None
    source_id: str | None = None
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """Where a delivery stands; ``endpoint`` is as people may see it, times are unix seconds."""

    endpoint: str
    state: str
    attempts: int
    next_s: float
    done_s: float | None
    last_error: str


@dataclass(frozen=True, slots=True)
class StoredNotification:
    """A notification as it is stored; times in unix seconds. Where many are read, deliveries may be left out."""

    position: int
    notification_id: str
    rule: str
    source_id: str
    event_s: float
    created_s: float
    late: bool
    body: bytes
    deliveries: tuple[DeliveryStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """An event that the probe behind a notification found."""

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
class NotificationTrace:
    """All that led to a notification, and what became of it."""

    notification: StoredNotification
    intervals: tuple[DecidedInterval, ...]
    findings: tuple[FoundEvent, ...]
    attempts: tuple[DeliveryAttempt, ...]


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """A webhook: whether it answered its ping, and which rules it ``refused`` for good."""

    endpoint: str
    form: str
    secret_name: str
    state: str
    since_s: float
    detail: str
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadDelivery:
    """A delivery that was given up."""

    position: int
    notification_id: str
    rule: str
    endpoint: str
    attempts: int
    done_s: float | None
    last_error: str


@dataclass(frozen=True, slots=True)
class DeliveryTest:
    """How a receiver answered a test message; ``error`` is ``None`` where it accepted."""

    endpoint: str
    error: str | None


class Deliveries(Protocol):
    """Notifications and what becomes of them."""

    async def notifications(self, wanted: Wanted, *, before: int | None, limit: int) -> list[StoredNotification]:
        """Return notifications, newest first, each with its deliveries; ``before`` is a position."""

    async def notifications_between(
        self, wanted: Wanted, after: int, until: int, *, limit: int
    ) -> list[StoredNotification]:
        """Return the oldest notifications after a position, up to and with another, in order, without deliveries."""

    async def newest_position(self) -> int:
        """Return the position of the newest notification, 0 where there is none; positions only grow."""

    def next_news(self) -> asyncio.Event:
        """Return what will be set when notifications were recorded after this call; read the store after it."""

    async def trace(self, notification_id: str) -> NotificationTrace:
        """Return all that led to a notification and what became of it; raises ``NotFoundError``."""

    async def test_deliveries(self, rule: str) -> list[DeliveryTest]:
        """Send a test message to every endpoint of a rule; raises ``NotFoundError``."""

    async def webhooks(self) -> list[WebhookStatus]:
        """Return every webhook."""

    async def dead_letters(self, *, before: int | None, limit: int) -> list[DeadDelivery]:
        """Return the deliveries that were given up, newest first; ``before`` is a position of a delivery."""

    async def replay(self, notification_id: str | None) -> int:
        """Send a notification again, or every one that was given up; return how many deliveries that are."""


# -- who may ask


Scope: TypeAlias = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the API: only the hash of its secret is kept. A wider scope holds the narrower."""

    token_id: str
    name: str
    scope: Scope
    sha256: str
    created_s: float
    expires_s: float | None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What was answered to a bearer's request with a key; ``request`` tells it from others with the same key."""

    bearer: str
    key: str
    request: str
    status: int
    content_type: str
    body: bytes
    answered_s: float


class Access(Protocol):
    """Tokens, and answers to requests that may come again."""

    async def add_token(self, token: Token) -> None:
        """Store a token; raises ``ConflictError`` where its name is taken."""

    async def find_token(self, token_id: str) -> Token | None:
        """Return the token of that id, or ``None``."""

    async def tokens(self) -> Sequence[Token]:
        """Return every token, by name."""

    async def drop_token(self, name: str) -> None:
        """Let a token open nothing any more; raises ``NotFoundError``."""

    async def find_answer(self, bearer: str, key: str, *, now_s: float) -> StoredAnswer | None:
        """Return what was answered to a key, ``None`` where nothing was, or longer than a day ago."""

    async def keep_answer(self, answer: StoredAnswer) -> None:
        """Store an answer; returns once it cannot be lost."""


# -- what hubs push, and how the daemon does


class HubCallbacks(Protocol):
    """What WebSub hubs call."""

    async def verify(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge where a hub asks rightly whether it may push, ``None`` where it may not."""

    def is_subscribed(self, callback_id: str) -> bool:
        """Return whether a hub that calls there is subscribed to."""

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> None:
        """Take in what a hub pushed; raises ``BusyError`` where it should come again later."""


class Vitals(Protocol):
    """How the daemon itself does."""

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format, gauges fresh."""

    async def samples(self) -> Samples:
        """Return the figures of the metrics, gauges fresh."""

    async def readiness(self) -> dict[str, bool]:
        """Return what must hold before traffic may come, by name."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The ports together, as a listener gets them."""

    profiles: Profiles
    plans: Plans
    deliveries: Deliveries
    access: Access
    callbacks: HubCallbacks
    vitals: Vitals
    clock: Clock
