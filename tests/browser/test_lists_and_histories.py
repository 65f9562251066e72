"""Histories, charts of numbers and what is done to several at once, in windows of two widths."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from proxyd.api.auth import new_token
from tests.browser.test_dashboard import check, opened, sign_in, too_wide
from tests.integration.api_world import running_api
from tests.integration.test_bulk_actions import WATCHES
from tests.integration.test_histories import PRICE, past_of_page, shows


@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.long), ("dark", 390)])
async def test_states_are_compared_and_several_watches_removed_without_scripts(
    chromium: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 850}}
    async with running_api(tmp_path) as api:
        await past_of_page(api)
        await api.control.declarations.declare(PRICE, WATCHES)
        for price in (30, 25.5, 99):
            await shows(api, "lamp.example", {"name": "Lamp", "price": price})
        token, shown = new_token("ada", "write", now_s=api.control.queries.clock.time_s(), expires_in_s=None)
        await api.control.queries.access.add_token(token)
        base = str(api.client.make_url("")).rstrip("/")
        async with opened(chromium, **options) as page:  # axe needs scripts
            await sign_in(page, base, shown)
            for path in ("sources/town.example/history?from=1&to=3", "sources/lamp.example", "sources", "rules"):
                await page.goto(f"{base}/{path}")
                await page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
                await check(page, path)
                assert await too_wide(page) == [], path
        async with opened(chromium, java_script_enabled=False, **options) as page:
            await sign_in(page, base, shown)
            await page.goto(f"{base}/sources/town.example/history")
            await page.get_by_label("compare from state 1").check()
            await page.get_by_role("button", name="Compare").click()
            await expect(page.locator(".diff ins").first).to_contain_text("Tea 4")
            await page.goto(f"{base}/rules")
            await page.get_by_label("choose a.example").check()
            await page.get_by_label("choose b.example").check()
            await page.get_by_text("Do something with several").click()
            await page.get_by_role("button", name="Remove").click()
            await expect(page.get_by_text("Removed 2 watches.")).to_be_visible()
            await page.goto(f"{base}/removed")
            await page.get_by_role("button", name="Have it back").click()
            await expect(page.get_by_role("link", name="a.example")).to_be_visible()
