"""Models of queries: what is asked of lists."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from proxyd.api.wire.base_models import Time, WireModel


class ListWindow(WireModel):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


class SourcesWindow(ListWindow):
    """Which part of the sources: all of them, or those alone whose last probe failed."""

    failing: bool = False


class PlanWindow(WireModel):
    """How many of the coming probes."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50


class Days(WireModel):
    """How many days back, today included."""

    days: Annotated[int, Field(ge=1, le=3660)] = 14


class DaysOfItems(WireModel):
    """How many days back, and how many items at most."""

    days: Annotated[float, Field(gt=0, le=366)] = 7.0
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000


class DaysOfIntervals(WireModel):
    """How many days back, and how many intervals at most."""

    days: Annotated[float, Field(gt=0, le=366)] = 7.0
    limit: Annotated[int, Field(ge=1, le=500)] = 500


class Listing(WireModel):
    """What the domain and the profile of a list are called, how it is read, and whether to check alone."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = "Imported"
    pages: bool = Field(default=False, description="whether they are pages to be watched, no feeds")
    dry_run: bool = False


class DryRun(WireModel):
    """Whether to check alone."""

    dry_run: bool = False


class Which(WireModel):
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


class FeedOf(WireModel):
    """Of one rule alone; a token where headers cannot be sent."""

    rule: str | None = None
    token: str | None = None
