"""The history of a page, any two states compared, and the charts of a source's numbers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from proxyd.client import Client
from proxyd.core.model.item import Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.store.retention import expire
from tests.fakes import FakeClock
from tests.fleets import changed
from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import Browser

DAY_S = 86400.0
PAGE = "WATCH 'https://town.example' OF PAGE;"
PRICE = "WATCH 'https://lamp.example' OF PRICE;"
ROWS = """CREATE DOMAIN "Shop" AS CLASS::OFFER EACH CSS 'li' KEY name
  (name: String FROM CSS 'b', stock: Integer FROM CSS 'i');
CREATE SOURCE "offers" OF OFFER AT 'https://shop.example/offers';
CREATE PROFILE "Offers" AS (DOMAIN "Shop", LANGUAGE "SQL", USER "u");
INSERT NOTIFICATION "offers" INTO "Offers" SET QUERY "SELECT name FROM OFFER" SET TRIGGER "ON UPDATE TO OFFER"
START NOW END NEVER SET UTILITY STRICT;"""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


@pytest.fixture
def browser(running: Running) -> Browser:
    return Browser(running)


async def shows(api: Running, name: str, *items: Mapping[str, Value]) -> None:
    """Let a source show some items now, and a day pass."""
    clock = cast("FakeClock", api.control.resources.clock)
    found = [Item(str(each.get("name", "page")), each, None, repr(each)) for each in items]
    assert await api.control.loops.observer.take_in(changed(name, found, clock.time_s()))
    await clock.advance(DAY_S)


async def past_of_page(api: Running) -> None:
    await api.control.declarations.declare(PAGE)
    for text in ("Prices\n\nTea 3 <b>", "Prices\n\nTea 4 <b>", "Prices\n\nTea 4 <b>\n\nNew: cake and pie"):
        await shows(api, "town.example", {"text": text})


async def test_each_change_of_a_page_is_read_among_the_items_and_says_who_was_told(browser: Browser) -> None:
    await past_of_page(browser.api)
    await browser.sign_in("read")
    _, page = await browser.get("/read")
    assert "(3) Unread" in page
    assert page.count('<span class="state">changed</span>') == 2
    assert "<bdi>Tea 3 → 4 &lt;b&gt;</bdi>" in page
    newest = re.findall(r'class="open" href="([^"]*)"', page)[0]
    _, page = await browser.get(newest)
    assert "<ins><bdi>New: cake and pie</bdi></ins>" in page
    _, page = await browser.get(re.findall(r'href="([^"]*)">Who was told\?', page)[0])
    assert re.findall(r'data-label="Rule"><a href="([^"]*)"', page) == ["/rules/town.example"]
    assert "shown here only" in page


async def test_a_starred_change_outlives_what_is_known_of_who_was_told(browser: Browser) -> None:
    await past_of_page(browser.api)
    await browser.sign_in("write")
    opened = re.findall(r'class="open" href="(/read/\d+)', (await browser.get("/read"))[1])[1]
    await browser.post(f"{opened}/mark", {"starred": "true"})
    store = browser.api.control.resources.store
    await expire(store.writer, browser.api.control.queries.clock.time_s() + DAY_S, retention_s=DAY_S)
    status, page = await browser.get(opened)
    assert (status, "<ins><bdi>Tea 4 &lt;b&gt;</bdi></ins>" in page) == (200, True)
    assert "who was told is no longer known" in page
    assert "Who was told?" not in page


async def test_the_states_of_a_page_are_listed_and_any_two_compared(browser: Browser) -> None:
    await past_of_page(browser.api)
    await browser.sign_in("read")
    for path in ("/sources/town.example", "/rules/town.example"):
        assert 'href="/sources/town.example/history"' in (await browser.get(path))[1]
    _, page = await browser.get("/sources/town.example/history")
    positions = re.findall(r'name="from" value="(\d+)"', page)
    newest, _, first = positions
    assert re.findall(r'"Words changed" class="n">(?:<span class="none">)?([^<]*)<', page) == ["4", "1", "—"]
    assert re.findall(r'name="(?:from|to)" value="(\d+)"[^>]* checked', page) == [newest, positions[1]]
    for query in (f"from={first}&to={newest}", f"from={newest}&to={first}"):
        status, page = await browser.get(f"/sources/town.example/history?{query}")
        assert status == 200
        assert "5 words between" in page
        assert "<del><bdi>Tea 3 &lt;b&gt;</bdi></del>" in page
        assert "<ins><bdi>Tea 4 &lt;b&gt;\nNew: cake and pie</bdi></ins>" in page
    _, page = await browser.get(f"/sources/town.example/history?from={first}&to={first}")
    assert "both states have the same text" in page


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/sources/town.example/history?from=99&to=1", 404, "has no state 99"),
        ("/sources/town.example/history?from=x&to=1", 400, "valid integer"),
        ("/sources/s/history", 404, "not watched as the text of a page"),
        ("/sources/nowhere/history", 404, "nowhere"),
    ],
)
async def test_what_is_no_state_of_a_page_is_refused(browser: Browser, path: str, status: int, said: str) -> None:
    await past_of_page(browser.api)
    await browser.sign_in("read")
    found, page = await browser.get(path)
    assert (found, said in page) == (status, True)


async def test_a_page_that_was_gone_says_so_between_its_states(browser: Browser) -> None:
    await browser.api.control.declarations.declare(PAGE.replace(";", " ON DELETE;"))
    await shows(browser.api, "town.example", {"text": "here"})
    clock = cast("FakeClock", browser.api.control.resources.clock)
    for _ in range(3):
        at_s = clock.time_s()
        outcome = ProbeOutcome("town.example", OutcomeKind.GONE, at_s, at_s, 404)
        assert await browser.api.control.loops.observer.take_in(outcome)
        await clock.advance(DAY_S)
    await shows(browser.api, "town.example", {"text": "back"})
    await browser.sign_in("read")
    _, page = await browser.get("/sources/town.example/history")
    assert page.count('name="from"') == 2
    assert "the page was gone" in page


async def test_the_api_has_each_state_as_it_was_and_how_many_words_changed(running: Running) -> None:
    await past_of_page(running)
    token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(str(running.client.make_url("")), token) as asked:
        found = await asked.items("town.example")
        states = [(await asked.explain_item("town.example", each["position"]))["state"] for each in found]
    assert [each["words"] for each in found] == [4, 1, None]
    assert states == ["Prices\n\nTea 4 <b>\n\nNew: cake and pie", "Prices\n\nTea 4 <b>", "Prices\n\nTea 3 <b>"]


async def test_a_price_has_a_chart_and_a_table_of_when_it_changed(browser: Browser) -> None:
    await browser.api.control.declarations.declare(PRICE)
    for price in (30, 30, 25.5, 1299):
        await shows(browser.api, "lamp.example", {"name": "Lamp", "price": price, "currency": "EUR"})
    await browser.sign_in("read")
    _, page = await browser.get("/sources/lamp.example")
    assert 'aria-label="price over time; the table below has the numbers"' in page
    assert re.findall(r'<td class="n">([\d.,]+)</td></tr>', page) == ["1,299", "25.5", "30"]


async def test_numbers_of_rows_have_a_chart_each_and_what_does_not_change_has_none(browser: Browser) -> None:
    await browser.api.control.declarations.declare(ROWS)
    for stock in range(3):
        await shows(browser.api, "offers", {"name": "Lamp", "stock": stock}, {"name": "Chair", "stock": 7})
    await browser.sign_in("read")
    _, page = await browser.get("/sources/offers")
    assert page.count("over time; the table below") == 1
    assert "over time" not in (await browser.get("/sources/s"))[1]


async def test_each_event_shows_the_value_of_its_time(running: Running) -> None:
    await running.control.declarations.declare(PRICE)
    for price in (30.0, 25.0, 27.0):
        await shows(running, "lamp.example", {"price": price})
    token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(str(running.client.make_url("")), token) as asked:
        found = await asked.items("lamp.example")
    assert [each["values"]["price"] for each in found] == [27.0, 25.0, 30.0]
    assert [(each["first"], each["old"]) for each in found] == [(False, False), (False, False), (True, False)]


async def test_what_went_away_and_came_again_shows_what_it_was_each_time(running: Running) -> None:
    await running.control.declarations.declare(ROWS)
    for stock in (1, 2, None, 7, 8, None, 20):
        lamp = [] if stock is None else [{"name": "Lamp", "stock": stock}]
        await shows(running, "offers", *lamp, {"name": "Chair", "stock": 7})
    token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(str(running.client.make_url("")), token) as asked:
        found = [each for each in await asked.items("offers") if each["id"] == "Lamp" and each["kind"] != "delete"]
    assert [(each["kind"], each["values"]["stock"]) for each in found] == [
        ("insert", 20),
        ("update", 8),
        ("insert", 7),
        ("update", 2),
        ("insert", 1),
    ]
