"""RDAP is asked once a day for each registered domain of a site, and what it says is told in time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from proxyd.base.ports import MaySend, always
from proxyd.core.errors import ProbeError
from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.daemon.domain_watch import DomainWatch
from proxyd.probing.document_parser import parse_document
from proxyd.probing.documents.probe_failures import kind_of
from tests.fakes import FakeClock

SETTINGS = DeciderSettings(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
T0, DAY_S = 1_000_000_000.0, 86400.0
EVENTS = [{"eventAction": "registration", "eventDate": "1999-01-01T00:00:00Z"}]
EXPIRY = {"eventAction": "expiration", "eventDate": "2001-10-01T00:00:00Z"}


@dataclass
class Rdap:
    """Answers with documents by domain, and keeps what was asked."""

    clock: FakeClock
    documents: Mapping[str, object]
    asked: list[str] = field(default_factory=list)

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.asked.append(request.url)
        now_s, document = self.clock.time_s(), self.documents.get(request.url.rpartition("/")[2])
        if document is None:
            return ProbeOutcome(request.url, OutcomeKind.HTTP_ERROR, now_s, now_s, 404, detail="status 404")
        try:
            body = json.dumps(document).encode()
            read = parse_document(body, "application/rdap+json", request.url, request.page_class)
        except ProbeError as error:
            return ProbeOutcome(request.url, kind_of(error), now_s, now_s, 200, detail=error.message)
        return ProbeOutcome(request.url, OutcomeKind.CHANGED, now_s, now_s, 200, read.items)


@dataclass
class World:
    """A decider of some sites, and what looks after their domains."""

    decider: Decider
    clock: FakeClock
    rdap: Rdap
    watch: DomainWatch

    async def look(self, days: float, step_s: float = 3600.0) -> None:
        """Look every hour."""
        for _ in range(round(days * DAY_S / step_s)):
            await self.watch.look()
            await self.clock.advance(step_s)

    def probe(self, name: str) -> list[str]:
        """Let a probe of a site end, and return the titles of its messages."""
        now_s = self.clock.time_s()
        observation = self.decider.observe(ProbeOutcome(name, OutcomeKind.SAME_BODY, now_s, now_s, 200))
        assert observation is not None
        self.decider.outcomes.finish(observation.outcome, observation)
        return [json.loads(each.body)["data"]["message"]["title"] for each in observation.rules.notifications]


def world(text: str, documents: Mapping[str, object] | None = None) -> World:
    """Return a world that declares some sites."""
    declared = check([SourceText("t", text)]).declaration
    assert declared is not None
    decider, clock = Decider(SETTINGS, np.random.default_rng(1)), FakeClock(T0)
    decider.declare(declared, dict.fromkeys(declared.rules, T0), T0)
    rdap = Rdap(clock, documents or {"example.org": {"events": [*EVENTS, EXPIRY]}})
    return World(decider, clock, rdap, DomainWatch(decider.known, rdap, clock, "https://rdap.example/domain/"))


async def test_each_registered_domain_is_asked_once_a_day() -> None:
    found = world(
        "WATCH 'https://a.example.org' OF SITE; WATCH 'https://b.example.org' OF SITE; WATCH 'https://x.dev' OF SITE;"
    )
    await found.look(3.0)
    assert found.rdap.asked.count("https://rdap.example/domain/example.org") == 3
    assert found.rdap.asked.count("https://rdap.example/domain/x.dev") == 3
    assert len(found.rdap.asked) == 6


@pytest.mark.parametrize("url", ["https://me.github.io", "https://192.0.2.1", "https://localhost", "https://[::1]/"])
async def test_what_nobody_registers_is_not_asked_for(url: str) -> None:
    found = world(f"WATCH '{url}' OF SITE;")
    await found.look(2.0)
    assert found.rdap.asked == []


async def test_other_sources_and_domains_that_are_not_told_are_not_asked_for() -> None:
    found = world("WATCH 'https://a.example.org/feed'; WATCH 'https://b.example.org' OF SITE DOMAIN NONE;")
    await found.look(2.0)
    assert found.rdap.asked == []


async def test_a_domain_that_expires_soon_is_told_once() -> None:
    found = world("WATCH 'https://a.example.org' OF SITE;")
    assert found.probe("a.example.org") == []
    await found.look(1.0)
    assert found.probe("a.example.org") == [
        "a.example.org has a domain, example.org, that expires in 20 days (2001-10-01)"
    ]
    await found.look(2.0)
    assert found.probe("a.example.org") == []


@pytest.mark.parametrize(
    ("documents", "problem"),
    [({"x": 1}, "status 404"), ({"example.org": {"events": EVENTS}}, "RDAP says no expiry")],
    ids=["no answer", "no expiry"],
)
async def test_why_an_expiry_is_not_known_is_kept_with_the_site(documents: dict[str, object], problem: str) -> None:
    found = world("WATCH 'https://a.example.org' OF SITE;", documents)
    await found.look(0.5)
    assert found.probe("a.example.org") == []
    site = found.decider.known.states["a.example.org"].health.site
    assert site is not None
    assert (site.domain_name, site.domain, problem in site.problem) == ("example.org", None, True)


async def test_a_restart_does_not_ask_again() -> None:
    found = world("WATCH 'https://a.example.org' OF SITE;")
    await found.look(0.1)
    found.probe("a.example.org")
    found.decider.known.domains.clear()
    await found.look(0.5)
    assert len(found.rdap.asked) == 1
