"""The pages of sites in a real browser: for everybody to read, in light and dark, wide and narrow, without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from proxyd.api.auth import new_token
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.stages.site_uptime import Incident, SiteChange, SiteDay
from tests.browser.test_dashboard import check, opened, sign_in, too_wide
from tests.fakes import FakeClock
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import HOSTILE
from tests.observations import observed

SITE, DAY_S = "shop.example.org", 86400.0
DECLARED = f"""
WATCH 'https://{SITE}' OF SITE INTO "P" HOLDING 'Welcome' TELL LOG 'x';
WATCH 'https://blog.example.org/a/rather/long/path/that/goes/on' OF SITE INTO "P";
CREATE SOURCE "{HOSTILE.replace(chr(34), chr(34) * 2)}" OF SITE AT 'https://evil.example';
WATCH 'https://evil.example' OF SITE AS "evil" INTO "P";
"""


async def remember(api: Running, name: str, bad_days: set[int]) -> None:
    """Store 60 days of a site, with an outage of half an hour on some, which are counted back from today."""
    today, store = int(T0 // DAY_S), api.control.resources.store
    outcome = ProbeOutcome(name, OutcomeKind.SAME_BODY, T0, T0)
    for back in range(1, 60):
        began_s = (today - back) * DAY_S + 3600.0
        down_s = (1800.0 if back % 2 else 400.0) if back in bad_days else 0.0
        day = SiteDay(today - back, DAY_S - down_s, down_s, 2160, int(down_s / 40), 2160 * 0.3)
        changes = [SiteChange((day,), Incident(began_s, reason=f"status 503 {HOSTILE}") if down_s else None)]
        changes += [SiteChange((), Incident(began_s, began_s + down_s))] if down_s else []
        for change in changes:
            await store.record(observed(SourceState(name, f"https://{name}"), outcome, site=change))


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Yield the address and a token of a daemon whose sites were up and down for weeks."""
    async with running_api(folder, status_pages=[f"public: {SITE} | {HOSTILE}"]) as api:
        await api.control.declarations.declare(DECLARED)
        await remember(api, SITE, {3, 10, 40})
        await remember(api, HOSTILE, {1, 2})
        clock = cast("FakeClock", api.control.resources.clock)
        for name, fails in ((SITE, False), (HOSTILE, True)):
            for number in range(200):
                at_s = clock.time_s()
                kind = OutcomeKind.HTTP_ERROR if fails and number > 150 else OutcomeKind.SAME_BODY
                outcome = ProbeOutcome(name, kind, at_s, at_s + 0.2 + number % 7 / 20, 200, detail=HOSTILE)
                outcome = replace(outcome, is_answered=True, certificate_end_s=T0 + 12 * DAY_S)
                made = Probe(name, int(at_s / 10), Reason.DETECTION, None, 1.0)
                await api.control.loops.observer.take_in(outcome, probe=made)
                await clock.advance(40.0)
        token, shown = new_token("ada", "write", now_s=clock.time_s(), expires_in_s=None)
        await api.control.queries.access.add_token(token)
        yield str(api.client.make_url("")).rstrip("/"), shown


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), pytest.param("dark", 390, marks=pytest.mark.long)])
async def test_pages_of_sites_can_be_read_by_everybody(
    chromium: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 850}}
    async with watched(tmp_path) as (base, token), opened(chromium, **options) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        await page.goto(f"{base}/status/public")
        await expect(page.get_by_text("Something is down.")).to_be_visible()
        await check(page, f"status, {scheme}")
        assert await too_wide(page) == []
        await page.screenshot(path=tmp_path / f"status-{scheme}.png", full_page=True)
        await sign_in(page, base, token)
        for name in ("sites", f"sites/{SITE}", f"sites/{quote(HOSTILE, safe='')}"):
            await page.goto(f"{base}/{name}")
            await page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            await check(page, f"{name}, {scheme}")
            assert await too_wide(page) == [], name
            await page.screenshot(path=tmp_path / f"{name[:12].replace('/', '-')}-{scheme}.png", full_page=True)


async def test_sites_are_added_without_scripts(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (base, token), opened(chromium, java_script_enabled=False) as page:
        await page.goto(base + "/sites")
        await page.fill("#token", token)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("Addresses, one a line").fill("https://one.example\ntwo.example")
        await page.get_by_label("Tell (mail").fill("me@example.org")
        await page.get_by_role("button", name="Watch").click()
        await expect(page.get_by_text("Watching 2 more sites.")).to_be_visible()
        await expect(page.get_by_role("link", name="two.example")).to_be_visible()
