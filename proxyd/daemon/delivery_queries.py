"""Answers about notifications and deliveries; sends test messages, and notifications again."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any, Protocol

import structlog

from proxyd.base.clock import Signal
from proxyd.base.doers import current_doer
from proxyd.base.ports import Channel, Clock, Message, WebhookState
from proxyd.config.loading import SecretStore
from proxyd.core.errors import ClusterError, DeliveryError, NotFoundError
from proxyd.core.language import CreateReceiver, deliveries_of, find_named
from proxyd.core.model.delivery import Delivery, WebhookDelivery, shown_endpoint
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.outcome import Picture
from proxyd.core.model.profile import Declaration, found_name, plain_name
from proxyd.daemon.declarations import Declarations
from proxyd.notify.channels.message_forms import sent_text
from proxyd.notify.channels.webhook import known_secret
from proxyd.notify.dispatcher import Dispatcher
from proxyd.notify.pings import Pings
from proxyd.store.listed_rows import NotificationTrace, SentText, StoredNotification, Wanted
from proxyd.store.sql_store import SqlStore
from proxyd.store.webhook_states import KnownWebhook

_TEST = "Test from proxyd"
_TESTED_AT_ONCE = 8
log = structlog.get_logger("notify")


class Notifier(Protocol):
    """Delivers what is in the outbox, and pings new webhooks first."""

    def wake(self) -> None:
        """Look at the outbox now: it has new deliveries."""

    def wake_pings(self) -> None:
        """Look for new webhooks now: some were declared."""

    async def run(self) -> None:
        """Deliver until ``drain``."""

    async def drain(self, timeout_s: float) -> None:
        """Start no more deliveries, and wait for the running ones."""


class LocalNotifier:
    """Delivers in this process."""

    def __init__(self, dispatcher: Dispatcher, pings: Pings) -> None:
        self._dispatcher, self._pings = dispatcher, pings
        self.wake, self.wake_pings = dispatcher.wake, pings.wake

    async def run(self) -> None:
        """Deliver until ``drain``."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dispatcher.run(), name="deliveries")
            tasks.create_task(self._pings.run(), name="pings")

    def wake_all(self) -> None:
        """Look at everything now."""
        self.wake()
        self.wake_pings()

    async def drain(self, timeout_s: float) -> None:
        """Start no more deliveries, and wait for the running ones."""
        self._pings.stop()
        await self._dispatcher.drain(timeout_s)


class DistantNotifier:
    """Wakes the notifier on another machine, which also polls in case it misses a message."""

    def __init__(self, ring: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._ring = ring
        self._clock = clock
        self._wake = Signal()
        self._draining = False
        self.wake = self.wake_pings = self._wake.notify

    async def run(self) -> None:
        """Wake it whenever there are new deliveries, until ``drain``."""
        while not self._draining:
            await self._wake.sleep(self._clock)
            try:
                await self._ring()
            except ClusterError as error:
                log.debug("the notifier could not be told", error=error.message)

    async def drain(self, timeout_s: float) -> None:
        """Send no more messages; deliveries on the other machine are not awaited."""
        self._draining = True
        self._wake.notify()


@dataclass(frozen=True, slots=True)
class _DeliveryTest:
    """What became of a test message: the receiver's ``answer`` if it accepted, otherwise the ``error``."""

    endpoint: str
    error: str | None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryQueries:
    """Answers about notifications and their receivers, and what people do with them."""

    profiles: Declarations
    store: SqlStore
    notifier: Notifier
    channel: Channel
    secrets: SecretStore
    clock: Clock
    zone: tzinfo | None = UTC  # of the times in mails

    async def trace(self, notification_id: str) -> NotificationTrace:
        """Return everything that led to a notification, its deliveries, and its texts."""
        found = await self.store.history.trace(notification_id)
        if found is None:
            raise no_notification(notification_id)
        return replace(found, texts=await asyncio.to_thread(_texts, found.notification, self.zone))

    async def picture(self, notification_id: str) -> Picture:
        """Return the picture of a notification."""
        found = await self.store.history.picture(notification_id)
        if found is not None:
            return found
        if await self.store.history.trace(notification_id) is None:
            raise no_notification(notification_id)
        raise NotFoundError(
            f"the notification {notification_id!r} has no screenshot: its rule keeps none, the probe took none, or it "
            "was deleted"
        )

    async def test_deliveries(self, rule: str) -> list[_DeliveryTest]:
        """Send a test message to every webhook, mail address and channel of a rule."""
        declared = find_named("rule", rule, self.profiles.shown.rules)
        newest = await self.store.history.find_notifications(Wanted(frozenset({rule})), before=None, limit=1)
        data = _as_test(rule, newest.rows)

        async def test(delivery: Delivery) -> _DeliveryTest:
            shown = shown_endpoint(delivery.kind, delivery.endpoint, delivery.receiver)
            result = await self._test(delivery, shown, rule, {"rule": rule}, data)
            if result.error is None:  # it gets notifications of this rule again, even if it was disabled
                await self.store.enable(rule, delivery.endpoint)
                self.notifier.wake()
            return result

        return await self._test_all(f"rule {rule}", test, declared.deliveries)

    async def test_receiver(self, name: str) -> list[_DeliveryTest]:
        """Send a test message to every webhook, mail address and channel of a receiver that has a name."""
        receivers = self.profiles.receivers
        _, declared = find_named("receiver", found_name(name, receivers, current_doer().profiles), receivers)
        assert isinstance(declared, CreateReceiver)
        name = plain_name(name)
        data = _words_of_test(name, f"{_TEST}: what is told to {name} comes here")

        def test(delivery: Delivery) -> Awaitable[_DeliveryTest]:
            shown = f"{shown_endpoint(delivery.kind, delivery.endpoint, name)}, {delivery.kind}"
            return self._test(delivery, shown, name, {"receiver": name}, data)

        return await self._test_all(f"receiver {name}", test, deliveries_of(declared))

    async def _test_all(
        self, subject: str, test: Callable[[Delivery], Awaitable[_DeliveryTest]], deliveries: Sequence[Delivery]
    ) -> list[_DeliveryTest]:
        """Test deliveries, a few at once, because one that does not answer takes all of its time."""
        results: list[_DeliveryTest] = []
        for begin in range(0, len(deliveries), _TESTED_AT_ONCE):
            results += await asyncio.gather(*map(test, deliveries[begin : begin + _TESTED_AT_ONCE]))
        accepted = sum(each.error is None for each in results)
        detail, now_s = f"accepted: {accepted} of {len(results)}", self.clock.time_s()
        await self.store.audit.note("test", subject, detail, now_s=now_s)
        return results

    async def _test(
        self, delivery: Delivery, shown: str, rule: str, for_programs: dict[str, Any], for_people: dict[str, Any]
    ) -> _DeliveryTest:
        """Send a test message; a webhook that accepts it has answered its ping."""
        data = for_programs if isinstance(delivery, WebhookDelivery) else for_people
        try:
            said = await self.channel.deliver(self._test_message(delivery, rule, data))
        except DeliveryError as error:
            return _DeliveryTest(shown, error.message)
        if isinstance(delivery, WebhookDelivery):
            await self.store.webhooks.record_ping(delivery, WebhookState.CONFIRMED, self.clock.time_s(), said)
            self.notifier.wake_pings()
            self.notifier.wake()
        return _DeliveryTest(shown, None, said)

    def _test_message(self, delivery: Delivery, rule: str, data: dict[str, Any]) -> Message:
        now_s = self.clock.time_s()
        body = json.dumps({"type": "proxyd.test", "timestamp": iso_time(now_s), "data": data}).encode()
        message = Message(f"test_{now_s:.3f}", rule, delivery.endpoint, body, self.clock.wall_s(), delivery.kind)
        if not isinstance(delivery, WebhookDelivery):
            return message
        secret = known_secret(self.secrets.resolve, delivery.secret)
        return replace(message, form=delivery.form.value, secret=secret)

    async def webhooks(self) -> list[KnownWebhook]:
        """Return every webhook, whether it answered its ping, and the rules that it accepts no more.

        One of a receiver is shown by the name of that, without its address and its secret.
        """
        refused: dict[tuple[str, str], list[str]] = defaultdict(list)
        for disabled in await self.store.list_disabled_endpoints():
            refused[disabled.endpoint, disabled.declared].append(disabled.rule)
        known = await self.store.webhooks.all()
        names = await asyncio.to_thread(_receivers_of_webhooks, self.profiles.shown)
        shown = [replace(each, refused=tuple(refused[each.endpoint, each.declared])) for each in known]
        return [_under_name(each, names.get(each.endpoint, "")) for each in shown]

    async def replay(self, notification_id: str | None) -> int:
        """Send a notification again, or every dead delivery."""
        count = await self.store.replay(notification_id, self.clock.time_s())
        self.notifier.wake()
        return count


def _receivers_of_webhooks(declaration: Declaration) -> dict[str, str]:
    """Return the name of the receiver of each webhook that is a part of one, by its address."""
    deliveries = (each for rule in declaration.rules.values() for each in rule.deliveries if each.receiver)
    return {each.endpoint: each.receiver for each in deliveries if isinstance(each, WebhookDelivery)}


def _under_name(webhook: KnownWebhook, receiver: str) -> KnownWebhook:
    if not receiver:
        return webhook
    return replace(webhook, endpoint=shown_endpoint(WebhookDelivery.kind, "", receiver), secret_name="")


def _as_test(rule: str, told: Sequence[StoredNotification]) -> dict[str, Any]:
    """Return the last notification of a rule, marked as a test; without one, what says so."""
    newest: dict[str, Any] = json.loads(told[0].body)["data"] if told else {}
    if not newest.get("items") or "message" not in newest:
        return _words_of_test(rule, f"{_TEST}: rule {rule} will tell you here")
    message = newest["message"]
    rows = [f"{_TEST}: {message['rows'][0]}", *message["rows"][1:]]
    title = f"{_TEST}: {message['title']}"
    return newest | {"rule": f"{_TEST}: {rule}", "message": message | {"title": title, "rows": rows}}


def _words_of_test(rule: str, said: str) -> dict[str, Any]:
    return {"rule": rule, "items": [{"title": said}], "message": {"title": said, "rows": [said]}}


def _texts(notification: StoredNotification, zone: tzinfo | None) -> tuple[SentText, ...]:
    """Return the texts of a notification, each with the receivers that get it; none if its body has no rows."""
    if "items" not in json.loads(notification.body).get("data", {}):
        return ()
    endpoints: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for each in notification.deliveries:
        endpoints[each.kind, each.form, each.payload].append(each.endpoint)
    texts = {
        (kind, form, version): sent_text(
            *(notification.notification_id, notification.rule, notification.body),
            kind=kind,
            form=form,
            version=version,
            zone=zone,
        )
        for kind, form, version in endpoints
    }
    return tuple(SentText(tuple(endpoints[each]), *text) for each, text in texts.items())


def no_notification(notification_id: str) -> NotFoundError:
    """Return the error for a notification that does not exist, or not for whoever asks."""
    return NotFoundError(f"there is no notification {notification_id!r}; `proxyd notifications` lists the newest")
