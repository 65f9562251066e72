"""What WATCH stands for: a source, a rule on it and, if nothing else declares it, a profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace

from proxyd.core.language.checking.classes import BUILT_IN
from proxyd.core.language.nodes import (
    ClassDeclaration,
    CreateDomain,
    CreateProfile,
    CreateSource,
    InsertNotification,
    Located,
    Parsed,
    Statement,
    StatementKind,
    TimeSpec,
    Watch,
)
from proxyd.core.model.delivery import Delivery, WebhookDelivery
from proxyd.core.model.expression import ClassName, FromClass, Select
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import Anchor, PageClass, Trigger, Utility, UtilityKind
from proxyd.errors import ConfigError

DEFAULT_PROFILE = "default"
DEFAULT_CLASS = "FEED"


def expand(texts: Sequence[Parsed]) -> list[Parsed]:
    """Return the texts of one declaration, each WATCH replaced by the statements that it stands for.

    A source that is declared anywhere in the texts for the same address and class is used; so is a profile.
    """
    if not any(isinstance(each, Watch) for parsed in texts for each in parsed.statements):
        return list(texts)
    return _Expansion(texts).texts()


class _Expansion:
    """The names that the texts declare, and those that the WATCH statements before have added."""

    def __init__(self, texts: Sequence[Parsed]) -> None:
        self._texts = texts
        declared = [each for parsed in texts for each in parsed.statements]
        self._profiles = {each.name.value for each in declared if isinstance(each, CreateProfile)}
        self._profiles |= {
            broken.name or "" for parsed in texts for broken in parsed.broken if broken.kind is StatementKind.PROFILE
        }
        self._sources = {
            _key(each.url, each.page_class): each.name for each in declared if isinstance(each, CreateSource)
        }
        self._events = dict(_events(declared))

    def texts(self) -> list[Parsed]:
        return [replace(parsed, statements=tuple(self._expanded(parsed.statements))) for parsed in self._texts]

    def _expanded(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        for each in statements:
            if isinstance(each, Watch):
                yield from self._meant_by(each)
            else:
                yield each

    def _meant_by(self, watch: Watch) -> Iterator[Statement]:
        page_class = watch.page_class or ClassName(DEFAULT_CLASS, span=watch.url.span)
        profile = watch.profile or Located(DEFAULT_PROFILE, watch.url.span)
        if profile.value not in self._profiles:
            self._profiles.add(profile.value)
            yield CreateProfile(profile, span=watch.span)
        source = self._sources.get(_key(watch.url, page_class))
        if source is None:
            source = self._sources[_key(watch.url, page_class)] = watch.address
            yield CreateSource(source, page_class, watch.url, span=watch.span)
        yield self._rule(watch, profile, source, page_class)

    def _rule(
        self, watch: Watch, profile: Located[str], source: Located[str], page_class: ClassName
    ) -> InsertNotification:
        event = watch.event or self._events.get(page_class.name.casefold(), EventKind.INSERT)
        return InsertNotification(
            watch.name,
            profiles=(profile,),
            sources=(replace(source, span=watch.url.span),),
            query=Select((), (FromClass(page_class),), span=watch.span),
            trigger=Trigger(event, page_class, watch.where, span=watch.span),
            start=TimeSpec(Anchor.NOW, span=watch.span),
            end=TimeSpec(Anchor.NEVER, span=watch.span),
            utility=Located(Utility(UtilityKind.STRICT), watch.span),
            life=watch.life,
            deliveries=tuple(replace(each, value=_delivery(each.value)) for each in watch.deliveries),
            message=watch.message,
            comments=watch.comments,
            span=watch.span,
        )


def find_watch(statements: Iterable[Statement], url: str, name: str | None) -> Watch | None:
    """Return the WATCH of an address by its name; without a name the one called by the address, or the only one.

    Raises
    ------
    ConfigError
        There are several.
    """
    found = [each for each in statements if isinstance(each, Watch) and each.url.value == url]
    named = [each for each in found if each.name.value == (name or each.address.value)]
    if named or name is not None or not found:
        return named[0] if named else None
    if len(found) > 1:
        names = " or ".join(f"--name {each.name.value!r}" for each in found)
        raise ConfigError([f"{url} is watched {len(found)} times; choose one by {names}"])
    return found[0]


def edited(old: Watch, new: Watch) -> Watch:
    """Return a WATCH with the options of a newer one; what that leaves out stays."""
    changes = {each.name: getattr(new, each.name) for each in fields(new) if each.name in _EDITABLE}
    return replace(old, **{name: value for name, value in changes.items() if value})


_EDITABLE = {"page_class", "rule_name", "where", "message", "deliveries"}


def _delivery(delivery: Delivery) -> Delivery:
    """Return a delivery whose payload, unless one is chosen, has short names."""
    if isinstance(delivery, WebhookDelivery) and not delivery.payload:
        return replace(delivery, payload=2)
    return delivery


def _key(url: Located[str], page_class: ClassName) -> tuple[str, str]:
    return url.value, page_class.name.casefold()


def _events(statements: Iterable[Statement]) -> Iterator[tuple[str, EventKind]]:
    """Yield which event says that there is something new, by class: an item, or another value of a page."""
    yield from ((name.casefold(), _event(found)) for name, found in BUILT_IN.classes.items())
    for statement in statements:
        if isinstance(statement, CreateDomain):
            yield from ((each.name.value.casefold(), _event(each)) for each in statement.classes)


def _event(page_class: PageClass | ClassDeclaration) -> EventKind:
    if page_class.each is not None:
        return EventKind.INSERT
    paths = (each.path if isinstance(each.path, str) else each.path.value for each in page_class.fields)
    return EventKind.INSERT if any(path.lower().startswith("channel.") for path in paths) else EventKind.UPDATE
