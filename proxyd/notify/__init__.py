"""Delivers messages from the outbox to people and their systems."""

from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.channel_routing import Channels, LeasedChannel, make_channels
from proxyd.notify.channels.message_forms import sent_text
from proxyd.notify.channels.webhook import known_secret
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.notify.pings import Pings

__all__ = [
    "ChannelResources",
    "Channels",
    "Dispatcher",
    "DispatcherSettings",
    "LeasedChannel",
    "Pings",
    "known_secret",
    "make_channels",
    "sent_text",
]
