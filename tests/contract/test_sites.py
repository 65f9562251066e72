"""What is stored of sites comes back: days that add up, outages, and how each fares."""

from __future__ import annotations

import asyncio

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import SiteState, SourceHealth, SourceState, Term
from proxyd.core.rules.stages.observation import Observation
from proxyd.core.rules.stages.site_uptime import Incident, SiteChange, SiteDay
from proxyd.store.retention import expire
from proxyd.store.site_rows import StoredSite
from proxyd.store.sql_store import SqlStore
from tests.observations import observed

DAY_S = 86400.0


def seen(
    name: str, *days: SiteDay, incident: Incident | None = None, health: SourceHealth | None = None
) -> Observation:
    """Return an observation of a site."""
    state = SourceState(name, f"https://{name}/", last_detail="status 200", health=health or SourceHealth())
    return observed(state, ProbeOutcome(name, OutcomeKind.SAME_BODY, 1.0, 1.0), site=SiteChange(days, incident))


async def test_days_of_a_site_add_up_and_are_kept_for_400_days(store: SqlStore) -> None:
    await asyncio.gather(
        store.record(seen("a", SiteDay(1, 30.0, 0.0, 1, 0, 0.5))),
        store.record(seen("a", SiteDay(1, 0.0, 20.0, 1, 1, 0.0))),
        store.record(seen("a", SiteDay(1, 10.0), SiteDay(2, 5.0))),
        store.record(seen("b", SiteDay(2, 1.0))),
    )
    found = await store.sites.days(["a", "b", "c"], 0)
    assert found == {
        "a": {1: SiteDay(1, 40.0, 20.0, 2, 1, 0.5), 2: SiteDay(2, 5.0)},
        "b": {2: SiteDay(2, 1.0)},
    }
    assert await store.sites.days(["a"], 2) == {"a": {2: SiteDay(2, 5.0)}}
    await expire(store.writer, 402 * DAY_S, retention_s=DAY_S)
    assert list((await store.sites.days(["a"], 0))["a"]) == [2]


async def test_an_outage_is_stored_once_and_ends(store: SqlStore) -> None:
    await store.record(seen("a", incident=Incident(100.0, reason="status 503")))
    assert await store.sites.incidents(["a"], 500.0) == {"a": [Incident(100.0, None, "status 503")]}
    await store.record(seen("a", incident=Incident(100.0, 400.0)))
    await store.record(seen("a", incident=Incident(600.0, reason="no answer")))
    whole = [Incident(600.0, None, "no answer"), Incident(100.0, 400.0, "status 503")]
    assert await store.sites.incidents(["a", "b"], 0.0) == {"a": whole}
    assert await store.sites.incidents(["a"], 500.0) == {"a": whole[:1]}


async def test_an_outage_that_nobody_saw_end_ends_with_the_next_one(store: SqlStore) -> None:
    await store.record(seen("a", incident=Incident(100.0, reason="status 503")))
    await store.record(seen("a", incident=Incident(600.0, reason="no answer")))
    whole = [Incident(600.0, None, "no answer"), Incident(100.0, 600.0, "status 503")]
    assert await store.sites.incidents(["a"], 0.0) == {"a": whole}


async def test_how_a_site_fares_comes_back(store: SqlStore) -> None:
    site = SiteState(5.0, True, Term(9.0, 9.0, 4.0), Term(7.0), "example.org", 3.0, "")
    health = SourceHealth(site=site, status=200, latency_s=0.5)
    await store.record(seen("a", health=health))
    assert await store.sites.states(["a", "b"]) == {"a": StoredSite(health, "status 200")}
    assert (await store.load_states())["a"].health == health
