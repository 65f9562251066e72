"""Models of sites: how each fares, its uptime, its outages and how long it takes to answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proxyd.api.wire.base_models import MicroShare, Milli, RowShown, Seconds, Time


class UptimeShown(RowShown):
    """The share of the time in which a site was up; null if nothing is known of that time."""

    day: MicroShare | None = Field(description="of the last 24 hours")
    week: MicroShare | None = Field(description="of the last 7 days")
    month: MicroShare | None = Field(description="of the last 30 days")
    quarter: MicroShare | None = Field(description="of the last 90 days")


class SiteDayShown(RowShown):
    """A day of a site, in UTC."""

    date: Time
    uptime: MicroShare | None = Field(description="null if nothing is known of that day")
    down_s: Milli


class SiteExpiryShown(RowShown):
    """When the certificate and the domain of a site expire."""

    certificate: Time | None
    domain: str
    domain_expires: Time | None
    problem: str = Field(description="why the expiry of the domain is not known, or empty")


class SiteShown(RowShown):
    """How a site fares now and how it did in the last 90 days."""

    name: str
    title: str = Field(description="the name after AS in its WATCH, otherwise `name`")
    url: str
    state: Literal["up", "down", "unknown", "maintenance"]
    detail: str = Field(description="the status or the error of the last probe; until when it is in maintenance")
    since: Time | None = Field(description="since when it is down; null if it is not")
    probed: Time | None
    latency_s: Milli | None = Field(description="how long probes took on average, today and yesterday")
    uptime: UptimeShown
    expires: SiteExpiryShown
    days: list[SiteDayShown] = Field(description="the last 90 days, oldest first")


class IncidentShown(RowShown):
    """A time in which a site was down."""

    began: Time
    ended: Time | None = Field(description="null if it still is")
    length_s: Seconds
    reason: str


class LatencyShown(RowShown):
    """How long the probes of an hour took that a site answered."""

    at: Time
    median_s: Milli
    p95_s: Milli


class SiteDetails(SiteShown):
    """How a site fares, its outages, and how long it took to answer in the last week."""

    incidents: list[IncidentShown] = Field(description="newest first, of the last 400 days")
    latencies: list[LatencyShown] = Field(description="by hour")
    median_s: Milli | None
    p95_s: Milli | None
