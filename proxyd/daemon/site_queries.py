"""Answers about sites: how each fares, its uptime, its outages and how long it takes to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from proxyd.base.ports import Clock
from proxyd.core.errors import NotFoundError
from proxyd.core.language import no_such
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Declaration, Source, owner_of, plain_name
from proxyd.core.model.suspension import Subject
from proxyd.core.rules.known.state import SiteState
from proxyd.core.rules.stages.site_uptime import Incident, SiteDay, Uptime, is_down, uptime
from proxyd.daemon.declarations import Declarations
from proxyd.store.site_rows import SqlSites, StoredSite

_DAY_S, _HOUR_S = 86400.0, 3600.0
_SHOWN_DAYS, _LATENCY_DAYS = 90, 7
_KEPT_S = 20.0
UP, DOWN, UNKNOWN, MAINTENANCE = "up", "down", "unknown", "maintenance"
_NOT_PROBED = StoredSite()


@dataclass(frozen=True, slots=True)
class _ShownDay:
    """A day of a site; ``uptime`` is ``None`` if nothing is known of it."""

    date_s: float
    uptime: float | None
    down_s: float


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """An outage of a site; of one that goes on, ``length_s`` is that until now."""

    began_s: float
    ended_s: float | None
    length_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class _HourOfLatency:
    """How long the probes took that began in an hour, in seconds."""

    at_s: float
    median_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class _SiteExpiry:
    """When the certificate and the domain of a site expire, in unix seconds, as far as that is known."""

    certificate_s: float | None = None
    domain: str = ""
    domain_expires_s: float | None = None
    problem: str = ""  # why the expiry of the domain is not known

    @classmethod
    def of(cls, site: SiteState | None) -> _SiteExpiry:
        """Return what is known of a site."""
        if site is None:
            return cls()
        certificate, domain = site.certificate, site.domain
        ends = None if certificate is None else certificate.end_s, None if domain is None else domain.end_s
        return cls(ends[0], site.domain_name, ends[1], site.problem)


@dataclass(frozen=True, slots=True)
class SiteStanding:
    """How a site fares now and how it did in the last 90 days, oldest first."""

    name: str
    title: str  # the name that its WATCH gives it
    url: str
    state: str
    detail: str
    since_s: float | None  # since when it is down
    probed_s: float | None
    latency_s: float | None  # the mean of the last two days
    uptime: Uptime
    expires: _SiteExpiry
    days: tuple[_ShownDay, ...]


@dataclass(frozen=True, slots=True)
class _SitePast:
    """The outages of a site, newest first, and how long it took to answer in the last week, by hour and in all."""

    incidents: tuple[ShownIncident, ...]
    latencies: tuple[_HourOfLatency, ...]
    median_s: float | None = None
    p95_s: float | None = None


class SiteQueries:
    """Answers from the declaration and the store, which knows the sites of all planners."""

    def __init__(
        self, profiles: Declarations, sites: SqlSites, clock: Clock, status_pages: Mapping[str, Sequence[str]]
    ) -> None:
        self._profiles = profiles
        self._sites = sites
        self._clock = clock
        self._pages = status_pages
        self._kept: dict[str, tuple[float, list[tuple[SiteStanding, list[ShownIncident]]]]] = {}

    async def names(self) -> list[str]:
        """Return the names of the sites, in order; there may be many other sources."""
        return await asyncio.to_thread(_sites_of, self._profiles.shown)

    async def standings(self, names: Sequence[str]) -> list[SiteStanding]:
        """Return how some sites fare."""
        now_s, declared = self._clock.time_s(), self._profiles.shown.sources
        since_day = int(now_s // _DAY_S) - _SHOWN_DAYS + 1
        states = await self._sites.states(names)
        days = await self._sites.days(names, since_day)
        incidents = await self._sites.incidents(names, now_s - _DAY_S)
        return await asyncio.to_thread(
            lambda: [
                self._standing(declared[name], states.get(name), days.get(name, {}), incidents.get(name, []))
                for name in names
                if name in declared and declared[name].site is not None
            ]
        )

    async def standing(self, name: str) -> SiteStanding:
        """Return how one site fares; raises ``NotFoundError``."""
        source = self._profiles.shown.sources.get(name)
        if source is None or source.site is None:
            raise no_such("site", name, await self.names())
        return (await self.standings([name]))[0]

    async def status_page(self, name: str) -> list[tuple[SiteStanding, list[ShownIncident]]]:
        """Return the sites of a status page, each with its outages of 90 days; raises ``NotFoundError``.

        Everybody may ask, so an answer is kept for a while.
        """
        if name not in self._pages:
            raise NotFoundError("there is no such status page")
        now_s = self._clock.time_s()
        until_s, found = self._kept.get(name, (0.0, []))
        if now_s >= until_s:
            standings = await self.standings(await asyncio.to_thread(self._sites_with_names, self._pages[name]))
            since_s = now_s - _SHOWN_DAYS * _DAY_S
            incidents = await self._sites.incidents([each.name for each in standings], since_s)
            found = [(each, _shown_incidents(incidents.get(each.name, []), now_s)) for each in standings]
            self._kept[name] = now_s + _KEPT_S, found
        return found

    def _sites_with_names(self, wanted: Sequence[str]) -> list[str]:
        """Return the sites of some names: those of their sources, or those that AS gives them."""
        declared = self._profiles.shown.sources
        names = _sites_of(self._profiles.shown)
        shared = (name for name in names if owner_of(name) is None)  # others may give a site the same name
        found = {self._profiles.texts.site_name(declared[name]): name for name in shared}
        found |= dict(zip(names, names, strict=True))
        return list(dict.fromkeys(found.get(each, each) for each in wanted))

    async def past(self, name: str) -> _SitePast:
        """Return the outages of a site and how long it took to answer."""
        now_s = self._clock.time_s()
        incidents = (await self._sites.incidents([name], 0.0)).get(name, [])
        took = await self._sites.latencies(name, now_s - _LATENCY_DAYS * _DAY_S)
        hours, median_s, p95_s = await asyncio.to_thread(_latencies, took)
        return _SitePast(tuple(_shown_incidents(incidents, now_s)), hours, median_s, p95_s)

    def _standing(
        self, source: Source, stored: StoredSite | None, days: Mapping[int, SiteDay], incidents: Sequence[Incident]
    ) -> SiteStanding:
        now_s, found = self._clock.time_s(), stored or _NOT_PROBED
        site, failing = found.health.site, found.health.failing
        paused = self._profiles.suspensions.of(Subject.SOURCE, source.source_id) is not None
        state, detail = (UNKNOWN, "it is paused") if paused else _state(source, found, now_s)
        return SiteStanding(
            name=source.source_id,
            title=self._profiles.texts.site_name(source) or plain_name(source.source_id),
            url=source.url,
            state=state,
            detail=detail,
            since_s=failing.since_s if failing is not None and state == DOWN else None,
            probed_s=None if site is None else site.seen_s,
            latency_s=_mean_latency_s(days, int(now_s // _DAY_S)),
            uptime=uptime(days, incidents, now_s, None if site is None else site.seen_s),
            expires=_SiteExpiry.of(site),
            days=tuple(_shown_day(day, days.get(day)) for day in _last_days(now_s)),
        )


def _sites_of(declaration: Declaration) -> list[str]:
    return sorted(name for name, each in declaration.sources.items() if each.site is not None)


def _shown_incidents(incidents: Iterable[Incident], now_s: float) -> list[ShownIncident]:
    return [
        ShownIncident(each.began_s, each.ended_s, (each.ended_s or now_s) - each.began_s, each.reason)
        for each in incidents
    ]


def _last_days(now_s: float) -> range:
    today = int(now_s // _DAY_S)
    return range(today - _SHOWN_DAYS + 1, today + 1)


def _state(source: Source, found: StoredSite, now_s: float) -> tuple[str, str]:
    """Return how a site fares, in a word and in detail; an outage goes on until a probe that counts is answered."""
    if is_down(found.health):
        return DOWN, found.detail
    until_s = None if source.site is None else source.site.maintenance_end_s(now_s)
    if until_s is not None:
        return MAINTENANCE, f"until {iso_time(until_s)}"
    site, failing = found.health.site, found.health.failing
    if site is None or not site.is_judged or (failing is not None and not found.health.answers):
        return UNKNOWN, found.detail  # of one that has never answered, the first failure says little
    return UP, found.detail


def _shown_day(day: int, known: SiteDay | None) -> _ShownDay:
    known_s = 0.0 if known is None else known.up_s + known.down_s
    if known is None or known_s <= 0:
        return _ShownDay(day * _DAY_S, None, 0.0)
    return _ShownDay(day * _DAY_S, known.up_s / known_s, known.down_s)


def _mean_latency_s(days: Mapping[int, SiteDay], today: int) -> float | None:
    some = [days[day] for day in (today - 1, today) if day in days]
    answers = sum(each.probes - each.failures for each in some)
    return sum(each.answers_s for each in some) / answers if answers else None


def _latencies(took: Sequence[tuple[float, float]]) -> tuple[tuple[_HourOfLatency, ...], float | None, float | None]:
    """Return the median and the 95th percentile of latencies, by hour and of all."""
    hours = tuple(
        _HourOfLatency(hour * _HOUR_S, *_median_and_p95([length_s for _, length_s in some]))
        for hour, some in groupby(took, key=lambda each: int(each[0] // _HOUR_S))
    )
    if not took:
        return hours, None, None
    return hours, *_median_and_p95([length_s for _, length_s in took])


def _median_and_p95(lengths_s: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile.

    >>> _median_and_p95([0.3, 0.1, 0.2])
    (0.2, 0.3)
    """
    ordered = sorted(lengths_s)
    return ordered[(len(ordered) - 1) // 2], ordered[int((len(ordered) - 1) * 0.95 + 0.5)]
