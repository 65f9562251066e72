"""Declarations as JSON: the members of each statement, whose small clauses stay as the language writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from proxyd.api.models import ProfileListed, Text, Wire
from proxyd.language import (
    CreateDomain,
    CreateProfile,
    CreateSource,
    InsertNotification,
    Located,
    Statement,
    format_options,
    format_select,
    format_settings,
    format_trigger,
)
from proxyd.language.nodes import ClassDeclaration, FieldDeclaration
from proxyd.model.profile import Delivery, Extraction, MailDelivery, SecretRef, WebhookDelivery

Clause = Annotated[str, Field(min_length=1, max_length=2000)]
"""A clause as the language writes it, without the words before it."""
Obeys = Literal["OBEY", "IGNORE"]


class SecretWritten(Wire):
    """Where a secret is: a variable of the environment or a file of the secrets folder."""

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("either env or file is given")
        return self


class DeliveryWritten(Wire):
    """Where notifications go: a webhook with its secret, a mail address, or a channel."""

    webhook: str | None = None
    secret: SecretWritten | None = None
    form: Literal["STANDARD", "GITHUB", "CLOUDEVENTS"] | None = None
    mail: str | None = None
    channel: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(way is not None for way in (self.webhook, self.mail, self.channel)) != 1:
            raise ValueError("one of webhook, mail and channel is given")
        if (self.webhook is None) != (self.secret is None) or (self.form is not None and self.webhook is None):
            raise ValueError("a webhook has a secret, and nothing else has one or a form")
        return self


class ReaderWritten(Wire):
    """How a value or a row is found in a page."""

    reader: Literal["JSON", "CSS", "XPATH"]
    selector: str


class FieldWritten(Wire):
    """A field of a class; where it is no feed's, with how it is found."""

    path: Text
    type: Literal["String", "Integer", "Decimal", "Boolean", "Timestamp", "URL"]
    found: ReaderWritten | None = None


class ClassWritten(Wire):
    """A class of pages."""

    name: Text
    fields: list[FieldWritten] = Field(default_factory=list)
    each: ReaderWritten | None = None
    key: list[Text] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rows_have_fields(self) -> Self:
        if (self.each is not None or self.key) and not self.fields:
            raise ValueError("rows have fields")
        if self.key and self.each is None:
            raise ValueError("a key is of rows: say how each is found")
        return self


class DomainWritten(Wire):
    """``CREATE DOMAIN``."""

    name: Text
    classes: Annotated[list[ClassWritten], Field(min_length=1)]


class AuthWritten(Wire):
    """``AUTH``: Basic where there is a user, else Bearer."""

    user: str | None = None
    secret: SecretWritten


class HeaderWritten(Wire):
    """``HEADER``."""

    name: str
    value: str


class SourceWritten(Wire):
    """``CREATE SOURCE``."""

    name: Text
    page_class: Text = Field(alias="class")
    domain: Text | None = Field(default=None, description="of the class, where two domains have one of this name")
    url: str
    politeness: Clause | None = Field(default=None, examples=["12 PROBES PER HOUR, SPACING 2 MINUTES"])
    expect: Clause | None = Field(default=None, examples=["3 PER DAY"])
    zone: str | None = None
    freshness: Obeys | None = None
    headers: list[HeaderWritten] = Field(default_factory=list)
    auth: AuthWritten | None = None
    websub: Literal["ON", "OFF"] | None = None
    robots: Obeys | None = None


class ProfileWritten(Wire):
    """``CREATE PROFILE``."""

    name: Text
    domains: list[Text] = Field(default_factory=list)
    languages: list[Text] = Field(default_factory=list)
    users: list[Text] = Field(default_factory=list)
    deliveries: list[DeliveryWritten] = Field(default_factory=list)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.domains or self.languages or self.users):
            raise ValueError("a profile has at least one domain")
        return self


class NotificationWritten(Wire):
    """``INSERT NOTIFICATION``; an empty list of deliveries is ``SET DELIVERY NONE``."""

    name: Text
    profiles: list[Text] = Field(default_factory=list)
    sources: list[Text] = Field(default_factory=list)
    query: str | None = None
    trigger: str | None = None
    start: Clause | None = Field(default=None, examples=["NOW", "'2026-01-31T12:00:00Z'"])
    end: Clause | None = Field(default=None, examples=["NEVER", "NOW + '30 days'"])
    utility: Clause | None = Field(default=None, examples=["STRICT", "LINEAR(30 MINUTES)"])
    life: Clause | None = Field(default=None, examples=["OVERWRITE", "WINDOW(5 MINUTES)"])
    importance: Clause | None = Field(default=None, examples=["3 DURING 'Mon-Fri 09:00-18:00', 1 OTHERWISE"])
    policy: Clause | None = Field(default=None, examples=["AUTO", "UNIFORM(15 MINUTES)"])
    deliveries: list[DeliveryWritten] | None = None
    digest: Clause | None = Field(default=None, examples=["EVERY 1 HOUR AT MOST 20 ITEMS"])


class DropWritten(Wire):
    """``DROP``."""

    kind: Literal["PROFILE", "NOTIFICATION", "SOURCE", "DOMAIN"]
    name: Text


class DeclarationWritten(Wire):
    """A declaration as JSON."""

    drop: list[DropWritten] = Field(default_factory=list)
    domains: list[DomainWritten] = Field(default_factory=list)
    sources: list[SourceWritten] = Field(default_factory=list)
    profiles: list[ProfileWritten] = Field(default_factory=list)
    notifications: list[NotificationWritten] = Field(default_factory=list)


class ProfileShown(ProfileListed):
    """A client profile with its text in the canonical layout, and the same as JSON."""

    text: str
    declared: DeclarationWritten


# -- from statements


def written(statements: Iterable[Statement]) -> DeclarationWritten:
    """Return what statements say; comments are not kept."""
    found: dict[str, list[Any]] = {name: [] for name in DeclarationWritten.model_fields}
    for statement in statements:
        match statement:
            case CreateDomain():
                classes = [_class(each) for each in statement.classes]
                found["domains"].append(DomainWritten(name=statement.name.value, classes=classes))
            case CreateSource():
                found["sources"].append(_source(statement))
            case CreateProfile():
                found["profiles"].append(_profile(statement))
            case InsertNotification():
                found["notifications"].append(_notification(statement))
            case _:
                found["drop"].append(DropWritten(kind=statement.kind.value, name=statement.name.value))
    return DeclarationWritten(**found)


def _values(located: Sequence[Located[str]]) -> list[str]:
    return [each.value for each in located]


def _class(declared: ClassDeclaration) -> ClassWritten:
    return ClassWritten(
        name=declared.name.value,
        fields=[_field(each) for each in declared.fields],
        each=_reader(declared.each),
        key=_values(declared.key),
    )


def _field(declared: FieldDeclaration) -> FieldWritten:
    return FieldWritten(path=declared.path.value, type=declared.type.value, found=_reader(declared.extraction))


def _reader(extraction: Located[Extraction] | None) -> ReaderWritten | None:
    if extraction is None:
        return None
    return ReaderWritten(reader=extraction.value.reader.value, selector=extraction.value.selector)


def _source(source: CreateSource) -> SourceWritten:
    options = _members(format_options(source), ("POLITENESS", "EXPECT", "FRESHNESS", "WEBSUB", "ROBOTS"))
    auth = None if source.auth is None else source.auth.value
    return SourceWritten(
        **{"class": source.page_class.name},
        name=source.name.value,
        domain=source.page_class.domain,
        url=source.url.value,
        zone=None if source.zone is None else source.zone.value,
        headers=[HeaderWritten(name=each.value[0], value=each.value[1]) for each in source.headers],
        auth=None if auth is None else AuthWritten(user=auth.user, secret=_secret(auth.secret)),
        **options,
    )


def _members(lines: Iterable[str], titles: Sequence[str]) -> dict[str, Any]:
    """Return by member what is written after each of these titles."""
    found = {}
    for line in lines:
        for title in titles:
            if line.startswith(f"{title} "):
                found[title.rpartition(" ")[2].lower()] = line.removeprefix(f"{title} ")
    return found


def _profile(profile: CreateProfile) -> ProfileWritten:
    return ProfileWritten(
        name=profile.name.value,
        domains=_values(profile.domains),
        languages=_values(profile.languages),
        users=_values(profile.users),
        deliveries=[_delivery(each.value) for each in profile.deliveries],
    )


def _notification(rule: InsertNotification) -> NotificationWritten:
    titles = ("START", "END", *(f"SET {each}" for each in ("UTILITY", "LIFE", "IMPORTANCE", "POLICY", "DIGEST")))
    deliveries = [_delivery(each.value) for each in rule.deliveries]
    return NotificationWritten(
        name=rule.name.value,
        profiles=_values(rule.profiles),
        sources=_values(rule.sources),
        query=None if rule.query is None else format_select(rule.query),
        trigger=None if rule.trigger is None else format_trigger(rule.trigger),
        deliveries=deliveries if deliveries or rule.no_delivery else None,
        **_members(format_settings(rule), titles),
    )


def _delivery(delivery: Delivery) -> DeliveryWritten:
    if isinstance(delivery, WebhookDelivery):
        secret = _secret(delivery.secret)
        return DeliveryWritten(webhook=delivery.url, secret=secret, form=delivery.form.value)
    if isinstance(delivery, MailDelivery):
        return DeliveryWritten(mail=delivery.address)
    return DeliveryWritten(channel=delivery.url)


def _secret(secret: SecretRef) -> SecretWritten:
    return SecretWritten(**{secret.kind: secret.name})
