"""What the REST API answers, made of docs/openapi.json by tests/golden/test_types_of_the_client.py."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Attempt(TypedDict):
    """One attempt to deliver."""

    at: str
    endpoint: str
    digest_id: str | None
    duration_s: float
    result: str
    detail: str | None


class ComingProbe(TypedDict):
    """A planned probe."""

    source: str
    at: str
    reason: str
    rule: str | None
    rate_per_day: float


class CountedItem(TypedDict):
    """The item that a rule on every n-th item waits for, and the chance that it comes by the probe planned for it."""

    number: int
    chance: float
    by: str


class Day(TypedDict):
    """The results and the predictions of one day (UTC)."""

    day: str
    probes: int
    items: int
    predicted_items: float
    mean_delay_s: float | None
    predicted_mean_delay_s: float | None
    captured: int
    missed: int
    completeness: float | None
    predicted_completeness: float | None
    off: bool


class DeadLetter(TypedDict):
    """A delivery that was given up; a replay sends it again."""

    position: int
    notification: str
    rule: str
    endpoint: str
    attempts: int
    done: str | None
    last_error: str | None


class DeedShown(TypedDict):
    """What somebody changed."""

    at: str
    who: str
    way: str
    address: str
    did: str
    subject: str
    detail: str


class DeliveryState(TypedDict):
    """The delivery of a notification to one endpoint."""

    endpoint: str
    state: str
    attempts: int
    next: str | None
    done: str | None
    last_error: str | None


class DomainField(TypedDict):
    """A field of a page class."""

    path: str
    type: str


class DropWritten(TypedDict):
    """``DROP``."""

    kind: Literal["PROFILE", "NOTIFICATION", "SOURCE", "DOMAIN", "RECEIVER"]
    name: str


class Dropped(TypedDict):
    """The token was revoked, or the person was removed."""

    dropped: NotRequired[Literal[True]]


class EnclosureShown(TypedDict):
    """A file that belongs to an item."""

    url: str
    kind: Literal["audio", "video", "image", "file"]


class Fault(TypedDict):
    """One error, at a line of a text, a member of a body, or a parameter."""

    detail: str
    file: NotRequired[str | None]
    line: NotRequired[int | None]
    column: NotRequired[int | None]
    source_line: NotRequired[str | None]
    pointer: NotRequired[str | None]
    parameter: NotRequired[str | None]


class Finding(TypedDict):
    """An event that a probe found."""

    kind: str
    item: str
    event: str


class Health(TypedDict):
    """The event loop is alive."""

    alive: NotRequired[Literal[True]]


class HostShown(TypedDict):
    """How a host answers, and when it may be asked again."""

    host: str
    requests: int
    answers: int
    throttles: int
    failures: int
    since: str
    last: str
    last_outcome: str
    last_status: int | None
    spacing_s: float
    free: str | None
    throttled_until: str | None


class IncidentShown(TypedDict):
    """A time in which a site was down."""

    began: str
    ended: str | None
    length_s: float
    reason: str


class IntervalOfRule(TypedDict):
    """An interval in which a rule expected a probe of a source, and its result."""

    source: str
    start: str
    end: str | None
    fate: Literal["captured", "late", "missed"]
    probed: str | None
    exact: bool
    delay_s: float | None
    utility: float


class IntervalShown(TypedDict):
    """An interval on one source, and whether it was captured."""

    source: str
    start: str
    end: str | None
    probed: str | None
    captured: bool
    exact: bool
    delay_s: float
    utility: float


class ItemEvent(TypedDict):
    """An item of a source that came, changed or went away."""

    position: int
    kind: Literal["insert", "update", "delete"]
    id: str
    first: bool
    old: bool
    title: str
    link: str | None
    text: str
    values: dict[str, Any]
    changes: dict[str, Any]
    words: int | None
    came: str | None
    seen: str
    delay_s: float | None


class ItemFound(TypedDict):
    """An item that a search found or a list shows, as it is now."""

    position: int
    source: str
    event: int
    id: str
    title: str
    text: str
    link: str | None
    came: str | None
    seen: str
    gone: bool
    update: bool
    read: bool
    starred: bool


class ItemShown(ItemFound):
    """An item with its content."""

    author: str | None
    content: str
    full: bool
    full_failure: str | None
    values: dict[str, Any]
    enclosures: list[EnclosureShown]


class KeptPromiseShown(TypedDict):
    """The share of a source's items that a rule was to see in time, and the one that it saw, in the last seven days."""

    rule: str
    intervals: int
    promised: float
    kept: float


class LatencyShown(TypedDict):
    """How long the probes of an hour took that a site answered."""

    at: str
    median_s: float
    p95_s: float


class LimitsShown(TypedDict):
    """How much may belong to the profiles of a token or a person; what is null has no limit."""

    sources: NotRequired[int | None]
    rules: NotRequired[int | None]
    receivers: NotRequired[int | None]
    probes: NotRequired[int | None]


class MarksMade(TypedDict):
    """How many items were marked; null if all were marked up to a position."""

    items: int | None


class MessageShown(TypedDict):
    """The text of a notification as some of its receivers get it, by itself; a digest holds others too."""

    endpoints: list[str]
    title: str
    text: str


class ModelOff(TypedDict):
    """A source whose model does not fit its recent items, and how proxyd reacts."""

    source: str
    rate_off_since: str | None
    found: float
    expected: float
    week_off_since: str | None
    week_score: float
    summary: list[str]


class MoveShown(TypedDict):
    """A permanent move of a source."""

    source: str
    declared: str
    url: str
    state: Literal["seen", "proposed", "accepted"]
    since: str
    probes: int
    file: str | None
    line: int | None


class NotificationListed(TypedDict):
    """A notification and its deliveries."""

    id: str
    position: int
    rule: str
    source: str
    event: str
    created: str
    late: bool
    muted: bool
    limited: bool
    screenshot: str | None
    body: dict[str, Any]
    deliveries: list[DeliveryState]


class PageClassShown(TypedDict):
    """A class of pages."""

    name: str
    is_feed: bool
    fields: list[DomainField]
    key: list[str]


class ParetoPoint(TypedDict):
    """A number of intervals that can be captured, and the least possible mean delay."""

    captured: int
    delay_s: float


class PersonInvited(TypedDict):
    """An invited person; only this response contains the link."""

    name: str
    link: str
    mailed: bool
    mail_error: str | None


class PersonShown(TypedDict):
    """Somebody who may sign in to the dashboard."""

    name: str
    scope: Literal["read", "write", "admin"]
    profiles: list[str]
    has_password: bool
    mail: str | None
    limits: LimitsShown


class PolicyUsed(TypedDict):
    """The policy of a rule for a source, why it was chosen, and what it promises."""

    policy: str
    because: str
    promised: str | None
    expected: float | None


class ProbeAsked(TypedDict):
    """A probe that was asked for."""

    source: str
    at: str
    waits_for: str | None
    under_way: bool


class ProbeMade(TypedDict):
    """A probe of the last days, with its reason and its outcome."""

    position: int
    started: str
    duration_s: float
    reason: str
    rule: str | None
    outcome: str
    status: int | None
    detail: str
    items: int
    updates: int
    delay_s: float | None
    body_bytes: int
    requests: int


class ProbeShown(TypedDict):
    """The probe, or push, that found an event."""

    source: str
    url: str | None
    finished: str | None
    outcome: str | None
    found: list[Finding]


class PromiseShown(KeptPromiseShown):
    """The share of its items that a rule was to see in time, and the one that it saw, in a week from Monday (UTC)."""

    week: str
    off: bool


class ReaderWritten(TypedDict):
    """The selector of a value or a row in a page."""

    reader: Literal["JSON", "CSS", "XPATH", "META", "JSONLD", "PRICE"]
    selector: str


class Readiness(TypedDict):
    """Whether the daemon is ready for traffic."""

    ready: bool
    checks: dict[str, bool]


class ReceiverShown(TypedDict):
    """A receiver of notifications that has a name."""

    name: str
    declared_by: str
    text: str


class Reloaded(TypedDict):
    """The profile files were loaded."""

    reloaded: NotRequired[Literal[True]]


class RemovedShown(TypedDict):
    """What somebody removed at once from what the API had declared."""

    id: str
    kind: str
    name: str
    text: str
    at: str
    by: str


class Replayed(TypedDict):
    """The number of deliveries that are due again."""

    deliveries: int


class ReportShown(TypedDict):
    """The results of each day, what rules kept of their targets, and the sources whose models do not fit now."""

    days: list[Day]
    off: list[ModelOff]
    promises: list[PromiseShown]
    promises_left_out: int


class RuleFailing(TypedDict):
    """How a rule failed the last time it was evaluated."""

    failures: int
    source: str
    reason: str
    at: str
    suspended: str | None


class RuleOutlookShown(TypedDict):
    """The number of intervals of a rule that cannot be probed, by constraint."""

    rule: str
    intervals: int
    unmet: dict[str, int]


class SecretWritten(TypedDict):
    """The place of a secret: an environment variable or a file in the secrets folder."""

    env: NotRequired[str | None]
    file: NotRequired[str | None]


class ShareTradeShown(TypedDict):
    """The probes that it takes to give every rule a share of its items in time."""

    share: float
    expected: float
    probes_per_hour: float
    delay_s: float


class SilentField(TypedDict):
    """A field that has shown no value since a time, or `items` if the source shows none at all."""

    field: str
    since: str
    probes: int


class SiteDayShown(TypedDict):
    """A day of a site, in UTC."""

    date: str
    uptime: float | None
    down_s: float


class SiteExpiryShown(TypedDict):
    """When the certificate and the domain of a site expire."""

    certificate: str | None
    domain: str
    domain_expires: str | None
    problem: str


class SuspensionShown(TypedDict):
    """A paused source, or what is muted: a rule, a profile or everything."""

    subject: Literal["source", "rule", "profile", "all"]
    name: str
    since: str
    until: str | None
    by: str


class TargetShown(TypedDict):
    """The target of a rule: the share of its items to be seen in time, and what the plan is expected to reach."""

    rule: str
    share: float
    expected: float
    reachable: float
    probes_per_hour: float
    needed_per_hour: float
    limit: str | None


class TestResult(TypedDict):
    """What became of a test message: `error` is null if the receiver accepted it, and `answer` what it said then."""

    endpoint: str
    error: str | None
    answer: str | None


class TokenMade(TypedDict):
    """A new token; only this response contains its text."""

    name: str
    scope: Literal["read", "write", "admin"]
    token: str


class TokenShown(TypedDict):
    """A token without its secret."""

    id: str
    name: str
    scope: Literal["read", "write", "admin"]
    created: str
    expires: str | None
    profiles: list[str]
    person: str | None
    limits: LimitsShown


class ToldOfItem(TypedDict):
    """What a rule made of an item."""

    rule: str
    fate: Literal["told", "waiting", "kept", "left out"]
    why: list[str]
    notification: str | None


class TradeShown(TypedDict):
    """The expected result of a number of detection probes."""

    probes_per_hour: float
    delay_s: float
    completeness: float
    price_item_hours: float


class UptimeShown(TypedDict):
    """The share of the time in which a site was up; null if nothing is known of that time."""

    day: float | None
    week: float | None
    month: float | None
    quarter: float | None


class WebhookShown(TypedDict):
    """A webhook and whether it has accepted a ping."""

    endpoint: str
    form: str
    secret_name: str
    state: str
    since: str
    detail: str | None
    refused: list[str]


class AdviceShown(TypedDict):
    """What other budgets would achieve, and which rules the current one cannot satisfy."""

    budget_per_hour: float
    planned_per_hour: float | None
    trade: list[TradeShown]
    intervals_over_s: float
    rules: list[RuleOutlookShown]
    pareto: list[ParetoPoint]
    needed_per_hour: float | None
    targets: list[TargetShown]
    shares: list[ShareTradeShown]
    two_points_per_day: float | None
    silent_planners: list[str]


class AuthWritten(TypedDict):
    """``AUTH``: Basic with a user, otherwise Bearer."""

    user: NotRequired[str | None]
    secret: SecretWritten


class CostShown(TypedDict):
    """The demand of a declaration, in probes an hour of all sources, by a plan of the week that is made for it."""

    budget_per_hour: float
    asked_per_hour: float
    asked_per_hour_before: float
    sources_added: int
    sources_removed: int
    unmet: list[RuleOutlookShown]
    targets: list[TargetShown]


class DeliveryWritten(TypedDict):
    """A delivery: a webhook with its secret, a mail address, a channel, a name in the log, or a receiver's name."""

    webhook: NotRequired[str | None]
    secret: NotRequired[SecretWritten | None]
    form: NotRequired[Literal["STANDARD", "GITHUB", "CLOUDEVENTS"] | None]
    payload: NotRequired[int | None]
    mail: NotRequired[str | None]
    channel: NotRequired[str | None]
    log: NotRequired[str | None]
    receiver: NotRequired[str | None]


class DomainShown(TypedDict):
    """A named set of page classes."""

    name: str
    classes: list[PageClassShown]


class Explained(TypedDict):
    """When a source is probed next and why, also in words, and what its rules kept of their targets."""

    source: str
    url: str
    paused: SuspensionShown | None
    learning: bool
    rate_per_day: float
    rate_range_per_day: tuple[float, float]
    policies: dict[str, PolicyUsed]
    intervals: dict[str, tuple[str, str | None]]
    counted: dict[str, CountedItem]
    host_free: str | None
    fresh_until: str | None
    next_probe: ComingProbe | None
    chance: float | None
    because: str
    blocked_by: str | None
    earliest: str | None
    rules: list[str]
    postponed: dict[str, int]
    unmet_intervals: int
    price_item_hours: float | None
    off: ModelOff | None
    first_contact: str | None
    newest: str | None
    last_probe: str | None
    last_outcome: str | None
    last_detail: str | None
    failures: int
    silent: list[SilentField]
    items_seen: int
    items_lost_estimated: float
    summary: list[str]
    week: list[float]
    kept: list[KeptPromiseShown]


class FieldWritten(TypedDict):
    """
    A field of a class; `found` is its selector if the class is not a feed.

    `or_null` says that the value of a page's field may be missing by design.
    """

    path: str
    type: Literal["String", "Integer", "Decimal", "Boolean", "Timestamp", "URL"]
    or_null: NotRequired[bool]
    found: NotRequired[ReaderWritten | None]


class HeaderWritten(TypedDict):
    """``HEADER``: a value, or the place of a secret one."""

    name: str
    value: NotRequired[str | None]
    secret: NotRequired[SecretWritten | None]


class ChangesMade(TypedDict):
    """The changes of a declaration, by rule; in restarted rules counters start again, and NOW is kept."""

    added: list[str]
    removed: list[str]
    restarted: list[str]
    counters: dict[str, list[str]]
    dry_run: NotRequired[bool]
    cost: NotRequired[CostShown | None]
    warnings: NotRequired[list[Fault]]


class ImportMade(ChangesMade):
    """What an import changed; the first `faults` say what is wrong with addresses that are `unreadable`."""

    sources_added: int
    sources_known: int
    unreadable: int
    faults: list[str]


class ItemFates(TypedDict):
    """An item of a source, and what each rule that reads the source made of it."""

    item: ItemEvent
    state: str | None
    rules: list[ToldOfItem]


class MoveMade(TypedDict):
    """What was done, and what to write so that it lasts; `move` is null if it led back to the declared address."""

    said: str
    move: MoveShown | None


class NotificationTraced(NotificationListed):
    """A notification, the probe that led to it, its deliveries and its texts."""

    messages: list[MessageShown]
    intervals: list[IntervalShown]
    probe: ProbeShown
    rows: list[dict[str, Any]]
    attempts: list[Attempt]
    summary: list[str]


class NotificationWritten(TypedDict):
    """``INSERT NOTIFICATION``; an empty list of deliveries is ``SET DELIVERY NONE``."""

    name: str
    profiles: NotRequired[list[str]]
    sources: NotRequired[list[str]]
    query: NotRequired[str | None]
    trigger: NotRequired[str | None]
    start: NotRequired[str | None]
    end: NotRequired[str | None]
    utility: NotRequired[str | None]
    life: NotRequired[str | None]
    target: NotRequired[str | None]
    importance: NotRequired[str | None]
    policy: NotRequired[str | None]
    deliveries: NotRequired[list[DeliveryWritten] | None]
    longest_gap: NotRequired[str | None]
    digest: NotRequired[str | None]
    quiet: NotRequired[Literal["NONE"] | None]
    limit: NotRequired[str | None]
    empty: NotRequired[Literal["DELIVER"] | None]
    screenshot: NotRequired[bool]
    message: NotRequired[str | None]


class ProfileWritten(TypedDict):
    """``CREATE PROFILE``."""

    name: str
    domains: NotRequired[list[str]]
    languages: NotRequired[list[str]]
    users: NotRequired[list[str]]
    deliveries: NotRequired[list[DeliveryWritten]]
    digest: NotRequired[str | None]
    quiet: NotRequired[str | None]
    trouble: NotRequired[list[DeliveryWritten]]


class ReceiverWritten(TypedDict):
    """``CREATE RECEIVER``; ``to`` names no other receiver."""

    name: str
    to: list[DeliveryWritten]


class Rule(TypedDict):
    """A notification rule."""

    captured: int
    missed: int
    completeness: float | None
    utility: float | None
    name: str
    profiles: list[str]
    origin: str
    sources: list[str]
    source_count: int
    policy: str
    fingerprint: str
    counting: str
    deliveries: int
    keeps_screenshot: bool
    muted: SuspensionShown | None
    failing: RuleFailing | None


class SiteShown(TypedDict):
    """How a site fares now and how it did in the last 90 days."""

    name: str
    title: str
    url: str
    state: Literal["up", "down", "unknown", "maintenance"]
    detail: str
    since: str | None
    probed: str | None
    latency_s: float | None
    uptime: UptimeShown
    expires: SiteExpiryShown
    days: list[SiteDayShown]


class SiteDetails(SiteShown):
    """How a site fares, its outages, and how long it took to answer in the last week."""

    incidents: list[IncidentShown]
    latencies: list[LatencyShown]
    median_s: float | None
    p95_s: float | None


SourceListed = TypedDict(
    "SourceListed",
    {
        "source": str,
        "url": str,
        "paused": SuspensionShown | None,
        "learning": bool,
        "rate_per_day": float,
        "rate_range_per_day": tuple[float, float],
        "policies": dict[str, PolicyUsed],
        "intervals": dict[str, tuple[str, str | None]],
        "counted": dict[str, CountedItem],
        "host_free": str | None,
        "fresh_until": str | None,
        "next_probe": ComingProbe | None,
        "chance": float | None,
        "because": str,
        "blocked_by": str | None,
        "earliest": str | None,
        "rules": list[str],
        "postponed": dict[str, int],
        "unmet_intervals": int,
        "price_item_hours": float | None,
        "off": ModelOff | None,
        "first_contact": str | None,
        "newest": str | None,
        "last_probe": str | None,
        "last_outcome": str | None,
        "last_detail": str | None,
        "failures": int,
        "silent": list[SilentField],
        "items_seen": int,
        "items_lost_estimated": float,
        "class": str,
        "domain": str,
    },
)


SourceWritten = TypedDict(
    "SourceWritten",
    {
        "name": str,
        "class": str,
        "domain": NotRequired[str | None],
        "url": str,
        "politeness": NotRequired[str | None],
        "expect": NotRequired[str | None],
        "zone": NotRequired[str | None],
        "locale": NotRequired[str | None],
        "freshness": NotRequired[Literal["OBEY", "IGNORE"] | None],
        "headers": NotRequired[list[HeaderWritten]],
        "auth": NotRequired[AuthWritten | None],
        "post": NotRequired[str | None],
        "websub": NotRequired[Literal["ON", "OFF"] | None],
        "robots": NotRequired[Literal["OBEY", "IGNORE"] | None],
        "backoff": NotRequired[Literal["ON", "OFF"] | None],
        "ignore": NotRequired[list[str]],
        "fetch": NotRequired[Literal["BROWSER"] | None],
        "wait_for": NotRequired[str | None],
        "full_articles": NotRequired[Literal["ARTICLES"] | None],
        "certificate": NotRequired[str | None],
        "domain_expiry": NotRequired[str | None],
        "holding": NotRequired[str | None],
        "maintenance": NotRequired[str | None],
    },
)


class SuspensionMade(TypedDict):
    """What was done."""

    said: str
    changed: bool
    notifications: int
    suspension: SuspensionShown | None


class ClassWritten(TypedDict):
    """A class: the fields of a kind of feed or page."""

    name: str
    fields: NotRequired[list[FieldWritten]]
    each: NotRequired[ReaderWritten | None]
    key: NotRequired[list[str]]


class DomainWritten(TypedDict):
    """``CREATE DOMAIN``."""

    name: str
    classes: list[ClassWritten]


class ProfileListed(TypedDict):
    """A profile with the sum of the results of its rules."""

    captured: int
    missed: int
    completeness: float | None
    utility: float | None
    name: str
    origin: str
    domains: list[str]
    users: list[str]
    rules: list[Rule]
    muted: SuspensionShown | None


class DeclarationWritten(TypedDict):
    """A declaration as JSON."""

    drop: NotRequired[list[DropWritten]]
    domains: NotRequired[list[DomainWritten]]
    sources: NotRequired[list[SourceWritten]]
    profiles: NotRequired[list[ProfileWritten]]
    receivers: NotRequired[list[ReceiverWritten]]
    notifications: NotRequired[list[NotificationWritten]]


class ProfileShown(ProfileListed):
    """A profile with its text in canonical layout, and the same as JSON."""

    text: str
    declared: DeclarationWritten
