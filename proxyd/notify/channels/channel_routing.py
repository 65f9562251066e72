"""Routing: each message goes to the channel of its kind, such as the daemon's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import structlog

from proxyd.base.ports import Channel, MaySend, Message
from proxyd.core.errors import DeliveryError, LeaseLostError
from proxyd.core.language import channel_scheme
from proxyd.core.model.delivery import ChannelDelivery, LogDelivery, MailDelivery, WebhookDelivery
from proxyd.net.guard import Guard
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.apprise_channel import AppriseChannel, ChannelAddresses, has_channels
from proxyd.notify.channels.chat_services import SERVICES
from proxyd.notify.channels.chats import ChatChannel, chat_problem, is_understood
from proxyd.notify.channels.mail import open_mail
from proxyd.notify.channels.message_forms import subject
from proxyd.notify.channels.webhook import open_webhooks
from proxyd.tracing import NO_TRACES, Tracer


class LogChannel:
    """Writes messages to the log at any log level; it cannot fail."""

    def __init__(self) -> None:
        self._log = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))

    async def deliver(self, message: Message) -> str:
        """Return once the line is written: receiver, rule, message id and first item."""
        name = message.endpoint.partition(":")[2]
        first = subject(message.rule, message.body)
        self._log.info("notification", to=name, rule=message.rule, notification=message.message_id, subject=first)
        return "it was written to the log"


def channel_problem(url: str, schemes: Collection[str], guard: Guard) -> str | None:
    """Return why the address of a channel is refused, or ``None``."""
    scheme = channel_scheme(url)
    if scheme is None:
        return "a channel takes exactly one address, without spaces"
    if scheme not in schemes:
        return f"the setting channel_schemes does not allow {scheme}://"
    if scheme in SERVICES and (is_understood(url) or not has_channels()):
        return chat_problem(url, guard)
    return ChannelAddresses(schemes, guard).problem(url)


class _ChatsAndApprise:
    """Sends to the services that proxyd knows itself, and leaves all others to apprise."""

    def __init__(self, schemes: Collection[str], guard: Guard, own: Channel, others: Channel) -> None:
        self._schemes = schemes
        self._guard = guard
        self._own = own
        self._others = others

    async def deliver(self, message: Message) -> str:
        """Return once the service took every message; raises ``DeliveryError``."""
        if (problem := channel_problem(message.endpoint, self._schemes, self._guard)) is not None:
            raise DeliveryError(f"{problem}; correct the profile or the setting, and replay", retryable=False)
        return await (self._own if is_understood(message.endpoint) else self._others).deliver(message)


def _open_chats(resources: ChannelResources) -> _ChatsAndApprise:
    """Return the channel of chats and push services; the threads of apprise end with the daemon."""
    settings, guard = resources.settings, resources.guard
    schemes, timeout_s, zone = settings.channel_schemes, settings.delivery_timeout, settings.zone
    others = AppriseChannel(ChannelAddresses(schemes, guard), timeout_s=timeout_s, zone=zone)
    resources.at_end(others.close)
    return _ChatsAndApprise(schemes, guard, ChatChannel(resources.session, timeout_s=timeout_s, zone=zone), others)


OPENERS: Mapping[str, Callable[[ChannelResources], Channel]] = MappingProxyType(
    {
        WebhookDelivery.kind: open_webhooks,
        MailDelivery.kind: open_mail,
        ChannelDelivery.kind: _open_chats,
        LogDelivery.kind: lambda _resources: LogChannel(),
    }
)
"""The function that opens the channel of each kind of delivery."""


class Channels:
    """The Channel port over the channels of all kinds."""

    def __init__(self, channels: Mapping[str, Channel], tracer: Tracer = NO_TRACES) -> None:
        self._channels = channels
        self._tracer = tracer

    async def deliver(self, message: Message) -> str:
        """Return the receiver's answer once it accepted the message, else raise ``DeliveryError``."""
        facts = {"notification": message.message_id, "rule": message.rule, "kind": message.kind}
        with self._tracer.span("deliver", facts):
            return await self._channels[message.kind].deliver(message)


class LeasedChannel:
    """The Channel port of a process that may lose its lease: once it has, nothing is sent."""

    def __init__(self, channel: Channel, may_send: MaySend) -> None:
        self._channel = channel
        self._may_send = may_send

    async def deliver(self, message: Message) -> str:
        """Deliver a message; raise ``LeaseLostError`` if another machine may deliver it now."""
        if not self._may_send():
            raise LeaseLostError("a notification was not sent: this machine has lost its lease")
        return await self._channel.deliver(message)


def make_channels(resources: ChannelResources) -> Channels:
    """Return every channel."""
    return Channels({kind: opened(resources) for kind, opened in OPENERS.items()}, resources.tracer)
