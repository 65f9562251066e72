"""Models of paused sources, of muted rules and profiles, and of sources that have moved."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from proxyd.api.wire.base_models import Count, Text, Time, WireModel


class MoveShown(WireModel):
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
