"""Models of query parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proxyd.api.wire.base_models import Time, WireModel


class ListWindow(WireModel):
    """The page of a list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


class SearchWindow(ListWindow):
    """The words to search for, the source to which they belong, and the page of the list.

    All words must be there. `"so and so"` are words that follow each other, `word*` is the beginning of a word, and
    `-word` must not be there.
    """

    q: Annotated[str, Field(min_length=1, max_length=1000)]
    source: str | None = None


class SourcesWindow(ListWindow):
    """The page of the list of sources.

    `failing` selects those whose last probe failed, `silent` those that show no items or a field without a value, `new`
    those that wait for their first probe, and several together those of any of these kinds. `q` is in their names or
    addresses, `profile` has a rule on them, `paused` ones are not probed, and of `muted` ones nothing is sent.
    """

    failing: bool = False
    silent: bool = False
    new: bool = False
    paused: bool = False
    muted: bool = False
    q: Annotated[str, Field(max_length=200)] | None = None
    profile: str | None = None
    domain: str | None = None
    sort: Literal["name", "newest", "probed", "items"] = Field(
        default="name", description="by name, or the greatest first: newest item, last probe, number of items"
    )


class PlanWindow(WireModel):
    """The number of coming probes."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50


class Days(WireModel):
    """The number of days, including today."""

    days: Annotated[int, Field(ge=1, le=3660)] = 14


class DaysOfIntervals(WireModel):
    """The number of days, and the maximum number of intervals."""

    days: Annotated[float, Field(gt=0, le=366)] = 7.0
    limit: Annotated[int, Field(ge=1, le=500)] = 500


class Listing(WireModel):
    """The profile of feeds without a folder, the kind of the list, the word to look for, and whether only to check."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = "Imported"
    pages: bool = Field(default=False, description="whether the addresses are web pages, not feeds")
    match: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="only items whose title, or pages whose text, contains this word"
    )
    dry_run: bool = False


class DryRun(WireModel):
    """Whether only to check."""

    dry_run: bool = False


class Which(WireModel):
    """A filter of notifications, by rule, by the current rules of a profile, and by source."""

    rule: str | None = None
    profile: str | None = None
    source: str | None = None


class Found(Which):
    """A filter of notifications, and the page of the list."""

    since: Time | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


class Followed(Which):
    """A filter of notifications; `last_event_id` replaces the header `Last-Event-ID`."""

    last_event_id: str | None = None


class FeedOf(WireModel):
    """The rule of a feed, and a token for clients that cannot send headers."""

    rule: str | None = None
    token: str | None = None
