"""Renders pages in a Chromium that is reached by its DevTools address.

Each page has a context of its own, which shares nothing with other pages. Its proxy is an address at which nothing can
listen. So requests that bypass the interception, as redirects, preloads and shared workers do, reach nothing.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from multidict import CIMultiDict, CIMultiDictProxy
from playwright.async_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Error,
    Frame,
    Page,
    Playwright,
    Request,
    Route,
    async_playwright,
)
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from proxyd.core.errors import FetchError, FetchTimeoutError, ProbeError
from proxyd.core.model.outcome import NO_VALIDATORS, Picture
from proxyd.probing.browser.page_requests import PageAnswer, PageRequest, PageRequests, RenderLimits, is_empty
from proxyd.probing.documents.probe_failures import NoBrowserError, TooLargeError, UnreadableDocumentError

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from proxyd.core.model.profile import Rendering
    from proxyd.net.guard import Guard
    from proxyd.probing.http.fetcher import Fetch, FetchRequest, FetchResponse, ProbeTrace


# Nothing can listen at port 0. Interception alone does not guard: with every request refused, a redirect and the
# request of a shared worker still reached a listener on loopback (Chromium 156). With this proxy nothing reached it.
_NOWHERE = "http://127.0.0.1:0"
_RENDERED = frozenset({200, 203})
_WEB_PAGES = frozenset({"", "text/html", "application/xhtml+xml"})
_EVERYTHING = "**/*"
_CONNECT_S, _CLOSE_S = 10.0, 5.0
_NOTICE_S = 1.0  # for a lost connection to be noticed, after a page was lost
_HEIGHT = 720  # of the window, in pixels
_WITHOUT_SOCKETS = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport"]) delete globalThis[name];
"""
_READ = """
(() => {{ const html = document.documentElement?.outerHTML ?? ""; return html.length > {most} ? null : html; }})()
"""


@asynccontextmanager
async def open_chromium(address: str, loader: PageLoader) -> AsyncIterator[Chromium]:
    """Open a renderer; its browser need not run yet."""
    chromium = Chromium(address, loader)
    try:
        yield chromium
    finally:
        await chromium.close()


@dataclass(frozen=True, slots=True)
class PageLoader:
    """What a page is loaded with: the document by ``fetcher``, everything else by ``session``."""

    fetcher: Fetch
    session: ClientSession
    guard: Guard
    user_agent: str
    limits: RenderLimits


async def with_ip_address(address: str) -> str:
    """Return a DevTools address with the IP address of its host: a Chromium refuses requests for any other name.

    With TLS the name stays, because the certificate is for it.
    """
    parts = urlsplit(address)
    if parts.scheme not in {"http", "ws"} or not parts.hostname:
        return address
    found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    host = found[0][4][0]
    number = f"[{host}]" if found[0][0] == socket.AF_INET6 else host
    credentials, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{credentials}{at}{number}:{parts.port or 80}").geturl()


class Chromium:
    """Renders pages, a few at once; connects to its browser when it is needed, and again after the browser died."""

    def __init__(self, address: str, loader: PageLoader) -> None:
        self._address = address
        self._loader = loader
        self._limits = loader.limits
        self._turns = asyncio.Semaphore(loader.limits.renders)
        self._connecting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    async def render(self, asked: FetchRequest, rendering: Rendering, trace: ProbeTrace) -> FetchResponse:
        """Return the response of the document with the page as its body, once its scripts have run.

        Validators and freshness of the document are left out, because they say nothing about what scripts load. Raises
        ``NoBrowserError``: the browser cannot be reached, or died; ``FetchTimeoutError``: the page was not there in
        time, or nothing matched WAIT FOR; ``ProbeError``: the document could not be fetched, or is not a web page.
        """
        async with self._turns:
            browser = await self._connect_browser()
            document = await self._loader.fetcher.fetch(replace(asked, validators=NO_VALIDATORS), trace)
            if document.status not in _RENDERED:
                return document
            _check_web_page(document)
            return await self._render_page(browser, asked, document, rendering, trace)

    async def close(self) -> None:
        """Disconnect from the browser; it keeps running."""
        async with self._connecting:
            await self._disconnect()

    # -- the browser

    async def _connect_browser(self) -> Browser:
        async with self._connecting:
            if self._browser is None or not self._browser.is_connected():
                await self._disconnect()
                self._browser = await self._connect()
            return self._browser

    async def _connect(self) -> Browser:
        try:
            async with asyncio.timeout(2 * _CONNECT_S):
                self._playwright = await async_playwright().start()
                address = await with_ip_address(self._address)
                return await self._playwright.chromium.connect_over_cdp(address, timeout=_CONNECT_S * 1000)
        except (Error, OSError, TimeoutError) as error:
            await self._disconnect()
            raise NoBrowserError("the browser does not answer at the setting browser; start it") from error

    async def _disconnect(self) -> None:
        playwright, self._playwright, self._browser = self._playwright, None, None
        if playwright is not None:
            with suppress(Error, OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await playwright.stop()

    # -- a page

    async def _render_page(
        self, browser: Browser, asked: FetchRequest, document: FetchResponse, rendering: Rendering, trace: ProbeTrace
    ) -> FetchResponse:
        try:
            async with (
                asyncio.timeout(self._limits.total_s) as limit,
                self._open_page(browser, asked, document, trace) as page,
            ):
                await self._wait(page, document.url, rendering)
                view = await _PageView.of(page)
                body, until_s = await self._read(view), limit.when()
                limit.reschedule(None)  # closing has a limit of its own, and takes nothing back that was read
                picture = await _picture(view, until_s, trace) if asked.wants_picture else None
                return _with_page(document, body, page.url, picture)
        except (TimeoutError, PlaywrightTimeoutError) as error:
            raise FetchTimeoutError(_too_late(rendering, self._limits.total_s)) from error
        except Error as error:
            if await _is_gone(browser):
                raise NoBrowserError("the browser died while it rendered the page") from error
            raise FetchError(f"the browser could not render the page: {_first_line(error)}") from error

    @asynccontextmanager
    async def _open_page(
        self, browser: Browser, asked: FetchRequest, document: FetchResponse, trace: ProbeTrace
    ) -> AsyncIterator[Page]:
        """Open an empty page in a new context, and close it however the block ends."""
        loader, tasks = self._loader, _Tasks()
        context = await browser.new_context(
            proxy={"server": _NOWHERE, "bypass": "<-loopback>"},
            service_workers="block",
            accept_downloads=False,
            user_agent=loader.user_agent,
            viewport={"width": WIDTH, "height": _HEIGHT},
        )
        requests = PageRequests(
            loader.session, loader.guard, asked, document, loader.limits, trace, lambda url: _cookies(context, url)
        )
        try:
            yield await _prepare_page(context, requests, tasks)
        finally:
            await tasks.cancel()
            await self._close(browser, context)
            trace.remarks.extend([requests.remark] if requests.remark else [])

    async def _close(self, browser: Browser, context: BrowserContext) -> None:
        """Close a context; if a page keeps it from closing, disconnect from the browser, which ends its pages."""
        try:
            with suppress(Error):
                async with asyncio.timeout(_CLOSE_S):
                    await context.close()
        except TimeoutError:
            async with self._connecting:
                if self._browser is browser:
                    await self._disconnect()

    async def _wait(self, page: Page, url: str, rendering: Rendering) -> None:
        """Open the page and wait until something matches WAIT FOR or, without it, until the page is quiet."""
        limit_ms = self._limits.total_s * 1000
        await page.goto(url, wait_until="domcontentloaded", timeout=limit_ms)
        if rendering.wait_for is not None:
            await page.wait_for_selector(f"css={rendering.wait_for}", state="attached", timeout=limit_ms)
            return
        with suppress(PlaywrightTimeoutError):  # it never becomes quiet
            await page.wait_for_load_state("networkidle", timeout=self._limits.settle_s * 1000)

    async def _read(self, view: _PageView) -> bytes:
        """Return the page as the browser shows it."""
        html = await view.evaluate(_READ.format(most=self._limits.body_bytes))
        body = html.encode("utf-8", "replace") if isinstance(html, str) else None
        if body is None or len(body) > self._limits.body_bytes:
            raise TooLargeError(f"the rendered page has more than {self._limits.body_bytes} bytes")
        return body


@dataclass(slots=True)
class _Tasks:
    """Tasks that belong to a page."""

    running: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_unless_closed(work), name="page")
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def cancel(self) -> None:
        running = list(self.running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _unless_closed(work: Coroutine[Any, Any, None]) -> None:
    with suppress(Error):  # the page was closed meanwhile
        await work


async def _prepare_page(context: BrowserContext, requests: PageRequests, tasks: _Tasks) -> Page:
    """Return an empty page whose requests are answered here, and that can open nothing else."""
    foreign: set[Frame] = set()
    await context.add_init_script(_WITHOUT_SOCKETS)
    await context.route(_EVERYTHING, lambda route: tasks.start(_answer(context, route, requests, foreign)))
    await context.route_web_socket(re.compile(""), lambda socket: tasks.start(socket.close()))
    page = await context.new_page()
    page.on("framenavigated", lambda frame: foreign.add(frame) if requests.is_foreign(frame.url) else None)
    context.on("page", lambda popup: tasks.start(popup.close()))
    return page


async def _answer(context: BrowserContext, route: Route, requests: PageRequests, foreign: AbstractSet[Frame]) -> None:
    """Answer a request; leave endless ones to the proxy, which refuses them without a word to us."""
    try:
        answer = await requests.answer(_page_request(route, foreign))
    except ProbeError:
        if requests.is_endless:
            await context.unroute(_EVERYTHING)
        await route.abort("blockedbyclient")
    else:
        await _fulfil(route, answer)


def _page_request(route: Route, foreign: AbstractSet[Frame]) -> PageRequest:
    request = route.request
    asking, body = _asking(request, foreign), request.post_data_buffer
    return PageRequest(request.url, request.resource_type, request.method, request.headers, body, asking)


def _asking(request: Request, foreign: AbstractSet[Frame]) -> str | None:
    """Return the URL of the document that makes a request; an empty frame belongs to the document around it."""
    # Whether a frame navigates itself or is navigated by the document around it cannot be seen, so a frame that ever
    # showed a `foreign` document is nobody's: it asked the source's host with its secrets
    try:
        frame: Frame | None = request.frame
    except Error:  # of a new page
        return None
    if frame in foreign and request.is_navigation_request():
        return None
    while frame is not None and is_empty(frame.url):
        frame = frame.parent_frame
    return None if frame is None else frame.url


async def _fulfil(route: Route, answer: PageAnswer) -> None:
    await route.fulfill(status=answer.status, headers=dict(answer.headers), body=answer.body)


async def _cookies(context: BrowserContext, url: str) -> str:
    return "; ".join(f"{each['name']}={each['value']}" for each in await context.cookies(url))


async def _is_gone(browser: Browser) -> bool:
    """Return whether the connection to the browser is lost, which may be noticed shortly after the page is lost."""
    gone = asyncio.Event()
    browser.once("disconnected", lambda _: gone.set())
    with suppress(TimeoutError):
        async with asyncio.timeout(_NOTICE_S):
            if browser.is_connected():
                await gone.wait()
    return not browser.is_connected()


async def _picture(view: _PageView, until_s: float | None, trace: ProbeTrace) -> Picture | None:
    """Return a picture of a page that was read already, or ``None``, with a remark on the trace that says why.

    ``until_s`` is when it must be there, in seconds of the event loop's clock.
    """
    try:
        async with asyncio.timeout_at(until_s):
            picture = await view.picture()
    except TimeoutError:
        trace.remarks.append("no screenshot: there was no time left")
    except Error as error:
        trace.remarks.append(f"no screenshot: {_first_line(error)}")
    else:
        if picture is None:
            trace.remarks.append(f"no screenshot: it has more than {MOST_BYTES // 1024} KiB")
        return picture
    return None


def _check_web_page(document: FetchResponse) -> None:
    kind = document.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in _WEB_PAGES:
        raise UnreadableDocumentError(f"the server sends {kind!r}, which is not a web page")


def _with_page(document: FetchResponse, body: bytes, url: str, picture: Picture | None) -> FetchResponse:
    headers = CIMultiDict({"Content-Type": "text/html; charset=utf-8"})
    if "Content-Language" in document.headers:
        headers["Content-Language"] = document.headers["Content-Language"]
    shown = CIMultiDictProxy(headers)
    return replace(document, body=body, url=url, headers=shown, fresh_for_s=None, picture=picture)


def _too_late(rendering: Rendering, total_s: float) -> str:
    if rendering.wait_for is None:
        return f"the page was not built within {total_s:g} s"
    return f"nothing matched WAIT FOR {rendering.wait_for!r} within {total_s:g} s"


def _first_line(error: Error) -> str:
    return error.message.partition("\n")[0]


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
class _PageView:
    """A page as the browser shows it, seen from a world of its own, where the scripts of the page cannot interfere."""

    session: CDPSession
    world: int

    @classmethod
    async def of(cls, page: Page) -> _PageView:
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
