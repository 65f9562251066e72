"""Delivers messages from the outbox to people and their systems."""

from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.apprise_channel import AppriseChannel
from proxyd.notify.channels.channel_routing import Channels, LeasedChannel, make_channels
from proxyd.notify.channels.mail import MailChannel, MailSettings
from proxyd.notify.channels.message_forms import sent_text
from proxyd.notify.channels.webhook import EndpointGoneError, WebhookChannel, known_secret
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.notify.pings import Pings

__all__ = [
    "AppriseChannel",
    "ChannelResources",
    "Channels",
    "Dispatcher",
    "DispatcherSettings",
    "EndpointGoneError",
    "LeasedChannel",
    "MailChannel",
    "MailSettings",
    "Pings",
    "WebhookChannel",
    "known_secret",
    "make_channels",
    "sent_text",
]
