"""Routing: each message goes to the channel of its kind, such as the daemon's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

import structlog

from proxyd.base.ports import Channel, MaySend, Message
from proxyd.core.errors import LeaseLostError
from proxyd.core.model.delivery import ChannelDelivery, LogDelivery, MailDelivery, WebhookDelivery
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.apprise_channel import open_apprise
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


OPENERS: Mapping[str, Callable[[ChannelResources], Channel]] = MappingProxyType(
    {
        WebhookDelivery.kind: open_webhooks,
        MailDelivery.kind: open_mail,
        ChannelDelivery.kind: open_apprise,
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
