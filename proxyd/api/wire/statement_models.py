"""Declarations as JSON: the members of each statement; short clauses stay texts of the rule language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, create_model, model_validator

from proxyd.api.wire.base_models import Text, WireModel
from proxyd.core.language.deliveries import DELIVERY_KINDS, DeliveryPart
from proxyd.core.language.readers import READER_KINDS
from proxyd.core.model.delivery import SecretRef

Clause = Text
"""A clause in the rule language, without its keyword."""
Obeys = Literal["OBEY", "IGNORE"]
if TYPE_CHECKING:
    ReaderName: TypeAlias = str
else:
    ReaderName = Literal[tuple(reader.value for reader in READER_KINDS)]


class SecretWritten(WireModel):
    """The place of a secret: an environment variable or a file in the secrets folder."""

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("give either env or file")
        return self


def _member_type(part: DeliveryPart) -> Any:
    """Return the JSON type of a part of a delivery."""
    if part.choices:
        return Literal[part.choices]
    return SecretWritten if part.shape is SecretRef else part.shape


if TYPE_CHECKING:
    _DeliveryMembers = WireModel
else:  # a member for each part of each kind
    _DeliveryMembers = create_model(
        "_DeliveryMembers",
        __base__=WireModel,
        **{
            member: (_member_type(part) | None, None)
            for kind in DELIVERY_KINDS
            for member, part in kind.members.items()
        },
    )


_NOUNS = [kind.noun for kind in DELIVERY_KINDS]


class DeliveryWritten(_DeliveryMembers):
    """A receiver of notifications."""

    model_config = ConfigDict(
        json_schema_extra={"description": f"A receiver of notifications: {', '.join(_NOUNS[:-1])}, or {_NOUNS[-1]}."}
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        kinds = [kind for kind in DELIVERY_KINDS if getattr(self, kind.kind) is not None]
        if len(kinds) != 1:
            *first, last = (kind.kind for kind in DELIVERY_KINDS)
            raise ValueError(f"give exactly one of {', '.join(first)} and {last}")
        own = kinds[0].members
        for kind in DELIVERY_KINDS:
            for member, part in kind.members.items():
                is_given = getattr(self, member) is not None
                if (is_given and member not in own) or (not is_given and part.default is None and kind is kinds[0]):
                    raise ValueError(kind.parts_fault)
        return self


class ReaderWritten(WireModel):
    """The selector of a value or a row in a page."""

    reader: ReaderName
    selector: str


class FieldWritten(WireModel):
    """A field of a class; `found` is its selector if the class is not a feed.

    `or_null` says that the value of a page's field may be missing by design.
    """

    path: Text
    type: Literal["String", "Integer", "Decimal", "Boolean", "Timestamp", "URL"]
    or_null: bool = False
    found: ReaderWritten | None = None


class ClassWritten(WireModel):
    """A class: the fields of a kind of feed or page."""

    name: Text
    fields: list[FieldWritten] = Field(default_factory=list)
    each: ReaderWritten | None = None
    key: list[Text] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rows_have_fields(self) -> Self:
        if (self.each is not None or self.key) and not self.fields:
            raise ValueError("each and key need fields")
        if self.key and self.each is None:
            raise ValueError("key needs each, the selector of the rows")
        return self


class DomainWritten(WireModel):
    """``CREATE DOMAIN``."""

    name: Text
    classes: Annotated[list[ClassWritten], Field(min_length=1)]


class AuthWritten(WireModel):
    """``AUTH``: Basic with a user, otherwise Bearer."""

    user: str | None = None
    secret: SecretWritten


class HeaderWritten(WireModel):
    """``HEADER``: a value, or the place of a secret one."""

    name: str
    value: str | None = None
    secret: SecretWritten | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.value is None) == (self.secret is None):
            raise ValueError("give either value or secret")
        return self


class SourceWritten(WireModel):
    """``CREATE SOURCE``."""

    name: Text
    page_class: Text = Field(alias="class")
    domain: Text | None = Field(default=None, description="domain of the class, if its name is in several domains")
    url: str
    politeness: Clause | None = Field(default=None, examples=["12 PROBES PER HOUR, SPACING 2 MINUTES"])
    expect: Clause | None = Field(default=None, examples=["3 PER DAY"])
    zone: str | None = None
    locale: str | None = Field(default=None, examples=["de", "en-US"])
    freshness: Obeys | None = None
    headers: list[HeaderWritten] = Field(default_factory=list)
    auth: AuthWritten | None = None
    post: str | None = Field(default=None, description="the body of METHOD POST; empty for one without a body")
    websub: Literal["ON", "OFF"] | None = None
    robots: Obeys | None = None
    backoff: Literal["ON", "OFF"] | None = None
    fetch: Literal["BROWSER"] | None = Field(default=None, description="whether a browser runs the page's scripts")
    wait_for: str | None = Field(
        default=None, description="CSS selector that the browser waits for", examples=["li.result"]
    )


class ProfileWritten(WireModel):
    """``CREATE PROFILE``."""

    name: Text
    domains: list[Text] = Field(default_factory=list)
    languages: list[Text] = Field(default_factory=list)
    users: list[Text] = Field(default_factory=list)
    deliveries: list[DeliveryWritten] = Field(default_factory=list)
    digest: Clause | None = Field(default=None, examples=["DAILY AT '08:00' IN 'Europe/Berlin'"])
    trouble: list[DeliveryWritten] = Field(
        default_factory=list, description="who is told when a source of the profile fails, moves or goes empty"
    )


class NotificationWritten(WireModel):
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
    target: Clause | None = Field(default=None, examples=["95 %"])
    importance: Clause | None = Field(default=None, examples=["3 DURING 'Mon-Fri 09:00-18:00', 1 OTHERWISE"])
    policy: Clause | None = Field(default=None, examples=["AUTO", "UNIFORM(15 MINUTES)"])
    deliveries: list[DeliveryWritten] | None = None
    digest: Clause | None = Field(default=None, examples=["EVERY 1 HOUR AT MOST 20 ITEMS", "NONE"])
    limit: Clause | None = Field(default=None, examples=["1 PER DAY PER SOURCE"])
    empty: Literal["DELIVER"] | None = None
    screenshot: bool = Field(default=False, description="whether a picture of the page is kept with each notification")
    message: str | None = Field(default=None, examples=["{title} {link}"])


class DropWritten(WireModel):
    """``DROP``."""

    kind: Literal["PROFILE", "NOTIFICATION", "SOURCE", "DOMAIN"]
    name: Text


class DeclarationWritten(WireModel):
    """A declaration as JSON."""

    drop: list[DropWritten] = Field(default_factory=list)
    domains: list[DomainWritten] = Field(default_factory=list)
    sources: list[SourceWritten] = Field(default_factory=list)
    profiles: list[ProfileWritten] = Field(default_factory=list)
    notifications: list[NotificationWritten] = Field(default_factory=list)
