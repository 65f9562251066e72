"""The base of all wire models, and the models of refusals and of windows of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from proxyd.core.model.field_values import iso_time

Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
MicroShare = Annotated[Share, AfterValidator(lambda value: round(value, 6))]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.0)]
Milli = Annotated[float, AfterValidator(lambda value: round(value, 3))]
Micro = Annotated[float, AfterValidator(lambda value: round(value, 6))]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class WireModel(BaseModel):
    """The base of all wire models; unknown members are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RowShown(WireModel):
    """An answer that is made of a row, with the rows in it, by the names of its members (see ``members_of``)."""

    @model_validator(mode="before")
    @classmethod
    def _of_row(cls, row: Any) -> Any:
        return row if isinstance(row, Mapping | BaseModel) else members_of(row, cls)

    @classmethod
    def list_of(cls, rows: Iterable[object]) -> list[Self]:
        """Return the answers that are made of some rows."""
        return [cls.model_validate(each) for each in rows]


def members_of(row: Any, model: type[BaseModel]) -> dict[str, Any]:
    """Return the members of a model that a row has under the same name.

    ``at_s`` of a row is shown as the time ``at``, ``source_id`` as ``source``, ``is_gone`` as ``gone``.
    """
    members = {}
    for member, (attribute, written) in _attributes(row.__class__, model).items():
        value = getattr(row, attribute)
        value = value if written is None else written(value)
        members[member] = value.value if isinstance(value, Enum) else value
    return members


@cache
def _attributes(row: type, model: type[BaseModel]) -> Mapping[str, tuple[str, Callable[[float], str | None] | None]]:
    """Return the attribute of a row for each member of a model that has one, and how it is written if it is a time."""
    known = {*dir(row), *getattr(row, "__dataclass_fields__", ())}
    found: dict[str, tuple[str, Callable[[float], str | None] | None]] = {}
    for member, info in model.model_fields.items():
        names = (member, f"{member}_s", f"{member}_id", f"is_{member}")
        if (name := next((each for each in names if each in known), None)) is not None:
            as_time = time_or_none if NoneType in get_args(info.annotation) else iso_time
            found[member] = (name, as_time if name == names[1] else None)
    return found


def time_or_none(time_s: float | None) -> str | None:
    """Return a time in ISO 8601, or ``None`` for ``None`` and 0, which mean never."""
    return None if not time_s else iso_time(time_s)


Each = TypeVar("Each", bound=WireModel)


class Page(WireModel, Generic[Each]):
    """A page of a list."""

    items: list[Each]
    next_cursor: str | None = Field(default=None, description="cursor of the next page; null on the last one")


class Items(WireModel, Generic[Each]):
    """A whole list."""

    items: list[Each]


class Fault(WireModel):
    """One error, at a line of a text, a member of a body, or a parameter."""

    detail: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source_line: str | None = None
    pointer: str | None = Field(default=None, description="JSON pointer to the member")
    parameter: str | None = None


class Problem(WireModel):
    """Why a request was refused (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None


class Health(WireModel):
    """The event loop is alive."""

    alive: Literal[True] = True


class Readiness(WireModel):
    """Whether the daemon is ready for traffic."""

    ready: bool
    checks: dict[str, bool]


class ListWindow(WireModel):
    """The page of a list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


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


class ProfileDropped(WireModel):
    """Whether the sources that no rule reads then are removed too."""

    sources: bool = False


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
    since: Time | None = None


class FeedOf(WireModel):
    """The rule of a feed, and a token for clients that cannot send headers."""

    rule: str | None = None
    token: str | None = None
