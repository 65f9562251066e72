"""Domains, sources, profiles and notification rules: the content of a checked declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from types import MappingProxyType

from proxyd.core.model.chronon import WallTime
from proxyd.core.model.day_parts import QuietHours
from proxyd.core.model.delivery import Delivery, SecretRef
from proxyd.core.model.expression import NO_SPAN, ClassName, Column, Duration, Expression, Select, TextSpan, is_mixed
from proxyd.core.model.item import EventKind
from proxyd.core.model.site import SiteChecks

_ATTRIBUTE = re.compile(r"(.*?)::attr\(\s*([A-Za-z][\w:.-]*)\s*\)\s*", re.DOTALL)


class FieldType(Enum):
    """Types of a field."""

    STRING = "String"
    INTEGER = "Integer"
    DECIMAL = "Decimal"
    BOOLEAN = "Boolean"
    TIMESTAMP = "Timestamp"
    URL = "URL"


class Reader(Enum):
    """How a value is read from a page."""

    JSON = "JSON"
    CSS = "CSS"
    XPATH = "XPATH"
    META = "META"
    JSONLD = "JSONLD"
    PRICE = "PRICE"


@dataclass(frozen=True, slots=True)
class Extraction:
    """``FROM JSON '$.last'``: a reader and its selector."""

    reader: Reader
    selector: str


def css_parts(selector: str) -> tuple[str, str | None]:
    """Return the CSS of a selector, empty for the row itself, and the attribute to read instead of the text.

    >>> css_parts("main a::attr(href)"), css_parts("h1")
    (('main a', 'href'), ('h1', None))
    """
    named = _ATTRIBUTE.fullmatch(selector)
    return (named[1], named[2]) if named else (selector, None)


PAGE_TEXT = "text"
"""The one field of a class without fields: the whole text of the page."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a page class."""

    path: str
    type: FieldType
    extraction: Extraction | None = None  # where its value is read; `None` for feed paths
    # Whether its value may be missing by design; otherwise a missing value is a silence, and the last known one still
    # counts as `OLD`. It is no part of how a page is read, and so not of the representation.
    is_nullable: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class PageClass:
    """A kind of page: its fields and, for pages of many rows, the selector and the key of a row."""

    name: str
    domain: str
    fields: tuple[Field, ...] = ()
    each: Extraction | None = None
    key: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # what the lines hold that are left out of the text of a whole page

    @property
    def is_feed(self) -> bool:
        """Whether its fields are paths of a feed."""
        return bool(self.fields) and all(f.path.lower().startswith("channel.") for f in self.fields)

    @property
    def is_text(self) -> bool:
        """Whether it is the text of a whole page."""
        return [(each.path, each.extraction) for each in self.fields] == [(PAGE_TEXT, None)]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The paths of its fields with numbers."""
        return tuple(each.path for each in self.fields if each.type in {FieldType.DECIMAL, FieldType.INTEGER})


@dataclass(frozen=True, slots=True)
class Domain:
    """A named set of page classes, by name."""

    name: str
    classes: Mapping[str, PageClass]


@dataclass(frozen=True, slots=True)
class Politeness:
    """At most ``probes`` in each ``per_s`` seconds, with ``spacing`` between two; ``None`` means no limit."""

    probes: int | None = None
    per: Duration | None = None
    spacing: Duration | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """The update rate its author expects: ``amount`` items per ``per``."""

    amount: Decimal
    per: Duration


@dataclass(frozen=True, slots=True)
class Auth:
    """``AUTH BEARER SECRET ...`` or ``AUTH BASIC 'user' SECRET ...``."""

    scheme: str
    secret: SecretRef
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Rendering:
    """``FETCH BROWSER [WAIT FOR 'css']``: a browser runs the scripts of a page, until the selector finds something."""

    wait_for: str | None = None


RENDER_UNITS = 10
"""How many probes of the budget a render costs."""


@dataclass(frozen=True, slots=True)
class Source:
    """A remote resource that can be probed; its name is its identity. ``post`` is the body, if it is asked by POST."""

    source_id: str
    page_class: str
    domain: str
    url: str
    politeness: Politeness | None = None
    expect: Expect | None = None
    zone: str | None = None
    locale: str | None = None
    freshness: bool | None = None
    headers: tuple[tuple[str, str | SecretRef], ...] = ()
    auth: Auth | None = None
    post: str | None = None
    websub: bool | None = None
    robots: bool | None = None
    backoff: bool | None = None
    ignored: tuple[str, ...] = ()
    rendering: Rendering | None = None
    full_articles: bool = False  # whether the page of an item is read where its feed has only a teaser
    site: SiteChecks | None = None  # of a source of class SITE

    @property
    def may_be_pushed(self) -> bool:
        """Whether a hub may push it: hubs push only what is asked for by GET, and as the server sends it."""
        return self.websub is not False and self.post is None and self.rendering is None

    @property
    def probe_units(self) -> int:
        """What a probe costs, in probes of the budget."""
        return 1 if self.rendering is None else RENDER_UNITS

    @property
    def expected_per_s(self) -> float | None:
        """The update rate that its author expects (EXPECT), in items per second, or ``None``."""
        if self.expect is None:
            return None
        return float(self.expect.amount) / self.expect.per.in_seconds(chronon_s=1.0)


class Anchor(Enum):
    """What a time point is measured from."""

    NOW = "NOW"
    ABSOLUTE = "ABSOLUTE"
    NEVER = "NEVER"


@dataclass(frozen=True, slots=True)
class TimePoint:
    """``NOW`` plus ``offset`` (negative for minus), an absolute time in unix seconds, or ``NEVER``."""

    anchor: Anchor
    offset: Duration | None = None
    time_s: float | None = None

    def resolve(self, now_s: float, *, chronon_s: float) -> float:
        """Return unix seconds; infinity for NEVER. ``now_s`` is when the rule was first accepted."""
        if self.anchor is Anchor.NEVER:
            return float("inf")
        if self.anchor is Anchor.ABSOLUTE:
            assert self.time_s is not None
            return self.time_s
        return now_s + (self.offset.in_seconds(chronon_s=chronon_s) if self.offset else 0.0)


@dataclass(frozen=True, slots=True)
class After:
    """``AFTER 3 PROBES`` or ``AFTER 1 HOUR``: how long a condition at a source lasts before it is an event."""

    probes: int | None = None
    time: Duration | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Then:
    """``THEN [NO] UPDATE TO class [WHERE ...] WITHIN 10 MINUTES``: the answer that a first event waits for.

    With ``is_absent`` the rule fires if no such event follows in time. In ``where`` the qualifier ``FIRST`` names the
    first event.
    """

    kind: EventKind
    page_class: ClassName
    within: Duration
    where: Expression | None = None
    is_absent: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


FIRST = "FIRST"
"""How the WHERE of an answer calls the first event."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """``ON INSERT|UPDATE|DELETE TO class [WHERE ...] [WHEN condition | THEN ...]``, or an event of a source itself.

    ``where`` says which events count, and ``condition`` on which of those the rule fires. In a checked trigger a
    condition always holds an aggregate; one that does not is part of ``where``. ``after`` is only of sources.
    """

    kind: EventKind
    page_class: ClassName
    where: Expression | None = None
    condition: Expression | None = None
    after: After | None = None
    then: Then | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)

    @property
    def is_mixed(self) -> bool:
        """Whether the condition reads aggregates and the event's own fields."""
        return self.condition is not None and is_mixed(self.condition)

    @property
    def lasting(self) -> After:
        """How long a condition at a source lasts before it is this event."""
        return self.after or After(probes=self.kind.patience)


class UtilityKind(Enum):
    """How value decays between an event and its capture."""

    STRICT = "STRICT"
    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"


@dataclass(frozen=True, slots=True)
class Utility:
    """A strict utility, or a decay over ``length`` (LINEAR: to zero; EXPONENTIAL: its half-life)."""

    kind: UtilityKind
    length: Duration | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """What ends an execution interval: the source's next update if ``window`` is ``None``, otherwise the window."""

    window: Duration | None = None


class PolicyName(Enum):
    """The policies that a rule can ask for."""

    AUTO = "AUTO"
    SUP = "SUP"
    FBSUP = "FBSUP"
    DOE = "DOE"
    ADAPTIVE = "ADAPTIVE"
    MEMORYLESS = "MEMORYLESS"
    INDEX = "INDEX"
    GOLDEN = "GOLDEN"
    UNIFORM = "UNIFORM"


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """``SET POLICY``: UNIFORM has a ``period``; DOE has ``probes`` in ``per``, ``spacing`` apart."""

    name: PolicyName
    period: Duration | None = None
    probes: int | None = None
    per: Duration | None = None
    spacing: Duration | None = None

    @property
    def leaves_times(self) -> bool:
        """Whether proxyd chooses the number and the times of probes by what they are worth."""
        return self.name in {PolicyName.AUTO, PolicyName.INDEX}


@dataclass(frozen=True, slots=True)
class ImportanceTerm:
    """A weight and the time when it holds: ``during`` such as ``Mon-Fri 09:00-18:00``; ``None`` for OTHERWISE."""

    weight: Decimal
    during: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Digest:
    """``SET DIGEST EVERY 1 HOUR [AT MOST 20 ITEMS]``, or daily or weekly at a time of day.

    >>> from proxyd.core.model.expression import Unit
    >>> Digest(Duration(Decimal(1), Unit.HOURS)).end_s(7199.0, chronon_s=10.0)
    7200.0
    """

    when: Duration | WallTime
    at_most: int | None = None

    def end_s(self, made_s: float, *, chronon_s: float) -> float:
        """Return when the notifications that were made at a time are sent, both in unix seconds.

        Periods of a length are counted from 1970, in UTC.
        """
        if isinstance(self.when, WallTime):
            return self.when.next_s(made_s)
        every_s = self.when.in_seconds(chronon_s=chronon_s)
        return (made_s // every_s + 1.0) * every_s


@dataclass(frozen=True, slots=True)
class NotificationLimit:
    """``SET LIMIT 1 PER DAY [PER SOURCE | PER title]``: at most so many notifications are sent in any such time.

    With ``per_source``, or with a field in ``key``, each source or value has a limit of its own.
    """

    most: int
    per: Duration
    per_source: bool = False
    key: Column | None = None


class MessageName(Enum):
    """What a message can name beside fields: its rule, and the source of its event."""

    RULE = "rule"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """``SET MESSAGE '...'``: texts, and the values between them."""

    parts: tuple[str | MessageName | Expression, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Domains (none: all that are declared), users, and what holds for those of its rules that set nothing else."""

    name: str
    domains: tuple[str, ...]
    users: tuple[str, ...]
    deliveries: tuple[Delivery, ...] = ()
    digest: Digest | None = None
    quiet: QuietHours | None = None
    file: str = field(default="<text>", compare=False)


@dataclass(frozen=True, slots=True)
class NotificationRule:
    """Query, trigger, period and utility, and the options that a rule may set."""

    name: str
    profiles: tuple[str, ...]
    query: Select
    trigger: Trigger
    start: TimePoint
    end: TimePoint
    utility: Utility
    source_ids: tuple[str, ...]  # the sources of the trigger and query, resolved by the checker
    life: Life | None = None
    target: Decimal | None = None  # the share of its items, in percent, that is to be seen in time
    importance: tuple[ImportanceTerm, ...] = ()
    policy: PolicyChoice = PolicyChoice(PolicyName.AUTO)
    longest_gap: Duration | None = None  # between two probes of each of its sources, whatever a probe is worth
    deliveries: tuple[Delivery, ...] = ()  # these and `digest` include the defaults of its profiles
    digest: Digest | None = None
    quiet: tuple[QuietHours, ...] = ()  # of all its profiles: only while all are quiet its messages wait
    limit: NotificationLimit | None = None
    sends_empty: bool = False
    keeps_screenshot: bool = False
    message: MessageTemplate | None = None
    fingerprint: str = ""  # changes exactly when the trigger class, the condition or FROM SOURCES change
    # Changes exactly when the events that its counters see do: as long as it is the same, an edited rule keeps every
    # counter whose expression stays
    counted: str = ""
    file: str = field(default="<text>", compare=False)


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that a directory of profiles (and the API) declares, checked as a whole, by name."""

    domains: Mapping[str, Domain]
    sources: Mapping[str, Source]
    profiles: Mapping[str, Profile]
    rules: Mapping[str, NotificationRule]

    def is_text_of_page(self, source_id: str) -> bool:
        """Whether a source is the text of a whole page."""
        source = self.sources[source_id]
        return source.site is None and self.page_class(source).is_text

    def page_class(self, source: Source) -> PageClass:
        """Return the class of a source."""
        return self.domains[source.domain].classes[source.page_class]


EMPTY_DECLARATION = Declaration({}, {}, {}, {})


BUILT_IN_NAME = "built-in"
"""The domain of the classes that need no declaration."""

SOURCE_CLASS = PageClass(
    "SOURCE",
    BUILT_IN_NAME,
    (
        Field("source.name", FieldType.STRING),
        Field("source.url", FieldType.URL),
        Field("source.status", FieldType.INTEGER),
        Field("source.latency", FieldType.DECIMAL),
        Field("source.error", FieldType.STRING),
        Field("source.since", FieldType.TIMESTAMP),
        Field("source.moved", FieldType.URL),
        Field("source.silent", FieldType.STRING),
        Field("source.trouble", FieldType.STRING),
    ),
)
"""The class of the sources themselves: its events are failures, recoveries, moves, empty documents and probes."""

SITE_CLASS = PageClass("SITE", BUILT_IN_NAME)
"""The class of sites: a probe looks whether one answers, and reads no document."""

PROBE_FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "probe.status": Field("probe.status", FieldType.INTEGER),
        "probe.latency": Field("probe.latency", FieldType.DECIMAL),
    }
)
"""What every other class can read of the probe that found an event, by path: the status, and the seconds it took."""


PREVIEW_FIELD = "html"
ARTICLE = PageClass("ARTICLE", "", (Field(PREVIEW_FIELD, FieldType.STRING),))
"""The main text of a page, for people who read an item; no declaration can name it."""
PREVIEW = PageClass("PREVIEW", "", (Field(PREVIEW_FIELD, FieldType.STRING),))
"""Only the dashboard uses it: no declaration can name it."""


# -- names of what belongs to a profile: `profile⋮name`, so that two owners may use one name

MARK = "⋮"
"""Between an owner and a name. It is visible and on no keyboard, so that nobody has it in a name by chance."""


def owner_of(name: str) -> str | None:
    """Return the profile that owns what has this name, or ``None`` if it is shared.

    >>> owner_of("ann⋮news"), owner_of("news")
    ('ann', None)
    """
    if MARK not in name:  # nearly all are without, and there may be 100,000
        return None
    return name.partition(MARK)[0] or None


def plain_name(name: str) -> str:
    """Return a name as its owner writes it.

    >>> plain_name("ann⋮news"), plain_name("news")
    ('news', 'news')
    """
    return name if owner_of(name) is None else name.partition(MARK)[2]


def full_name(owner: str | None, name: str) -> str:
    """Return the name of what a profile owns; one that is complete already stays.

    >>> full_name("ann", "news"), full_name("ann", "ann⋮news"), full_name(None, "news")
    ('ann⋮news', 'ann⋮news', 'news')
    """
    return name if owner is None or owner_of(name) == owner else f"{owner}{MARK}{name}"


def by_owner(known: Iterable[str]) -> dict[str | None, dict[str, str]]:
    """Return full names by owner, and then as their owner writes them.

    >>> by_owner(["a", "ann⋮a"])
    {None: {'a': 'a'}, 'ann': {'a': 'ann⋮a'}}
    """
    found: dict[str | None, dict[str, str]] = {}
    for name in known:
        found.setdefault(owner_of(name), {})[plain_name(name)] = name
    return found


def visible(known: Iterable[str], owner: str | None) -> dict[str, str]:
    """Return the full names of what an owner can name, by the names that the owner writes: the own, and the shared.

    >>> visible(["a", "ann⋮a", "ben⋮b"], "ann"), visible(["a", "ann⋮a"], None)
    ({'a': 'ann⋮a'}, {'a': 'a'})
    """
    found = by_owner(each for each in known if owner_of(each) in {None, owner})
    return found.get(None, {}) | found.get(owner, {})


def found_name(name: str, known: Mapping[str, object], owners: Iterable[str]) -> str:
    """Return the full name of what some owners mean by a name: what is theirs comes before what is shared.

    >>> found_name("a", {"a": 1, "ann⋮a": 2}, ["ben", "ann"]), found_name("b", {"a": 1}, ["ann"])
    ('ann⋮a', 'b')
    """
    return next((full for each in owners if (full := full_name(each, name)) in known), name)
