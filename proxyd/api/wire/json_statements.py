"""Writing declarations in JSON: statements as models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from proxyd.api.wire import statement_models as models
from proxyd.core.language import (
    CreateDomain,
    CreateProfile,
    CreateSource,
    DropStatement,
    InsertNotification,
    Located,
    Statement,
    format_digest,
    format_options,
    format_select,
    format_settings,
    format_trigger,
)
from proxyd.core.language.deliveries import kind_of
from proxyd.core.language.nodes import ClassDeclaration, FieldDeclaration
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.profile import Extraction


def written(statements: Iterable[Statement]) -> models.DeclarationWritten:
    """Return statements as a JSON declaration; comments are lost. Every WATCH is expanded before."""
    found: dict[str, list[Any]] = {name: [] for name in models.DeclarationWritten.model_fields}
    for statement in statements:
        match statement:
            case CreateDomain():
                classes = [_class(each) for each in statement.classes]
                found["domains"].append(models.DomainWritten(name=statement.name.value, classes=classes))
            case CreateSource():
                found["sources"].append(_source(statement))
            case CreateProfile():
                found["profiles"].append(_profile(statement))
            case InsertNotification():
                found["notifications"].append(_notification(statement))
            case DropStatement():
                found["drop"].append(models.DropWritten(kind=statement.kind.value, name=statement.name.value))
    return models.DeclarationWritten(**found)


def _values(located: Sequence[Located[str]]) -> list[str]:
    return [each.value for each in located]


def _class(declared: ClassDeclaration) -> models.ClassWritten:
    return models.ClassWritten(
        name=declared.name.value,
        fields=[_field(each) for each in declared.fields],
        each=_reader(declared.each),
        key=_values(declared.key),
    )


def _field(declared: FieldDeclaration) -> models.FieldWritten:
    return models.FieldWritten(
        path=declared.path.value,
        type=declared.type.value,
        or_null=declared.is_nullable,
        found=_reader(declared.extraction),
    )


def _reader(extraction: Located[Extraction] | None) -> models.ReaderWritten | None:
    if extraction is None:
        return None
    return models.ReaderWritten(reader=extraction.value.reader.value, selector=extraction.value.selector)


def _source(source: CreateSource) -> models.SourceWritten:
    options = _members(format_options(source), ("POLITENESS", "EXPECT", "FRESHNESS", "WEBSUB", "ROBOTS", "BACKOFF"))
    auth = None if source.auth is None else source.auth.value
    return models.SourceWritten(
        **{"class": source.page_class.name},
        name=source.name.value,
        domain=source.page_class.domain,
        url=source.url.value,
        zone=None if source.zone is None else source.zone.value,
        locale=None if source.locale is None else source.locale.value,
        headers=[_header(*each.value) for each in source.headers],
        post=None if source.post is None else source.post.value,
        fetch=None if source.browser is None else "BROWSER",
        wait_for=None if source.wait_for is None else source.wait_for.value,
        auth=None if auth is None else models.AuthWritten(user=auth.user, secret=_secret(auth.secret)),
        **options,
    )


def _header(name: str, value: str | SecretRef) -> models.HeaderWritten:
    if isinstance(value, str):
        return models.HeaderWritten(name=name, value=value)
    return models.HeaderWritten(name=name, secret=_secret(value))


def _members(lines: Iterable[str], titles: Sequence[str]) -> dict[str, Any]:
    """Return the text after each of these titles, by member."""
    found = {}
    for line in lines:
        for title in titles:
            if line.startswith(f"{title} "):
                found[title.rpartition(" ")[2].lower()] = line.removeprefix(f"{title} ")
    return found


def _profile(profile: CreateProfile) -> models.ProfileWritten:
    return models.ProfileWritten(
        name=profile.name.value,
        domains=_values(profile.domains),
        languages=_values(profile.languages),
        users=_values(profile.users),
        deliveries=[_delivery(each.value) for each in profile.deliveries],
        digest=None if profile.digest is None else format_digest(profile.digest.value),
        trouble=[_delivery(each.value) for each in profile.trouble],
    )


def _notification(rule: InsertNotification) -> models.NotificationWritten:
    titles = (
        "START",
        "END",
        *(f"SET {each}" for each in ("UTILITY", "LIFE", "TARGET", "IMPORTANCE", "POLICY", "DIGEST", "LIMIT", "EMPTY")),
    )
    deliveries = [_delivery(each.value) for each in rule.deliveries]
    return models.NotificationWritten(
        name=rule.name.value,
        profiles=_values(rule.profiles),
        sources=_values(rule.sources),
        query=None if rule.query is None else format_select(rule.query),
        trigger=None if rule.trigger is None else format_trigger(rule.trigger),
        deliveries=deliveries if deliveries or rule.no_delivery else None,
        screenshot=rule.screenshot is not None,
        message=None if rule.message is None else rule.message.value,
        **_members(format_settings(rule), titles),
    )


def _delivery(delivery: Delivery) -> models.DeliveryWritten:
    members = kind_of(delivery).members.items()
    return models.DeliveryWritten(**{member: _member(getattr(delivery, part.name)) for member, part in members})


def _member(value: Any) -> Any:
    if isinstance(value, SecretRef):
        return _secret(value)
    return value.value if isinstance(value, Enum) else value


def _secret(secret: SecretRef) -> models.SecretWritten:
    return models.SecretWritten(**{secret.kind: secret.name})
