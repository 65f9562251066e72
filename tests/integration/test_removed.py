"""What is removed by the API, its verbs and the pages can be had back, and a profile goes with its sources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from proxyd.client import ApiError, Client
from tests.fleets import DOMAIN, rule, source
from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import Browser, field

WATCHES = """WATCH 'https://a.example/feed' AS "a" INTO "Mine";
WATCH 'https://b.example/feed' AS "b" INTO "Mine";"""
PROFILE = """CREATE PROFILE "Mine" AS (DOMAIN "E", LANGUAGE "SQL", USER "me");"""


def written(name: str, profile: str = "Mine") -> str:
    return rule(name, clauses='FROM SOURCES "alone"').replace('"P"', f'"{profile}"').replace("RSS", "NEWS")


FEEDS = (DOMAIN.partition("CREATE PROFILE")[0] + source("alone")).replace('"D"', '"E"').replace("RSS", "NEWS")
OWN = FEEDS + PROFILE + written("r1") + written("r2")


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


async def client(api: Running) -> Client:
    token = (await api.token("write"))["Authorization"].removeprefix("Bearer ")
    return Client.over_http(str(api.client.make_url("")), token)


async def test_what_the_api_drops_is_had_back_at_once(running: Running) -> None:
    rules = running.control.declarations
    async with await client(running) as asked:
        await asked.declare(WATCHES)
        await asked.declare('DROP NOTIFICATION "a"; DROP NOTIFICATION "b";')
        assert {"a", "b"}.isdisjoint(rules.declaration.rules)
        (removed,) = await asked.removed()
        assert (removed["kind"], removed["name"], removed["by"][:6]) == ("notification", "a, b", "token ")
        assert (await asked.restore(removed["id"]))["added"] == ["a", "b"]
        assert {"a", "b"} <= set(rules.declaration.rules)
        assert await asked.removed() == []
        with pytest.raises(ApiError, match="no longer there"):
            await asked.restore(removed["id"])


async def test_what_is_replaced_or_renamed_is_not_removed(running: Running) -> None:
    async with await client(running) as asked:
        await asked.declare(WATCHES)
        await asked.declare(WATCHES.replace("a.example", "c.example"))
        assert await asked.removed() == []


@pytest.mark.parametrize("with_sources", [False, True])
async def test_a_profile_goes_and_comes_back_with_its_rules_and_sources(running: Running, with_sources: bool) -> None:
    declared = running.control.declarations
    async with await client(running) as asked:
        await asked.declare(OWN)
        await asked.drop_profile("Mine", with_sources=with_sources)
        assert ("alone" in declared.declaration.sources) is not with_sources
        (removed,) = await asked.removed()
        assert removed["kind"] == "statements"
        await asked.restore(removed["id"])
    assert {"r1", "r2"} <= set(declared.declaration.rules)
    assert "alone" in declared.declaration.sources


async def test_the_page_of_a_profile_says_what_goes_with_it(running: Running) -> None:
    browser = Browser(running)
    await running.control.declarations.declare(OWN)
    await browser.sign_in()
    page = await browser.get("/profiles/Mine")
    assert "2 rules go with it. Nobody reads 1 source afterwards." in unescape(page[1])
    form = {"tag": field(page, "tag"), "confirmed": "1", "sources": "1"}
    assert (await browser.post("/profiles/Mine/drop", form))[0].status == 303
    assert "alone" not in running.control.declarations.declaration.sources
    assert "Mine" in (await browser.get("/removed"))[1]


async def test_what_a_profile_shares_stays(running: Running) -> None:
    browser = Browser(running)
    shared = OWN + PROFILE.replace("Mine", "Other") + written("r3", "Other")
    await running.control.declarations.declare(shared)
    await browser.sign_in()
    page = await browser.get("/profiles/Mine")
    assert "2 rules go with it. Other rules still read its sources." in page[1]
    assert 'name="sources"' not in page[1]
