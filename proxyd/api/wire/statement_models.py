"""Declarations as JSON: the members of each statement, whose small clauses stay as the language writes them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from proxyd.api.wire.base_models import Text, Wire

Clause = Text
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
