"""Statements as written: the tree that is printed back and that the checker reads.

Spans are offsets into the file; spans and comments are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import ClassVar, Generic, TypeAlias, TypeVar

from proxyd.core.errors import RuleError
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import NO_SPAN, ClassName, Duration, Expression, Select, TextSpan
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import (
    After,
    Anchor,
    Auth,
    Digest,
    Expect,
    Extraction,
    FieldType,
    ImportanceTerm,
    Life,
    NotificationLimit,
    PolicyChoice,
    Politeness,
    Trigger,
    Utility,
    owner_of,
    plain_name,
)

_T_co = TypeVar("_T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text in the rule language and its name in errors.

    A profile that it declares belongs to itself if ``is_owned``; what else it declares says by its name whose it is.
    If it ``is_kept``, it was right when its owner wrote it: what others have removed since is missing, and no error.
    """

    file: str
    text: str
    is_owned: bool = False
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Located(Generic[_T_co]):
    """A value and the place where it was written."""

    value: _T_co
    span: TextSpan = field(default=NO_SPAN, compare=False)


class StatementKind(Enum):
    """The kind of object that a statement declares, as the language writes it."""

    DOMAIN = "DOMAIN"
    SOURCE = "SOURCE"
    PROFILE = "PROFILE"
    RECEIVER = "RECEIVER"
    NOTIFICATION = "NOTIFICATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A statement: the comments before it and in it, and its place."""

    comments: tuple[str, ...] = field(default=(), compare=False)
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """``channel.item.title:String`` or ``last:Decimal OR NULL FROM JSON '$.last'``."""

    path: Located[str]
    type: FieldType
    extraction: Located[Extraction] | None = None
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class ClassDeclaration:
    """``CLASS::NAME [EACH reader 'selector' KEY ...] [(fields)]``."""

    name: Located[str]
    fields: tuple[FieldDeclaration, ...] = ()
    each: Located[Extraction] | None = None
    key: tuple[Located[str], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateDomain(_Written):
    """``CREATE DOMAIN``."""

    kind: ClassVar = StatementKind.DOMAIN
    name: Located[str]
    classes: tuple[ClassDeclaration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageOptions(_Written):
    """How an address is read, of a source and of a WATCH; an option that was not written is ``None`` or empty."""

    locale: Located[str] | None = None
    ignored: tuple[Located[str], ...] = ()
    browser: Located[bool] | None = None
    wait_for: Located[str] | None = None
    full_articles: Located[bool] | None = None
    certificate: Located[Duration | None] | None = None
    domain: Located[Duration | None] | None = None
    holding: Located[str] | None = None
    maintenance: Located[QuietHours] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(_PageOptions):
    """How a source is asked; an option that was not written is ``None`` or empty."""

    kind: ClassVar = StatementKind.SOURCE
    politeness: Located[Politeness] | None = None
    expect: Located[Expect] | None = None
    zone: Located[str] | None = None
    freshness: Located[bool] | None = None
    headers: tuple[Located[tuple[str, str | SecretRef]], ...] = ()
    auth: Located[Auth] | None = None
    post: Located[str] | None = None
    websub: Located[bool] | None = None
    robots: Located[bool] | None = None
    backoff: Located[bool] | None = None


@dataclass(frozen=True, slots=True)
class CreateSource(SourceOptions):
    """``CREATE SOURCE`` and its options."""

    name: Located[str]
    page_class: ClassName
    url: Located[str]


@dataclass(frozen=True, slots=True)
class ListedSource(CreateSource):
    """A source that a line of a list declares; its class and options are checked with its ``CREATE SOURCES``."""


@dataclass(frozen=True, slots=True)
class CreateSources(SourceOptions):
    """``CREATE SOURCES "prefix" OF class FROM FILE 'list.csv'``: a source for each line, all with the same options."""

    name: Located[str]
    page_class: ClassName
    file: Located[str]


@dataclass(frozen=True, slots=True)
class ListLine:
    """A line of a list: an address, and its name if the list gives one."""

    url: Located[str]
    name: Located[str] | None = None


@dataclass(frozen=True, slots=True)
class CreateProfile(_Written):
    """``CREATE PROFILE``."""

    kind: ClassVar = StatementKind.PROFILE
    name: Located[str]
    domains: tuple[Located[str], ...] = ()
    languages: tuple[Located[str], ...] = ()
    users: tuple[Located[str], ...] = ()
    deliveries: tuple[Located[Delivery], ...] = ()
    digest: Located[Digest] | None = None
    quiet: Located[QuietHours] | None = None
    trouble: tuple[Located[Delivery], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateReceiver(_Written):
    """``CREATE RECEIVER "team" AS delivery``: deliveries under a name."""

    kind: ClassVar = StatementKind.RECEIVER
    name: Located[str]
    to: tuple[Located[Delivery], ...]


@dataclass(frozen=True, slots=True)
class TimeSpec:
    """The value of START or END. ``text`` is the written ISO 8601 time if the anchor is absolute."""

    anchor: Anchor
    offset: Duration | None = None
    text: str | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class InsertNotification(_Written):
    """``INSERT NOTIFICATION`` and its clauses.

    A required clause is ``None`` only if it could not be read; its error is in ``Parsed.errors``. ``digest`` holds
    ``None`` for ``SET DIGEST NONE``, and ``quiet`` is set for ``SET QUIET NONE``.
    """

    kind: ClassVar = StatementKind.NOTIFICATION
    name: Located[str]
    profiles: tuple[Located[str], ...] = ()
    sources: tuple[Located[str], ...] = ()
    query: Select | None = None
    trigger: Trigger | None = None
    start: TimeSpec | None = None
    end: TimeSpec | None = None
    utility: Located[Utility] | None = None
    life: Located[Life] | None = None
    target: Located[Decimal] | None = None
    importance: Located[tuple[ImportanceTerm, ...]] | None = None
    policy: Located[PolicyChoice] | None = None
    longest_gap: Located[Duration] | None = None
    deliveries: tuple[Located[Delivery], ...] = ()
    no_delivery: bool = False
    digest: Located[Digest | None] | None = None
    quiet: Located[bool] | None = None
    limit: Located[NotificationLimit] | None = None
    empty: Located[bool] | None = None
    screenshot: Located[bool] | None = None
    message: Located[str] | None = None


@dataclass(frozen=True, slots=True)
class Watch(_PageOptions):
    """``WATCH 'address'``: a source and a rule in one statement; ``None`` where an option is left out."""

    kind: ClassVar = StatementKind.NOTIFICATION
    url: Located[str]
    page_class: ClassName | None = None
    profiles: tuple[Located[str], ...] = ()
    rule_name: Located[str] | None = None
    event: EventKind | None = None
    after: After | None = None
    where: Expression | None = None
    without: tuple[Located[str], ...] = ()
    least_words: Located[int] | None = None
    life: Located[Life] | None = None
    target: Located[Decimal] | None = None
    longest_gap: Located[Duration] | None = None
    screenshot: Located[bool] | None = None
    message: Located[str] | None = None
    quiet: Located[bool] | None = None
    deliveries: tuple[Located[Delivery], ...] = ()
    digest: Located[Digest | None] | None = None

    @property
    def address(self) -> Located[str]:
        """The address without its scheme: the name of the source, and of the rule unless AS gives one."""
        return Located(without_scheme(self.url.value), self.url.span)

    @property
    def name(self) -> Located[str]:
        """The name of the rule."""
        return self.rule_name or self.address

    @property
    def is_named(self) -> bool:
        """Whether somebody has given it a name; one that belongs to a profile is always written with its owner."""
        name = self.rule_name
        return name is not None and (owner_of(name.value) is None or plain_name(name.value) != self.address.value)


def without_scheme(url: str) -> str:
    """Return an address without its scheme and the slashes at its end.

    >>> without_scheme("https://example.org/feed/")
    'example.org/feed'
    """
    return url.partition("://")[2].rstrip("/") or url


@dataclass(frozen=True, slots=True)
class DropStatement(_Written):
    """``DROP PROFILE|NOTIFICATION|SOURCE|DOMAIN "x"``; allowed only in texts sent over the API."""

    kind: StatementKind
    name: Located[str]


Statement: TypeAlias = (
    CreateDomain
    | CreateSource
    | CreateSources
    | CreateProfile
    | CreateReceiver
    | InsertNotification
    | Watch
    | DropStatement
)


@dataclass(frozen=True, slots=True)
class Broken:
    """A statement that could not be read; ``name`` is ``None`` if even the name could not be read."""

    kind: StatementKind
    name: str | None


@dataclass(frozen=True, slots=True)
class Unread:
    """Statements that could not be read; the names they declare must not count as unknown elsewhere."""

    kinds: frozenset[StatementKind] = frozenset()
    names: frozenset[tuple[StatementKind, str]] = frozenset()

    def hides(self, kind: StatementKind, name: str) -> bool:
        """Return whether an unread statement may declare that name."""
        return kind in self.kinds or (kind, name) in self.names

    def hides_any(self, kind: StatementKind) -> bool:
        """Return whether any statement of that kind is unread."""
        return kind in self.kinds or any(known is kind for known, _ in self.names)

    def adding(self, kind: StatementKind, names: Iterable[str]) -> Unread:
        """Return a copy with more names."""
        return Unread(self.kinds, self.names | {(kind, name) for name in names})


@dataclass(frozen=True, slots=True)
class Parsed:
    """The statements of one text and every error found while reading it."""

    source: SourceText
    statements: tuple[Statement, ...]
    errors: tuple[RuleError, ...] = ()
    tail_comments: tuple[str, ...] = ()  # those after the last statement
    # Names that faulty statements declare, so that they do not count as unknown elsewhere
    broken: tuple[Broken, ...] = ()
    lines: tuple[ListLine, ...] = ()  # of a list of addresses, which has no statements
