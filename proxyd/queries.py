"""The daemon's ports for the REST API and the dashboard: each is implemented by the object that owns the data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from proxyd.core.language import Parsed, Statement
from proxyd.core.model.outcome import Picture
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import Subject, Suspension
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.answers.advice import Advice
from proxyd.core.rules.answers.explanation import Explanation
from proxyd.core.rules.answers.promises import KeptPromise
from proxyd.core.rules.answers.trial import PlanCost
from proxyd.core.rules.capture_counts import CaptureCounts
from proxyd.core.rules.estimates import Misfit
from proxyd.core.rules.failing import FailingRule
from proxyd.core.rules.stages.calibration import Calibration
from proxyd.metrics import Samples
from proxyd.ports import Clock

# -- the declaration


@dataclass(frozen=True, slots=True)
class DeclarationChanges:
    """The changes made by a new declaration, by rule name; ``restarted`` holds the counters that start again."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    restarted: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class OnlyIf:
    """The precondition of a declaration: ``takes`` decides whether the text of a profile is the expected one.

    The text is empty if the profile does not exist. ``profile`` is ``None`` for the only profile that is declared.
    """

    takes: Callable[[str], bool]
    profile: str | None = None


class Profiles(Protocol):
    """The running declaration, and how it is changed."""

    @property
    def has_started(self) -> bool:
        """Whether the declaration is loaded; until then the listeners are up, and every name is unknown."""

    @property
    def declaration(self) -> Declaration:
        """The running declaration."""

    def origin(self, file: str) -> str:
        """Return ``api`` or the file of a declaration, given its ``file``."""

    def text_of(self, profile: str) -> str:
        """Return a profile and its rules as text in canonical layout."""

    def statements_of(self, profile: str) -> Sequence[Statement]:
        """Return the statements of a profile and its rules."""

    async def declare(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> DeclarationChanges:
        """Add texts or parsed declarations, all of them or none.

        Raises ``ProfileError`` with every error, ``ConflictError`` if a file owns a name, ``NotFoundError`` for a
        DROP of a name that the API never declared, and ``ChangedError`` if ``only_if`` rejects the profile's current
        text.
        """

    async def try_out(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> tuple[DeclarationChanges, PlanCost]:
        """Return what texts would change, and their demand on the budget; raises as ``declare`` does."""

    async def drop_profile(self, name: str, *, only_if: Callable[[str], bool] | None = None) -> DeclarationChanges:
        """Remove a profile of the API and its rules that are in no other profile.

        Raises as ``declare`` does, and ``ChangedError`` if ``only_if`` rejects its text.
        """

    async def reload(self) -> tuple[str, ...]:
        """Check the files and swap them in; return their errors, or nothing once they are in."""


@dataclass(frozen=True, slots=True)
class SuspensionChange:
    """What a command did, in words, and the suspension that there is now.

    ``is_new`` says whether anything began or ended; ``notifications`` counts those that were released or dropped.
    """

    said: str
    suspension: Suspension | None
    is_new: bool = True
    notifications: int = 0


class Suspending(Protocol):
    """The paused sources, and the muted rules and profiles.

    Commands raise ``NotFoundError`` for an unknown name, and ``BusyError`` while the daemon starts. A command that
    changes nothing says so.
    """

    def all(self) -> Sequence[Suspension]:
        """Return every suspension, sources first, by name."""

    def of(self, subject: Subject, name: str) -> Suspension | None:
        """Return the suspension of a source, or the own one of a rule or profile."""

    def mute_of(self, rule: str, profiles: Iterable[str]) -> Suspension | None:
        """Return what mutes a rule: its own suspension or one of its profiles'."""

    async def pause(self, source: str, by: str) -> SuspensionChange:
        """Probe a source no more."""

    async def resume(self, name: str, *, subject: Subject | None = None) -> SuspensionChange:
        """Probe a paused source again, or evaluate a rule again that failed too often.

        Raises ``ConflictError`` if both have the name and ``subject`` does not decide.
        """

    def failing(self, rule: str) -> FailingRule | None:
        """Return how a rule failed the last time it was evaluated, or ``None`` if it did not."""

    async def mute(
        self, name: str, by: str, *, subject: Subject | None = None, until_s: float | None = None
    ) -> SuspensionChange:
        """Keep back the notifications of a rule, or of every rule of a profile, until a time or until it is unmuted.

        Raises ``ConflictError`` if both have the name and ``subject`` does not decide, or if the time has passed.
        """

    async def unmute(self, name: str, *, subject: Subject | None = None, drop: bool = False) -> SuspensionChange:
        """Send what was kept back as one digest for each receiver, or drop it; raises as ``mute`` does."""


@dataclass(frozen=True, slots=True)
class MovePlace:
    """The file and the line that declare a source."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class SourceMove:
    """A permanent move of a source.

    Parameters
    ----------
    declared_url, url
        The declared address, and the new one.
    since_s, probes
        When a probe was first led there, and how many were; if the move was accepted, when that was.
    place
        Where the source is declared; ``None`` if that was over the API.
    is_proposed
        Whether it was seen for a week or longer, so that people should know.
    is_accepted
        Whether it was accepted, and the declaration does not name the new address yet.
    """

    source_id: str
    declared_url: str
    url: str
    since_s: float
    probes: int
    place: MovePlace | None
    is_proposed: bool = False
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class MoveAccepted:
    """What was done in words, and the move; ``None`` if it led back to the declared address."""

    said: str
    move: SourceMove | None


class Moving(Protocol):
    """The sources that have moved permanently."""

    def all(self) -> Sequence[SourceMove]:
        """Return every move, by source."""

    def of(self, source: str) -> Sequence[SourceMove]:
        """Return the moves of a source: an accepted one first."""

    async def accept(self, source: str) -> MoveAccepted:
        """Read a source at its new address from now on.

        Raises ``NotFoundError`` for an unknown name, ``ConflictError`` if the source has not moved, and ``BusyError``
        while the daemon starts.
        """


# -- the plan, and its results


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
    delay_s: float | None
    body_bytes: int


@dataclass(frozen=True, slots=True)
class SeenItem:
    """When an item was published, by its own time, and when it was seen; unix seconds."""

    came_s: float
    seen_s: float


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
class Report:
    """What was found and predicted on each day with data (since 1970-01-01, UTC), and models that now fit badly.

    ``promises`` compares what rules promise with what they kept, week by week; of many, those that fell shortest are
    there, and ``promises_left_out`` counts the others.
    """

    days: tuple[tuple[int, Calibration], ...]
    off: tuple[Misfit, ...]
    promises: tuple[KeptPromise, ...] = ()
    promises_left_out: int = 0


class Plans(Protocol):
    """The plan, its reasons and its results."""

    def plan(self, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes, in order."""

    async def plan_of(self, source_id: str, *, limit: int) -> list[PlannedProbe]:
        """Return the planned probes of one source, in order, as if it had the whole budget."""

    async def advise(self) -> Advice:
        """Return what other budgets would capture, and which rules cannot be met within the current one."""

    async def report(self, *, days: int) -> Report:
        """Return what was found and predicted on each of the last ``days``, including today."""

    def explain(self, source_id: str) -> Explanation | None:
        """Return why and when a source is probed next, or ``None`` if it is not declared."""

    async def kept(self, source_id: str) -> list[KeptPromise]:
        """Return what rules kept of their targets for the items of a source in the last seven days."""

    def failing(self) -> list[str]:
        """Return the declared sources whose last probe failed."""

    def silent(self) -> list[str]:
        """Return the declared sources that show no items, or a field without a value."""

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[MadeProbe]:
        """Return the probes of a source in the last days, newest first; ``before`` is the position of a probe."""

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[SeenItem]:
        """Return the items of a source that give their own time, newest first."""

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[DecidedInterval]:
        """Return the execution intervals of a rule that were decided in the last days, newest first.

        Raises ``NotFoundError`` if the rule is not declared. An event that no probe ever showed has no interval.
        """

    def capture_counts(self, rules: Iterable[str]) -> CaptureCounts:
        """Return how the execution intervals of declared rules since their START ended, added up."""


# -- notifications and deliveries


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of notifications; only those of ``rules`` are wanted, or all if it is ``None``."""

    rules: frozenset[str] | None = None
    source_id: str | None = None
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """The status of a delivery; ``endpoint`` is safe to show, times are unix seconds."""

    endpoint: str
    state: str
    attempts: int
    next_s: float
    done_s: float | None
    last_error: str


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
    """Notifications in order; ``has_more`` if others follow, which a limit of rows or of bytes left out."""

    rows: list[StoredNotification]
    has_more: bool = False


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
class NotificationTrace:
    """Everything that led to a notification, and its deliveries."""

    notification: StoredNotification
    intervals: tuple[DecidedInterval, ...]
    findings: tuple[FoundEvent, ...]
    attempts: tuple[DeliveryAttempt, ...]


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


# -- access


Scope: TypeAlias = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Token:
    """An API token, of which only the secret's hash is stored. A wider scope includes the narrower ones."""

    token_id: str
    name: str
    scope: Scope
    sha256: str
    created_s: float
    expires_s: float | None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to a bearer's request with a key; ``request`` distinguishes it from others with the same key."""

    bearer: str
    key: str
    request: str
    status: int
    content_type: str
    body: bytes
    answered_s: float


class Access(Protocol):
    """API tokens, and stored answers to requests that may be repeated."""

    async def add_token(self, token: Token) -> None:
        """Store a token; raises ``ConflictError`` if its name is taken."""

    async def find_token(self, token_id: str) -> Token | None:
        """Return the token with that id, or ``None``."""

    async def tokens(self) -> Sequence[Token]:
        """Return every token, by name."""

    async def drop_token(self, name: str) -> None:
        """Revoke a token; raises ``NotFoundError``."""

    async def find_answer(self, bearer: str, key: str, *, now_s: float) -> StoredAnswer | None:
        """Return the answer to a key from the last day, or ``None``."""

    async def keep_answer(self, answer: StoredAnswer) -> None:
        """Store an answer; returns once it cannot be lost."""


# -- pushes from hubs, and the daemon's health


class HubCallbacks(Protocol):
    """Callbacks for WebSub hubs."""

    async def verify(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge if a hub's request is valid, ``None`` if it does not match a subscription."""

    def is_subscribed(self, callback_id: str) -> bool:
        """Return whether a subscription has this callback."""

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> None:
        """Observe a pushed document; raises ``BusyError`` if the hub should try again later."""


class Vitals(Protocol):
    """The daemon's own health."""

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format, with fresh gauges."""

    async def samples(self) -> Samples:
        """Return the metrics' samples, with fresh gauges."""

    async def readiness(self) -> dict[str, bool]:
        """Return the conditions of readiness, by name."""


@dataclass(frozen=True, slots=True)
class Queries:
    """All ports together, for a listener."""

    profiles: Profiles
    suspensions: Suspending
    moves: Moving
    plans: Plans
    deliveries: Deliveries
    access: Access
    callbacks: HubCallbacks
    vitals: Vitals
    clock: Clock
