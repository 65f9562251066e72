"""What is stored of sites: the time that each was up and down by day, its outages, and how it fares."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, insert, select, update

from proxyd.core.rules.known.state import UNKNOWN_HEALTH, SourceHealth
from proxyd.core.rules.stages.observation import Observation
from proxyd.core.rules.stages.site_uptime import Incident, SiteDay
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.statements import Upsert, execute_many, is_one_of

_MOST_INCIDENTS = 200
"""The newest that are read of a site."""
_MOST_LATENCIES = 20_000  # of a week; a site that is asked every 40 s has 15,120
_ADD_DAY, _BEGIN = Upsert(t.site_days, adds=True), insert(t.incidents)
_OPEN = and_(t.incidents.c.source_id == bindparam("of_source"), t.incidents.c.ended_s.is_(None))
_END = update(t.incidents).where(_OPEN).values(ended_s=bindparam("end_s"))


def record_sites(connection: Connection, observations: Sequence[Observation]) -> None:
    """Write what probes of sites add to their days, and the outages that they begin or end."""
    changes = [(o.state.source_id, o.site) for o in observations if o.site is not None]
    days = [{"source_id": name, **asdict(day)} for name, change in changes for day in change.days]
    execute_many(connection, _ADD_DAY, days)
    for name, incident in ((name, each.incident) for name, each in changes if each.incident is not None):
        # an outage may be open still whose site was then declared with another address
        connection.execute(_END, {"of_source": name, "end_s": incident.ended_s or incident.began_s})
        if incident.ended_s is None:
            row = asdict(incident) | {"source_id": name, "reason": incident.reason[: rows.MOST_DETAIL]}
            connection.execute(_BEGIN, row)


@dataclass(frozen=True, slots=True)
class StoredSite:
    """How a site fares: its health, and the end and the detail of its last probe."""

    health: SourceHealth = UNKNOWN_HEALTH
    detail: str = ""


class SqlSites:
    """Reads what is stored of sites, on connections for people."""

    def __init__(self, read: StoreReader) -> None:
        self._read = read

    async def states(self, names: Collection[str]) -> Mapping[str, StoredSite]:
        """Return how some sites fare; without those that were not probed yet."""
        c = t.sources.c
        query = select(c.source_id, c.health, c.last_detail).where(is_one_of(c.source_id, names))
        return {
            row.source_id: StoredSite(SourceHealth.of_values(json.loads(row.health)), row.last_detail)
            for row in await self._read(query)
        }

    async def days(self, names: Collection[str], since_day: int) -> Mapping[str, dict[int, SiteDay]]:
        """Return the days of some sites by number, since a day."""
        c = t.site_days.c
        columns = (c.source_id, c.day, c.up_s, c.down_s, c.probes, c.failures, c.answers_s)
        found = await self._read(select(*columns).where(is_one_of(c.source_id, names), c.day >= since_day))
        return await asyncio.to_thread(_days_by_site, found)

    async def incidents(self, names: Collection[str], since_s: float) -> Mapping[str, list[Incident]]:
        """Return the newest outages of some sites that had not ended before a time, newest first."""
        c = t.incidents.c
        lasted = c.ended_s.is_(None) | (c.ended_s > since_s)
        query = select(t.incidents).where(is_one_of(c.source_id, names), lasted).order_by(c.began_s.desc())
        found: dict[str, list[Incident]] = defaultdict(list)
        for row in await self._read(query.limit(_MOST_INCIDENTS * len(names))):
            if len(found[row.source_id]) < _MOST_INCIDENTS:
                found[row.source_id].append(rows.as_type(Incident, row))
        return found

    async def latencies(self, name: str, since_s: float) -> list[tuple[float, float]]:
        """Return when the probes of a site that it answered began since a time, and how long each took; in order."""
        c = t.probes.c
        ok = c.outcome.in_(["changed", "same_body", "not_modified"])
        query = select(c.started_s, c.finished_s).where(c.source_id == name, c.started_s >= since_s, ok)
        found = await self._read(query.order_by(c.position.desc()).limit(_MOST_LATENCIES))
        return await asyncio.to_thread(_durations, found)


def _days_by_site(found: Sequence[Any]) -> Mapping[str, dict[int, SiteDay]]:
    by_site: dict[str, dict[int, SiteDay]] = defaultdict(dict)
    for name, day, *sums in found:  # by their places: there are 90 of each site
        by_site[name][day] = SiteDay(day, *sums)
    return by_site


def _durations(found: Sequence[Any]) -> list[tuple[float, float]]:
    return [(started_s, finished_s - started_s) for started_s, finished_s in reversed(found)]
