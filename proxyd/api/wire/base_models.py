"""The base of all wire models, and the models of refusals."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.0)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class WireModel(BaseModel):
    """The base of all wire models; unknown members are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
