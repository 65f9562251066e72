"""The picture of a notification, for programs and at the dashboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxyd.core.model.outcome import Picture
from tests.integration.api_world import Running, running_api, told
from tests.integration.dashboard_world import Browser

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
