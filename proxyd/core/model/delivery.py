"""Destinations of notifications: one class for each kind of delivery."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import ClassVar

SECRET_PREFIX = "SECRET_"
"""What begins the names of the environment variables that profiles may name."""


@dataclass(frozen=True, slots=True)
class SecretRef:
    """The place of a secret: an environment variable or a file of the secrets folder. Never its value."""

    kind: str  # "env" or "file"
    name: str


class Delivery(ABC):
    """A destination of notifications; ``kind`` names the channel, and the outbox stores it.

    ``receiver`` is the name of the receiver that it is a part of; people are shown that, and not the address.
    """

    __slots__ = ()
    kind: ClassVar[str]
    is_secret: ClassVar[bool] = False  # its address holds tokens, and is not shown to people
    receiver: str

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The address, which distinguishes the deliveries of a rule."""


class WebhookForm(Enum):
    """How a webhook is signed and shaped."""

    STANDARD = "STANDARD"
    GITHUB = "GITHUB"
    CLOUDEVENTS = "CLOUDEVENTS"


@dataclass(frozen=True, slots=True)
class WebhookDelivery(Delivery):
    """``WEBHOOK 'https://...' SECRET ENV 'NAME' [FORM ...] [PAYLOAD 1|2]``; ``payload`` 0 is not given, and means 1."""

    url: str
    secret: SecretRef
    form: WebhookForm = WebhookForm.STANDARD
    payload: int = 0
    receiver: str = ""
    kind: ClassVar[str] = "webhook"

    @property
    def endpoint(self) -> str:
        """The URL."""
        return self.url


@dataclass(frozen=True, slots=True)
class MailDelivery(Delivery):
    """``MAIL 'a@b'``."""

    address: str
    receiver: str = ""
    kind: ClassVar[str] = "mail"

    @property
    def endpoint(self) -> str:
        """The mail address."""
        return self.address


@dataclass(frozen=True, slots=True)
class ChannelDelivery(Delivery):
    """``CHANNEL 'url'``."""

    url: str
    receiver: str = ""
    kind: ClassVar[str] = "channel"
    is_secret: ClassVar[bool] = True

    @property
    def endpoint(self) -> str:
        """The URL of the channel."""
        return self.url


@dataclass(frozen=True, slots=True)
class LogDelivery(Delivery):
    """``LOG 'name'``."""

    name: str
    receiver: str = ""
    kind: ClassVar[str] = "log"

    @property
    def endpoint(self) -> str:
        """The name after a prefix that distinguishes it from addresses."""
        return f"log:{self.name}"


DELIVERIES: Mapping[str, type[Delivery]] = MappingProxyType(
    {made.kind: made for made in (WebhookDelivery, MailDelivery, ChannelDelivery, LogDelivery)}
)
"""The classes of deliveries by their kind, in the order in which they are named to users."""


def shown_endpoint(kind: str, endpoint: str, receiver: str = "") -> str:
    """Return an endpoint for people to read, which is the name of its receiver; tokens of channels are hidden.

    >>> shown_endpoint("channel", "tgram://token/chat"), shown_endpoint("mail", "a@example.org", "team")
    ('tgram://[hidden]', 'receiver team')
    """
    if receiver:
        return f"receiver {receiver}"
    made = DELIVERIES.get(kind)  # the outbox may hold kinds of a later version
    return endpoint.partition("://")[0] + "://[hidden]" if made is None or made.is_secret else endpoint
