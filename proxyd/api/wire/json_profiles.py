"""Reading declarations in JSON: statements of their members, and errors as faults of members."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from proxyd.api.rest.endpoint import pointer
from proxyd.api.rest.problems import FaultsError, fault_of_text
from proxyd.api.wire import Fault
from proxyd.api.wire import statement_models as models
from proxyd.core.language import (
    MAX_SENT_BYTES,
    CreateDomain,
    CreateProfile,
    CreateSource,
    DropStatement,
    InsertNotification,
    Located,
    MemberReader,
    Parsed,
    SourceText,
    Statement,
    StatementKind,
    what_is_unfit,
    what_lacks,
)
from proxyd.core.language.deliveries import DELIVERY_KINDS, DeliveryPart
from proxyd.core.language.nodes import ClassDeclaration, FieldDeclaration
from proxyd.core.language.reading.token_reader import MAX_ERRORS
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import ClassName, TextSpan
from proxyd.core.model.profile import Auth, Extraction, FieldType, Reader
from proxyd.errors import ProfileError, RuleError, RuleSyntaxError

Place = tuple[str | int, ...]
_FILE = "api"
_SURROGATE = re.compile("[\ud800-\udfff]")
_CLAUSES = {
    "start": "START",
    "end": "END",
    "utility": "SET UTILITY",
    "life": "SET LIFE",
    "target": "SET TARGET",
    "importance": "SET IMPORTANCE",
    "policy": "SET POLICY",
    "digest": "SET DIGEST",
    "limit": "SET LIMIT",
}


class Members:
    """All members of a declaration, including containers, concatenated into one text, with the place of each.

    Each member has a line end before and after it. An error at the first line end concerns the whole member, any other
    error a place inside it.
    """

    def __init__(self, declared: models.DeclarationWritten) -> None:
        members = list(_members(declared.model_dump(by_alias=True, exclude_none=True)))
        self._places = [place for place, _ in members]
        self._texts = [text for _, text in members]
        self._starts = [0]
        for text in self._texts[:-1]:
            self._starts.append(self._starts[-1] + len(text) + 2)
        self._number = {place: n for n, place in enumerate(self._places)}
        self.source = SourceText(_FILE, "".join(f"\n{text}\n" for text in self._texts))

    def at(self, place: Place) -> TextSpan:
        """Return the place of a whole member."""
        start = self._starts[self._number[place]]
        return TextSpan(start, start + 1)

    def inside(self, place: Place) -> TextSpan:
        """Return the place of the text of a member."""
        n = self._number[place]
        start = self._starts[n] + 1
        return TextSpan(start, start + len(self._texts[n]))

    def quotable(self, error: RuleError) -> RuleError:
        """Return an error as one of its whole member if a response cannot quote the member: it has half a character."""
        n = bisect_right(self._starts, error.start) - 1
        if _SURROGATE.search(self._texts[n]) is None:
            return error
        start = self._starts[n]
        return RuleSyntaxError(error.message, text=error.text, start=start, stop=start + 1, file=error.file)

    def faults(self, error: ProfileError) -> FaultsError:
        """Return errors in these members as faults."""
        return FaultsError(422, "The declaration has errors", [self.fault(each) for each in error.errors])

    def fault(self, error: RuleError) -> Fault:
        """Return an error or a warning as a fault of its member, with the place in it."""
        if error.text != self.source.text:
            return fault_of_text(error)
        n = bisect_right(self._starts, error.start) - 1
        at = error.start - self._starts[n] - 1
        if at < 0:
            return Fault(detail=error.message, pointer=pointer(self._places[n]))
        own = RuleError(error.message, text=self._texts[n], start=at, stop=at)
        return Fault(
            detail=error.message,
            pointer=pointer(self._places[n]),
            line=own.line,
            column=own.column,
            source_line=own.source_line,
        )


def _members(value: Any, at: Place = ()) -> Iterator[tuple[Place, str]]:
    yield at, value if isinstance(value, str) else ""
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in within:
        yield from _members(each, (*at, key))


def read_declaration(declared: models.DeclarationWritten, members: Members) -> Parsed:
    """Return the statements of a declaration and every error in it; ``members`` are those of ``declared``."""
    if (error := what_is_unfit(members.source, MAX_SENT_BYTES)) is not None:
        return Parsed(members.source, (), (members.quotable(error),))
    return _Reading(members).read(declared)


class _Reading:
    """Reads one declaration; any error makes the whole declaration invalid."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._reader = MemberReader(members.source)

    def read(self, declared: models.DeclarationWritten) -> Parsed:
        statements: list[Statement] = [self._drop(each, ("drop", n)) for n, each in enumerate(declared.drop)]
        statements += [self._domain(each, ("domains", n)) for n, each in enumerate(declared.domains)]
        statements += [self._source(each, ("sources", n)) for n, each in enumerate(declared.sources)]
        statements += [self._profile(each, ("profiles", n)) for n, each in enumerate(declared.profiles)]
        statements += [self._notification(each, ("notifications", n)) for n, each in enumerate(declared.notifications)]
        errors = sorted(self._reader.errors, key=lambda error: (error.start, error.stop))
        return Parsed(self._members.source, tuple(statements), tuple(errors[:MAX_ERRORS]))

    # ---- statements

    def _drop(self, dropped: models.DropWritten, at: Place) -> DropStatement:
        kind = StatementKind(dropped.kind)
        return DropStatement(kind, self._name(dropped.name, (*at, "name")), span=self._members.at(at))

    def _domain(self, domain: models.DomainWritten, at: Place) -> CreateDomain:
        classes = tuple(self._class(each, (*at, "classes", n)) for n, each in enumerate(domain.classes))
        return CreateDomain(self._name(domain.name, (*at, "name")), classes, span=self._members.at(at))

    def _class(self, declared: models.ClassWritten, at: Place) -> ClassDeclaration:
        fields = []
        for n, each in enumerate(declared.fields):
            place = (*at, "fields", n)
            found = self._extraction(each.found, (*place, "found"))
            path, field_type = self._path(each.path, (*place, "path")), FieldType(each.type)
            fields.append(FieldDeclaration(path, field_type, found, each.or_null))
        return ClassDeclaration(
            self._name(declared.name, (*at, "name")),
            tuple(fields),
            self._extraction(declared.each, (*at, "each")),
            tuple(self._path(path, (*at, "key")) for path in declared.key),
        )

    def _source(self, source: models.SourceWritten, at: Place) -> CreateSource:
        class_at = self._members.at((*at, "class"))
        return CreateSource(
            self._name(source.name, (*at, "name")),
            ClassName(source.page_class, source.domain, class_at),
            self._located(source.url, (*at, "url")),
            politeness=self._option("POLITENESS", source.politeness, at),
            expect=self._option("EXPECT", source.expect, at),
            zone=None if source.zone is None else self._located(source.zone, (*at, "zone")),
            locale=None if source.locale is None else self._located(source.locale, (*at, "locale")),
            freshness=self._option("FRESHNESS", source.freshness, at),
            headers=tuple(
                Located((each.name, _header_value(each)), self._members.at((*at, "headers", n)))
                for n, each in enumerate(source.headers)
            ),
            auth=None if source.auth is None else Located(_auth(source.auth), self._members.at((*at, "auth"))),
            post=None if source.post is None else self._located(source.post, (*at, "post")),
            websub=self._option("WEBSUB", source.websub, at),
            robots=self._option("ROBOTS", source.robots, at),
            backoff=self._option("BACKOFF", source.backoff, at),
            browser=None if source.fetch is None else Located(value=True, span=self._members.at((*at, "fetch"))),
            wait_for=None if source.wait_for is None else self._located(source.wait_for, (*at, "wait_for")),
            comments=self._reader.take_comments(),
            span=self._members.at(at),
        )

    def _profile(self, profile: models.ProfileWritten, at: Place) -> CreateProfile:
        return CreateProfile(
            self._name(profile.name, (*at, "name")),
            self._names(profile.domains, (*at, "domains")),
            self._names(profile.languages, (*at, "languages")),
            self._names(profile.users, (*at, "users")),
            self._deliveries(profile.deliveries, (*at, "deliveries")),
            digest=self._profile_option("DIGEST", profile.digest, at),
            trouble=self._deliveries(profile.trouble, (*at, "trouble")),
            span=self._members.at(at),
        )

    def _notification(self, rule: models.NotificationWritten, at: Place) -> InsertNotification:
        known = len(self._reader.errors)
        given = {
            name: self._reader.inner(name, self._members.inside((*at, name)))
            for name in ("query", "trigger")
            if getattr(rule, name) is not None
        }
        for name, title in _CLAUSES.items():
            if getattr(rule, name) is not None:
                given[name] = self._reader.clause(title, self._members.inside((*at, name)))
        if rule.profiles:
            given["profiles"] = self._names(rule.profiles, (*at, "profiles"))
        if (message := what_lacks(rule.name, given)) and len(self._reader.errors) == known:
            self._refuse(message, at)
        return InsertNotification(
            self._name(rule.name, (*at, "name")),
            sources=self._names(rule.sources, (*at, "sources")),
            deliveries=self._deliveries(rule.deliveries or (), (*at, "deliveries")),
            no_delivery=rule.deliveries == [],
            empty=None if rule.empty is None else Located(value=True, span=self._members.at((*at, "empty"))),
            screenshot=Located(value=True, span=self._members.at((*at, "screenshot"))) if rule.screenshot else None,
            message=None if rule.message is None else self._located(rule.message, (*at, "message")),
            comments=self._reader.take_comments(),
            span=self._members.at(at),
            **given,
        )

    # ---- members

    def _located(self, value: str, at: Place) -> Located[str]:
        return Located(value, self._members.at(at))

    def _name(self, name: str, at: Place) -> Located[str]:
        if not name.strip():
            self._refuse("a name cannot be empty", at)
        return self._located(name, at)

    def _names(self, names: Sequence[str], at: Place) -> tuple[Located[str], ...]:
        return tuple(self._name(name, (*at, n)) for n, name in enumerate(names))

    def _path(self, path: str, at: Place) -> Located[str]:
        if not all(path.split(".")):
            self._refuse("a name cannot be empty", at)
        return self._located(path, at)

    def _extraction(self, found: models.ReaderWritten | None, at: Place) -> Located[Extraction] | None:
        if found is None:
            return None
        return Located(Extraction(Reader(found.reader), found.selector), self._members.at(at))

    def _profile_option(self, title: str, text: str | None, at: Place) -> Any:
        return None if text is None else self._reader.profile_option(title, self._members.inside((*at, title.lower())))

    def _option(self, title: str, text: str | None, at: Place) -> Any:
        return None if text is None else self._reader.option(title, self._members.inside((*at, title.lower())))

    def _deliveries(self, deliveries: Sequence[models.DeliveryWritten], at: Place) -> tuple[Located[Delivery], ...]:
        return tuple(Located(_delivery(each), self._members.at((*at, n))) for n, each in enumerate(deliveries))

    def _refuse(self, message: str, at: Place) -> None:
        span, source = self._members.at(at), self._members.source
        error = RuleSyntaxError(message, text=source.text, start=span.start, stop=span.stop, file=source.file)
        self._reader.errors.append(error)


def _header_value(header: models.HeaderWritten) -> str | SecretRef:
    return _secret(header.secret) if header.secret is not None else header.value or ""


def _auth(auth: models.AuthWritten) -> Auth:
    return Auth("bearer" if auth.user is None else "basic", _secret(auth.secret), auth.user)


def _secret(secret: models.SecretWritten) -> SecretRef:
    return SecretRef("file", secret.file or "") if secret.env is None else SecretRef("env", secret.env)


def _delivery(delivery: models.DeliveryWritten) -> Delivery:
    kind = next(each for each in DELIVERY_KINDS if getattr(delivery, each.kind) is not None)
    values = {part.name: _value(part, getattr(delivery, member)) for member, part in kind.members.items()}
    return kind.made(**values)


def _value(part: DeliveryPart, written: Any) -> Any:
    if written is None:
        return part.default
    return _secret(written) if isinstance(written, models.SecretWritten) else part.read(written)
