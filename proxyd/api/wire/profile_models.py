"""Models of declarations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proxyd.api.wire.action_models import RuleFailing, SuspensionShown
from proxyd.api.wire.base_models import Count, Fault, Share, WireModel
from proxyd.api.wire.plan_models import RuleOutlookShown, TargetShown
from proxyd.api.wire.statement_models import DeclarationWritten


class Achieved(WireModel):
    """The number of captured and missed intervals; shares are null if there were none."""

    captured: Count
    missed: Count
    completeness: Share | None
    utility: Share | None


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


class DomainField(WireModel):
    """A field of a page class."""

    path: str
    type: str


class PageClassShown(WireModel):
    """A class of pages."""

    name: str
    is_feed: bool
    fields: list[DomainField]
    key: list[str]


class DomainShown(WireModel):
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
