"""The site of the documents in a real browser: soon painted, searched without a server, dark if its reader wants it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.async_api import Browser, expect

from tests.browser.test_dashboard import opened
from tests.deployment import build_site

_PAINT_S = 1.0


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the site, and yield its address."""
    folder = build_site(tmp_path_factory.mktemp("site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.alone
@pytest.mark.parametrize("path", ["/", "/how-to/", "/language/", "/rest/", "/comparison/"])
async def test_a_page_is_painted_within_a_second(chromium: Browser, documents: str, path: str) -> None:
    async with opened(chromium) as page:
        await page.goto(f"{documents}{path}")
        painted_ms = await page.evaluate(
            """() => new Promise((tell) => new PerformanceObserver((list) => tell(list.getEntries()[0].startTime))
            .observe({type: "paint", buffered: true}))"""
        )
        assert painted_ms < _PAINT_S * 1000.0


async def test_the_search_finds_a_page_and_shows_it(chromium: Browser, documents: str) -> None:
    async with opened(chromium) as page:
        await page.goto(documents)
        await page.get_by_label("Search").first.click()
        await page.keyboard.type("Retry-After")
        first = page.locator(".md-search-result__link").first
        await expect(first).to_be_visible()
        await first.click()
        await expect(page.locator("article mark").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_site_is_as_dark_as_its_reader_wants(chromium: Browser, documents: str, scheme: str) -> None:
    async with opened(chromium, color_scheme=scheme, viewport={"width": 390, "height": 800}) as page:
        await page.goto(f"{documents}/tutorial/")
        await expect(page.locator("body")).to_have_attribute(
            "data-md-color-scheme", {"light": "default", "dark": "slate"}[scheme]
        )
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
