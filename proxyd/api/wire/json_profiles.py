"""Declarations in JSON as text of the rule language, and errors of that text as faults of members."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxyd.api.rest.endpoint import pointer
from proxyd.api.rest.problems import FaultsError, fault_of_text
from proxyd.api.wire import Fault
from proxyd.api.wire.statement_models import (
    ClassWritten,
    DeclarationWritten,
    DeliveryWritten,
    DomainWritten,
    NotificationWritten,
    ProfileWritten,
    ReaderWritten,
    SecretWritten,
    SourceWritten,
)
from proxyd.core.language import SourceText, quote_name, quote_text, stray_words
from proxyd.errors import ProfileError, RuleError

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """A member's place in the text: from where, whose it is, and its own text where errors can be found inside it."""

    start: int
    place: Place
    member: str | None = None
    is_quoted: bool = False


class Composed:
    """A text, and whose each part of it is."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._spots: list[SourceMap] = []
        self._length = 0
        self.faults: list[Fault] = []

    @property
    def text(self) -> str:
        """The text in the rule language."""
        return "".join(self._parts)

    def add(self, text: str, place: Place, member: str | None = None, *, is_quoted: bool = False) -> None:
        """Write a part of a member; ``member`` is its own text where the part is that, quoted or plain."""
        self._spots.append(SourceMap(self._length, place, member, is_quoted))
        self._parts.append(text)
        self._length += len(text)

    def clause(self, title: str, value: str | None, place: Place) -> None:
        """Write a clause that stands as the language writes it; what would be another clause is a fault."""
        if value is None:
            return
        if strays := stray_words(SourceText("", value)):
            stray = strays[0]
            self.faults.append(_inside(stray, value, stray.start, place))
        self.add(f"\n{title} ", place)
        self.add(value, place, value)

    def fault(self, error: RuleError) -> Fault:
        """Return whose fault an error of this text is: the member, and where in it."""
        if error.text != self.text:
            return fault_of_text(error)
        spot = self._spots[max(0, bisect_right(self._spots, error.start, key=lambda each: each.start) - 1)]
        if spot.member is None:
            return Fault(detail=error.message, pointer=pointer(spot.place))
        before = self.text[spot.start : error.start]
        inner = before.removeprefix('"').replace('""', '"') if spot.is_quoted else before
        return _inside(error, spot.member, len(inner), spot.place)


def compose(declared: DeclarationWritten) -> Composed:
    """Return the text of a declaration; raises ``FaultsError`` where a clause holds more than itself."""
    composed = Composed()
    for n, dropped in enumerate(declared.drop):
        composed.add(f"DROP {dropped.kind} {quote_name(dropped.name)};\n", ("drop", n))
    for n, domain in enumerate(declared.domains):
        _domain(composed, domain, ("domains", n))
    for n, source in enumerate(declared.sources):
        _source(composed, source, ("sources", n))
    for n, profile in enumerate(declared.profiles):
        _profile(composed, profile, ("profiles", n))
    for n, rule in enumerate(declared.notifications):
        _notification(composed, rule, ("notifications", n))
    if composed.faults:
        raise FaultsError(422, "The declaration has errors", composed.faults)
    return composed


def faults_of(composed: Composed, error: ProfileError) -> FaultsError:
    """Return the errors of a composed text as faults of the members that it was made of."""
    return FaultsError(422, "The declaration has errors", [composed.fault(each) for each in error.errors])


def _inside(error: RuleError, member: str, start: int, place: Place) -> Fault:
    own = RuleError(error.message, text=member, start=start, stop=start)
    return Fault(
        detail=error.message, pointer=pointer(place), line=own.line, column=own.column, source_line=own.source_line
    )


def _domain(composed: Composed, domain: DomainWritten, at: Place) -> None:
    composed.add("CREATE DOMAIN ", at)
    composed.add(quote_name(domain.name), (*at, "name"))
    composed.add(" AS", at)
    for n, declared in enumerate(domain.classes):
        composed.add(",\n" if n else "\n", at)
        _class(composed, declared, (*at, "classes", n))
    composed.add(";\n", at)


def _class(composed: Composed, declared: ClassWritten, at: Place) -> None:
    composed.add("CLASS::", at)
    composed.add(quote_name(declared.name), (*at, "name"))
    if declared.each is not None:
        composed.add(f" EACH {_reader(declared.each)}", (*at, "each"))
    if declared.key:
        composed.add(f" KEY {', '.join(_path(path) for path in declared.key)}", (*at, "key"))
    for n, field in enumerate(declared.fields):
        place = (*at, "fields", n)
        composed.add(" (\n  " if n == 0 else ",\n  ", at)
        composed.add(_path(field.path), (*place, "path"))
        composed.add(f":{field.type}", (*place, "type"))
        if field.found is not None:
            composed.add(f" FROM {_reader(field.found)}", (*place, "found"))
    if declared.fields:
        composed.add(")", at)


def _path(path: str) -> str:
    return ".".join(quote_name(part) for part in path.split("."))


def _reader(found: ReaderWritten) -> str:
    return f"{found.reader} {quote_text(found.selector)}"


def _source(composed: Composed, source: SourceWritten, at: Place) -> None:
    composed.add("CREATE SOURCE ", at)
    composed.add(quote_name(source.name), (*at, "name"))
    domain = "" if source.domain is None else f"{quote_name(source.domain)}."
    composed.add(f" OF {domain}{quote_name(source.page_class)}", (*at, "class"))
    composed.add(f"\nAT {quote_text(source.url)}", (*at, "url"))
    composed.clause("POLITENESS", source.politeness, (*at, "politeness"))
    composed.clause("EXPECT", source.expect, (*at, "expect"))
    if source.zone is not None:
        composed.add(f"\nZONE {quote_text(source.zone)}", (*at, "zone"))
    composed.clause("FRESHNESS", source.freshness, (*at, "freshness"))
    for n, header in enumerate(source.headers):
        composed.add(f"\nHEADER {quote_text(header.name)} {quote_text(header.value)}", (*at, "headers", n))
    if source.auth is not None:
        scheme = "BEARER" if source.auth.user is None else f"BASIC {quote_text(source.auth.user)}"
        composed.add(f"\nAUTH {scheme} {_secret(source.auth.secret)}", (*at, "auth"))
    composed.clause("WEBSUB", source.websub, (*at, "websub"))
    composed.clause("ROBOTS", source.robots, (*at, "robots"))
    composed.add(";\n", at)


def _secret(secret: SecretWritten) -> str:
    kind, name = ("FILE", secret.file) if secret.env is None else ("ENV", secret.env)
    return f"SECRET {kind} {quote_text(name or '')}"


def _profile(composed: Composed, profile: ProfileWritten, at: Place) -> None:
    composed.add("CREATE PROFILE ", at)
    composed.add(quote_name(profile.name), (*at, "name"))
    composed.add(" AS", at)
    items = [("DOMAIN", "domains", profile.domains), ("LANGUAGE", "languages", profile.languages)]
    mark = " ("
    for word, member, names in [*items, ("USER", "users", profile.users)]:
        for n, name in enumerate(names):
            composed.add(mark, at)
            composed.add(f"{word} {quote_name(name)}", (*at, member, n))
            mark = ", "
    composed.add(")", at)
    _deliveries(composed, "DELIVER TO", profile.deliveries, (*at, "deliveries"))
    composed.add(";\n", at)


def _deliveries(composed: Composed, title: str, deliveries: Iterable[DeliveryWritten], at: Place) -> None:
    for n, each in enumerate(deliveries):
        composed.add(f"\n{title} {_delivery(each)}", (*at, n))


def _delivery(delivery: DeliveryWritten) -> str:
    if delivery.mail is not None:
        return f"MAIL {quote_text(delivery.mail)}"
    if delivery.channel is not None:
        return f"CHANNEL {quote_text(delivery.channel)}"
    assert delivery.webhook is not None
    assert delivery.secret is not None
    form = "" if delivery.form is None else f" FORM {delivery.form}"
    return f"WEBHOOK {quote_text(delivery.webhook)} {_secret(delivery.secret)}{form}"


def _notification(composed: Composed, rule: NotificationWritten, at: Place) -> None:
    composed.add("INSERT NOTIFICATION ", at)
    composed.add(quote_name(rule.name), (*at, "name"))
    _names(composed, "INTO", rule.profiles, (*at, "profiles"))
    _names(composed, "FROM SOURCES", rule.sources, (*at, "sources"))
    for title, member, text in (("SET QUERY", "query", rule.query), ("SET TRIGGER", "trigger", rule.trigger)):
        if text is not None:
            composed.add(f"\n{title} ", (*at, member))
            composed.add(quote_name(text), (*at, member), text, is_quoted=True)
    composed.clause("START", rule.start, (*at, "start"))
    composed.clause("END", rule.end, (*at, "end"))
    for member in ("utility", "life", "importance", "policy", "digest"):
        composed.clause(f"SET {member.upper()}", getattr(rule, member), (*at, member))
    if rule.deliveries == []:
        composed.add("\nSET DELIVERY NONE", (*at, "deliveries"))
    _deliveries(composed, "SET DELIVERY", rule.deliveries or (), (*at, "deliveries"))
    composed.add(";\n", at)


def _names(composed: Composed, title: str, names: Sequence[str], at: Place) -> None:
    for n, name in enumerate(names):
        composed.add(", " if n else f"\n{title} ", at)
        composed.add(quote_name(name), (*at, n))
