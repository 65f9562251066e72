"""Routing: each message goes to the channel of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from proxyd.core.model.delivery import ChannelDelivery, LogDelivery, MailDelivery, WebhookDelivery
from proxyd.errors import LeaseLostError
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.apprise_channel import open_apprise
from proxyd.notify.channels.log_channel import open_log
from proxyd.notify.channels.mail import open_mail
from proxyd.notify.channels.webhook import open_webhooks
from proxyd.ports import Channel, MaySend, Message
from proxyd.tracing import NO_TRACES, Tracer

OPENERS: Mapping[str, Callable[[ChannelResources], Channel]] = MappingProxyType(
    {
        WebhookDelivery.kind: open_webhooks,
        MailDelivery.kind: open_mail,
        ChannelDelivery.kind: open_apprise,
        LogDelivery.kind: open_log,
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
