"""Declarations in JSON: their statements, errors as faults of members, and statements as JSON.

What is specific to a clause is in ``proxyd.core.language.syntax.clauses``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from proxyd.api.endpoint import pointer
from proxyd.api.problems import FaultsError, fault_of_text
from proxyd.api.wire import Fault
from proxyd.api.wire import statement_models as models
from proxyd.api.wire.base_models import WireModel
from proxyd.core.errors import ProfileError, RuleError, RuleSyntaxError
from proxyd.core.language import (
    MAX_SENT_BYTES,
    CreateDomain,
    CreateProfile,
    CreateReceiver,
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
from proxyd.core.language.syntax.clauses import PROFILE_OPTIONS, RULE_CLAUSES, SOURCE_OPTIONS, Clause, JsonForm
from proxyd.core.language.syntax.delivery_kinds import DELIVERY_KINDS, DeliveryPart, ReceiverName, kind_of
from proxyd.core.language.syntax.nodes import ClassDeclaration, FieldDeclaration
from proxyd.core.language.syntax.token_reader import MAX_ERRORS
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import ClassName, TextSpan
from proxyd.core.model.profile import Auth, Extraction, FieldType, Reader

_Place = tuple[str | int, ...]
_FILE = "api"
_SURROGATE = re.compile("[\ud800-\udfff]")


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

    def at(self, place: _Place) -> TextSpan:
        """Return the place of a whole member."""
        start = self._starts[self._number[place]]
        return TextSpan(start, start + 1)

    def inside(self, place: _Place) -> TextSpan:
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


def _members(value: Any, at: _Place = ()) -> Iterator[tuple[_Place, str]]:
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
        statements += [self._receiver(each, ("receivers", n)) for n, each in enumerate(declared.receivers)]
        statements += [self._notification(each, ("notifications", n)) for n, each in enumerate(declared.notifications)]
        errors = sorted(self._reader.errors, key=lambda error: (error.start, error.stop))
        return Parsed(self._members.source, tuple(statements), tuple(errors[:MAX_ERRORS]))

    # ---- statements

    def _drop(self, dropped: models.DropWritten, at: _Place) -> DropStatement:
        kind = StatementKind(dropped.kind)
        return DropStatement(kind, self._name(dropped.name, (*at, "name")), span=self._members.at(at))

    def _domain(self, domain: models.DomainWritten, at: _Place) -> CreateDomain:
        classes = tuple(self._class(each, (*at, "classes", n)) for n, each in enumerate(domain.classes))
        return CreateDomain(self._name(domain.name, (*at, "name")), classes, span=self._members.at(at))

    def _class(self, declared: models.ClassWritten, at: _Place) -> ClassDeclaration:
        fields = []
        for n, each in enumerate(declared.fields):
            place = (*at, "fields", n)
            path, found = self._path(each.path, (*place, "path")), self._extraction(each.found, (*place, "found"))
            fields.append(FieldDeclaration(path, FieldType(each.type), found, each.or_null))
        return ClassDeclaration(
            self._name(declared.name, (*at, "name")),
            tuple(fields),
            self._extraction(declared.each, (*at, "each")),
            tuple(self._path(path, (*at, "key")) for path in declared.key),
        )

    def _source(self, source: models.SourceWritten, at: _Place) -> CreateSource:
        name = self._name(source.name, (*at, "name"))
        page_class = ClassName(source.page_class, source.domain, self._members.at((*at, "class")))
        url = Located(source.url, self._members.at((*at, "url")))
        return CreateSource(name, page_class, url, **self._clauses("SOURCE", SOURCE_OPTIONS, source, at))

    def _receiver(self, receiver: models.ReceiverWritten, at: _Place) -> CreateReceiver:
        to = tuple(Located(_delivery(each), self._members.at((*at, "to", n))) for n, each in enumerate(receiver.to))
        return CreateReceiver(self._name(receiver.name, (*at, "name")), to, span=self._members.at(at))

    def _profile(self, profile: models.ProfileWritten, at: _Place) -> CreateProfile:
        return CreateProfile(
            self._name(profile.name, (*at, "name")),
            self._names(profile.domains, (*at, "domains")),
            self._names(profile.languages, (*at, "languages")),
            self._names(profile.users, (*at, "users")),
            **self._clauses("PROFILE", PROFILE_OPTIONS, profile, at),
        )

    def _notification(self, rule: models.NotificationWritten, at: _Place) -> InsertNotification:
        known = len(self._reader.errors)
        given = self._clauses("NOTIFICATION", RULE_CLAUSES, rule, at)
        if (message := what_lacks(rule.name, given)) and len(self._reader.errors) == known:
            self._refuse(message, at)
        no_delivery = getattr(rule, "deliveries", None) == []
        return InsertNotification(self._name(rule.name, (*at, "name")), no_delivery=no_delivery, **given)

    def _clauses(self, kind: str, clauses: Iterable[Clause], written: WireModel, at: _Place) -> dict[str, Any]:
        """Return the attributes that the clauses of a statement set, with its comments and its place."""
        given: dict[str, Any] = {}
        for clause in clauses:
            value = None if clause.form is None else getattr(written, clause.member)
            if value is not None and value is not False and value != []:
                given[clause.attribute] = self._value(kind, clause, value, (*at, clause.member))
        return given | {"comments": self._reader.take_comments(), "span": self._members.at(at)}

    def _value(self, kind: str, clause: Clause, value: Any, at: _Place) -> Any:
        """Return the value of a clause by its JSON form."""
        match clause.form:
            case JsonForm.CLAUSE if len(clause.value.choices) != 1:  # a single choice says all: true
                return self._reader.clause(kind, clause.words, self._members.inside(at))
            case JsonForm.INNER:
                return self._reader.inner(clause.attribute, self._members.inside(at))
            case JsonForm.NAMES:
                return self._names(value, at)
            case JsonForm.OBJECTS:
                return tuple(self._object(clause, each, (*at, n)) for n, each in enumerate(value))
            case JsonForm.OBJECT:
                return self._object(clause, value, at)
        return Located(value if clause.form is JsonForm.TEXT else True, self._members.at(at))

    # ---- members

    def _object(self, clause: Clause, value: Any, at: _Place) -> Located[Any]:
        return Located(_OBJECTS.get(clause.attribute, _delivery)(value), self._members.at(at))

    def _name(self, name: str, at: _Place) -> Located[str]:
        if not name.strip():
            self._refuse("a name cannot be empty", at)
        return Located(name, self._members.at(at))

    def _names(self, names: Sequence[str], at: _Place) -> tuple[Located[str], ...]:
        return tuple(self._name(name, (*at, n)) for n, name in enumerate(names))

    def _path(self, path: str, at: _Place) -> Located[str]:
        if not all(path.split(".")):
            self._refuse("a name cannot be empty", at)
        return Located(path, self._members.at(at))

    def _extraction(self, found: models.ReaderWritten | None, at: _Place) -> Located[Extraction] | None:
        if found is None:
            return None
        return Located(Extraction(Reader(found.reader), found.selector), self._members.at(at))

    def _refuse(self, message: str, at: _Place) -> None:
        span, source = self._members.at(at), self._members.source
        error = RuleSyntaxError(message, text=source.text, start=span.start, stop=span.stop, file=source.file)
        self._reader.errors.append(error)


def _header(header: models.HeaderWritten) -> tuple[str, str | SecretRef]:
    return header.name, _secret(header.secret) if header.secret is not None else header.value or ""


def _auth(auth: models.AuthWritten) -> Auth:
    return Auth("bearer" if auth.user is None else "basic", _secret(auth.secret), auth.user)


def _secret(secret: models.SecretWritten) -> SecretRef:
    return SecretRef("file", secret.file or "") if secret.env is None else SecretRef("env", secret.env)


def _delivery(delivery: models.DeliveryWritten) -> Delivery:
    if delivery.receiver is not None:
        return ReceiverName(delivery.receiver)
    kind = next(each for each in DELIVERY_KINDS if getattr(delivery, each.kind) is not None)
    values = {part.name: _part(part, getattr(delivery, member)) for member, part in kind.members.items()}
    return kind.made(**values)


def _part(part: DeliveryPart, written: Any) -> Any:
    if written is None:
        return part.default
    return _secret(written) if isinstance(written, models.SecretWritten) else part.read(written)


_OBJECTS: Mapping[str, Callable[[Any], Any]] = {"headers": _header, "auth": _auth}
"""How the objects of clauses are read, other than deliveries."""


# ---- writing


def declaration_of(statements: Iterable[Statement]) -> models.DeclarationWritten:
    """Return statements as a JSON declaration; comments are lost. Every WATCH is expanded before."""
    found: dict[str, list[Any]] = {name: [] for name in models.DeclarationWritten.model_fields}
    for statement in statements:
        for kind, (member, clauses) in _MEMBERS.items():
            if isinstance(statement, kind):
                found[member].append(_json(statement) | _json_clauses(statement, clauses))
    return models.DeclarationWritten.model_validate(found)


_MEMBERS: Mapping[type, tuple[str, Sequence[Clause]]] = {
    CreateDomain: ("domains", ()),
    CreateSource: ("sources", SOURCE_OPTIONS),
    CreateProfile: ("profiles", PROFILE_OPTIONS),
    CreateReceiver: ("receivers", ()),
    InsertNotification: ("notifications", RULE_CLAUSES),
    DropStatement: ("drop", ()),
}
_RENAMED = {"extraction": "found", "is_nullable": "or_null"}
_LEFT_OUT = {"comments", "span", "no_delivery", "scheme"} | {
    each.attribute for _, clauses in _MEMBERS.values() for each in clauses
}


def _json(value: Any) -> Any:
    """Return a value in JSON: the attributes of a node but for its clauses, or of a value of a clause."""
    match value:
        case Located():
            found = _json(value.value)
        case Enum():
            found = value.value
        case SecretRef():
            found = {value.kind: value.name}
        case ClassName():
            found = {"class": value.name, "domain": value.domain}
        case ReceiverName():
            found = {"receiver": value.receiver}
        case Delivery():
            found = {member: _json(getattr(value, part.name)) for member, part in kind_of(value).members.items()}
        case (str(name), str() | SecretRef() as text):
            found = {"name": name, "value" if isinstance(text, str) else "secret": _json(text)}
        case tuple():
            found = [_json(each) for each in value]
        case _:
            found = _json_members(value) if is_dataclass(value) else value
    return found


def _json_members(node: Any) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in (each.name for each in fields(node) if each.name not in _LEFT_OUT):
        value = _json(getattr(node, name))
        members |= value if name == "page_class" else {_RENAMED.get(name, name): value}
    return members


def _json_clauses(statement: Statement, clauses: Iterable[Clause]) -> dict[str, Any]:
    """Return the members of the clauses that a statement has."""
    members: dict[str, Any] = {}
    for clause in clauses:
        if value := getattr(statement, clause.attribute):
            if clause.form in (JsonForm.CLAUSE, JsonForm.INNER):
                members[clause.member] = clause.value.show(value.value if isinstance(value, Located) else value)
            elif clause.form is None:  # SET DELIVERY NONE
                members["deliveries"] = []
            else:
                members[clause.member] = _json(value)
    return members
