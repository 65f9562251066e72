"""What the REST API answers, made of docs/openapi.json by tests/golden/test_client_types.py."""

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
    """A probe that is planned."""

    source: str
    at: str
    reason: str
    rule: str | None
    rate_per_day: float


class Day(TypedDict):
    """What was found beside what was predicted, on a day of UTC."""

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


class DeadLetter(TypedDict):
    """A delivery that was given up; a replay sends it again."""

    position: int
    notification: str
    rule: str
    endpoint: str
    attempts: int
    done: str | None
    last_error: str | None


class DeliveryState(TypedDict):
    """A notification on its way to one endpoint."""

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


class Dropped(TypedDict):
    """It is gone."""

    dropped: NotRequired[Literal[True]]


class Fault(TypedDict):
    """One thing that is wrong: at a line of a text, a member of a body, or a parameter."""

    detail: str
    file: NotRequired[str | None]
    line: NotRequired[int | None]
    column: NotRequired[int | None]
    source_line: NotRequired[str | None]
    pointer: NotRequired[str | None]
    parameter: NotRequired[str | None]


class Finding(TypedDict):
    """What a probe found."""

    kind: str
    item: str
    event: str


class Health(TypedDict):
    """The loop is alive."""

    alive: NotRequired[Literal[True]]


class IntervalShown(TypedDict):
    """An execution interval on one page, and whether it was captured."""

    source: str
    start: str
    end: str | None
    probed: str
    captured: bool
    exact: bool
    delay_s: float
    utility: float


class ItemSeen(TypedDict):
    """When an item came, as it says itself, and when it was seen."""

    came: str
    seen: str
    delay_s: float


class ItemsComingProbe(TypedDict):
    items: list[ComingProbe]


class ItemsItemSeen(TypedDict):
    items: list[ItemSeen]


class ModelOff(TypedDict):
    """What is off with a source's model, and what is done about it."""

    source: str
    rate_off_since: str | None
    found: float
    expected: float
    week_off_since: str | None
    week_score: float
    summary: list[str]


class NotificationListed(TypedDict):
    """A notification and its deliveries."""

    id: str
    position: int
    rule: str
    source: str
    event: str
    created: str
    late: bool
    body: dict[str, Any]
    deliveries: list[DeliveryState]


class PageClassShown(TypedDict):
    """A kind of page."""

    name: str
    is_feed: bool
    fields: list[DomainField]
    key: list[str]


class PageDeadLetter(TypedDict):
    items: list[DeadLetter]
    next_cursor: NotRequired[str | None]


class PageNotificationListed(TypedDict):
    items: list[NotificationListed]
    next_cursor: NotRequired[str | None]


class ParetoPoint(TypedDict):
    """So many intervals can be captured, and then with this mean delay at the least."""

    captured: int
    delay_s: float


class PolicyUsed(TypedDict):
    """A rule's policy on a source, and why it is that one."""

    policy: str
    because: str


class ProbeMade(TypedDict):
    """A probe of the last days: why it was made, and what came of it."""

    position: int
    started: str
    duration_s: float
    reason: str
    rule: str | None
    outcome: str
    status: int | None
    detail: str
    items: int
    delay_s: float | None


class ProbeShown(TypedDict):
    """The probe, or push, that found an event."""

    source: str
    url: str | None
    finished: str | None
    outcome: str | None
    found: list[Finding]


class Problem(TypedDict):
    """Why a request was refused (RFC 9457)."""

    type: NotRequired[str]
    title: str
    status: int
    detail: str
    errors: NotRequired[list[Fault] | None]


class Readiness(TypedDict):
    """Whether traffic may come."""

    ready: bool
    checks: dict[str, bool]


class Reloaded(TypedDict):
    """The files were swapped in."""

    reloaded: NotRequired[Literal[True]]


class Replayed(TypedDict):
    """How many deliveries are due again."""

    deliveries: int


class ReportShown(TypedDict):
    """Day by day, and whose models are off now."""

    days: list[Day]
    off: list[ModelOff]


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
    policy: str
    fingerprint: str
    deliveries: int


class RuleOutlookShown(TypedDict):
    """How many of a rule's intervals are not met, by constraint."""

    rule: str
    intervals: int
    unmet: dict[str, int]


SourceListed = TypedDict(
    "SourceListed",
    {
        "source": str,
        "url": str,
        "rate_per_day": float,
        "rate_range_per_day": tuple[float, float],
        "policies": dict[str, PolicyUsed],
        "intervals": dict[str, tuple[str, str | None]],
        "host_free": str | None,
        "fresh_until": str | None,
        "next_probe": ComingProbe | None,
        "blocked_by": str | None,
        "earliest": str | None,
        "rules": list[str],
        "postponed": dict[str, int],
        "unmet_intervals": int,
        "price_item_hours": float | None,
        "week": list[float],
        "off": ModelOff | None,
        "first_contact": str | None,
        "last_probe": str | None,
        "last_outcome": str | None,
        "last_detail": str | None,
        "failures": int,
        "items_seen": int,
        "items_lost_estimated": float,
        "class": str,
        "domain": str,
    },
)


class TestResult(TypedDict):
    """How a receiver answered a test message; `error` is null where it accepted."""

    endpoint: str
    error: str | None


class TestWanted(TypedDict):
    """The rule whose receivers get a test message."""

    rule: str


class TokenMade(TypedDict):
    """A new token; its text is in this answer alone."""

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


class TokenWanted(TypedDict):
    """A token to be made."""

    name: str
    scope: Literal["read", "write", "admin"]
    expires_in_s: NotRequired[float | None]


class TradeShown(TypedDict):
    """What a number of detection probes would buy."""

    probes_per_hour: float
    delay_s: float
    completeness: float
    price_item_hours: float


class WebhookShown(TypedDict):
    """A webhook and whether it has shown that it is there."""

    endpoint: str
    form: str
    secret_name: str
    state: str
    since: str
    detail: str | None
    refused: list[str]


class AdviceShown(TypedDict):
    """What other budgets would buy, and what the present one does not."""

    budget_per_hour: float
    planned_per_hour: float | None
    trade: list[TradeShown]
    intervals_over_s: float
    rules: list[RuleOutlookShown]
    pareto: list[ParetoPoint]
    needed_per_hour: float | None


class CostShown(TypedDict):
    """What a declaration asks of the budget, in probes an hour over all sources, at the present price."""

    budget_per_hour: float
    asked_per_hour: float
    asked_per_hour_before: float
    sources_added: int
    sources_removed: int
    unmet: list[RuleOutlookShown]


class DomainShown(TypedDict):
    """A named set of page classes."""

    name: str
    classes: list[PageClassShown]


class Explained(TypedDict):
    """Why and when a source is probed next, also in words."""

    source: str
    url: str
    rate_per_day: float
    rate_range_per_day: tuple[float, float]
    policies: dict[str, PolicyUsed]
    intervals: dict[str, tuple[str, str | None]]
    host_free: str | None
    fresh_until: str | None
    next_probe: ComingProbe | None
    blocked_by: str | None
    earliest: str | None
    rules: list[str]
    postponed: dict[str, int]
    unmet_intervals: int
    price_item_hours: float | None
    week: list[float]
    off: ModelOff | None
    first_contact: str | None
    last_probe: str | None
    last_outcome: str | None
    last_detail: str | None
    failures: int
    items_seen: int
    items_lost_estimated: float
    summary: list[str]


class ItemsTestResult(TypedDict):
    items: list[TestResult]


class ItemsTokenShown(TypedDict):
    items: list[TokenShown]


class ItemsWebhookShown(TypedDict):
    items: list[WebhookShown]


class NotificationTraced(TypedDict):
    """A notification with all that led to it and what became of it."""

    id: str
    position: int
    rule: str
    source: str
    event: str
    created: str
    late: bool
    body: dict[str, Any]
    deliveries: list[DeliveryState]
    intervals: list[IntervalShown]
    probe: ProbeShown
    rows: list[dict[str, Any]]
    attempts: list[Attempt]
    summary: list[str]


class PageDomainShown(TypedDict):
    items: list[DomainShown]
    next_cursor: NotRequired[str | None]


class PageProbeMade(TypedDict):
    items: list[ProbeMade]
    next_cursor: NotRequired[str | None]


class PageRule(TypedDict):
    items: list[Rule]
    next_cursor: NotRequired[str | None]


class PageSourceListed(TypedDict):
    items: list[SourceListed]
    next_cursor: NotRequired[str | None]


class ProfileListed(TypedDict):
    """A client profile; what its rules achieved is added up."""

    captured: int
    missed: int
    completeness: float | None
    utility: float | None
    name: str
    origin: str
    domains: list[str]
    users: list[str]
    rules: list[Rule]


class ProfileShown(TypedDict):
    """A client profile with its text in the canonical layout."""

    captured: int
    missed: int
    completeness: float | None
    utility: float | None
    name: str
    origin: str
    domains: list[str]
    users: list[str]
    rules: list[Rule]
    text: str


class ChangesMade(TypedDict):
    """What a text changed, by rule; a restarted rule lost its counters and got a new NOW."""

    added: list[str]
    removed: list[str]
    restarted: list[str]
    dry_run: NotRequired[bool]
    cost: NotRequired[CostShown | None]


class PageProfileListed(TypedDict):
    items: list[ProfileListed]
    next_cursor: NotRequired[str | None]
