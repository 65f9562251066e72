"""Subscriptions at hubs (WebSub): asked for, verified, renewed; and what hubs push, taken in like a probe."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from proxyd.clock import sleep_or_wake
from proxyd.daemon.probing import ProbeLoop
from proxyd.errors import ProbeError
from proxyd.metrics import Metrics
from proxyd.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.ports import Clock, Hub, PushParser
from proxyd.rules import Decider, Subscription
from proxyd.rules.subscriptions import LEASE_S, denied, refused, requested, verified
from proxyd.store import SqlStore

log = structlog.get_logger("hubs")
_LOOK_S = 10.0
_METHODS = frozenset({"sha1", "sha256", "sha384", "sha512"})


@dataclass(frozen=True, slots=True)
class PushParts:
    """What pushes need beside the daemon's own parts; ``public_url`` is empty where hubs cannot reach the daemon."""

    hub: Hub
    parser: PushParser
    public_url: str


class Pushes:
    """Keeps the subscriptions of the declared sources, and takes in what their hubs push."""

    def __init__(
        self, decider: Decider, probes: ProbeLoop, store: SqlStore, clock: Clock, metrics: Metrics, parts: PushParts
    ) -> None:
        self._decider = decider
        self._probes = probes
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._parts = parts
        self._leaving: dict[str, str] = {}  # callback id and topic of what was unsubscribed from
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Look after the subscriptions until ``stop``."""
        while not self._stopping.is_set():
            await self.look()
            await sleep_or_wake(self._clock, _LOOK_S, self._stopping)

    async def look(self) -> None:
        """Ask the hubs for all that is due."""
        await self._leave_undeclared()
        for subscription in self._decider.hubs.due(self._clock.time_s()):
            await self._subscribe(subscription)
        self._metrics.subscriptions.set(self._decider.hubs.count_active(self._clock.time_s()))

    def stop(self) -> None:
        """Ask hubs for nothing more; returns at once."""
        self._stopping.set()

    # -- what hubs ask

    async def verify(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge to echo where a hub asks rightly, ``None`` where its request is none of ours."""
        mode, topic = query.get("hub.mode"), query.get("hub.topic")
        if mode == "unsubscribe":
            return query.get("hub.challenge") if self._leaving.get(callback_id) == topic else None
        known = self._decider.hubs.called(callback_id)
        if known is None or topic != known.topic:
            return None
        now_s = self._clock.time_s()
        if mode == "denied":
            log.warning("a hub denies a subscription", source=known.source_id, hub=known.hub)
            await self._keep(denied(known, now_s=now_s))
            return ""
        if mode != "subscribe":
            return None
        await self._keep(verified(known, now_s=now_s, lease_s=_number(query.get("hub.lease_seconds"))))
        log.info("subscribed", source=known.source_id, hub=known.hub)
        return query.get("hub.challenge")

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> bool:
        """Take in what a hub pushed; what is not signed rightly is ignored. Return whether we subscribed at all."""
        known = self._decider.hubs.called(callback_id)
        if known is None:
            return False
        if not is_signed(body, signature, known.secret):
            self._metrics.pushes.labels("unsigned").inc()
            log.warning("a push without a valid signature was ignored", source=known.source_id)
            return True
        outcome = await self._read(known, content_type, body)
        if outcome is not None and await self._probes.take_in(outcome):
            self._metrics.pushes.labels("accepted").inc()
        return True

    async def _read(self, known: Subscription, content_type: str | None, body: bytes) -> ProbeOutcome | None:
        request = self._decider.request(known.source_id, self._clock.time_s())
        state = self._decider.states.get(known.source_id)
        if request is None or state is None or state.first_contact_s is None:
            return None
        started_s = self._clock.time_s()
        try:
            read = await self._parts.parser.parse(body, content_type, request.url, request.page_class)
        except ProbeError as error:
            self._metrics.pushes.labels("unreadable").inc()
            log.warning("a push cannot be read", source=known.source_id, detail=error.message)
            return None
        return ProbeOutcome(
            source_id=known.source_id,
            kind=OutcomeKind.CHANGED,
            started_s=started_s,
            finished_s=max(started_s, self._clock.time_s()),
            items=read.items,
            requests=0,
            body_bytes=len(body),
            is_push=True,
        )

    # -- what is asked of hubs

    async def _subscribe(self, wanted: Subscription) -> None:
        """Ask a hub; it may verify before it answers, so the callback must be known first."""
        if not wanted.callback_id:
            wanted = replace(wanted, callback_id=secrets.token_urlsafe(24), secret=secrets.token_urlsafe(32))
            await self._keep(wanted)
        now_s = self._clock.time_s()
        try:
            await self._parts.hub.request(wanted.hub, self._form("subscribe", wanted))
        except ProbeError as error:
            log.warning("a hub refuses", source=wanted.source_id, hub=wanted.hub, detail=error.message)
            await self._keep_unless_changed(wanted, lambda: refused(wanted, now_s=now_s, rng=self._decider.rng))
        else:
            await self._keep_unless_changed(wanted, lambda: requested(wanted, now_s=now_s))

    async def _leave_undeclared(self) -> None:
        for subscription in self._decider.hubs.strangers():
            self._decider.hubs.drop(subscription.source_id)
            await self._store.forget_subscription(subscription.source_id)
            if subscription.callback_id:
                await self._unsubscribe(subscription)

    async def _unsubscribe(self, subscription: Subscription) -> None:
        self._leaving[subscription.callback_id] = subscription.topic
        try:
            await self._parts.hub.request(subscription.hub, self._form("unsubscribe", subscription))
        except ProbeError as error:
            log.warning("a hub does not let go", source=subscription.source_id, detail=error.message)

    def _form(self, mode: str, subscription: Subscription) -> dict[str, str]:
        form = {
            "hub.mode": mode,
            "hub.topic": subscription.topic,
            "hub.callback": f"{self._parts.public_url.rstrip('/')}/websub/{subscription.callback_id}",
        }
        if mode == "subscribe":
            form |= {"hub.lease_seconds": str(int(LEASE_S)), "hub.secret": subscription.secret}
        return form

    # -- how

    async def _keep(self, subscription: Subscription) -> None:
        self._decider.subscribed(subscription, self._clock.time_s())
        await self._store.save_subscription(subscription)

    async def _keep_unless_changed(self, asked: Subscription, after: Callable[[], Subscription]) -> None:
        """Take in what became of a request, unless the hub has verified or denied it meanwhile."""
        if self._decider.hubs.of(asked.source_id) == asked:
            await self._keep(after())


def is_signed(body: bytes, signature: str | None, secret: str) -> bool:
    """Return whether ``signature`` (``method=hex digits``) is that of ``body`` under ``secret``.

    >>> is_signed(b"x", "sha1=00", "secret")
    False
    """
    method, _, digits = (signature or "").partition("=")
    if method.lower() not in _METHODS or not secret:
        return False
    expected = hmac.new(secret.encode(), body, method.lower()).hexdigest()
    return hmac.compare_digest(expected, digits.strip().lower())


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and len(text) < 12 else None
