"""Sources are added by the dashboard alone, with few actions: clicks, filled fields, chosen files."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import Browser, Page, expect

from tests.acceptance.support import World, eventually
from tests.browser.test_dashboard import opened, sign_in, watched

SHOP = """<!doctype html><html lang="en"><title>Desk lamp</title><body onload="alert(1)"><script>alert(1)</script>
<main><h1 id="name">Desk lamp</h1><p class="offer">Was <s>1,399.00</s>, now <b class="price">$1,299.00</b></p>
<img src="https://elsewhere.example/x.png"><a href="https://elsewhere.example/">Others</a></main></body></html>"""
OPML = """<opml version="2.0"><body><outline text="Blogs"><outline text="First" xmlUrl="{one}"/>
<outline text="Second" xmlUrl="{two}"/></outline></body></opml>"""


ATTACKS = """<svg onload=alert(1)><style>*{display:none}</style></svg><math><mi xlink:href='javascript:alert(1)'>m</mi>
</math><form action=/tokens><button>x</button></form></template><template></template><img src=x onerror=alert(1)>
<p id='"><script>alert(2)</script>' class='a"b' style='position:fixed' onclick=alert(3)>text &lt;script&gt;</p>"""


class Hands:
    """Somebody at the dashboard, whose actions are counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    async def click(self, name: str, role: str = "button") -> None:
        self.actions += 1
        await self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]

    async def fill(self, label: str, text: str) -> None:
        self.actions += 1
        await self.page.get_by_label(label).fill(text)


async def begun(page: Page, w: World, token: str) -> Hands:
    await sign_in(page, w.daemon.base, token)
    await page.goto(f"{w.daemon.base}/sources")
    return Hands(page)


def shop(w: World, text: str = SHOP) -> str:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html")

    w.origin.pages["lamp"] = answer
    return w.origin.url("lamp")


async def test_a_feed_is_added_with_a_word_and_a_mail_address_in_six_actions(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        w.origin.feed("two").add(3)
        hands = await begun(page, w, token)
        await hands.click("Add a source", "link")
        await hands.fill("Address of a feed or a page", w.origin.url("two"))
        await hands.click("Look")
        await expect(page.get_by_role("heading", name="A feed of 3 items")).to_be_visible()
        await hands.fill("Only with one of these words", "harbour")
        await hands.fill("Tell", "me@example.org")
        await hands.click("Watch it")
        await expect(page.get_by_text("Watching")).to_contain_text("TELL MAIL 'me@example.org'")
        await expect(page.get_by_text("DELIVERY MAIL waits while the settings smtp and mail_from")).to_be_visible()
        assert hands.actions <= 6
        await w.daemon.knows(w.origin.url("two").removeprefix("http://"))


async def test_the_price_of_a_page_is_watched_by_a_click_on_it_in_eight_actions(
    chromium: Browser, tmp_path: Path
) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        hands = await begun(page, w, token)
        await hands.click("Add a source", "link")
        await hands.fill("Address of a feed or a page", shop(w))
        await hands.click("Look")
        hands.actions += 1
        await page.locator("#stage b.price").click()
        await expect(page.locator("#selector")).to_have_value("b.price")
        await expect(page.locator("#value")).to_have_text("Now: $1,299.00")
        hands.actions += 1
        await page.get_by_label("Tell when it").select_option("falls")
        await hands.fill("Tell (a mail", "me@example.org")
        await hands.click("Watch it")
        await expect(page.get_by_text("Watching")).to_contain_text("WHERE NEW.value < OLD.value TELL MAIL")
        assert hands.actions <= 8
        await w.daemon.knows(w.origin.url("lamp").removeprefix("http://"))


async def test_a_page_that_changes_at_each_load_is_watched_without_these_lines(
    chromium: Browser, tmp_path: Path
) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        loads = count(10)

        async def answer(_request: web.Request) -> web.Response:
            text = f"<main><p>Terms of the shop</p><p>{next(loads)} views today</p></main>"
            return web.Response(text=text, content_type="text/html")

        w.origin.pages["terms"] = answer
        hands = await begun(page, w, token)
        await hands.click("Add a source", "link")
        await hands.fill("Address of a feed or a page", w.origin.url("terms"))
        await hands.click("Look")
        await expect(page.get_by_text("Parts of the page change each time it is opened.")).to_be_visible()
        await expect(page.get_by_text("The page shows little text.")).to_be_visible()
        await expect(page.get_by_label("Leave out lines that hold")).to_have_value(r"/^\d+ views today$/")
        await hands.fill("Ask at least every", "5 min")
        await hands.fill("Only if more words changed than", "2")
        await hands.fill("Without these words", "cookie, banner")
        await hands.click("Watch it")
        said = page.get_by_text("Watching")
        for clause in (r"IGNORE '/^\d+ views today$/'", "EVERY 5 MINUTES", "OVER 2 WORDS", "WITHOUT 'cookie'"):
            await expect(said).to_contain_text(clause)
        assert hands.actions <= 8


async def test_a_site_that_is_down_is_added_as_a_site(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:

        async def answer(_request: web.Request) -> web.Response:
            return web.Response(status=503)

        w.origin.pages["shop"] = answer
        hands = await begun(page, w, token)
        await hands.click("Add a source", "link")
        await hands.fill("Address of a feed or a page", w.origin.url("shop"))
        await hands.click("Look")
        await expect(page.get_by_role("alert")).to_contain_text("cannot be watched: status 503")
        await hands.click("Watch it as a site", "link")
        await hands.fill("Only with one of these words", "Welcome")
        await hands.click("Watch it")
        await expect(page.get_by_text("Watching")).to_contain_text("OF SITE HOLDING 'Welcome'")
        await expect(page.get_by_role("heading", name="Sites", exact=True)).to_be_visible()
        assert hands.actions <= 6


@pytest.mark.long
async def test_what_is_added_can_be_shown_with_its_cost_before(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium, java_script_enabled=False) as page:
        await page.goto(w.daemon.base + "/")
        await page.fill("#token", token)
        await page.get_by_role("button", name="Sign in").click()
        await page.goto(f"{w.daemon.base}/add?url={shop(w)}")
        await page.get_by_label("a value: click on it below").check()
        await page.get_by_label("CSS selector of the value").fill("b.price")
        await page.get_by_label("Tell when it").select_option("rises")
        await page.get_by_role("button", name="Show what it reads, writes and costs").click()
        await expect(page.locator("pre.message")).to_contain_text("value:Decimal FROM CSS 'b.price'")
        await expect(page.locator("#value")).to_contain_text("Now: 1299")
        await expect(page.get_by_text("probes a day more")).to_be_visible()
        await page.get_by_label("CSS selector of the value").fill("h1")
        await page.get_by_role("button", name="Watch it").click()
        await expect(page.get_by_role("alert")).to_contain_text("nothing was read at h1: it holds no number")


@pytest.mark.long
async def test_a_list_of_feeds_is_uploaded(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        hands = await begun(page, w, token)
        w.origin.feed("two").add(1)
        text = OPML.format(one=w.origin.url("one"), two=w.origin.url("two"))
        await hands.click("Add a source", "link")
        await page.get_by_label("OPML file").set_input_files(
            {"name": "feeds.opml", "mimeType": "text/x-opml", "buffer": text.encode()}
        )
        await hands.click("Add all of them")
        await expect(page.get_by_text("Sources added: 1, 1 were there already and stay as they are.")).to_be_visible()
        await eventually(lambda: w.origin.asked["two"], "the new source was asked")


@pytest.mark.long
async def test_an_address_that_cannot_be_watched_says_why(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        hands = await begun(page, w, token)
        await hands.click("Add a source", "link")
        for address, said in [
            ("ftp://a.example/", "it starts with https:// or http://"),
            ("http://10.0.0.1/", "cannot be watched"),
            (w.origin.url("nothing"), "cannot be watched"),
        ]:
            await hands.fill("Address of a feed or a page", address)
            await hands.click("Look")
            await expect(page.get_by_role("alert")).to_contain_text(said)


async def test_a_page_that_attacks_is_shown_as_harmless_structure(chromium: Browser, tmp_path: Path) -> None:
    hostile = SHOP.replace("<main>", f"<main>{ATTACKS}")
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        await sign_in(page, w.daemon.base, token)
        await page.goto(f"{w.daemon.base}/add?url={shop(w, hostile)}")
        await expect(page.locator("#stage b.price")).to_be_visible()
        found = await page.evaluate(
            """() => [...document.getElementById("stage").shadowRoot.querySelectorAll(".proxyd-page *")].filter(each =>
            each.matches("script, style, svg, img, form [action], [href], [src], [style], [onclick], button, template")
            || each.namespaceURI !== "http://www.w3.org/1999/xhtml").length"""
        )
        assert found == 0
        await page.locator("#stage p", has_text="text <script>").click()
        await expect(page.locator("#value")).to_have_text("Now: text <script>")
