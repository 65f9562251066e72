"""The kinds of delivery in the language: their words, their JSON members, and how they are printed and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from proxyd.core.language.syntax.quoting import quote_name, quote_text
from proxyd.core.model.delivery import (
    DELIVERIES,
    ChannelDelivery,
    Delivery,
    LogDelivery,
    MailDelivery,
    SecretRef,
    WebhookDelivery,
    WebhookForm,
)

if TYPE_CHECKING:
    from proxyd.core.language.syntax.token_reader import TokenReader
    from proxyd.core.language.syntax.value_checks import Values
    from proxyd.core.model.expression import TextSpan

_LOG_NAME = re.compile(r"[\w-]{1,64}")


@dataclass(frozen=True, slots=True)
class DeliveryPart:
    """One part of a written delivery."""

    name: str  # the attribute that it sets and, except for the first part, its JSON member
    # `str` for a text in single quotes, `int`, `SecretRef`, or an enumeration whose values are keywords
    shape: type[str] | type[int] | type[SecretRef] | type[Enum] = str
    word: str = ""  # the keyword before it; a secret has a keyword of its own
    default: Any = None  # its value if it is not written; `None` if it must be written

    @property
    def choices(self) -> tuple[str, ...]:
        """The keywords that it may be, if it is an enumeration."""
        return tuple(each.value for each in self.shape) if issubclass(self.shape, Enum) else ()

    def read(self, written: Any) -> Any:
        """Return the value of the written form; a keyword becomes its enumeration member, a fraction -1."""
        if self.shape is int:
            number = Decimal(written)
            return int(number) if number == int(number) else -1
        return self.shape(written) if issubclass(self.shape, Enum) else written

    def format(self, value: Any) -> str:
        """Return the written form of a value, after a space; an empty text for the default."""
        if value == self.default:
            return ""
        word = f" {self.word}" if self.word else ""
        if isinstance(value, SecretRef):
            return f"{word} {format_secret(value)}"
        if isinstance(value, int):
            return f"{word} {value}"
        return f"{word} {value.value if isinstance(value, Enum) else quote_text(value)}"


@dataclass(frozen=True, slots=True)
class DeliveryKind:
    """A kind of delivery."""

    # Its class; the class's `kind` is the JSON member of its first part, and in capitals its keyword
    made: Callable[..., Delivery]
    kind: str
    noun: str  # its name for users, after an article
    # The parts after the keyword, in order. Each except the first is a JSON member of its own.
    parts: tuple[DeliveryPart, ...]
    check: Callable[[Values, Any, TextSpan], None]  # reports errors in the values
    parts_fault: str = ""  # the error for JSON members that do not belong together, if there are several

    @property
    def keyword(self) -> str:
        """The keyword that it begins with."""
        return self.kind.upper()

    @property
    def members(self) -> Mapping[str, DeliveryPart]:
        """Its parts by JSON member."""
        return {part.name if n else self.kind: part for n, part in enumerate(self.parts)}


def _check_webhook(values: Values, delivery: WebhookDelivery, span: TextSpan) -> None:
    if delivery.payload not in (0, 1, 2):
        values.reporter.error("PAYLOAD is 1 or 2", span)
    values.url(delivery.url, span)
    values.secret(delivery.secret, span)


def _check_mail(values: Values, delivery: MailDelivery, span: TextSpan) -> None:
    values.mail(delivery.address, span)
    values.can_mail(span)


def _check_channel(values: Values, delivery: ChannelDelivery, span: TextSpan) -> None:
    values.channel(delivery.url, span)


def _check_log(values: Values, delivery: LogDelivery, span: TextSpan) -> None:
    if not _LOG_NAME.fullmatch(delivery.name):
        values.reporter.error(f"LOG takes a short name of letters, digits, '-' and '_'; found {delivery.name!r}", span)


@dataclass(frozen=True, slots=True)
class ReceiverName(Delivery):
    """The name of a receiver in the place of its deliveries; only texts have it, and the checker puts them there."""

    receiver: str
    kind = "receiver"

    @property
    def endpoint(self) -> str:
        """What distinguishes it from addresses."""
        return f"receiver:{self.receiver}"


DELIVERY_KINDS = (
    DeliveryKind(
        WebhookDelivery,
        WebhookDelivery.kind,
        "a webhook with its secret",
        (
            DeliveryPart("url"),
            DeliveryPart("secret", SecretRef),
            DeliveryPart("form", WebhookForm, "FORM", WebhookForm.STANDARD),
            DeliveryPart("payload", int, "PAYLOAD", 0),
        ),
        _check_webhook,
        "a webhook needs a secret; other deliveries take neither a secret, a form nor a payload",
    ),
    DeliveryKind(MailDelivery, MailDelivery.kind, "a mail address", (DeliveryPart("address"),), _check_mail),
    DeliveryKind(ChannelDelivery, ChannelDelivery.kind, "a channel", (DeliveryPart("url"),), _check_channel),
    DeliveryKind(LogDelivery, LogDelivery.kind, "a name in the log", (DeliveryPart("name"),), _check_log),
)
"""Every kind, in the order of the model's ``DELIVERIES``."""

_BY_KIND: Mapping[str, DeliveryKind] = MappingProxyType({each.kind: each for each in DELIVERY_KINDS})
assert list(_BY_KIND) == list(DELIVERIES)
_KEYWORDS = tuple(kind.keyword for kind in DELIVERY_KINDS)


def kind_of(delivery: Delivery) -> DeliveryKind:
    """Return the kind of a delivery."""
    return _BY_KIND[delivery.kind]


def parse_delivery(parser: TokenReader) -> Delivery:
    """Return a delivery, or the name of a receiver in double quotes."""
    if parser.token.shape == "QUOTED":
        return ReceiverName(parser.advance().value)
    return parse_own_delivery(parser)


def parse_own_delivery(parser: TokenReader) -> Delivery:
    """Return a delivery: a keyword of DELIVERY_KINDS and the parts that are described there; some may be left out."""
    kind = _BY_KIND[parser.expect_one(_KEYWORDS).lower()]
    given: dict[str, Any] = {}
    for part in kind.parts:
        if part.word and part.default is None:
            parser.expect(part.word)
        elif part.word and not parser.take(part.word):
            continue
        given[part.name] = part.read(_parse_part(parser, part))
    return kind.made(**given)


def _parse_part(parser: TokenReader, part: DeliveryPart) -> Any:
    if part.shape is SecretRef:
        return parse_secret(parser)
    if part.choices:
        return parser.expect_one(part.choices)
    return parser.expect_value("NUMBER" if part.shape is int else "TEXT").value


def parse_secret(parser: TokenReader) -> SecretRef:
    """secret = SECRET (ENV | FILE) TEXT"""
    parser.expect("SECRET")
    return SecretRef(parser.expect_one(("ENV", "FILE")).lower(), parser.expect_value("TEXT").value)


def format_delivery(delivery: Delivery) -> str:
    """Return a delivery in its written form.

    >>> format_delivery(WebhookDelivery("https://a.example/", SecretRef("env", "SECRET_A"), WebhookForm.GITHUB))
    "WEBHOOK 'https://a.example/' SECRET ENV 'SECRET_A' FORM GITHUB"
    """
    if isinstance(delivery, ReceiverName):
        return quote_name(delivery.receiver)
    kind = kind_of(delivery)
    return kind.keyword + "".join(part.format(getattr(delivery, part.name)) for part in kind.parts)


def format_secret(secret: SecretRef) -> str:
    """Return the place of a secret in its written form."""
    return f"SECRET {secret.kind.upper()} {quote_text(secret.name)}"


def delivery_words() -> Iterator[str]:
    """Yield the keywords of deliveries; a secret has its own.

    >>> list(delivery_words())[:4]
    ['WEBHOOK', 'FORM', 'STANDARD', 'GITHUB']
    """
    for kind in DELIVERY_KINDS:
        yield kind.keyword
        for part in kind.parts:
            yield from (word for word in (part.word, *part.choices) if word)
