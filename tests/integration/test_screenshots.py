"""The picture of a notification, for programs and at the dashboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from proxyd.core.model.item import Item
from proxyd.core.model.outcome import Picture, ProbeOutcome
from tests.fleets import changed
from tests.integration.api_world import T0, Running, running_api, told
from tests.integration.dashboard_world import Browser
from tests.outboxes import due_deliveries

PNG = Picture("image/png", b"\x89PNG\r\n\x1a\n\xff\x00")
PATH = "/api/v1/notifications/shown/screenshot"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        await api.tell(told("shown"), told("plain"))
        await api.keep_picture("shown", PNG)
        yield api


async def test_a_program_gets_the_picture_with_its_type(running: Running) -> None:
    async with running.client.get(PATH, headers=await running.token("read")) as answer:
        assert (answer.status, answer.content_type, await answer.read()) == (200, "image/png", PNG.data)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


async def test_only_readers_get_it(running: Running) -> None:
    async with running.client.get(PATH) as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("name", "why"), [("plain", "has no screenshot: its rule keeps none"), ("nothing", "there is no notification")]
)
async def test_without_a_picture_it_says_so(running: Running, name: str, why: str) -> None:
    path = f"/api/v1/notifications/{name}/screenshot"
    async with running.client.get(path, headers=await running.token("read")) as answer:
        assert answer.status == 404
        assert why in (await answer.json())["detail"]


async def test_a_notification_says_where_its_picture_is(running: Running) -> None:
    read = await running.token("read")
    async with running.client.get("/api/v1/notifications", headers=read) as answer:
        listed = {each["id"]: each["screenshot"] for each in (await answer.json())["items"]}
    async with running.client.get("/api/v1/notifications/shown", headers=read) as answer:
        alone = (await answer.json())["screenshot"]
    assert (listed, alone) == ({"shown": PATH, "plain": None}, PATH)


async def test_the_dashboard_shows_the_picture_to_who_is_signed_in(running: Running) -> None:
    browser, path = Browser(running), "/notifications/shown/screenshot"
    async with running.client.get(path, allow_redirects=False) as answer:
        assert answer.status != 200
    await browser.sign_in("read")
    shown, plain = (await browser.get("/notifications/shown"))[1], (await browser.get("/notifications/plain"))[1]
    assert f'<img class="screenshot" src="{path}" loading="lazy" alt="' in shown
    assert "<img" not in plain
    async with running.client.get(path) as answer:
        assert (answer.status, answer.content_type, await answer.read()) == (200, "image/png", PNG.data)
        assert "img-src 'self'" in answer.headers["Content-Security-Policy"]


SHOP = """CREATE DOMAIN "Shop" AS CLASS::OFFER EACH CSS 'li' KEY title (title:String FROM CSS 'a');
CREATE SOURCE "offers" OF OFFER AT 'https://shop.example/offers' FETCH BROWSER;
CREATE PROFILE "Shopping" AS (DOMAIN "Shop");
INSERT NOTIFICATION "new offers" INTO "Shopping" SET QUERY "SELECT title FROM OFFER"
SET TRIGGER "ON INSERT TO OFFER" START NOW END NEVER SET UTILITY STRICT SET SCREENSHOT
SET DELIVERY MAIL 'a@example.org';"""


def offers(titles: str, at_s: float) -> ProbeOutcome:
    found = changed("offers", [Item(title, {"title": title}, None, title) for title in titles], at_s)
    return replace(found, picture=PNG)


async def test_a_picture_of_a_probe_is_there_with_the_notifications_that_the_probe_made(running: Running) -> None:
    control, read = running.control, await running.token("read")
    await control.declarations.declare(SHOP)
    async with running.client.get("/api/v1/rules/new%20offers", headers=read) as answer:
        assert (await answer.json())["keeps_screenshot"] is True
    request = control.decider.request("offers", T0)
    assert request is not None
    assert request.wants_picture
    for number, titles in enumerate(("", "ab")):
        assert await control.loops.observer.take_in(offers(titles, T0 + 60.0 * (number + 1)))
    async with running.client.get("/api/v1/notifications?rule=new%20offers", headers=read) as answer:
        listed = (await answer.json())["items"]
    assert [each["body"]["data"]["screenshot"] for each in listed] == [each["screenshot"] for each in listed]
    assert len(listed) == 2
    for each in listed:
        async with running.client.get(each["screenshot"], headers=read) as answer:
            assert (answer.status, await answer.read()) == (200, PNG.data)
    due = await due_deliveries(control.resources.store, T0 + 300.0, limit=9)
    assert [each.picture for each in due] == [PNG.sha256]
