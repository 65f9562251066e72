"""Models of what is declared."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proxyd.api.wire.base_models import Count, Share, WireModel
from proxyd.api.wire.plan_models import RuleOutlookShown
from proxyd.api.wire.statement_models import DeclarationWritten


class Achieved(WireModel):
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
    """A client profile with its text in the canonical layout, and the same as JSON."""

    text: str
    declared: DeclarationWritten


class DomainField(WireModel):
    """A field of a page class."""

    path: str
    type: str


class PageClassShown(WireModel):
    """A kind of page."""

    name: str
    is_feed: bool
    fields: list[DomainField]
    key: list[str]


class DomainShown(WireModel):
    """A named set of page classes."""

    name: str
    classes: list[PageClassShown]


class CostShown(WireModel):
    """What a declaration asks of the budget, in probes an hour over all sources, at the present price."""

    budget_per_hour: float
    asked_per_hour: float
    asked_per_hour_before: float
    sources_added: Count
    sources_removed: Count
    unmet: list[RuleOutlookShown] = Field(description="rules whose intervals the budget does not let be met")


class ChangesMade(WireModel):
    """What a text changed, by rule; a restarted rule lost its counters and got a new NOW."""

    added: list[str]
    removed: list[str]
    restarted: list[str]
    dry_run: bool = False
    cost: CostShown | None = Field(default=None, description="with `dry_run`")


class Reloaded(WireModel):
    """The files were swapped in."""

    reloaded: Literal[True] = True
