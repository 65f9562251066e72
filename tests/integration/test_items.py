"""What happened to the items of a source, as the API and the verb show it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from proxyd.cli.main import main
from proxyd.client import ApiError, Client
from proxyd.core.model.item import Item
from tests.fleets import changed, item, rule
from tests.integration.api_world import T0, Running, running_api


async def shows(running: Running, at_s: float, *items: Item) -> None:
    assert await running.control.probes.take_in(changed("s", items, at_s))


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
    assert found[0]["changes"] == {"channel.item.description": {"from": None, "to": "More"}}
    assert [line.split()[2] for line in shown.splitlines()[1:]] == ["changed", "new", "first"]
    assert "javascript" not in shown


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
            await asking.declare('CREATE PROFILE "Empty" AS (DOMAIN "D", USER "u");')
            with pytest.raises(ApiError, match="Empty has no source yet"):
                await asking.probe("Empty")
            await asking.pause("s")
            with pytest.raises(ApiError, match="source s is paused, so it is not probed"):
                await asking.probe("s")
        assert await asyncio.to_thread(main, ["probe", "r", "--now", "--url", base]) == 0
        assert capsys.readouterr().out.startswith("a/b c: it is probed at ")
