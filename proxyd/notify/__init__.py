"""From the outbox to where people are."""

from proxyd.notify.channel import AppriseChannel
from proxyd.notify.channels import Channels
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.notify.mail import MailChannel, MailSettings
from proxyd.notify.pings import Pings
from proxyd.notify.webhook import EndpointGoneError, WebhookChannel, known_secret

__all__ = [
    "AppriseChannel",
    "Channels",
    "Dispatcher",
    "DispatcherSettings",
    "EndpointGoneError",
    "MailChannel",
    "MailSettings",
    "Pings",
    "WebhookChannel",
    "known_secret",
]
