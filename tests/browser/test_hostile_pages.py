"""Hostile texts in a real browser: they run nothing, ask for nothing, and can be read."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Dialog, Page, expect

from proxyd.api.auth import new_token
from proxyd.core.texts.safe_text import visible
from tests.browser.test_dashboard import opened, sign_in
from tests.hostile import ALL, MARKUP, NO_UTF8, SHORT
from tests.integration.api_world import Running, running_api, told
from tests.integration.test_hostile_content import declared, row

NAMES = {name: text for name, text in SHORT.items() if name not in NO_UTF8}


@pytest.mark.long
async def test_hostile_texts_run_nothing_and_are_read_as_text(chromium: Browser, tmp_path: Path) -> None:
    dialogs: list[str] = []

    async def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    async with running_api(tmp_path) as api, opened(chromium) as page:
        page.on("dialog", note)
        token, shown = new_token("ada", "admin", now_s=api.control.queries.clock.time_s(), expires_in_s=None)
        await api.control.queries.access.add_token(token)
        base = str(api.client.make_url("")).rstrip("/")
        await declare(api)
        await sign_in(page, base, shown)
        await visit(page, base)
        await watch(page, base, api)
        await edit(page, base)
    assert dialogs == []


async def declare(api: Running) -> None:
    """Declare and tell with every text."""
    for name in NAMES.values():
        await api.control.declarations.declare(declared(name))
    for k, text in reversed(list(enumerate(ALL.values()))):  # the longest first: a page holds no more beside them
        await api.tell(told(f"n{k}", items=[row(text)], url=text, source=text, profiles=[text]))


async def visit(page: Page, base: str) -> None:
    """Go to every page, and find the texts of markup there as texts."""
    items = [f"notifications/n{k}" for k in range(len(ALL))]
    subjects = [
        f"{kind}/{quote(name, safe='')}" for kind in ("rules", "sources", "profiles") for name in MARKUP.values()
    ]
    for path in ("", "sources", "rules", "profiles", "notifications?limit=100", "plan", "tokens", *items, *subjects):
        answer = await page.goto(f"{base}/{path}")
        assert answer is not None
        assert answer.status == 200, path
        if path in {"sources", "rules", "profiles", "notifications?limit=100"}:
            text = await page.inner_text("main")
            said = " ".join(text.split())
            assert [name for name, text in MARKUP.items() if " ".join(visible(text).split())[:40] not in said] == [], (
                path
            )


async def watch(page: Page, base: str, api: Running) -> None:
    """Let notifications arrive at an open page."""
    await page.goto(f"{base}/notifications")
    await expect(page.locator("#live-state")).to_contain_text("live")
    await api.tell(told("live", items=[row("now: " + MARKUP["script"] + MARKUP["image"])]))
    await expect(page.locator("main")).to_contain_text("now: " + MARKUP["script"])


async def edit(page: Page, base: str) -> None:
    """Write texts that the editor finds faults in."""
    await page.goto(f"{base}/profiles/new")
    for text in MARKUP.values():
        await page.fill("textarea", f"CREATE {text}")
        await expect(page.locator(".faults")).to_contain_text(f"CREATE {text}".partition("\n")[0][:60])
