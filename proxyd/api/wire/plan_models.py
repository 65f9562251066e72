"""Models of sources, of the plan, and of what was achieved."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proxyd.api.wire.base_models import Count, Share, Time, WireModel


class ComingProbe(WireModel):
    """A probe that is planned."""

    source: str
    at: Time
    reason: str
    rule: str | None
    rate_per_day: float


class PolicyUsed(WireModel):
    """A rule's policy on a source, and why it is that one."""

    policy: str
    because: str


class ModelOff(WireModel):
    """What is off with a source's model, and what is done about it."""

    source: str
    rate_off_since: Time | None
    found: float
    expected: float
    week_off_since: Time | None
    week_score: float
    summary: list[str]


class SourceState(WireModel):
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


class ProbeMade(WireModel):
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
    body_bytes: Count = Field(description="size of the decoded body; 0 if none was sent")


class ItemSeen(WireModel):
    """When an item came, as it says itself, and when it was seen."""

    came: Time
    seen: Time
    delay_s: float


class IntervalOfRule(WireModel):
    """An execution interval of a rule on one page, and its fate."""

    source: str
    start: Time
    end: Time | None = Field(description="null where the next update ends it")
    fate: Literal["captured", "late", "missed"] = Field(
        description="`late`: missed, and told late, by a probe after its end; `missed`: given up before any probe"
    )
    probed: Time | None = Field(description="null where it was missed")
    exact: bool = Field(description="whether the item said itself when it came; otherwise the delay is a bound")
    delay_s: float | None = Field(description="from the event to the probe; null where there was none")
    utility: float


class TradeShown(WireModel):
    """What a number of detection probes would buy."""

    probes_per_hour: float
    delay_s: float
    completeness: Share
    price_item_hours: float


class RuleOutlookShown(WireModel):
    """How many of a rule's intervals are not met, by constraint."""

    rule: str
    intervals: Count
    unmet: dict[str, int]


class ParetoPoint(WireModel):
    """So many intervals can be captured, and then with this mean delay at the least."""

    captured: Count
    delay_s: float


class AdviceShown(WireModel):
    """What other budgets would buy, and what the present one does not."""

    budget_per_hour: float
    planned_per_hour: float | None
    trade: list[TradeShown]
    intervals_over_s: float
    rules: list[RuleOutlookShown]
    pareto: list[ParetoPoint]
    needed_per_hour: float | None


class Day(WireModel):
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


class ReportShown(WireModel):
    """Day by day, and whose models are off now."""

    days: list[Day]
    off: list[ModelOff]
