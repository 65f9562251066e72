"""The reader in a real browser: by keys, by scrolling, and on a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.async_api import Browser, Dialog, Page, expect

from proxyd.api.auth import new_token
from tests.browser.test_dashboard import check, opened, press, sign_in, too_wide
from tests.fleets import changed, item
from tests.hostile import ALL
from tests.integration.api_world import T0, Running, running_api

Opened: TypeAlias = tuple[Page, str, Running]


@asynccontextmanager
async def reading(
    folder: Path, chromium: Browser, items: int, **options: object
) -> AsyncIterator[tuple[Page, str, Running]]:
    """Yield a daemon whose source has shown items, and a page that is signed in."""
    async with running_api(folder) as api, opened(chromium, **options) as page:
        token, shown = new_token("ada", "read", now_s=T0, expires_in_s=None)
        await api.control.queries.access.add_token(token)
        known = [item("At first", T0 - 9000.0)]
        await api.control.loops.observer.take_in(changed("s", known, T0))
        new = [item(f"Item {n}", T0 + n, link=f"https://a.example/{n}", content="<p>Text</p>") for n in range(items)]
        await api.control.loops.observer.take_in(changed("s", [*new, *known], T0 + 100.0))
        base = str(api.client.make_url("")).rstrip("/")
        await sign_in(page, base, shown)
        yield page, base, api


async def test_items_are_read_by_keys(chromium: Browser, tmp_path: Path) -> None:
    async with reading(tmp_path, chromium, 3) as (page, base, _):
        await page.goto(f"{base}/read")
        await expect(page).to_have_title("(4) Unread · proxyd")
        await press(page, "j", "j")
        second = page.locator(".entries li").nth(1)
        await expect(second.locator(".open")).to_be_focused()
        await press(page, "m")
        await expect(second).to_have_class("read")
        await expect(page).to_have_title("(3) Unread · proxyd")
        await press(page, "m")
        await expect(page).to_have_title("(4) Unread · proxyd")
        await press(page, "s")
        await expect(second.locator(".star")).to_have_text("★")
        await press(page, "k", "o")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Item 2")
        await press(page, "j")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Item 1")
        await expect(page.locator(".star")).to_have_text("★")
        await press(page, "s")
        await expect(page.locator(".star")).to_have_text("☆")
        await press(page, "k")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Item 2")
        await press(page, "m")
        await expect(page).to_have_title("(3) Unread · proxyd")
        await press(page, "?")
        await expect(page.locator("#keys")).to_be_visible()
        await press(page, "Escape", "A")
        await expect(page).to_have_title("Unread · proxyd")


async def test_what_is_scrolled_past_is_read_if_the_reader_wants_that(chromium: Browser, tmp_path: Path) -> None:
    async with reading(tmp_path, chromium, 30, viewport={"width": 1280, "height": 500}) as (page, base, _):
        await page.goto(f"{base}/read")
        await page.mouse.wheel(0, 5000)
        await page.get_by_label("Mark items as read when I scroll past them").check()
        await page.evaluate("scrollTo(0, 0)")
        await expect(page.locator(".entries li.read")).to_have_count(0)
        await page.mouse.wheel(0, 400)
        await expect(page.locator(".entries li").first).to_have_class("read")
        assert await page.locator(".entries li.read").count() < 20
        await page.reload()
        await expect(page.locator("#by-scrolling input")).to_be_checked()


async def test_the_reader_fits_a_phone_with_its_folders_folded(chromium: Browser, tmp_path: Path) -> None:
    options = {"color_scheme": "dark", "viewport": {"width": 390, "height": 850}}
    async with reading(tmp_path, chromium, 3, **options) as (page, base, _):
        for path in ("read", "read?view=all&profile=P", "read/2"):
            await page.goto(f"{base}/{path}")
            await check(page, path)
            assert await too_wide(page) == [], path
        await page.goto(f"{base}/read")
        folder = page.locator(".folders a", has_text="P").first
        await expect(folder).to_be_hidden()
        await page.locator(".folders > summary").click()
        await folder.click()
        await expect(page).to_have_title("(3) Unread · P · proxyd")
        await page.set_viewport_size({"width": 1280, "height": 850})
        await expect(folder).to_be_visible()
        await check(page, "wide")


@pytest.mark.long
async def test_articles_of_strangers_run_nothing_and_ask_for_nothing(chromium: Browser, tmp_path: Path) -> None:
    dialogs: list[str] = []

    async def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    async with reading(tmp_path, chromium, 0) as (page, base, api):
        page.on("dialog", note)
        texts = [text.encode("utf-8", "replace").decode()[:60_000] for text in ALL.values()]
        items = [item(f"{n} {text[:500]}", T0 + 200.0, content=text, author=text[:500]) for n, text in enumerate(texts)]
        await api.control.loops.observer.take_in(changed("s", items, T0 + 300.0))
        for position in range(2, 2 + len(texts)):
            answer = await page.goto(f"{base}/read/{position}")
            assert answer is not None
            assert answer.status == 200
        await page.goto(f"{base}/read?view=all")
        await expect(page.locator(".entries li")).to_have_count(1 + len(texts))
    assert dialogs == []
