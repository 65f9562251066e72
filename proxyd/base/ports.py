"""The contracts between the daemon's loops and the world; every implementation keeps to their docstrings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.model.outcome import Picture, ProbeOutcome, ProbeRequest
from proxyd.core.rules.known.context import StoredContext, StoreQuery
from proxyd.core.rules.stages.observation import Observation, RuleResults


class Clock(Protocol):
    """Reads time and waits for it."""

    def time_s(self) -> float:
        """Return unix seconds for everything that is planned and stored; they never go back during a run."""

    def wall_s(self) -> float:
        """Return unix seconds that may go back, for others to compare with their own."""

    @property
    def off_s(self) -> float:
        """How far the machine's clock is ahead of the one that is followed, such as a database's, in seconds."""

    def monotonic_s(self) -> float:
        """Return seconds that never go back; only their differences are meaningful."""

    async def sleep(self, seconds: float) -> None:
        """Wait; returns at once if ``seconds`` is not positive."""


MaySend: TypeAlias = Callable[[], bool]


def always() -> bool:
    """Return that requests may be sent, whatever happens."""
    return True


class Prober(Protocol):
    """Turns a request into an outcome; it never raises for anything that the origin does."""

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        """Fetch and read one source once, within the prober's limits of time and size.

        Raises ``LeaseLostError`` if ``may_send``, which is asked before each request, does not allow it.
        """


class Unmade(Enum):
    """Why a probe has no outcome."""

    NOT_BEGUN = "not_begun"  # no machine took it in time
    LOST = "lost"  # a machine took it and was silent too long, or its failure may be its own


class TakeStray(Protocol):
    """Records an outcome that nobody waits for any more, because its requester is gone."""

    async def __call__(self, outcome: ProbeOutcome, *, reading: str, is_doubtful: bool) -> bool:
        """Return once it is recorded, known already, or of no use; ``False`` if another planner may have to take it.

        One that is doubtful is not recorded.
        """


class Transport(Protocol):
    """Brings requests to a prober in this process or on another machine."""

    def probe(self, request: ProbeRequest) -> AbstractAsyncContextManager[ProbeOutcome | Unmade]:
        """Yield the outcome of a probe, or why it is unknown; never raises for events outside.

        The outcome may come again, even to another process, unless the context ends without an error: by then it is
        recorded. Two machines never make requests to the same host at once.
        """

    async def run(self, take_stray: TakeStray) -> None:
        """Carry requests and outcomes until ``stop``."""

    def stop(self) -> None:
        """End ``run``; returns at once."""

    @property
    def is_up(self) -> bool:
        """Whether a prober can be reached now."""

    @property
    def aside(self) -> Mapping[str, str]:
        """The probers that have no work because they fail where others do not, and why."""


class Memory(Protocol):
    """The storage that probes use."""

    @property
    def can_record(self) -> bool:
        """Whether it takes in outcomes now; otherwise they wait."""

    async def known(self, source_id: str, needed: StoreQuery) -> StoredContext:
        """Return the stored items of a source and the histories that a query needs."""

    async def record_results(self, results: RuleResults) -> None:
        """Store the results of rules from events without a probe, completely or not at all."""

    async def record(self, observation: Observation) -> None:
        """Store everything that one probe changed, completely or not at all; returns once it cannot be lost."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to one endpoint."""

    message_id: str  # the same on every attempt
    rule: str
    endpoint: str
    body: bytes  # as it was recorded
    attempt_s: float  # unix seconds by the machine's clock
    kind: str = "webhook"  # of its delivery
    form: str = "STANDARD"  # a webhook's
    payload: int = 1  # a webhook's version of the body
    secret: bytes | str | None = None
    picture: Picture | None = None  # a mail's


class Channel(Protocol):
    """Sends a message to a receiver, once."""

    async def deliver(self, message: Message) -> str:
        """Return the receiver's answer once it accepted the message, or raise ``DeliveryError``."""


class ResolveSecret(Protocol):
    """Finds a secret; returns ``None`` if it is not set."""

    def __call__(self, ref: SecretRef, /) -> bytes | None:
        """Return the secret."""


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """One notification, or one digest of several, on its way to one endpoint; times are unix seconds."""

    position: int  # deliveries are in this order
    notification_id: str
    rule: str
    endpoint: str
    secret_kind: str
    secret_name: str
    lane: str  # the pair of its rule and its endpoint
    attempts: int
    first_attempt_s: float | None
    event_s: float
    created_s: float
    body: bytes
    kind: str = "webhook"
    form: str = "STANDARD"
    payload: int = 1
    is_digest: bool = False
    is_disabled: bool = False  # the endpoint has asked for no more
    picture: str | None = None  # the hash of the notification's picture, which a digest does not have


@dataclass(frozen=True, slots=True)
class Claimed:
    """What may be sent now, and when the next lane is due that nobody has claimed (unix seconds)."""

    deliveries: Sequence[DueDelivery]
    next_s: float | None


@dataclass(frozen=True, slots=True)
class Gathered:
    """A rule's gathered notifications for an endpoint in a period that is over: ids and bodies, in order."""

    digest_id: str
    rule: str
    ids: tuple[str, ...]
    bodies: tuple[bytes, ...]
    most_items: int | None
    until_s: float


class Outbox(Protocol):
    """Deliveries that survive a crash; one that is not recorded as delivered or given up is due again."""

    async def claim_deliveries(
        self, now_s: float, *, hold_s: float, until_s: float, limit: int, shut: Collection[str]
    ) -> Claimed:
        """Claim up to ``limit`` lanes until ``until_s``, and return the delivery that each may send now.

        It leaves out the ``shut`` endpoints. A failing delivery holds back later ones of its lane until ``hold_s``
        after its first attempt. Nobody else gets anything of a claimed lane until the result is recorded, the delivery
        is given back, or the claim has run out.
        """

    async def extend_claims(self, lanes: Collection[str], until_s: float) -> None:
        """Let claims last until ``until_s``: what is sent there takes long."""

    async def give_back(self, deliveries: Sequence[DueDelivery], now_s: float) -> None:
        """End the claims of deliveries that were not attempted."""

    async def picture(self, sha256: str) -> Picture | None:
        """Return a picture, or ``None`` if it is no longer stored."""

    async def record_delivery(self, delivery: DueDelivery, now_s: float, *, duration_s: float, detail: str) -> None:
        """Record that the receiver accepted the delivery."""

    async def retry_now(self, endpoint: str, now_s: float) -> None:
        """Make the deliveries due that wait for their next attempt at an endpoint."""

    async def record_failure(
        self,
        delivery: DueDelivery,
        now_s: float,
        *,
        next_s: float | None,
        error: str,
        duration_s: float,
        disables: bool = False,
    ) -> None:
        """Record a failed attempt; without ``next_s`` the delivery is given up.

        ``disables`` also gives up the other deliveries of its lane, until the endpoint is enabled again.
        """

    async def next_digest_s(self) -> float | None:
        """Return when the next period with gathered notifications ends, or ``None`` if there are none."""

    async def make_digests(self, now_s: float, compose: Callable[[Gathered], bytes]) -> None:
        """Make a digest of the notifications of each period that is over: one delivery with the composed body."""


class WebhookState(Enum):
    """Whether a webhook has answered its ping; deliveries to an unconfirmed one are held."""

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
    """Stores which webhooks have answered, across restarts."""

    async def list_unconfirmed(self) -> Sequence[UnconfirmedWebhook]:
        """Return the declared webhooks that have not answered yet."""

    async def claim(
        self, webhooks: Collection[WebhookDelivery], now_s: float, until_s: float
    ) -> Sequence[WebhookDelivery]:
        """Claim unconfirmed webhooks until ``until_s``, and return those that nobody else had claimed."""

    async def extend_claims(self, webhooks: Collection[WebhookDelivery], until_s: float) -> None:
        """Let claims of webhooks last until ``until_s``."""

    async def record_ping(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
        """Record the result of a ping; for a webhook that has answered before, only that it accepts again.

        A webhook that stays unconfirmed keeps the time since which it is.
        """
