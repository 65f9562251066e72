"""From the outbox to where people are."""

from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.notify.webhook import EndpointGoneError, WebhookChannel

__all__ = ["Dispatcher", "DispatcherSettings", "EndpointGoneError", "WebhookChannel"]
