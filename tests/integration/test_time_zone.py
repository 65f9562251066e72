"""One setting, ``time_zone``, says how people read times: on pages, in messages and in tables; JSON stays in UTC."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from proxyd.cli.printed_answers import print_answer, print_list
from proxyd.core.language import SourceText, check
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.notify.channels.message_forms import chat_text, plain_text
from tests.fleets import Drive, changed, decider, item
from tests.integration.api_world import T0, running_api
from tests.integration.dashboard_world import Browser

ZONE = "Asia/Kolkata"
UTC_TIME, LOCAL_TIME = "2001-09-09T01:46:50.000Z", "2001-09-09 07:16:50 IST"


async def test_pages_show_it_and_json_stays_in_utc(tmp_path: Path) -> None:
    async with running_api(tmp_path, time_zone=ZONE) as api:
        for at_s in (T0, T0 + 20.0):
            assert await api.control.loops.observer.take_in(changed("s", [item(f"i{at_s}", at_s - 10.0)], at_s))
        browser = Browser(api)
        await browser.sign_in("read")
        _, page = await browser.get("/sources/s")
        answer = await api.client.get("/api/v1/items", headers=await api.token("write"))
        (found, *_) = (await answer.json())["items"]
    assert '<span id="zone" data-fixed>times in Asia/Kolkata</span>' in page
    assert f'<time datetime="{UTC_TIME}" title="{LOCAL_TIME}"' in page
    assert found["seen"] == "2001-09-09T01:47:00.000Z"


async def test_a_mute_until_the_morning_ends_in_it(tmp_path: Path) -> None:
    async with running_api(tmp_path, time_zone=ZONE) as api:  # it is 07:16 there
        browser = Browser(api)
        await browser.sign_in("write")
        await browser.post("/settings/mute", {"for": "until 07:00"})
        (muted,) = api.control.queries.suspensions.all()
        assert muted.until_s == datetime(2001, 9, 10, 1, 30, tzinfo=UTC).timestamp()
        token = await api.token("write", expires_in_s=60.0)
        for until, ends in [("7:00", "10T01:30"), ("2001-09-10T07:00", "10T01:30"), ("2001-09-10T07:00Z", "10T07:00")]:
            body = {"name": "r", "until": until}
            made = await api.client.post("/api/v1/mute", json=body, headers=token)
            assert (await made.json())["suspension"]["until"] == f"2001-09-{ends}:00.000Z"


def test_mails_and_chats_show_it() -> None:
    data = {"rule": "R", "items": [{"title": "a", "due": UTC_TIME}], "message": {"rows": ["a"], "is_named": True}}
    body = json.dumps({"data": data}).encode()
    assert chat_text(body, ZoneInfo(ZONE))[1] == f"a · due: {LOCAL_TIME}"
    assert f"due: {LOCAL_TIME}" in plain_text("R", body, ZoneInfo(ZONE))


async def test_sentences_about_sources_show_it() -> None:
    profile = """CREATE PROFILE P; CREATE SOURCE s OF FEED AT 'https://a.example/';
    INSERT NOTIFICATION r INTO P SET QUERY "SELECT trouble FROM SOURCE" SET TRIGGER "ON FAILURE TO SOURCE";"""
    checked = check([SourceText("t", profile)]).declaration
    assert checked is not None
    drive = Drive(decider(checked, now_s=T0, settings={"zone": ZoneInfo(ZONE)}))
    await drive.see(changed("s", [item("a", T0)], T0))
    failed = ProbeOutcome("s", OutcomeKind.HTTP_ERROR, T0 + 10.0, T0 + 10.0, 500, detail="status 500")
    bodies = [
        one.body
        for minute in range(1, 300)
        for one in (await drive.see(replace(failed, finished_s=T0 + 10.0 + 600.0 * minute))).rules.notifications
    ]
    assert "has failed since 2001-09-09 07:26 IST: status 500" in chat_text(bodies[0])[1]


def test_tables_and_sentences_of_verbs_show_it_and_json_stays_in_utc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "proxyd.toml"
    settings.write_text(f'time_zone = "{ZONE}"\n')
    options = argparse.Namespace(config=settings, json=False, url=None)
    print_list(options, [UTC_TIME], ["seen"], lambda each: [each], empty="")
    print_answer(options, {}, [f"delayed until {UTC_TIME}"])
    for_programs = argparse.Namespace(config=settings, json=True, url=None)
    print_list(for_programs, [UTC_TIME], ["seen"], lambda each: [each], empty="")
    table, json_text = capsys.readouterr().out.split("[", 1)
    assert table.splitlines() == ["seen", LOCAL_TIME, f"delayed until {LOCAL_TIME}"]
    assert json.loads("[" + json_text) == [UTC_TIME]
