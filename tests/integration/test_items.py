"""What happened to the items of a source, as the API and the verb show it."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from proxyd.cli.main import main
from proxyd.client import ApiError, Client
from proxyd.core.model.item import Item
from tests.fleets import changed, item, rule, source
from tests.integration.api_world import T0, Running, running_api


async def shows(running: Running, at_s: float, *items: Item) -> None:
    assert await running.control.loops.observer.take_in(changed("s", items, at_s))


async def test_items_come_change_and_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_api(tmp_path) as running:
        await running.control.declarations.declare(rule("u").replace("ON INSERT", "ON UPDATE"))
        old = item("Old", T0 - 9000.0, link="https://a.example/old")
        new = item("New", T0 + 60.0, link="javascript:alert(1)")
        await shows(running, T0 + 10.0, old)
        await shows(running, T0 + 100.0, new, old)
        edited = item("New", T0 + 60.0, link="javascript:alert(1)", description="More")
        await shows(running, T0 + 200.0, replace(edited, content_hash="other"), old)
        token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("PROXYD_TOKEN", token)
        capsys.readouterr()
        base = str(running.client.make_url(""))
        async with Client.over_http(base, token) as asked:
            found = await asked.items("s", limit=None)
            assert await asked.items("s", limit=1) == found[:1]
        assert await asyncio.to_thread(main, ["items", "s", "--url", base]) == 0
        shown = capsys.readouterr().out
    kinds = [(each["kind"], each["title"], each["first"], each["link"], each["delay_s"]) for each in found]
    link = "https://a.example/old"
    assert kinds == [
        ("update", "New", False, None, None),
        ("insert", "New", False, None, 40.0),
        ("insert", "Old", True, link, None),
    ]
    assert found[0]["changes"]["channel.item.description"] == {"from": None, "to": "More"}
    assert [re.split(" {2,}", line)[2] for line in shown.splitlines()[1:]] == ["changed", "new", "first"]
    assert "javascript" not in shown


async def test_what_rules_made_of_an_item_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_api(tmp_path) as running:
        await running.control.declarations.declare(rule("updates").replace("ON INSERT", "ON UPDATE"))
        await running.control.declarations.declare(rule("all"))
        await shows(running, T0 + 10.0, item("Old", T0 - 9000.0))
        await shows(running, T0 + 100.0, item("New", T0 + 60.0), item("Old", T0 - 9000.0))
        token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("PROXYD_TOKEN", token)
        base = str(running.client.make_url(""))
        async with Client.over_http(base, token) as asked:
            (newest, *_) = await asked.items("s", limit=None)
            told = await asked.explain_item("s", newest["position"])
            with pytest.raises(ApiError, match="has no item at 99"):
                await asked.explain_item("s", 99)
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["explain", "s", "--item", "new", "--url", base]) == 0
        shown = capsys.readouterr().out
        assert await asyncio.to_thread(main, ["export", "--items", "csv", "--url", base]) == 0
        exported = [row["title"] for row in csv.DictReader(capsys.readouterr().out.splitlines())]
        assert await asyncio.to_thread(main, ["export", "--items", "json", "--url", base]) == 0
        assert (
            [json.loads(line)["title"] for line in capsys.readouterr().out.splitlines()] == exported == ["New", "Old"]
        )
    fates = {each["rule"]: each for each in told["rules"]}
    assert fates["updates"]["why"] == ["it tells of changes, and this is a new item"]
    assert fates["updates"]["fate"] == "left out"
    assert fates["all"]["notification"] is not None
    assert "updates: left out" in shown


async def test_items_are_searched_by_the_api_and_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_api(tmp_path) as running:
        await shows(running, T0 + 10.0, item("Kernel 6.18", T0, link="https://a.example/1"), item("Kernel panic", T0))
        token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("PROXYD_TOKEN", token)
        base = str(running.client.make_url(""))
        async with Client.over_http(base, token) as asked:
            (found,) = await asked.find_items("kern* -panic", source="s")
            assert len(await asked.find_items("kernel", limit=None)) == 2
            assert await asked.find_items("kernel", source="a/b c") == []
            with pytest.raises(ApiError, match="name a word to search for"):
                await asked.find_items("-panic")
        assert (found["source"], found["title"], found["link"]) == ("s", "Kernel 6.18", "https://a.example/1")
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["search", "--url", base, "--", "kernel", "-panic"]) == 0
        shown = capsys.readouterr().out
        assert await asyncio.to_thread(main, ["items", "--unread", "--url", base]) == 0
        unread = capsys.readouterr().out
        assert await asyncio.to_thread(main, ["items", "--starred", "--url", base]) == 0
        assert capsys.readouterr().out == "no such item\n"
        assert await asyncio.to_thread(main, ["search", "--url", base, "nothing"]) == 0
    assert "Kernel 6.18" in shown
    assert "panic" not in shown
    assert ("Kernel 6.18" in unread, "Kernel panic" in unread) == (True, True)
    assert capsys.readouterr().out == "no item has these words\n"


async def test_an_update_that_no_rule_awaits_is_shown_and_counted(tmp_path: Path) -> None:
    async with running_api(tmp_path) as running:
        old = item("Kettle", T0 - 60.0, description="<p>30</p>")
        await shows(running, T0 + 10.0, old)
        await shows(running, T0 + 100.0, replace(item("Kettle", T0 - 60.0, description="<p>25</p>"), content_hash="n"))
        token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
        async with Client.over_http(str(running.client.make_url("")), token) as asked:
            found = await asked.items("s")
            (listed,) = [each for each in await asked.sources() if each["source"] == "s"]
    assert [(each["kind"], each["title"]) for each in found] == [("update", "Kettle"), ("insert", "Kettle")]
    assert found[0]["changes"] == {"channel.item.description": {"from": "30", "to": "25"}}
    assert listed["items_seen"] == 1


async def test_sources_are_chosen_and_ordered(tmp_path: Path) -> None:
    async with running_api(tmp_path) as running:
        names = ["news-10", "news-2", "News-1", "shop"]
        own = rule("shops").replace('INTO "P"', 'INTO "Shops" FROM SOURCES "shop"')
        profile = 'CREATE PROFILE "Shops" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");\n'
        await running.control.declarations.declare("".join([*map(source, names), profile, own]))
        await shows(running, T0 + 10.0, item("New", T0))
        token = (await running.token("write"))["Authorization"].removeprefix("Bearer ")
        base = str(running.client.make_url(""))
        async with Client.over_http(base, token) as asked:

            async def listed(query: str) -> list[str]:
                async with running.client.get(
                    f"/api/v1/sources?{query}", headers={"Authorization": f"Bearer {token}"}
                ) as answer:
                    return [each["source"] for each in (await answer.json())["items"]]

            assert await listed("q=news") == ["News-1", "news-2", "news-10"]
            assert await listed("q=EXAMPLE.org/shop") == ["shop"]
            assert (await listed("sort=newest"))[0] == "s"
            assert await listed("profile=Shops") == ["shop"]
            assert "s" not in await listed("new=true")
            await asked.pause("news-2")
            await asked.mute("shops")
            assert await listed("paused=true") == ["news-2"]
            assert await listed("muted=true") == ["shop"]
            assert await asked.sources(limit=None) == await asked.sources(limit=500)


async def test_a_source_a_rule_and_a_profile_are_probed_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_api(tmp_path) as running:
        token = (await running.token("write"))["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("PROXYD_TOKEN", token)
        capsys.readouterr()
        base = str(running.client.make_url(""))
        async with Client.over_http(base, token) as asking:
            for name, sources in (("s", ["s"]), ("r", ["s", "a/b c"]), ("P", ["s", "a/b c"])):
                asked = await asking.probe(name)
                assert [(each["source"], each["waits_for"], each["under_way"]) for each in asked] == [
                    (source, None, False) for source in sources
                ]
            with pytest.raises(ApiError, match="there is no source, rule or profile 'rr'"):
                await asking.probe("rr")
            with pytest.raises(ApiError, match=re.escape("'https://a/b c'. Did you mean a/b c?")):
                await asking.probe("https://a/b c")
            await asking.declare('CREATE PROFILE "Empty" AS (DOMAIN "D", USER "u");')
            with pytest.raises(ApiError, match="Empty has no source yet"):
                await asking.probe("Empty")
            await asking.pause("s")
            with pytest.raises(ApiError, match="source s is paused, so it is not probed"):
                await asking.probe("s")
        assert await asyncio.to_thread(main, ["probe", "r", "--now", "--url", base]) == 0
        assert capsys.readouterr().out.startswith("a/b c: it is probed at ")
