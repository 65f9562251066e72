"""What goes over the wire, both ways: the models from which answers are written and the OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from proxyd.ports import Scope

Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.0)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Wire(BaseModel):
    """Anything on the wire: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Each = TypeVar("Each", bound=Wire)


class Page(Wire, Generic[Each]):
    """A part of a list."""

    items: list[Each]
    next_cursor: str | None = Field(default=None, description="pass it on as `cursor`; null at the end")


class Items(Wire, Generic[Each]):
    """A whole list."""

    items: list[Each]


# -- errors


class Fault(Wire):
    """One thing that is wrong: at a line of a text, a member of a body, or a parameter."""

    detail: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source_line: str | None = None
    pointer: str | None = Field(default=None, description="JSON pointer of the member")
    parameter: str | None = None


class Problem(Wire):
    """Why a request was refused (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None


# -- health


class Health(Wire):
    """The loop is alive."""

    alive: Literal[True] = True


class Readiness(Wire):
    """Whether traffic may come."""

    ready: bool
    checks: dict[str, bool]


# -- declarations


class Achieved(Wire):
    """What became of execution intervals; shares are null where there was none."""

    captured: Count
    missed: Count
    completeness: Share | None
    utility: Share | None


class Rule(Achieved):
    """A notification rule."""

    name: str
    profiles: list[str]
    origin: str
    sources: list[str]
    policy: str
    fingerprint: str
    deliveries: Count


class ProfileListed(Achieved):
    """A client profile; what its rules achieved is added up."""

    name: str
    origin: str = Field(description="`api`, or the file that declares it")
    domains: list[str]
    users: list[str]
    rules: list[Rule]


class ProfileShown(ProfileListed):
    """A client profile with its text in the canonical layout."""

    text: str


class DomainField(Wire):
    """A field of a page class."""

    path: str
    type: str


class PageClassShown(Wire):
    """A kind of page."""

    name: str
    is_feed: bool
    fields: list[DomainField]
    key: list[str]


class DomainShown(Wire):
    """A named set of page classes."""

    name: str
    classes: list[PageClassShown]


class CostShown(Wire):
    """What a declaration asks of the budget, in probes an hour over all sources, at the present price."""

    budget_per_hour: float
    asked_per_hour: float
    asked_per_hour_before: float
    sources_added: Count
    sources_removed: Count
    unmet: list[RuleOutlookShown] = Field(description="rules whose intervals the budget does not let be met")


class ChangesMade(Wire):
    """What a text changed, by rule; a restarted rule lost its counters and got a new NOW."""

    added: list[str]
    removed: list[str]
    restarted: list[str]
    dry_run: bool = False
    cost: CostShown | None = Field(default=None, description="with `dry_run`")


class Reloaded(Wire):
    """The files were swapped in."""

    reloaded: Literal[True] = True


# -- sources and plan


class ComingProbe(Wire):
    """A probe that is planned."""

    source: str
    at: Time
    reason: str
    rule: str | None
    rate_per_day: float


class PolicyUsed(Wire):
    """A rule's policy on a source, and why it is that one."""

    policy: str
    because: str


class ModelOff(Wire):
    """What is off with a source's model, and what is done about it."""

    source: str
    rate_off_since: Time | None
    found: float
    expected: float
    week_off_since: Time | None
    week_score: float
    summary: list[str]


class SourceState(Wire):
    """What is known of a source, and what is planned for it."""

    source: str
    url: str
    rate_per_day: float
    rate_range_per_day: tuple[float, float] = Field(description="it lies there in four of five cases")
    policies: dict[str, PolicyUsed]
    intervals: dict[str, tuple[Time, Time | None]]
    host_free: Time | None
    fresh_until: Time | None
    next_probe: ComingProbe | None
    blocked_by: str | None
    earliest: Time | None
    rules: list[str]
    postponed: dict[str, int]
    unmet_intervals: Count
    price_item_hours: float | None
    week: list[float] = Field(description="factors of the rate by hour from Monday 00:00 UTC; empty before a plan")
    off: ModelOff | None
    first_contact: Time | None
    last_probe: Time | None
    last_outcome: str | None
    last_detail: str | None
    failures: Count
    items_seen: Count
    items_lost_estimated: float


class SourceListed(SourceState):
    """A source in a list."""

    page_class: str = Field(alias="class", serialization_alias="class")
    domain: str


class Explained(SourceState):
    """Why and when a source is probed next, also in words."""

    summary: list[str]


class ProbeMade(Wire):
    """A probe of the last days: why it was made, and what came of it."""

    position: int
    started: Time
    duration_s: float
    reason: str
    rule: str | None
    outcome: str
    status: int | None
    detail: str
    items: Count = Field(description="new items that it found")
    delay_s: float | None = Field(description="the mean of those whose own time is known")


class ItemSeen(Wire):
    """When an item came, as it says itself, and when it was seen."""

    came: Time
    seen: Time
    delay_s: float


class TradeShown(Wire):
    """What a number of detection probes would buy."""

    probes_per_hour: float
    delay_s: float
    completeness: Share
    price_item_hours: float


class RuleOutlookShown(Wire):
    """How many of a rule's intervals are not met, by constraint."""

    rule: str
    intervals: Count
    unmet: dict[str, int]


class ParetoPoint(Wire):
    """So many intervals can be captured, and then with this mean delay at the least."""

    captured: Count
    delay_s: float


class AdviceShown(Wire):
    """What other budgets would buy, and what the present one does not."""

    budget_per_hour: float
    planned_per_hour: float | None
    trade: list[TradeShown]
    intervals_over_s: float
    rules: list[RuleOutlookShown]
    pareto: list[ParetoPoint]
    needed_per_hour: float | None


class Day(Wire):
    """What was found beside what was predicted, on a day of UTC."""

    day: str
    probes: Count
    items: Count
    predicted_items: float
    mean_delay_s: float | None
    predicted_mean_delay_s: float | None
    captured: Count
    missed: Count
    completeness: Share | None
    predicted_completeness: Share | None


class ReportShown(Wire):
    """Day by day, and whose models are off now."""

    days: list[Day]
    off: list[ModelOff]


# -- notifications


class DeliveryState(Wire):
    """A notification on its way to one endpoint."""

    endpoint: str
    state: str
    attempts: Count
    next: Time | None
    done: Time | None
    last_error: str | None


class NotificationListed(Wire):
    """A notification and its deliveries."""

    id: str
    position: int
    rule: str
    source: str
    event: Time
    created: Time
    late: bool
    body: dict[str, Any]
    deliveries: list[DeliveryState]


class IntervalShown(Wire):
    """An execution interval on one page, and whether it was captured."""

    source: str
    start: Time
    end: Time | None
    probed: Time
    captured: bool
    exact: bool
    delay_s: float
    utility: float


class Finding(Wire):
    """What a probe found."""

    kind: str
    item: str
    event: Time


class ProbeShown(Wire):
    """The probe, or push, that found an event."""

    source: str
    url: str | None
    finished: str | None
    outcome: str | None
    found: list[Finding]


class Attempt(Wire):
    """One attempt to deliver."""

    at: Time
    endpoint: str
    digest_id: str | None
    duration_s: Seconds
    result: str
    detail: str | None


class NotificationTraced(NotificationListed):
    """A notification with all that led to it and what became of it."""

    intervals: list[IntervalShown]
    probe: ProbeShown
    rows: list[dict[str, Any]]
    attempts: list[Attempt]
    summary: list[str]


class DeadLetter(Wire):
    """A delivery that was given up; a replay sends it again."""

    position: int
    notification: str
    rule: str
    endpoint: str
    attempts: Count
    done: Time | None
    last_error: str | None


class Replayed(Wire):
    """How many deliveries are due again."""

    deliveries: Count


class WebhookShown(Wire):
    """A webhook and whether it has shown that it is there."""

    endpoint: str
    form: str
    secret_name: str
    state: str
    since: Time
    detail: str | None
    refused: list[str]


class TestWanted(Wire):
    """The rule whose receivers get a test message."""

    rule: Text


class TestResult(Wire):
    """How a receiver answered a test message; `error` is null where it accepted."""

    endpoint: str
    error: str | None


# -- tokens


class TokenWanted(Wire):
    """A token to be made."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    scope: Scope
    expires_in_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None


class TokenMade(Wire):
    """A new token; its text is in this answer alone."""

    name: str
    scope: Scope
    token: str


class Dropped(Wire):
    """It is gone."""

    dropped: Literal[True] = True


class TokenShown(Wire):
    """A token without its secret."""

    id: str
    name: str
    scope: Scope
    created: Time
    expires: Time | None


# -- queries


class Window(Wire):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


class SourcesWindow(Window):
    """Which part of the sources: all of them, or those alone whose last probe failed."""

    failing: bool = False


class PlanWindow(Wire):
    """How many of the coming probes."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50


class Days(Wire):
    """How many days back, today included."""

    days: Annotated[int, Field(ge=1, le=3660)] = 14


class DaysOfItems(Wire):
    """How many days back, and how many items at most."""

    days: Annotated[float, Field(gt=0, le=366)] = 7.0
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000


class DryRun(Wire):
    """Whether to check alone."""

    dry_run: bool = False


class Which(Wire):
    """Which notifications: of a rule, of the rules that a profile has now, of a source, made since a time."""

    rule: str | None = None
    profile: str | None = None
    source: str | None = None


class Found(Which):
    """Which notifications, and which part of them."""

    since: Time | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


class Followed(Which):
    """Which notifications, and from where on: as in the header `Last-Event-ID`."""

    last_event_id: str | None = None


class FeedOf(Wire):
    """Of one rule alone; a token where headers cannot be sent."""

    rule: str | None = None
    token: str | None = None
