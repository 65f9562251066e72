"""Chromium for the dashboard's tests; ``--write-images`` renews the pictures of the documents."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-images", action="store_true", help="write the dashboard's pictures to docs/images")


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    """Yield the browser of the distribution."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("chromium is not installed")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()
