"""Subscriptions at WebSub hubs: requested, verified and renewed; pushed documents are observed like probes."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import structlog

from proxyd.base.clock import Signal
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock
from proxyd.core.errors import BusyError, ProbeError
from proxyd.core.model.decimal_marks import Languages
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.subscriptions import LEASE_S, Subscription, after_acceptance, answer
from proxyd.daemon.observer import Observer
from proxyd.net.http_values import without_path
from proxyd.probing.http.hubs import HubClient
from proxyd.probing.prober import Parse
from proxyd.store.sql_store import SqlStore

log = structlog.get_logger("hubs")
_LOOK_S = 10.0
_METHODS = frozenset({"sha1", "sha256", "sha384", "sha512"})
_MOST_PUSHES = 4  # read at once: probes need the parsers too
_MOST_LEAVING = 10_000


@dataclass(frozen=True, slots=True)
class PushParts:
    """The parts that only pushes need; ``public_url`` is empty if hubs cannot reach the daemon."""

    hub: HubClient
    parser: Parse
    public_url: str


class Pushes:
    """Keeps the subscriptions of the declared sources, and observes what their hubs push."""

    def __init__(
        self, decider: Decider, observer: Observer, store: SqlStore, clock: Clock, metrics: Metrics, parts: PushParts
    ) -> None:
        self._decider = decider
        self._hubs = decider.hubs
        self._observer = observer
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._parts = parts
        self._leaving: OrderedDict[str, str] = OrderedDict()  # callback id and topic of cancelled subscriptions
        self._reading: set[str] = set()
        self._asking: str | None = None  # the source for which a hub is asked
        self._wake = Signal()
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False

    async def run(self) -> None:
        """Maintain the subscriptions until ``stop``."""
        async with asyncio.TaskGroup() as tasks:
            while not self._stopped:
                self._looking = tasks.create_task(self.ask_hubs(), name="look after hubs")
                await asyncio.wait([self._looking])
                if not self._stopped:
                    await self._wake.sleep(self._clock, _LOOK_S)

    def stop(self) -> None:
        """Ask hubs for nothing more, and cancel the current request; returns at once."""
        self._stopped = True
        self._wake.notify()
        if self._looking is not None:
            self._looking.cancel()

    async def ask_hubs(self) -> None:
        """Send all due requests to the hubs; after a failure, no more to that hub this time."""
        try:
            await self._ask_due()
        finally:
            self._asking = None

    async def _ask_due(self) -> None:
        for subscription in self._hubs.take_left():
            await self._unsubscribe(subscription)
        failed: set[str | None] = set()
        for due in self._hubs.due(self._clock.time_s()):
            now = self._hubs.of(due.source_id)  # it may have changed during the earlier requests
            if now is None or not now.is_due(self._clock.time_s()):
                continue
            self._asking = now.source_id
            if urlsplit(now.hub).hostname in failed:
                await self._save(self._hubs.refuse(now, self._clock.time_s()))
            elif not await self._subscribe(now):
                failed.add(urlsplit(now.hub).hostname)
        self._metrics.subscriptions.set(self._hubs.count_active(self._clock.time_s()))

    def under_way(self) -> set[str]:
        """Return the sources of which a push is read, or for which a hub is asked."""
        return self._reading if self._asking is None else self._reading | {self._asking}

    # -- requests from hubs

    async def verify(self, callback_id: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge to echo if a hub's request is valid, ``None`` if it does not match a subscription."""
        if query.get("hub.mode") == "unsubscribe":
            if callback_id not in self._leaving or self._leaving[callback_id] != query.get("hub.topic"):
                return None
            del self._leaving[callback_id]
            return query.get("hub.challenge")
        known = self._hubs.subscription_called(callback_id)
        if known is None:
            return None
        challenge, after = answer(known, query, now_s=self._clock.time_s())
        if after != known:
            await self._save(after)
            log.info("a hub called", source=known.source_id, hub=without_path(known.hub), now=after.status.value)
        return challenge

    def is_subscribed(self, callback_id: str) -> bool:
        """Return whether a subscription has this callback."""
        return self._hubs.subscription_called(callback_id) is not None

    async def push(self, callback_id: str, content_type: str | None, signature: str | None, body: bytes) -> None:
        """Observe a pushed document; one without a valid signature is ignored.

        Raises ``BusyError``: other pushes, or one of this source, are being read: the hub should try again.
        """
        known = self._hubs.subscription_called(callback_id)
        if known is None:
            return
        if not is_signed(body, signature, known.secret):
            self._count("unsigned")
            log.warning("a push without a valid signature was ignored", source=known.source_id)
            return
        if known.source_id in self._reading or len(self._reading) >= _MOST_PUSHES:
            raise BusyError
        self._reading.add(known.source_id)
        try:
            self._count(await self._take_in(known, content_type, body))
        finally:
            self._reading.discard(known.source_id)

    async def _take_in(self, known: Subscription, content_type: str | None, body: bytes) -> str:
        """Read a document and observe it; return its label in ``proxyd_pushes_total``."""
        request = self._decider.request(known.source_id, self._clock.time_s())
        state = self._decider.known.states.get(known.source_id)
        if request is None or state is None or state.first_contact_s is None:
            return "ignored"
        started_s = self._clock.time_s()
        try:
            read = await self._parts.parser.parse(
                body, content_type, request.url, request.page_class, Languages(request.locale)
            )
        except ProbeError as error:
            log.warning("a push cannot be read", source=known.source_id, detail=error.message)
            return "unreadable"
        outcome = ProbeOutcome(
            source_id=known.source_id,
            kind=OutcomeKind.CHANGED,
            started_s=started_s,
            finished_s=max(started_s, self._clock.time_s()),
            items=read.items,
            truncated=read.truncated,
            requests=0,
            body_bytes=len(body),
            is_push=True,
        )
        return "accepted" if await self._observer.take_in(outcome, reading=request.reading) else "ignored"

    def _count(self, result: str) -> None:
        self._metrics.pushes.labels(result).inc()

    # -- requests to hubs

    async def _subscribe(self, wanted: Subscription) -> bool:
        """Return whether a hub accepts a request."""
        if not wanted.callback_id:
            wanted = replace(wanted, callback_id=secrets.token_urlsafe(24), secret=secrets.token_urlsafe(32))
        asked = self._hubs.asking(wanted, self._clock.time_s())
        await self._save(asked)  # first, because the hub may verify before it answers
        try:
            await self._parts.hub.request(wanted.hub, self._form("subscribe", wanted))
        except ProbeError as error:
            hub = without_path(wanted.hub)
            log.warning("a hub refuses", source=wanted.source_id, hub=hub, detail=error.message)
            if (now := self._subscription_still_asking(asked)) is not None:
                await self._save(self._hubs.refuse(now, self._clock.time_s()))
            return False
        if (now := self._subscription_still_asking(asked)) is not None:
            await self._save(after_acceptance(now, now_s=self._clock.time_s()))
        return True

    def _subscription_still_asking(self, asked: Subscription) -> Subscription | None:
        """Return the current subscription, unless the hub has called back or it was cancelled since the request."""
        now = self._hubs.of(asked.source_id)
        return now if now is not None and now.callback_id == asked.callback_id and now.is_asked else None

    async def _unsubscribe(self, subscription: Subscription) -> None:
        if self._hubs.of(subscription.source_id) is None:
            await self._store.subscriptions.save(subscription.source_id, None)
        if not subscription.callback_id:
            return
        self._leaving[subscription.callback_id] = subscription.topic
        while len(self._leaving) > _MOST_LEAVING:
            self._leaving.popitem(last=False)
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

    async def _save(self, subscription: Subscription) -> None:
        self._decider.note_subscription(subscription, self._clock.time_s())
        await self._store.subscriptions.save(subscription.source_id, subscription)


def is_signed(body: bytes, signature: str | None, secret: str) -> bool:
    """Return whether ``signature`` (``method=hex digits``) is that of ``body`` under ``secret``.

    >>> is_signed(b"x", "sha1=00", "secret")
    False
    """
    method, _, digits = (signature or "").partition("=")
    if method.lower() not in _METHODS or not secret:
        return False
    expected = hmac.new(secret.encode(), body, method.lower()).hexdigest()
    return hmac.compare_digest(expected.encode(), digits.strip().lower().encode(errors="replace"))
