"""Models of declarations, of plans, and of what a client asks for."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from proxyd.api.wire.base_models import Count, Fault, Micro, MicroShare, Milli, RowShown, Share, Text, Time, WireModel
from proxyd.api.wire.statement_models import DeclarationWritten


class MoveShown(RowShown):
    """A permanent move of a source."""

    source: str
    declared: str = Field(description="the declared address")
    url: str = Field(description="the new address")
    state: Literal["seen", "proposed", "accepted"] = Field(
        description="`proposed`: seen for a week or longer; `accepted`: read there, and not declared there yet"
    )
    since: Time = Field(description="when a probe was first led there, or when the move was accepted")
    probes: Count = Field(description="number that were led there; 0 if the move was accepted")
    file: str | None = Field(description="the file that declares the source; null if that was over the API")
    line: Count | None


class MoveWanted(WireModel):
    """A source whose move is accepted; with `url` only a move to that address."""

    source: Text
    url: Text | None = None


class MoveMade(WireModel):
    """What was done, and what to write so that it lasts; `move` is null if it led back to the declared address."""

    said: str
    move: MoveShown | None


Muted: TypeAlias = Literal["rule", "profile", "all"]


class SuspensionShown(RowShown):
    """A paused source, or what is muted: a rule, a profile or everything."""

    subject: Literal["source", "rule", "profile", "all"]
    name: str
    since: Time
    until: Time | None = Field(description="null if it lasts until it is ended")
    by: str


class ReceiverShown(WireModel):
    """A receiver of notifications that has a name."""

    name: str
    declared_by: str = Field(description="`api`, or the file that declares it")
    text: str = Field(description="in the rule language")


class RemovedShown(RowShown):
    """What somebody removed at once from what the API had declared."""

    id: str
    kind: str = Field(description="`notification`, `source`, `profile` or `domain`; `statements` if of several kinds")
    name: str = Field(description="its name, or the first names")
    text: str = Field(description="in the rule language; restoring it declares it again")
    at: Time
    by: str


class SourceNamed(WireModel):
    """The name of a source."""

    source: Text


class ResumeWanted(WireModel):
    """A paused source, or a rule that is suspended because it failed too often.

    Give `name`, or `source` for a source; `subject` is needed only if a source and a rule have the name.
    """

    name: Text | None = None
    source: Text | None = None
    subject: Literal["source", "rule"] | None = None


class RuleFailing(RowShown):
    """How a rule failed the last time it was evaluated."""

    failures: Count = Field(description="number in a row; after five the rule is suspended")
    source: str = Field(description="the source on which it failed")
    reason: str
    at: Time
    suspended: Time | None = Field(description="since when it is not evaluated; null if it still is")


class MuteNamed(WireModel):
    """A rule or a profile, or everything if `subject` is `all`; it is needed otherwise only if both have the name."""

    name: Text = "everything"
    subject: Muted | None = None


class MuteWanted(MuteNamed):
    """A rule or a profile to be muted until a time, for some seconds, or until it is unmuted."""

    until: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="the next `07:00`, or an ISO 8601 time; in the setting `time_zone` if it names no zone"
    )
    for_s: Annotated[float, Field(gt=0.0, le=3.2e9)] | None = None


class UnmuteWanted(MuteNamed):
    """A rule or a profile to be unmuted; with `drop`, what was kept back is never sent."""

    drop: bool = False


class SuspensionMade(RowShown):
    """What was done."""

    said: str
    changed: bool = Field(description="false if it was so already")
    notifications: Count = Field(description="number of kept notifications that are sent now, or were dropped")
    suspension: SuspensionShown | None


class ComingProbe(WireModel):
    """A planned probe."""

    source: str
    at: Time
    reason: str
    rule: str | None
    rate_per_day: float


class HostShown(RowShown):
    """How a host answers, and when it may be asked again."""

    host: str
    requests: Count = Field(description="since `since`, with redirects")
    answers: Count = Field(description="probes that saw the state of their source")
    throttles: Count = Field(description="probes answered with 429, or with 503 and a Retry-After")
    failures: Count = Field(description="other probes")
    since: Time = Field(description="the first probe since this planner started")
    last: Time = Field(description="the end of the last probe")
    last_outcome: str
    last_status: int | None
    spacing_s: float = Field(description="least seconds between two probes")
    free: Time | None = Field(description="when the next probe may start; null if it may start now")
    throttled_until: Time | None = Field(description="until when the host asked for no probe; null if it did not")


class PolicyUsed(RowShown):
    """The policy of a rule for a source, why it was chosen, and what it promises."""

    policy: str
    because: str
    promised: str | None = Field(description="the target in words; null if the policy has none")
    expected: Share | None = Field(description="the share that the plan is expected to see in time; null before one")


class ModelOff(WireModel):
    """A source whose model does not fit its recent items, and how proxyd reacts."""

    source: str
    rate_off_since: Time | None
    found: float
    expected: float
    week_off_since: Time | None
    week_score: float
    summary: list[str]


class CountedItem(RowShown):
    """The item that a rule on every n-th item waits for, and the chance that it comes by the probe planned for it."""

    number: int = Field(description="counted since its last notification, or since START before the first one")
    chance: float
    by: Time


class SilentField(RowShown):
    """A field that has shown no value since a time, or `items` if the source shows none at all."""

    field: str
    since: Time
    probes: Count


class SourceShown(RowShown):
    """The state of a source and its plan."""

    source: str
    url: str
    paused: SuspensionShown | None
    learning: bool = Field(description="whether it is so new that its rate is hardly known")
    rate_per_day: Micro
    rate_range_per_day: tuple[Micro, Micro] = Field(description="the rate lies in this range with 80 % probability")
    policies: dict[str, PolicyUsed]
    intervals: dict[str, tuple[Time, Time | None]]
    counted: dict[str, CountedItem]
    host_free: Time | None
    fresh_until: Time | None
    next_probe: ComingProbe | None
    chance: Share | None = Field(description="the chance that a new item is there at the next probe; null before one")
    because: str = Field(description="why the next probe comes when it does, in words; empty if none is planned")
    blocked_by: str | None
    earliest: Time | None
    rules: list[str]
    postponed: dict[str, int]
    unmet_intervals: Count
    price_item_hours: Micro | None
    off: ModelOff | None
    first_contact: Time | None
    newest: Time | None = Field(description="the latest time that an item states for itself; null if none did")
    last_probe: Time | None
    last_outcome: str | None
    last_detail: str | None
    failures: Count
    silent: list[SilentField] = Field(description="what its document lacks though it is read well; see EMPTY")
    items_seen: Count
    items_lost_estimated: Milli


class SourceListed(SourceShown):
    """A source in a list."""

    page_class: str = Field(alias="class", serialization_alias="class")
    domain: str


class KeptPromiseShown(RowShown):
    """The share of a source's items that a rule was to see in time, and the one that it saw, in the last seven days."""

    rule: str
    intervals: Count = Field(description="those that have ended; others are not counted")
    promised: Share
    kept: Share


class Explained(SourceShown):
    """When a source is probed next and why, also in words, and what its rules kept of their targets."""

    summary: list[str]
    week: list[float] = Field(description="factors of the rate by hour from Monday 00:00 UTC; empty before a plan")
    kept: list[KeptPromiseShown]


class ProbeMade(RowShown):
    """A probe of the last days, with its reason and its outcome."""

    position: int
    started: Time
    duration_s: Milli
    reason: str
    rule: str | None
    outcome: str
    status: int | None
    detail: str
    items: Count = Field(description="number of new items")
    updates: Count = Field(description="number of items that changed")
    delay_s: Milli | None = Field(description="mean delay of the new items that give their own time")
    body_bytes: Count = Field(description="size of the decoded body; 0 if none was sent")
    requests: Count = Field(description="HTTP requests that were started, with redirects")


class ProbeWanted(WireModel):
    """A source, or a rule or a profile for all of its sources."""

    name: Text


class ProbeAsked(RowShown):
    """A probe that was asked for."""

    source: str
    at: Time = Field(description="when it can start at the earliest")
    waits_for: str | None = Field(description="what it waits for until then; null if for nothing")
    under_way: bool = Field(description="whether a probe is being made already")


class ItemEvent(RowShown):
    """An item of a source that came, changed or went away."""

    position: int
    kind: Literal["insert", "update", "delete"]
    id: str
    first: bool = Field(description="whether it was there at the first contact with its source")
    old: bool = Field(description="whether it came later, and was no news: in the place or with the date of an old one")
    title: str = Field(description="its title, or else its first text, as it was then")
    link: str | None = Field(description="null if it has no link to the web")
    text: str = Field(description="the beginning of the other texts of an item of a feed; empty for a page")
    values: dict[str, Any] = Field(description="the fields of an item of a page; empty for a feed")
    changes: dict[str, Any] = Field(description="of an update, by field: `from` and `to`, or a `difference` of texts")
    words: int | None = Field(description="how many words of its texts an update changed; null if it came or went")
    came: Time | None = Field(description="its own time; null if it gives none")
    seen: Time
    delay_s: float | None = Field(description="from its own time until it was seen; null if it was there at first")


class ToldOfItem(WireModel):
    """What a rule made of an item."""

    rule: str
    fate: Literal["told", "waiting", "kept", "left out"] = Field(
        description="`told`: a receiver has it; `waiting`: it is to be sent, or counted until the rule fires; `kept`: "
        "a notification was made, and not sent; `left out`: there is no notification of it"
    )
    why: list[str] = Field(description="in words")
    notification: str | None = Field(description="the id of the notification, or null")


class ItemFates(WireModel):
    """An item of a source, and what each rule that reads the source made of it."""

    item: ItemEvent
    state: str | None = Field(description="the whole text of a page as it was then; null for other sources")
    rules: list[ToldOfItem]


class IntervalOfRule(RowShown):
    """An interval in which a rule expected a probe of a source, and its result."""

    source: str
    start: Time
    end: Time | None = Field(description="null if the next update ends it")
    fate: Literal["captured", "late", "missed"] = Field(
        description="`late`: probed and notified after its end; `missed`: given up before any probe"
    )
    probed: Time | None = Field(description="null if it was missed")
    exact: bool = Field(description="whether the item gives its own time; otherwise the delay is an upper bound")
    delay_s: Milli | None = Field(description="from the event to the probe; null if there was no probe")
    utility: Micro


class TradeShown(WireModel):
    """The expected result of a number of detection probes."""

    probes_per_hour: float
    delay_s: float
    completeness: Share
    price_item_hours: float


class RuleOutlookShown(RowShown):
    """The number of intervals of a rule that cannot be probed, by constraint."""

    rule: str
    intervals: Count
    unmet: dict[str, int]


class TargetShown(RowShown):
    """The target of a rule: the share of its items to be seen in time, and what the plan is expected to reach."""

    rule: str
    share: Share
    expected: Share
    reachable: Share = Field(description="what hosts and budgets without limits would allow")
    probes_per_hour: float
    needed_per_hour: float = Field(description="probes that would meet the target, as far as it can be met")
    limit: str | None = Field(description="what prevents the target; null if it is met")


class ShareTradeShown(WireModel):
    """The probes that it takes to give every rule a share of its items in time."""

    share: Share
    expected: Share
    probes_per_hour: float
    delay_s: float


class ParetoPoint(WireModel):
    """A number of intervals that can be captured, and the least possible mean delay."""

    captured: Count
    delay_s: float


class AdviceShown(WireModel):
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
    two_points_per_day: float | None = Field(
        description="probes a day more, for which 2 points more of the items would be in time"
    )
    silent_planners: list[str] = Field(description="planners that did not answer; their sources are left out")


class Day(RowShown):
    """The results and the predictions of one day (UTC)."""

    day: str
    probes: Count
    items: Count
    predicted_items: Milli
    mean_delay_s: Micro | None
    predicted_mean_delay_s: Micro | None
    captured: Count
    missed: Count
    completeness: MicroShare | None
    predicted_completeness: MicroShare | None
    off: bool = Field(description="whether much less was seen in time than predicted")


class PromiseShown(KeptPromiseShown):
    """The share of its items that a rule was to see in time, and the one that it saw, in a week from Monday (UTC)."""

    week: str
    off: bool = Field(description="whether it fell short by more than chance")


class ReportShown(RowShown):
    """The results of each day, what rules kept of their targets, and the sources whose models do not fit now."""

    days: list[Day]
    off: list[ModelOff]
    promises: list[PromiseShown] = Field(description="of many, the 1,000 that fell shortest")
    promises_left_out: Count


class Achieved(RowShown):
    """The number of captured and missed intervals; shares are null if there were none."""

    captured: Count
    missed: Count
    completeness: MicroShare | None
    utility: MicroShare | None


class Rule(Achieved):
    """A notification rule."""

    name: str
    profiles: list[str]
    origin: str
    sources: list[str] = Field(description="the first 1,000 of them; fewer in an answer that has many rules")
    source_count: Count
    policy: str
    fingerprint: str
    counting: str = Field(description="what its counters count; a word of it changes with each of them")
    deliveries: Count
    keeps_screenshot: bool = Field(description="whether a picture of the page is kept with each notification")
    muted: SuspensionShown | None = Field(description="what mutes it: itself, or one of its profiles")
    failing: RuleFailing | None = Field(description="null if its last evaluation succeeded")


class ProfileListed(Achieved):
    """A profile with the sum of the results of its rules."""

    name: str
    origin: str = Field(description="`api`, or the file that declares it")
    domains: list[str]
    users: list[str]
    rules: list[Rule]
    muted: SuspensionShown | None


class ProfileShown(ProfileListed):
    """A profile with its text in canonical layout, and the same as JSON."""

    text: str
    declared: DeclarationWritten


class DomainField(RowShown):
    """A field of a page class."""

    path: str
    type: str


class PageClassShown(RowShown):
    """A class of pages."""

    name: str
    is_feed: bool
    fields: list[DomainField]
    key: list[str]


class DomainShown(RowShown):
    """A named set of page classes."""

    name: str
    classes: list[PageClassShown]


class CostShown(WireModel):
    """The demand of a declaration, in probes an hour of all sources, by a plan of the week that is made for it."""

    budget_per_hour: float
    asked_per_hour: float
    asked_per_hour_before: float
    sources_added: Count
    sources_removed: Count
    unmet: list[RuleOutlookShown] = Field(description="rules that the budget cannot satisfy")
    targets: list[TargetShown] = Field(
        description="new rules with a target and rules whose target would not be met, for the sources seen so far"
    )


class ChangesMade(WireModel):
    """The changes of a declaration, by rule; in restarted rules counters start again, and NOW is kept."""

    added: list[str]
    removed: list[str]
    restarted: list[str]
    counters: dict[str, list[str]] = Field(description="the counters that start again, by rule")
    dry_run: bool = False
    cost: CostShown | None = Field(default=None, description="only with `dry_run`")
    warnings: list[Fault] = Field(default=[], description="about the declaration that was sent")


class ImportMade(ChangesMade):
    """What an import changed; the first `faults` say what is wrong with addresses that are `unreadable`."""

    sources_added: int
    sources_known: int = Field(description="addresses that were declared already, and are left alone")
    unreadable: int
    faults: list[str]


class Reloaded(WireModel):
    """The profile files were loaded."""

    reloaded: Literal[True] = True
