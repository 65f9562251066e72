"""Pictures of pages: whole, within a size in pixels and in bytes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from playwright.async_api import CDPSession, Page

from proxyd.core.model.outcome import Picture

WIDTH, MOST_HEIGHT = 1280, 5_000  # in pixels
MOST_BYTES = 512 * 1024
_JPEG_QUALITIES = (80, 60, 40, 20)
_MOST_IMAGES = 500
_IMAGES_S = 5.0  # for images to load
_LOAD_IMAGES = """
(async () => {{
  const images = [...document.images].slice(0, {most});
  for (const image of images) image.loading = "eager";
  await document.fonts.ready;
  await Promise.all(images.filter(image => !image.complete).map(image => new Promise(done => {{
    image.addEventListener("load", done);
    image.addEventListener("error", done);
  }})));
}})()
"""


@dataclass(frozen=True, slots=True)
class PageView:
    """A page as the browser shows it, seen from a world of its own, where the scripts of the page cannot interfere."""

    session: CDPSession
    world: int

    @classmethod
    async def of(cls, page: Page) -> PageView:
        """Return a view of the page as it stands."""
        session = await page.context.new_cdp_session(page)
        tree = await session.send("Page.getFrameTree")
        world = await session.send("Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]})
        return cls(session, world["executionContextId"])

    async def evaluate(self, expression: str, *, awaits: bool = False) -> Any:
        """Return the value of an expression of JavaScript."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": awaits, "contextId": self.world}
        return (await self.session.send("Runtime.evaluate", asked))["result"].get("value")

    async def picture(self) -> Picture | None:
        """Return a picture of the page, or ``None`` if even as a JPEG it is too large.

        It may take any time, so the caller sets a limit. The browser draws only the part that is in the picture.
        """
        await self.session.send("Emulation.setScrollbarsHidden", {"hidden": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_IMAGES_S):
                await self.evaluate(_LOAD_IMAGES.format(most=_MOST_IMAGES), awaits=True)
        sizes = await self.session.send("Page.getLayoutMetrics")
        height = min(MOST_HEIGHT, max(1, ceil(sizes["cssContentSize"]["height"])))
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        for image_format in _formats():
            asked = image_format | {"clip": clip, "captureBeyondViewport": True}
            data = base64.b64decode((await self.session.send("Page.captureScreenshot", asked))["data"])
            if len(data) <= MOST_BYTES:
                return Picture(f"image/{image_format['format']}", data)
        return None


def _formats() -> Iterator[dict[str, Any]]:
    """Yield the formats to try, as arguments of ``Page.captureScreenshot``: each gives a smaller file."""
    yield {"format": "png"}
    yield from ({"format": "jpeg", "quality": quality} for quality in _JPEG_QUALITIES)
