"""The contracts between the loops of the daemon and the world. Their docstrings are what every implementation keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Protocol, TypeAlias

from proxyd.core.language import Parsed, Statement
from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import Declaration, PageClass
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.advice import Advice
from proxyd.core.rules.capture_counts import CaptureCounts
from proxyd.core.rules.estimates import Misfit
from proxyd.core.rules.explanation import Explanation
from proxyd.core.rules.observation import Observation, RuleResults
from proxyd.core.rules.stages.calibration import Calibration
from proxyd.core.rules.stages.stored import StoredContext, StoreQuery
from proxyd.core.rules.trial import PlanCost


class Clock(Protocol):
    """Reads time and waits for it."""

    def time_s(self) -> float:
        """Return unix seconds, on which all that is planned and kept depends; they never go back while we run."""

    def wall_s(self) -> float:
        """Return unix seconds as the machine has them, for others who compare them with their own."""

    def monotonic_s(self) -> float:
        """Return seconds that never go back; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Wait; returns at once where ``seconds`` is not positive."""


class Prober(Protocol):
    """Turns a request into an outcome; whatever the origin does, it returns and never raises for it."""

    async def probe(self, request: ProbeRequest) -> ProbeOutcome:
        """Fetch and read one source once, within the prober's limits of time and size."""


class Unmade(Enum):
    """Why there is no outcome of a probe."""

    NOT_BEGUN = "not_begun"  # no machine took it
    LOST = "lost"  # a machine took it, which is not heard of any more


class TakeStray(Protocol):
    """Takes in an outcome that nobody waits for any more: who asked for it is gone."""

    async def __call__(self, outcome: ProbeOutcome, *, reading: str) -> None:
        """Return once it is recorded, or found to be known already."""


class Transport(Protocol):
    """Brings requests to a prober: here, or on another machine."""

    def probe(self, request: ProbeRequest) -> AbstractAsyncContextManager[ProbeOutcome | Unmade]:
        """Yield how a probe ended, or why nobody knows; what the world does is never raised.

        The outcome may come again, to another process even, unless the context ends without an error: by then it is
        recorded. Of one host no machine begins a request while another one makes one.
        """

    async def run(self, take_stray: TakeStray) -> None:
        """Carry requests and outcomes until ``stop``."""

    def stop(self) -> None:
        """End ``run``; returns at once."""

    @property
    def is_up(self) -> bool:
        """Whether requests can be brought to anybody now."""


class Memory(Protocol):
    """What outlives a probe."""

    async def known(self, source_id: str, needed: StoreQuery) -> StoredContext:
        """Return what is stored and needed: items of a source, and histories for queries."""

    async def record_results(self, results: RuleResults) -> None:
        """Store what rules made of events without a probe, whole or not at all."""

    async def record(self, observation: Observation) -> None:
        """Store all that one probe changed, whole or not at all; returns once it cannot be lost."""


class Hub(Protocol):
    """Asks a WebSub hub for what it can do."""

    async def request(self, url: str, form: Mapping[str, str]) -> None:
        """Send a request; return once the hub accepted it, else raise ``ProbeError``."""


class PushParser(Protocol):
    """Reads what a hub pushed."""

    async def parse(self, body: bytes, content_type: str | None, url: str, page_class: PageClass | None) -> ParsedItems:
        """Return its items or raise ``ProbeError``."""


class ParsedItems(Protocol):
    """The items of a document."""

    @property
    def items(self) -> tuple[Item, ...]:
        """In page order."""

    @property
    def truncated(self) -> bool:
        """Whether there were more."""


@dataclass(frozen=True, slots=True)
class Message:
    """What goes to one endpoint: ``body`` as every receiver of the standard form gets it.

    ``kind`` is that of its delivery; ``form`` and ``secret`` are those of a webhook. ``message_id`` is the same on
    every attempt, ``attempt_s`` is unix seconds as the machine has them.
    """

    message_id: str
    rule: str
    endpoint: str
    body: bytes
    attempt_s: float
    kind: str = "webhook"
    form: str = "STANDARD"
    secret: bytes | str | None = None


class Channel(Protocol):
    """Sends a message to a receiver, once."""

    async def deliver(self, message: Message) -> str:
        """Return what the receiver said once it accepted it, else raise ``DeliveryError``."""


class ResolveSecret(Protocol):
    """Finds a secret; ``None`` where it is not set."""

    def __call__(self, ref: SecretRef, /) -> bytes | None:
        """Return the secret."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification, or one digest of several, on its way to one endpoint.

    Its lane is its rule's way to that endpoint. ``position`` orders deliveries; times are unix seconds. Where
    ``is_disabled``, the endpoint said that it wants no more.
    """

    position: int
    notification_id: str
    rule: str
    endpoint: str
    secret_kind: str
    secret_name: str
    lane: str
    attempts: int
    first_attempt_s: float | None
    event_s: float
    created_s: float
    body: bytes
    kind: str = "webhook"
    form: str = "STANDARD"
    is_digest: bool = False
    is_disabled: bool = False


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a rule gathered for an endpoint in a period that is over: the ids and the bodies, in their order."""

    digest_id: str
    rule: str
    ids: tuple[str, ...]
    bodies: tuple[bytes, ...]
    most_items: int | None
    until_s: float


class Outbox(Protocol):
    """Deliveries that survive a crash; what is not noted as delivered or given up is due again."""

    async def due_deliveries(
        self, now_s: float, *, hold_s: float, limit: int, busy: Collection[str], shut: Collection[str]
    ) -> Sequence[Delivery]:
        """Return what may be sent now, oldest first, at most one for each lane.

        None of the ``busy`` lanes and of the ``shut`` endpoints. A failing delivery holds back the later ones of its
        lane until ``hold_s`` after its first attempt.
        """

    async def next_delivery_s(self, *, busy: Collection[str], shut: Collection[str]) -> float | None:
        """Return when the next pending delivery of another lane and endpoint is due, ``None`` where there is none."""

    async def delivered(self, delivery: Delivery, now_s: float, *, duration_s: float, detail: str) -> None:
        """Note that the receiver accepted it."""

    async def failed(
        self,
        delivery: Delivery,
        now_s: float,
        *,
        next_s: float | None,
        error: str,
        duration_s: float,
        disables: bool = False,
    ) -> None:
        """Note a failed attempt; without ``next_s`` it is given up.

        ``disables`` gives up what else waits in its lane, and what will come, until the endpoint is enabled again.
        """

    async def next_digest_s(self) -> float | None:
        """Return when the next period ends for which something is gathered, ``None`` where nothing is."""

    async def make_digests(self, now_s: float, compose: Callable[[Gathered], bytes]) -> None:
        """Make what was gathered in periods that are over due, each as one delivery of the body that is composed."""


class WebhookState(Enum):
    """Whether a webhook has shown that it is there; what waits for one that is unconfirmed is not sent."""

    UNCONFIRMED = "unconfirmed"
    CONFIRMED = "confirmed"
    UNANSWERED = "unanswered"
    UNASKED = "unasked"


@dataclass(frozen=True, slots=True)
class UnconfirmedWebhook:
    """A webhook that has not answered since it was declared (unix seconds)."""

    webhook: WebhookDelivery
    since_s: float


class Webhooks(Protocol):
    """Remembers which webhooks have answered, over restarts."""

    async def unconfirmed(self) -> Sequence[UnconfirmedWebhook]:
        """Return those that were declared and have not answered yet."""

    async def answered(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
        """Note what came of asking; of a webhook that has answered only that it accepts again.

        An unconfirmed one that stays so keeps since when it is.
        """


@dataclass(frozen=True, slots=True)
class DeclarationChanges:
    """What a new declaration changed, by rule name; a restarted rule lost its counters and got a new NOW."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    restarted: tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class DeliveryTest:
    """How a receiver answered a test message; ``error`` is ``None`` where it accepted."""

    endpoint: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """What was found and predicted on the days that have any (since 1970-01-01, UTC), and whose models are off now."""

    days: tuple[tuple[int, Calibration], ...]
    off: tuple[Misfit, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which notifications are asked for; ``rules`` are the only ones whose notifications count, ``None`` all."""

    rules: frozenset[str] | None = None
    source_id: str | None = None
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class OnlyIf:
    """What must be so for a declaration: ``takes`` says whether the text of a profile is the expected one.

    The text is empty where there is no such profile. ``profile`` is ``None`` for the one profile that is declared.
    """

    takes: Callable[[str], bool]
    profile: str | None = None


class Control(Protocol):
    """What the API and the command line ask of a running daemon."""

    @property
    def has_started(self) -> bool:
        """Whether the declaration is there; before that the listeners are up, and every name is unknown."""

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

    async def made_probes(self, source_id: str, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the probes of a source in the last days, newest first; ``before`` is a position of one."""

    async def seen_items(self, source_id: str, *, days: float, limit: int) -> list[tuple[float, float]]:
        """Return when items of a source came, where they say, and when each was seen; unix seconds, newest first."""

    async def intervals(self, rule: str, *, days: float, limit: int) -> list[dict[str, Any]]:
        """Return the execution intervals of a rule that were decided in the last days, newest first.

        Raises ``NotFoundError`` where it is not declared. Of an event that no probe ever showed there is none.
        """

    def fates(self, rules: Iterable[str]) -> CaptureCounts:
        """Return what became of the execution intervals of declared rules since their START, added up."""

    async def notifications(self, wanted: Wanted, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return notifications, newest first, each with its deliveries; ``before`` is a position."""

    async def notifications_between(
        self, wanted: Wanted, after: int, until: int, *, limit: int
    ) -> list[dict[str, Any]]:
        """Return the oldest notifications after a position, up to and with another, in their order."""

    async def newest_position(self) -> int:
        """Return the position of the newest notification, 0 where there is none; positions only grow."""

    def next_news(self) -> asyncio.Event:
        """Return what will be set when notifications were recorded after this call; read the store after it."""

    async def trace(self, notification_id: str) -> dict[str, Any]:
        """Return a notification with its deliveries, intervals, attempts and findings; raises ``NotFoundError``."""

    async def test_deliveries(self, rule: str) -> list[DeliveryTest]:
        """Send a test message to every webhook, mail address and channel of a rule; raises ``NotFoundError``."""

    async def webhooks(self) -> list[dict[str, Any]]:
        """Return every webhook: endpoint, form, secret_name, state, since_s, detail, and ``refused`` by which rules."""

    async def dead_letters(self, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the deliveries that were given up, newest first; ``before`` is a position of a delivery."""

    async def replay(self, notification_id: str | None) -> int:
        """Send a notification again, or every one that was given up; return how many deliveries that are."""

    async def add_token(self, token: Token) -> None:
        """Store a token; raises ``ConflictError`` where its name is taken."""

    async def find_token(self, token_id: str) -> Token | None:
        """Return the token of that id, or ``None``."""

    async def tokens(self) -> Sequence[Token]:
        """Return every token, by name."""

    async def drop_token(self, name: str) -> None:
        """Let a token open nothing any more; raises ``NotFoundError``."""

    async def find_answer(self, bearer: str, key: str) -> StoredAnswer | None:
        """Return what was answered to a key, ``None`` where nothing was, or longer than a day ago."""

    async def keep_answer(self, answer: StoredAnswer) -> None:
        """Store an answer; returns once it cannot be lost."""

    async def verify_push(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge where a hub asks rightly whether it may push, ``None`` where it may not."""

    def is_subscribed(self, callback_id: str) -> bool:
        """Return whether a hub that calls there is subscribed to; raises ``BusyError`` before that is known."""

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> None:
        """Take in what a hub pushed; raises ``BusyError`` where it should come again later."""

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format, gauges fresh."""

    async def readiness(self) -> dict[str, bool]:
        """Return what must hold before traffic may come, by name."""

    def time_s(self) -> float:
        """Return unix seconds."""

    async def wait_until(self, time_s: float) -> None:
        """Return once ``time_s()`` is there."""
