"""A daemon that has lived some days, and somebody at its dashboard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import unescape
from typing import cast

import numpy as np
from aiohttp import ClientResponse
from numpy.typing import NDArray

from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.daemon.plan_loop import in_parts
from proxyd.lab.traces import MONDAY_S, STEADY, Week, model_trace, working_week
from proxyd.store.api_rows import Scope
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, changed, item, rule, source, unchanged
from tests.integration.api_world import T0, Running

OWN = """CREATE PROFILE "Q" AS (DOMAIN "D", LANGUAGE "SQL", USER "v");
INSERT NOTIFICATION "q" INTO "Q" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT;"""
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)> \u202eevil\u0007"
STEP_S, DAY_S = 1800.0, 86400.0
EVENINGS = Week(WEEK_S, tuple([0.05] * 18 + [1.0] * 5 + [0.05]) * 7, MONDAY_S)
OFFICE = working_week(night=0.04, weekend=0.06)
WEEKS: dict[str, tuple[Week, float]] = {
    "city-council": (OFFICE, 14.0),
    "kernel-releases": (OFFICE, 9.0),
    "security-notices": (OFFICE, 40.0),
    "evening-news": (EVENINGS, 60.0),
    "league-results": (EVENINGS, 18.0),
    "weather-warnings": (STEADY, 12.0),
    HOSTILE: (STEADY, 10.0),
}
SILENT = "retired-blog"
TITLES = {
    "city-council": (
        "Minutes of the council's meeting",
        "New opening hours of the library",
        "Bridge works on Mill Lane",
    ),
    "kernel-releases": ("6.18.{n}: stable", "6.12.{n}: longterm", "6.19-rc{n}: mainline"),
    "security-notices": (
        "USN-81{n:02d}-1: OpenSSL vulnerability",
        "USN-79{n:02d}-2: curl regression",
        "DSA-60{n:02d}: nginx",
    ),
    "evening-news": ("Ferry line reopens after the storm", "Council votes on the harbour", "Tram 4 gets new stops"),
    "league-results": ("Rovers 2, United {n}", "Town 0, Albion {n}", "City 1, Athletic {n}"),
    "weather-warnings": ("Gale warnings for the northern coast", "Frost warnings until morning", "Heavy rain expected"),
}
"""Titles of a believable fleet, by source; ``n`` counts the items."""
TITLED = {name: week for name, week in WEEKS.items() if name in TITLES}


def text(weeks: Mapping[str, tuple[Week, float]] = WEEKS) -> str:
    """Return a declaration of sources with weeks of their own, and of rules of several kinds."""
    sources = "".join(source(name, host=f"{k}.example") for k, name in enumerate([*weeks, SILENT]))
    hourly = "SET DELIVERY WEBHOOK 'https://receiver.example/hook' SECRET ENV 'SECRET_A'"
    rules = rule("every-item", clauses=hourly) + rule("warnings", when="title LIKE '%warnings%'")
    return (DOMAIN + sources + rules).replace('"D"', '"Town"').replace('"P"', '"Town news"').replace("RSS", "NEWS")


@dataclass
class Origins:
    """Sources that publish at given times; the others do not answer."""

    times_s: dict[str, NDArray[np.float64]]
    clock: FakeClock
    is_titled: bool = False

    def probe(self, request: ProbeRequest) -> ProbeOutcome:
        now_s, name = self.clock.time_s(), request.source_id
        if name not in self.times_s:
            return ProbeOutcome(name, OutcomeKind.UNREACHABLE, now_s, now_s, detail="connection refused")
        times = self.times_s[name]
        shown = [float(t) for t in times[times <= now_s][-20:]]
        if not shown:
            return unchanged(name, now_s)
        items = [self._item(name, t) for t in reversed(shown)]
        return changed(name, items, now_s)

    def _item(self, name: str, published_s: float) -> Item:
        found = item(f"{name} {published_s:.0f}", published_s, link=f"https://example.org/{published_s:.0f}")
        if not self.is_titled:
            return found
        number = int(np.searchsorted(self.times_s[name], published_s))
        title = TITLES[name][number % 3].format(n=number // 3 % 40)
        return replace(found, fields={**found.fields, "channel.item.title": title})


def origins(clock: FakeClock, weeks: int, of: Mapping[str, tuple[Week, float]] = WEEKS) -> Origins:
    """Return origins that publish from a week before T0 on."""
    rng, shift_s = np.random.default_rng(3), (T0 - MONDAY_S) // WEEK_S * WEEK_S - WEEK_S
    times = {}
    for name, (week, rate) in of.items():
        trace = model_trace("poisson", sources=1, weeks=weeks + 3, rng=rng, rate_per_week=rate, week=week)
        times[name] = np.asarray(trace.events_s[0]) + shift_s
    return Origins(times, clock, is_titled=of is TITLED)


async def live(api: Running, *, days: float, of: Mapping[str, tuple[Week, float]] = WEEKS) -> None:
    """Declare, and let time pass: probes as planned in half hours, a plan of the week every day."""
    control, clock = api.control, cast("FakeClock", api.control.resources.clock)
    await control.declarations.declare(text(of))
    found, grid = origins(clock, int(days / 7) + 1, of), control.decider.settings.grid
    for step in range(int(days * DAY_S / STEP_S)):
        await clock.advance(STEP_S)
        if step % 48 == 47:
            await plan(api)
        for planned in control.decider.choose(grid.chronon_at(clock.time_s())).probes:
            request = control.decider.request(planned.probe.source_id, clock.time_s())
            assert request is not None
            await control.loops.observer.take_in(found.probe(request), reading=request.reading, probe=planned.probe)

    control.loops.probes._choice.chosen_s = clock.time_s()


async def plan(api: Running) -> None:
    """Plan the week."""
    decider, now_s = api.control.decider, api.control.resources.clock.time_s()
    week = (await in_parts(decider.snapshot(now_s))).plan()
    if week is not None:
        await in_parts(decider.switch_plan(week, now_s))


class Browser:
    """Somebody at the dashboard: keeps cookies, and sends forms as a browser does."""

    def __init__(self, api: Running) -> None:
        self.api = api
        self.csrf = ""

    async def answer(self, path: str, **headers: str) -> tuple[ClientResponse, str]:
        async with self.api.client.get(path, headers=headers) as answer:
            return answer, await answer.text()

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        answer, text = await self.answer(path, **headers)
        return answer.status, text

    async def post(
        self, path: str, form: Mapping[str, str] | None = None, *, csrf: str | None = None, **headers: str
    ) -> tuple[ClientResponse, str]:
        fields = {"csrf": self.csrf if csrf is None else csrf} | dict(form or {})
        async with self.api.client.post(path, data=fields, headers=headers, allow_redirects=False) as answer:
            return answer, await answer.text()

    async def sign_in(
        self, scope: Scope = "write", *, expires_in_s: float | None = None, **form: str
    ) -> tuple[ClientResponse, str]:
        shown = (await self.api.token(scope, expires_in_s=expires_in_s))["Authorization"].removeprefix("Bearer ")
        mark = field(await self.get("/sign-in"), "mark")
        answer = await self.post("/sign-in", {"mark": mark, "token": shown} | form)
        if answer[0].status == 303 and (page := await self.get("/docs"))[0] == 200:
            self.csrf = field(page, "csrf")
        return answer


def field(page: tuple[int, str], name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page[1])
    assert found is not None, page
    return unescape(found[1])
