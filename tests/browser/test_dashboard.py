"""The dashboard in a real browser, beside the running daemon: by keyboard, live, and for everybody to read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, Request, expect

from proxyd.api.auth import new_token
from proxyd.lab.traces import Week
from proxyd.store.api_rows import Scope
from proxyd.store.listed_rows import Wanted
from tests.acceptance.support import DOMAIN, World, eventually, rule_text, world
from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import HOSTILE, TITLED, WEEKS, live

PAGES = {
    "news": "",
    "search": "search?q=evening",
    "read": "read?view=all",
    "article": "read/1",
    "add": "add",
    "state": "state",
    "more": "more",
    "receivers": "receivers",
    "sources": "sources",
    "source": "sources/evening-news",
    "why": "sources/evening-news/why",
    "rules": "rules",
    "rule": "rules/every-item",
    "notifications": "notifications",
    "profiles": "profiles",
    "profile": "profiles/Town%20news",
    "new": "profiles/new",
    "of-file": "profiles/P",
    "plan": "plan",
    "budget": "budget",
    "tokens": "tokens",
    "docs": "docs",
    "missing": "sources/nowhere",
    "lost": "no/such/page",
}
_HEADER_OVERLAPS = """(() => {
  const last = document.querySelector("nav li:last-child").getBoundingClientRect();
  const who = document.querySelector(".who").getBoundingClientRect();
  return last.right > who.left && last.top < who.bottom && last.bottom > who.top;
})()"""
PATIENCE_MS, MOST_BYTES = 30_000, 100_000
_ALL = Wanted()
_FOCUSED = """(() => {
  const at = document.activeElement;
  return at === document.body ? "" : (at.innerText || at.id || "").trim();
})()"""
expect.set_options(timeout=PATIENCE_MS)


@asynccontextmanager
async def opened(chromium: Browser, **options: object) -> AsyncIterator[Page]:
    """Yield a page, and fail where its scripts failed or the policy kept something out."""
    context = await chromium.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    page, said = await context.new_page(), []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if "Security Policy" in message.text else None)
    page.on("request", lambda request: None if "127.0.0.1" in request.url else said.append(f"asked {request.url}"))
    yield page
    await context.close()
    assert said == []


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def tab_to(page: Page, text: str) -> None:
    """Press Tab until what has the focus says ``text``."""
    for _ in range(200):
        await page.keyboard.press("Tab")
        said = await page.evaluate(_FOCUSED)
        if text in said.splitlines():
            return
    raise AssertionError(f"{text!r} cannot be reached by Tab")


async def follow(page: Page, link: str, heading: str) -> None:
    """Go to a link by Tab and follow it."""
    await tab_to(page, link)
    await press(page, "Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text(heading)


async def sign_in(page: Page, base: str, token: str) -> None:
    await page.goto(base + "/")
    await expect(page.locator("#token")).to_be_focused()
    await page.keyboard.type(token)
    await press(page, "Enter")
    await expect(page.get_by_role("heading", name="News")).to_be_visible()


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[World, str]]:
    """Yield a running daemon with a source that it knows, and a token."""
    async with world(folder, plan_every="1s") as w:
        w.origin.feed("one").add(2)
        text = f"{DOMAIN}CREATE SOURCE \"one\" OF RSS AT '{w.origin.url('one')}';\n"
        w.daemon.declare(text)
        await w.daemon.start()
        made = await w.daemon.cli("token", "create", "--name", "me", "--scope", "write")
        assert made.code == 0, made.err
        yield w, made.out.split()[-1]


@pytest.mark.long
async def test_a_rule_is_written_followed_and_replayed_by_keyboard_alone(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium) as page:
        await sign_in(page, w.daemon.base, token)
        await follow(page, "Settings", "Settings")
        await follow(page, "Profiles", "Profiles")
        await follow(page, "Write a new profile", "New profile")
        await write_a_rule(page, w)
        await w.daemon.knows("one")
        await follow_and_replay(page, w)
        await read_the_week(page)


async def write_a_rule(page: Page, w: World) -> None:
    """Write a wrong profile, go to the error, correct it, save it."""
    right = 'CREATE PROFILE "watch" AS (DOMAIN "Feeds", USER "u");\n' + rule_text("each", 1, w.receiver.url("each"))
    await tab_to(page, "text")
    await press(page, "Control+a")
    await page.keyboard.insert_text(right.replace("channel.item.guid", "channel.item.giud"))
    fault = page.locator(".fault")
    await expect(fault).to_contain_text("Line 3, column 19")
    await expect(fault).to_contain_text("giud")
    await expect(page.locator(".gutter .at-fault")).to_have_text("3")
    await tab_to(page, "Line 3, column 19")
    await press(page, "Enter")
    await expect(page.locator("textarea")).to_be_focused()
    assert await page.evaluate("document.activeElement.selectionStart") == right.index("channel.item.guid")
    await press(page, "Control+a")
    await page.keyboard.insert_text(right)
    await expect(page.locator("#verdict")).to_contain_text("Cost in probes an hour")
    await tab_to(page, "Save")
    await press(page, "Enter")
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await expect(page.get_by_role("heading", name="watch")).to_be_visible()


async def follow_and_replay(page: Page, w: World) -> None:
    """Watch a notification arrive, open it, and send it again."""
    await follow(page, "More", "More")
    await follow(page, "Notifications", "Notifications")
    await expect(page.locator("#live-state")).to_contain_text("live")
    (guid,) = w.origin.feeds["one"].add(1)
    title = w.origin.feeds["one"].entries[-1].title
    await expect(page.get_by_role("link", name=title)).to_be_visible()
    await w.receiver.received("each", 1)
    await eventually(lambda: w.receiver.accepted("each"), "it was accepted")
    await follow(page, title, title)
    await shows_button(page)
    await tab_to(page, "Send it again")
    await press(page, "Enter")
    await expect(page.get_by_text("1 delivery is due again.")).to_be_visible()
    await eventually(lambda: len(w.receiver.arrivals["each"]) >= 2, "it came again")
    assert {arrival.webhook_id for arrival in w.receiver.arrivals["each"]} == {
        w.receiver.arrivals["each"][0].webhook_id
    }
    assert guid in w.receiver.guids("each")


async def shows_button(page: Page) -> None:
    """Look again until the delivery is noted as done."""

    async def is_there() -> bool:
        await page.reload()
        return await page.get_by_role("button", name="Send it again").count() > 0

    await eventually(is_there, "it can be sent again")


async def read_the_week(page: Page) -> None:
    """Open the table behind the heat map."""
    await follow(page, "one", "one")
    await tab_to(page, "Why it is probed when it is")
    await press(page, "Enter")
    await follow(page, "With the numbers, its week and the coming probes", "Why one is probed when it is")
    table = page.get_by_role("table", name="Items expected in each hour")
    await expect(table).to_be_hidden()
    await tab_to(page, "Table of the week")
    await press(page, "Enter")
    await expect(table).to_be_visible()
    assert await table.get_by_role("row").count() == 25
    assert await page.locator("svg.heat rect").count() == 168


@pytest.mark.long
async def test_a_source_and_a_rule_are_read_by_keyboard_alone(chromium: Browser, tmp_path: Path) -> None:
    async with lived(tmp_path, 3.0) as (_, base, token), opened(chromium) as page:
        await sign_in(page, base, token)
        await follow(page, "Watches", "Watches")
        await follow(page, "Sources", "Sources")
        await follow(page, "evening-news", "evening-news")
        await tab_to(page, "Why it is probed when it is")
        await press(page, "Enter")
        line = page.get_by_role("img", name="Items and probes of the last 7 days")
        await expect(line).to_be_visible()
        await follow(page, "1 day", "evening-news")
        await expect(page.get_by_role("img", name="Items and probes of the last day")).to_be_visible()
        await expect(page.get_by_role("table", name="Newest first", exact=True)).to_be_visible()
        await open_table(page, "Table of delays", "Delays")
        await follow(page, "Watches", "Watches")
        await follow(page, "every-item", "every-item")
        await expect(page.get_by_role("img", name="Events and probes of the last 7 days")).to_be_visible()
        await open_table(page, "Table of events", "Newest first, at most 100")
        await follow(page, "More", "More")
        await follow(page, "State", "State")
        await follow(page, "coming probes", "Plan")
        await tab_to(page, "Reload the profiles")
        await press(page, "Enter")
        await expect(page.get_by_text("Reloaded:")).to_be_visible()


async def open_table(page: Page, summary: str, caption: str) -> None:
    """Open the table behind a picture."""
    table = page.get_by_role("table", name=caption)
    await expect(table).to_be_hidden()
    await tab_to(page, summary)
    await press(page, "Enter")
    await expect(table).to_be_visible()


async def test_a_token_is_made_and_dropped_by_keyboard_alone(chromium: Browser, tmp_path: Path) -> None:
    async with lived(tmp_path, 0.1, "admin") as (api, base, token), opened(chromium) as page:
        await sign_in(page, base, token)
        await follow(page, "Settings", "Settings")
        await follow(page, "Tokens", "Tokens")
        await tab_to(page, "name")
        await page.keyboard.type("reader")
        await tab_to(page, "days")
        await page.keyboard.type("7")
        await press(page, "Enter")
        await expect(page.locator("code.secret")).to_contain_text("pxd_")
        assert {each.name for each in await api.control.queries.access.tokens()} == {"ada", "reader"}
        await follow(page, "Settings", "Settings")
        await follow(page, "Tokens", "Tokens")
        await expect(page.locator("code.secret")).to_have_count(0)
        await tab_to(page, "Drop reader …")
        await press(page, "Enter")
        await tab_to(page, "Drop it")
        await press(page, "Enter")
        await expect(page.get_by_text("The token was revoked.")).to_be_visible()
        assert {each.name for each in await api.control.queries.access.tokens()} == {"ada"}


async def test_everything_can_be_done_without_scripts(chromium: Browser, tmp_path: Path) -> None:
    async with watched(tmp_path) as (w, token), opened(chromium, java_script_enabled=False) as page:
        await page.goto(w.daemon.base + "/")
        await page.fill("#token", token)
        await page.get_by_role("button", name="Sign in").click()
        await page.goto(w.daemon.base + "/profiles/new")
        await page.fill("textarea", "CREATE PROFIL")
        await page.get_by_role("button", name="Check").click()
        await expect(page.locator(".fault")).to_contain_text("Line 1, column 8")
        await page.fill("textarea", 'CREATE PROFILE "mine" AS (DOMAIN "Feeds", USER "u");')
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", name="mine")).to_be_visible()
        await page.get_by_label("Remove this profile").check()
        await page.get_by_role("button", name="Drop").click()
        await expect(page.get_by_text("Removed.")).to_be_visible()


@asynccontextmanager
async def lived(
    folder: Path, days: float, scope: Scope = "write", of: Mapping[str, tuple[Week, float]] = WEEKS, **settings: Any
) -> AsyncIterator[tuple[Running, str, str]]:
    """Yield a daemon that lived some days, its address, and a token."""
    async with running_api(folder, declared=of is WEEKS, **settings) as api:
        await live(api, days=days, of=of)
        token, shown = new_token("ada", scope, now_s=api.control.queries.clock.time_s(), expires_in_s=None)
        await api.control.queries.access.add_token(token)
        yield api, str(api.client.make_url("")).rstrip("/"), shown


async def newest(api: Running) -> str:
    (row,) = (await api.control.queries.history.find_notifications(_ALL, before=None, limit=1)).rows
    return str(row.notification_id)


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.long), ("dark", 390)])
async def test_every_page_can_be_read_by_everybody(chromium: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 850}}
    async with lived(tmp_path, 3.0, "admin") as (api, base, token), opened(chromium, **options) as page:
        pages = PAGES | {"notification": f"notifications/{await newest(api)}"}
        await page.goto(f"{base}/sign-in")
        await check(page, f"sign-in, {scheme}")
        await sign_in(page, base, token)
        for name, path in pages.items():
            await page.goto(f"{base}/{path}")
            await page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            await check(page, f"{name}, {scheme}")
            assert await too_wide(page) == [], name
        await check_forms(page, base, scheme)


async def check_forms(page: Page, base: str, scheme: str) -> None:
    """Check what answers forms: a token that was made, and a test message."""
    await page.goto(f"{base}/tokens")
    await page.fill("#name", f"made in the {scheme}")
    await page.get_by_role("button", name="Create").click()
    await expect(page.locator("code.secret")).to_contain_text("pxd_")
    await check(page, f"token made, {scheme}")
    assert await too_wide(page) == []
    await page.goto(f"{base}/rules/every-item")
    await page.get_by_role("button", name="Send a test message").click()
    await expect(page.get_by_text("A test message was sent")).to_be_visible()
    await check(page, f"tested, {scheme}")
    assert await too_wide(page) == []


@pytest.mark.long
async def test_pages_fit_into_windows_of_every_width(chromium: Browser, tmp_path: Path) -> None:
    async with lived(tmp_path, 3.0, "admin") as (_, base, token), opened(chromium) as page:
        await sign_in(page, base, token)
        for name, path in PAGES.items():
            await page.goto(f"{base}/{path}")
            for width in (320, 700, 800, 900, 1000, 1120, 1280):
                await page.set_viewport_size({"width": width, "height": 800})
                assert await too_wide(page) == [], (name, width)
                assert not await page.evaluate(_HEADER_OVERLAPS), (name, width)


@pytest.mark.long
async def test_every_page_is_small_with_all_that_it_loads(chromium: Browser, tmp_path: Path) -> None:
    async with lived(tmp_path, 3.0, "admin", TITLED) as (api, base, token), opened(chromium) as page:
        await sign_in(page, base, token)
        signed_in, sizes = await page.context.storage_state(), dict[str, int]()
        for name, path in (PAGES | {"notification": f"notifications/{await newest(api)}"}).items():
            asked: list[Request] = []
            async with opened(chromium, storage_state=signed_in) as fresh:  # nothing is cached
                fresh.on("requestfinished", adding_to(asked))
                await fresh.goto(f"{base}/{path}")
                sizes[name] = sum([(await each.sizes())["responseBodySize"] for each in asked])
        assert {name: size for name, size in sizes.items() if not 5_000 < size < MOST_BYTES} == {}


def adding_to(asked: list[Request]) -> Callable[[Request], None]:
    """Return what adds requests to a list."""

    def add(request: Request) -> None:
        asked.append(request)

    return add


async def too_wide(page: Page) -> list[str]:
    """Return what makes a page wider than the window."""
    found: list[str] = await page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
        .filter((each) => each.getBoundingClientRect().right > innerWidth && !each.closest(".scroll"))
        .map((each) => each.outerHTML.slice(0, 120)).slice(0, 5)"""
    )
    return found


async def check(page: Page, what: str) -> None:
    """Fail where axe finds something serious."""
    found = (await Axe().run(page)).response["violations"]
    serious = [
        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]
    assert serious == [], f"{what}: {json.dumps(serious, indent=1)}"


async def test_hostile_titles_run_nothing(chromium: Browser, tmp_path: Path) -> None:
    async with lived(tmp_path, 0.5) as (_, base, token), opened(chromium) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        await sign_in(page, base, token)
        await page.goto(f"{base}/notifications")
        assert await page.locator("main img, main script").count() == 0
        await page.goto(f"{base}/sources")
        await page.get_by_role("link", name=HOSTILE[:20]).first.click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("<script>alert('x')</script>")


async def test_two_clicks_lead_to_why_to_what_arrived_and_to_silence_for_the_night(
    chromium: Browser, tmp_path: Path
) -> None:
    async with lived(tmp_path, 1.0, "write", TITLED) as (api, base, token), opened(chromium) as page:
        await sign_in(page, base, token)
        arrived = page.locator("ol.news > li")
        assert await arrived.count() == 12
        await page.locator(".needs").get_by_role("link", name="retired-blog").click()
        await expect(page.get_by_text("connection refused").first).to_be_visible()
        await page.get_by_text("Why it is probed when it is").click()
        await expect(page.get_by_text("The next probe comes")).to_be_visible()
        await page.goto(base)
        await arrived.first.get_by_role("link", name="every-item").click()
        await page.get_by_label("Mute it for").select_option("8 hours")
        await page.get_by_role("button", name="Mute").click()
        await expect(page.get_by_text("Muted since")).to_be_visible()
        (muted,) = api.control.queries.suspensions.all()
        assert muted.until_s == api.control.queries.clock.time_s() + 8 * 3600.0


@pytest.mark.long
async def test_times_are_those_of_the_reader_with_utc_beside_them(chromium: Browser, tmp_path: Path) -> None:
    async with (
        lived(tmp_path, 1.0, "read", TITLED) as (_, base, token),
        opened(chromium, timezone_id="Asia/Kolkata") as page,
    ):
        await sign_in(page, base, token)
        shown = page.locator("ol.news time").first
        utc = await shown.get_attribute("datetime")
        assert utc is not None
        assert await shown.get_attribute("title") == f"{utc[:10]} {utc[11:19]} UTC"
        local = datetime.fromisoformat(utc.replace("Z", "+00:00")).astimezone(ZoneInfo("Asia/Kolkata"))
        await expect(shown).to_have_text(f"{local:%Y-%m-%d %H:%M:%S}")
        await expect(page.locator("footer")).to_contain_text("times in Asia/")
