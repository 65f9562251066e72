"""Models of notifications, deliveries and tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from proxyd.api.wire.base_models import Count, RowShown, Seconds, Text, Time, WireModel
from proxyd.store.api_rows import Scope


class DeliveryState(RowShown):
    """The delivery of a notification to one endpoint."""

    endpoint: str
    state: str
    attempts: Count
    next: Time | None
    done: Time | None
    last_error: str | None


class NotificationListed(RowShown):
    """A notification and its deliveries."""

    id: str
    position: int
    rule: str
    source: str
    event: Time
    created: Time
    late: bool
    muted: bool = Field(description="made while its rule was muted")
    limited: bool = Field(description="not sent, because of its rule's LIMIT")
    screenshot: str | None = Field(description="the path of its picture of the page; null if there is none")
    body: dict[str, Any]
    deliveries: list[DeliveryState]


class IntervalShown(RowShown):
    """An interval on one source, and whether it was captured."""

    source: str
    start: Time
    end: Time | None
    probed: Time | None = Field(description="null if no probe saw the source before the interval was given up")
    captured: bool
    exact: bool
    delay_s: float
    utility: float


class Finding(RowShown):
    """An event that a probe found."""

    kind: str
    item: str
    event: Time


class ProbeShown(WireModel):
    """The probe, or push, that found an event."""

    source: str
    url: str | None
    finished: str | None
    outcome: str | None
    found: list[Finding]


class Attempt(RowShown):
    """One attempt to deliver."""

    at: Time
    endpoint: str
    digest_id: str | None
    duration_s: Seconds
    result: str
    detail: str | None


class MessageShown(RowShown):
    """The text of a notification as some of its receivers get it, by itself; a digest holds others too."""

    endpoints: list[str]
    title: str = Field(description="empty if the messages to these receivers have no title")
    text: str


class NotificationTraced(NotificationListed):
    """A notification, the probe that led to it, its deliveries and its texts."""

    messages: list[MessageShown]
    intervals: list[IntervalShown]
    probe: ProbeShown
    rows: list[dict[str, Any]]
    attempts: list[Attempt]
    summary: list[str]


class DeadLetter(RowShown):
    """A delivery that was given up; a replay sends it again."""

    position: int
    notification: str
    rule: str
    endpoint: str
    attempts: Count
    done: Time | None
    last_error: str | None


class DeedShown(RowShown):
    """What somebody changed."""

    at: Time
    who: str = Field(description="a person, `token NAME`, `the command line`, `the profiles folder` or `proxyd` itself")
    way: str = Field(description="`api`, `dashboard`, `reader` (of phones), `agent`, `hub`, `socket` or `file`")
    address: str = Field(description="of the connection, which may be that of a reverse proxy; empty if there was none")
    did: str = Field(
        description="`declare`, `remove`, `pause`, `resume`, `mute`, `unmute`, `replay`, `accept move`, `make token`, "
        "`revoke token`, `invite`, `choose password`, `follow` or `unfollow` (the feed of a profile)"
    )
    subject: str = Field(description="the names of what it was done to, at most 20")
    detail: str


class Replayed(WireModel):
    """The number of deliveries that are due again."""

    deliveries: Count


class WebhookShown(RowShown):
    """A webhook and whether it has accepted a ping."""

    endpoint: str
    form: str
    secret_name: str
    state: str
    since: Time
    detail: str | None
    refused: list[str]


class TestWanted(WireModel):
    """The rule whose receivers get a test message."""

    rule: Text


class TestResult(RowShown):
    """What became of a test message: `error` is null if the receiver accepted it, and `answer` what it said then."""

    endpoint: str
    error: str | None
    answer: str | None


_Most: TypeAlias = Annotated[int, Field(ge=0, le=10**9)] | None


class LimitsShown(WireModel):
    """How much may belong to the profiles of a token or a person; what is null has no limit."""

    sources: _Most = None
    rules: _Most = None
    receivers: _Most = None
    probes: _Most = Field(None, description="an hour, by what the rules ask for")


class TokenWanted(WireModel):
    """A token to be created."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]
    scope: Scope
    expires_in_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    profiles: Annotated[list[str], Field(max_length=100)] = Field(
        default_factory=list, description="the only ones that it reads or, with scope `write`, writes; empty: all"
    )
    person: str | None = Field(
        None, description="whose it is: it marks items for them, does no more than they may, and ends with them"
    )
    limits: LimitsShown = Field(default_factory=LimitsShown)


class TokenMade(WireModel):
    """A new token; only this response contains its text."""

    name: str
    scope: Scope
    token: str


class PersonWanted(WireModel):
    """A person to be invited."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]
    scope: Scope
    profiles: Annotated[list[str], Field(max_length=100)] = Field(
        default_factory=list,
        description="the only ones that they read and write; empty: all, or as before",
    )
    mail: Annotated[str, Field(max_length=254)] | None = Field(
        None, description="where the link is sent, and later ones; an empty text: nowhere; null: as before"
    )
    limits: LimitsShown | None = Field(None, description="null: as before")


class PersonInvited(WireModel):
    """An invited person; only this response contains the link."""

    name: str
    link: str = Field(description="path of the page at which the person chooses a password, once, within a day")
    mailed: bool = Field(description="whether the link was sent by mail")
    mail_error: str | None = Field(description="why it could not be sent")


class PersonShown(RowShown):
    """Somebody who may sign in to the dashboard."""

    name: str
    scope: Scope
    profiles: list[str] = Field(description="the only ones that they read and write; empty: all")
    has_password: bool = Field(description="whether they have chosen a password")
    mail: str | None = Field(description="where links are sent")
    limits: LimitsShown


class Dropped(WireModel):
    """The token was revoked, or the person was removed."""

    dropped: Literal[True] = True


class TokenShown(RowShown):
    """A token without its secret."""

    id: str
    name: str
    scope: Scope
    created: Time
    expires: Time | None
    profiles: list[str] = Field(description="the only ones that it reads and writes; empty: all")
    person: str | None = Field(description="whose it is, if it is a person's")
    limits: LimitsShown
