"""The contracts between the loops of the daemon and the world. Their docstrings are what every implementation keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import PageClass
from proxyd.core.rules.observation import Observation, RuleResults
from proxyd.core.rules.stages.stored import StoredContext, StoreQuery


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
class DueDelivery:
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
    ) -> Sequence[DueDelivery]:
        """Return what may be sent now, oldest first, at most one for each lane.

        None of the ``busy`` lanes and of the ``shut`` endpoints. A failing delivery holds back the later ones of its
        lane until ``hold_s`` after its first attempt.
        """

    async def next_delivery_s(self, *, busy: Collection[str], shut: Collection[str]) -> float | None:
        """Return when the next pending delivery of another lane and endpoint is due, ``None`` where there is none."""

    async def delivered(self, delivery: DueDelivery, now_s: float, *, duration_s: float, detail: str) -> None:
        """Note that the receiver accepted it."""

    async def failed(
        self,
        delivery: DueDelivery,
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
