"""Models of sources that have moved permanently."""

from __future__ import annotations

from typing import Literal

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
