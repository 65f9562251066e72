"""What somebody declares who writes only some profiles: names get their owner; what is not theirs is an error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from proxyd.core.errors import RuleCheckError
from proxyd.core.language.checking.watches import DEFAULT_PROFILE
from proxyd.core.language.syntax.nodes import (
    CreateProfile,
    CreateReceiver,
    CreateSource,
    CreateSources,
    DropStatement,
    InsertNotification,
    Located,
    Parsed,
    Statement,
    StatementKind,
    Watch,
)
from proxyd.core.model.delivery import Delivery, SecretRef, WebhookDelivery
from proxyd.core.model.profile import full_name

IsDeclared: TypeAlias = Callable[[StatementKind, str], bool]
"""Whether the API has declared something of this kind and full name."""
Signed: TypeAlias = Collection[tuple[str, SecretRef]]
"""The addresses of webhooks, with the secrets by which what is sent there is signed already."""
_NO_SECRETS = "where secrets are used is said by whoever writes all profiles; leave it out, or ask them to declare this"


def give_owners(parsed: Parsed, owners: Sequence[str], is_declared: IsDeclared, signed: Signed) -> Parsed:
    """Return a text in which each declared name is that of its owner, with errors for what is not in these profiles.

    A profile owns itself, a rule belongs to the first profile of its INTO, and all else to the profile of the text: the
    only one that it names, or the first of ``owners``. What one of them has declared before stays with it.
    """
    owning = _Owning(parsed, owners, is_declared, signed)
    statements = tuple(map(owning.statement, parsed.statements))
    errors = (*parsed.errors, *owning.errors)
    return replace(parsed, source=replace(parsed.source, is_owned=True), statements=statements, errors=errors)


def default_owner(owners: Sequence[str]) -> str:
    """Return to whom something belongs that names no profile."""
    return DEFAULT_PROFILE if DEFAULT_PROFILE in owners else owners[0]


class _Owning:
    """The owners of the statements of a text."""

    def __init__(self, parsed: Parsed, owners: Sequence[str], is_declared: IsDeclared, signed: Signed) -> None:
        self._source = parsed.source
        self._owners = owners
        self._is_declared = is_declared
        self._signed = signed
        self._default = default_owner(owners)
        named = {each.value for statement in parsed.statements for each in _profiles(statement)} & set(owners)
        self._of_text = named.pop() if len(named) == 1 else self._default
        self.errors: list[RuleCheckError] = []

    def statement(self, statement: Statement) -> Statement:
        """Return a statement as it is kept; notes what is not allowed in it."""
        for profile in _profiles(statement):
            if profile.value not in self._owners:
                self._refuse(f"you write only {profiles_in_words(self._owners)}, not {profile.value!r}", profile)
        for secret in self._secrets(statement):
            self._refuse(_NO_SECRETS, secret)
        match statement:
            case CreateProfile() | CreateSources():
                return statement
            case DropStatement(kind=StatementKind.PROFILE):
                return statement
            case InsertNotification() | Watch():
                return self._rule(statement)
        return replace(statement, name=self._full_name(statement.kind, statement.name, self._of_text))

    def _rule(self, statement: InsertNotification | Watch) -> Statement:
        profiles = statement.profiles
        if not profiles and isinstance(statement, Watch):
            profiles = (Located(self._of_text, statement.url.span),)
        name = self._full_name(statement.kind, statement.name, profiles[0].value if profiles else self._default)
        if isinstance(statement, Watch):
            return replace(statement, rule_name=name, profiles=profiles)
        return replace(statement, name=name)

    def _full_name(self, kind: StatementKind, name: Located[str], owner: str) -> Located[str]:
        before = (each for each in self._owners if self._is_declared(kind, full_name(each, name.value)))
        return replace(name, value=full_name(next(before, owner), name.value))

    def _secrets(self, statement: Statement) -> Iterable[Located[object]]:
        """Yield where a statement sends or signs with a secret; a server of their own would learn what others sign."""
        if isinstance(statement, CreateSource):
            if statement.auth is not None:
                yield statement.auth
            yield from (each for each in statement.headers if isinstance(each.value[1], SecretRef))
        for each in _deliveries(statement):
            its = each.value
            if isinstance(its, WebhookDelivery) and (its.url, its.secret) not in self._signed:
                yield each

    def _refuse(self, message: str, at: Located[object]) -> None:
        text, span = self._source, at.span
        self.errors.append(RuleCheckError(message, text=text.text, start=span.start, stop=span.stop, file=text.file))


def _profiles(statement: Statement) -> Sequence[Located[str]]:
    match statement:
        case CreateProfile() | DropStatement(kind=StatementKind.PROFILE):
            return (statement.name,)
        case InsertNotification() | Watch():
            return statement.profiles
    return ()


def _deliveries(statement: Statement) -> Sequence[Located[Delivery]]:
    match statement:
        case CreateProfile():
            return (*statement.deliveries, *statement.trouble)
        case CreateReceiver():
            return statement.to
        case InsertNotification() | Watch():
            return statement.deliveries
    return ()


def profiles_in_words(profiles: Sequence[str]) -> str:
    """Return profiles for people.

    >>> profiles_in_words(["news"]), profiles_in_words(["a", "b"])
    ("the profile 'news'", "the profiles 'a', 'b'")
    """
    return f"the profile{'s' * (len(profiles) > 1)} {', '.join(map(repr, profiles))}"
