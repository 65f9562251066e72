"""Declarations as JSON: the members of each statement; short clauses stay texts of the rule language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, create_model, model_validator

from proxyd.api.wire.base_models import Text, WireModel
from proxyd.core.language.syntax.clauses import PROFILE_OPTIONS, RULE_CLAUSES, SOURCE_OPTIONS, Clause, JsonForm
from proxyd.core.language.syntax.delivery_kinds import DELIVERY_KINDS, DeliveryPart
from proxyd.core.language.syntax.readers import READER_KINDS
from proxyd.core.model.delivery import SecretRef

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
        json_schema_extra={"description": f"A delivery: {', '.join(_NOUNS)}, or a receiver's name."}
    )
    receiver: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        kinds = [kind for kind in DELIVERY_KINDS if getattr(self, kind.kind) is not None]
        if len(kinds) + (self.receiver is not None) != 1:
            raise ValueError(f"give exactly one of {', '.join(kind.kind for kind in DELIVERY_KINDS)} and receiver")
        own = kinds[0].members if kinds else {}
        for kind in DELIVERY_KINDS:
            for member, part in kind.members.items():
                is_given = getattr(self, member) is not None
                if (is_given and member not in own) or (not is_given and part.default is None and kind in kinds):
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


_OBJECTS: Mapping[str, Any] = {
    "headers": HeaderWritten,
    "auth": AuthWritten,
    "deliveries": DeliveryWritten,
    "trouble": DeliveryWritten,
}


def _clause_member(clause: Clause) -> Any:
    """Return the type of a clause's member, and its default."""
    shown: dict[str, Any] = {"description": clause.description, "examples": list(clause.examples) or None}
    if clause.form is JsonForm.FLAG:
        return bool, Field(default=False, **shown)
    if clause.form is JsonForm.NAMES:
        return list[Text], Field(default_factory=list, **shown)
    if clause.form is JsonForm.OBJECTS:
        return GenericAlias(list, _OBJECTS[clause.attribute]), Field(default_factory=list, **shown)
    if clause.form is JsonForm.OBJECT:
        return _OBJECTS[clause.attribute] | None, Field(default=None, **shown)
    text: Any = Text if clause.form is JsonForm.CLAUSE else str
    return (Literal[clause.value.choices] if clause.value.choices else text) | None, Field(default=None, **shown)


def _with_clauses(name: str, base: type[WireModel], clauses: Iterable[Clause], **own: Any) -> Any:
    """Return a model of a statement: the members of its head, and one for each clause."""
    members = {clause.member: _clause_member(clause) for clause in clauses if clause.form is not None}
    return create_model(name, __base__=base, __doc__=base.__doc__, **members | own)


class _SourceHead(WireModel):
    """``CREATE SOURCE``."""

    name: Text
    page_class: Text = Field(alias="class")
    domain: Text | None = Field(default=None, description="domain of the class, if its name is in several domains")
    url: str


class _ProfileHead(WireModel):
    """``CREATE PROFILE``."""

    name: Text
    domains: list[Text] = Field(default_factory=list)
    languages: list[Text] = Field(default_factory=list)
    users: list[Text] = Field(default_factory=list)


class _RuleHead(WireModel):
    """``INSERT NOTIFICATION``; an empty list of deliveries is ``SET DELIVERY NONE``."""

    name: Text


if TYPE_CHECKING:
    SourceWritten: TypeAlias = _SourceHead
    ProfileWritten: TypeAlias = _ProfileHead
    NotificationWritten: TypeAlias = _RuleHead
else:
    SourceWritten = _with_clauses("SourceWritten", _SourceHead, SOURCE_OPTIONS)
    ProfileWritten = _with_clauses("ProfileWritten", _ProfileHead, PROFILE_OPTIONS)
    NotificationWritten = _with_clauses(
        "NotificationWritten", _RuleHead, RULE_CLAUSES, deliveries=(list[DeliveryWritten] | None, None)
    )


class ReceiverWritten(WireModel):
    """``CREATE RECEIVER``; ``to`` names no other receiver."""

    name: Text
    to: list[DeliveryWritten] = Field(min_length=1)

    @model_validator(mode="after")
    def _of_its_own(self) -> Self:
        if any(each.receiver is not None for each in self.to):
            raise ValueError("a receiver cannot be a part of another one")
        return self


class DropWritten(WireModel):
    """``DROP``."""

    kind: Literal["PROFILE", "NOTIFICATION", "SOURCE", "DOMAIN", "RECEIVER"]
    name: Text


class DeclarationWritten(WireModel):
    """A declaration as JSON."""

    drop: list[DropWritten] = Field(default_factory=list)
    domains: list[DomainWritten] = Field(default_factory=list)
    sources: list[SourceWritten] = Field(default_factory=list)
    profiles: list[ProfileWritten] = Field(default_factory=list)
    receivers: list[ReceiverWritten] = Field(default_factory=list)
    notifications: list[NotificationWritten] = Field(default_factory=list)
