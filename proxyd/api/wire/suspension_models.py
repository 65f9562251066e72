"""Models of paused sources, and of muted rules and profiles."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from proxyd.api.wire.base_models import Count, Text, Time, WireModel

Muted: TypeAlias = Literal["rule", "profile"]


class SuspensionShown(WireModel):
    """A paused source, or a muted rule or profile."""

    subject: Literal["source", "rule", "profile"]
    name: str
    since: Time
    until: Time | None = Field(description="null if it lasts until it is ended")
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


class RuleFailing(WireModel):
    """How a rule failed the last time it was evaluated."""

    failures: Count = Field(description="number in a row; after five the rule is suspended")
    source: str = Field(description="the source on which it failed")
    reason: str
    at: Time
    suspended: Time | None = Field(description="since when it is not evaluated; null if it still is")


class MuteNamed(WireModel):
    """A rule or a profile; `subject` is needed only if both have the name."""

    name: Text
    subject: Muted | None = None


class MuteWanted(MuteNamed):
    """A rule or a profile to be muted until a time, for some seconds, or until it is unmuted."""

    until: Time | None = None
    for_s: Annotated[float, Field(gt=0.0, le=3.2e9)] | None = None


class UnmuteWanted(MuteNamed):
    """A rule or a profile to be unmuted; with `drop`, what was kept back is never sent."""

    drop: bool = False


class SuspensionMade(WireModel):
    """What was done."""

    said: str
    changed: bool = Field(description="false if it was so already")
    notifications: Count = Field(description="number of kept notifications that are sent now, or were dropped")
    suspension: SuspensionShown | None
