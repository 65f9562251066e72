"""The pictures of the documents: a town's feeds, sites and a price list that somebody reads and watches."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from playwright.async_api import Browser

from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.stages.site_uptime import Incident, SiteChange, SiteDay
from tests.browser.test_dashboard import lived, opened, sign_in, too_wide
from tests.fakes import FakeClock
from tests.fleets import changed
from tests.integration.api_world import Running
from tests.integration.dashboard_world import DAY_S, TITLED
from tests.observations import observed

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PAGE = "pool.example.org/prices"
SITES = ("blog.example.org", "mail.example.org", "shop.example.org")
BAD_DAYS = {"blog.example.org": {}, "mail.example.org": {12: 900.0}, "shop.example.org": {3: 1800.0, 41: 20_000.0}}
DECLARED = f"""CREATE PROFILE "Town news";
WATCH 'https://{PAGE}' OF PAGE INTO "Town news";
""" + "".join(f"WATCH 'https://{name}' OF SITE INTO \"Town news\";\n" for name in SITES)
TEXTS = (
    "Opening hours\n\nMonday to Friday 9:00 to 19:00\n\nTickets\n\nAdults 4.50\n\nChildren 2.00",
    "Opening hours\n\nMonday to Friday 9:00 to 20:00\n\nTickets\n\nAdults 4.50\n\nChildren 2.00",
    "Opening hours\n\nMonday to Friday 9:00 to 20:00\n\nTickets\n\nAdults 4.80\n\nChildren 2.00\n\nFamilies 11.00",
)
SHOWN = {
    "news": "",
    "read": "read?view=all",
    "watches": "rules",
    "rule": "rules/every-item",
    "source": "sources/evening-news",
    "why": "sources/evening-news/why",
    "history": f"sources/{PAGE.replace('/', '%2F')}/history?from=1&to=3",
    "sites": "sites",
    "site": "sites/shop.example.org",
    "status": "status/public",
}


async def be_up_and_down(api: Running, name: str) -> None:
    """Store 90 days of a site, with an outage on its bad days, and let it answer for an hour."""
    clock, store = cast("FakeClock", api.control.resources.clock), api.control.resources.store
    today = int(clock.time_s() // DAY_S)
    outcome = ProbeOutcome(name, OutcomeKind.SAME_BODY, clock.time_s(), clock.time_s())
    for back in range(1, 90):
        began_s, down_s = (today - back) * DAY_S + 7200.0, BAD_DAYS[name].get(back, 0.0)
        day = SiteDay(today - back, DAY_S - down_s, down_s, 2160, int(down_s / 40), 2160 * 0.3)
        changes = [SiteChange((day,), Incident(began_s, reason="it answered with status 503") if down_s else None)]
        changes += [SiteChange((), Incident(began_s, began_s + down_s))] if down_s else []
        for change in changes:
            await store.record(observed(SourceState(name, f"https://{name}"), outcome, site=change))


async def live_with_sites(api: Running) -> None:
    """Let the sites answer, and the page change."""
    clock = cast("FakeClock", api.control.resources.clock)
    await api.control.declarations.declare(DECLARED)
    for name in SITES:
        await be_up_and_down(api, name)
    for text in TEXTS:
        item = Item("", {"text": text}, None, text)
        assert await api.control.loops.observer.take_in(changed(PAGE, [item], clock.time_s()))
        await clock.advance(5 * 3600.0)
    for number in range(120):
        at_s = clock.time_s()
        for place, name in enumerate(SITES):
            took_s = 0.12 + 0.09 * place + number * 7919 % 13 / 200.0
            outcome = ProbeOutcome(name, OutcomeKind.SAME_BODY, at_s, at_s + took_s, 200)
            made = Probe(name, int(at_s / 10), Reason.DETECTION, None, 1.0)
            assert await api.control.loops.observer.take_in(outcome, probe=made)
        await clock.advance(40.0)


@pytest.mark.long
async def test_the_pictures_of_the_documents(chromium: Browser, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Runs at little length unless the pictures are asked for."""
    writes = bool(pytestconfig.getoption("--write-images", default=False))
    folder = IMAGES if writes else tmp_path / "images"
    folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "world").mkdir()
    settings = {"status_pages": [f"public: {' | '.join(SITES)}"]}
    async with lived(tmp_path / "world", 9.0 if writes else 1.0, "admin", TITLED, **settings) as (api, base, token):
        await live_with_sites(api)
        for scheme, width, names in (("light", 1280, [*SHOWN]), ("dark", 1280, ["news"]), ("light", 390, ["read"])):
            options = {"color_scheme": scheme, "viewport": {"width": width, "height": 850}}
            async with opened(chromium, **options) as page:
                await sign_in(page, base, token)
                for name in names:
                    await page.goto(f"{base}/{SHOWN[name]}")
                    assert await too_wide(page) == [], name
                    size = "" if width == 1280 else "-phone"
                    await page.screenshot(path=folder / f"{name}-{scheme}{size}.png")
                    assert (folder / f"{name}-{scheme}{size}.png").stat().st_size > 10_000
