"""Being told once a day, and a quiet night: set up at the dashboard alone, and seen at a receiver, on a still clock."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, expect

from proxyd.api.auth import new_token
from proxyd.app.server import PublicFront, make_app
from tests.browser.test_adding import Hands
from tests.browser.test_dashboard import opened, sign_in
from tests.golden.reports.case import T0, Answer, Case, Step
from tests.golden.reports.daemon_world import World, running

FEED, CHAT = "http://x.example/feed", "tgram://123456789:abcdefg_hijklmnop/12315544"
BERLIN = ZoneInfo("Europe/Berlin")


class Day:
    """A feed at which somebody looks from the dashboard, and the messages about it."""

    def __init__(self, world: World, hands: Hands) -> None:
        self.world = world
        self.hands = hands

    def publish(self, last: int) -> None:
        """Let the feed have so many items."""
        items = "".join(f"<item><title>News {n}.</title><guid>{n}</guid></item>" for n in range(last, 0, -1))
        text = f'<?xml version="1.0"?><rss version="2.0"><channel><title>Harbour</title>{items}</channel></rss>'
        self.world.answers[FEED] = Answer(text=text, body=text.encode())

    async def told(self, until: str, published: int | None = None) -> list[str]:
        """Go to a time, let the daemon see the feed then if it has published, and return what came since, and when."""
        at_s = datetime.fromisoformat(until).replace(tzinfo=BERLIN).timestamp() - T0
        await self.world.go_to(at_s)
        if published is not None:
            self.publish(published)
            await self.world.probe(self.world.sources()[FEED])
            await self.world.go_to(at_s)
        receipts = [*self.world.receipts]
        self.world.receipts.clear()
        times = [datetime.fromtimestamp(T0 + each.at_s, BERLIN) for each in receipts]
        titles = [", ".join(re.findall("News [0-9]+", each.text)) for each in receipts]
        return [f"{time:%a %H:%M} {title}" for time, title in zip(times, titles, strict=True)]

    async def add_feed(self, *, digest: str | None = None) -> None:
        """Watch the feed by the form, and tell the chat of it."""
        await self.hands.click("Add a source", "link")
        await self.hands.fill("Address of a feed or a page", FEED)
        await self.hands.click("Look")
        await self.hands.fill("Tell", CHAT)
        if digest is not None:
            self.hands.actions += 2
            await self.hands.page.get_by_text("More", exact=True).last.click()
            await self.hands.page.get_by_label("Send").select_option(digest)
        await self.hands.click("Watch it")
        await expect(self.hands.page.get_by_text("Watching")).to_contain_text(FEED)


@asynccontextmanager
async def somebody(chromium: Browser, folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Day]:
    """Yield a daemon without sources whose clock stands still, on a Monday at 13:00, and a page that is signed in."""
    case = Case("", 0, "", "", {"time_zone": "Europe/Berlin"}, runs=False, steps=(Step("sent"),))
    token, shown = new_token("ada", "write", now_s=T0, expires_in_s=None)
    async with running(case, folder, patch) as world, opened(chromium) as page:
        await world.daemon.queries.access.add_token(token)
        async with TestServer(make_app(world.daemon.queries, PublicFront())) as server:
            base = str(server.make_url("")).rstrip("/")
            await sign_in(page, base, shown)
            await page.goto(f"{base}/sources")
            day = Day(world, Hands(page))
            day.publish(1)
            yield day


async def test_a_feed_is_told_once_a_day_after_seven_actions(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with somebody(chromium, tmp_path, monkeypatch) as day:
        await day.add_feed(digest="daily")
        assert day.hands.actions <= 7
        assert await day.told("2026-03-02T13:10", published=1) == []
        assert await day.told("2026-03-02T14:00", published=2) == []
        assert await day.told("2026-03-02T22:00", published=3) == []
        assert await day.told("2026-03-03T13:00", published=4) == ["Tue 08:00 News 2, News 3"]
        assert await day.told("2026-03-04T13:00") == ["Wed 08:00 News 4"]


async def test_a_night_is_quiet_after_eight_actions(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with somebody(chromium, tmp_path, monkeypatch) as day:
        await day.add_feed()
        await day.hands.click("default", "link")
        await day.hands.fill("Quiet hours", "22:00-07:00")
        await day.hands.click("Save quiet hours")
        await expect(day.hands.page.get_by_text("Messages wait during 22:00-07:00.")).to_be_visible()
        assert day.hands.actions <= 8
        assert await day.told("2026-03-02T13:10", published=1) == []
        assert await day.told("2026-03-02T21:59", published=2) == ["Mon 21:59 News 2"]
        assert await day.told("2026-03-02T22:01", published=3) == []
        assert await day.told("2026-03-03T03:00", published=4) == []
        assert await day.told("2026-03-03T06:59") == []
        assert await day.told("2026-03-03T12:00", published=5) == ["Tue 07:00 News 3, News 4", "Tue 12:00 News 5"]
