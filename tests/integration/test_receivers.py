"""Receivers with names over the API: they are used by name, changed for all, and shown without their addresses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxyd.api.listings import Listings
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.app.server import endpoints
from proxyd.core.model.delivery import ChannelDelivery, MailDelivery, WebhookDelivery
from proxyd.store.listed_rows import Wanted
from tests.fakes import no_queries
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import Browser
from tests.outboxes import due_deliveries

TEAM = """CREATE RECEIVER "team" AS CHANNEL 'ntfy://ntfy.example/hunter2', MAIL 'hunter2@example.org',
WEBHOOK 'https://hooks.example/hunter2' SECRET ENV 'SECRET_HUNTER2';"""
RULE = """INSERT NOTIFICATION "told" INTO "P" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
SET DELIVERY "team";"""
_ENDPOINTS = endpoints(no_queries(), Listings(no_queries()), Streams(no_queries(), StreamSettings()))
LISTS = [each for each in _ENDPOINTS if each.method == "GET" and each.scope == "read" and each.path != "/api/v1/stream"]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path, smtp="mail.example:587", mail_from="me@example.org") as api:
        yield api


async def send(running: Running, text: str, status: int = 0) -> Any:
    headers = vars(running).get("headers") or await running.token("write")
    vars(running)["headers"] = headers
    async with running.client.post("/api/v1/profiles", data=text, headers=headers) as answer:
        assert answer.status == status or (not status and answer.ok), await answer.text()
        return await answer.json()


def told(running: Running) -> list[Any]:
    return list(running.control.declarations.declaration.rules["told"].deliveries)


async def test_a_rule_has_the_deliveries_of_its_receiver_also_after_a_change_of_that(running: Running) -> None:
    await send(running, TEAM + RULE)
    channel, mail, webhook = told(running)
    assert channel == ChannelDelivery("ntfy://ntfy.example/hunter2", "team")
    assert mail == MailDelivery("hunter2@example.org", "team")
    assert isinstance(webhook, WebhookDelivery)
    assert (webhook.payload, webhook.receiver) == (2, "team")
    await send(running, "CREATE RECEIVER \"team\" AS MAIL 'other@example.org';")
    assert told(running) == [MailDelivery("other@example.org", "team")]


async def test_one_that_is_used_is_not_dropped_and_one_that_is_not_is(running: Running) -> None:
    await send(running, TEAM + RULE)
    refused = await send(running, 'DROP RECEIVER "team";', 422)
    assert "there is no receiver 'team'" in refused["errors"][0]["detail"]
    await send(running, 'DROP NOTIFICATION "told";')
    await send(running, 'DROP RECEIVER "team";')
    newest, *_ = await running.control.queries.audit.find_deeds(before=None, limit=1)
    assert (newest.did, newest.subject) == ("remove", "receiver team")


async def test_a_receiver_survives_json(running: Running) -> None:
    await send(running, TEAM + RULE)
    body = {
        "receivers": [{"name": "two", "to": [{"mail": "a@example.org"}, {"log": "l"}]}],
        "notifications": [],
    }
    async with running.client.get("/api/v1/profiles/P", headers=vars(running)["headers"]) as answer:
        declared = (await answer.json())["declared"]
    (rule,) = (each for each in declared["notifications"] if each["name"] == "told")
    assert [{name: value for name, value in each.items() if value} for each in rule["deliveries"]] == [
        {"receiver": "team"}
    ]
    body["notifications"] = [rule | {"deliveries": [{"receiver": "two"}]}]
    headers = vars(running)["headers"]
    async with running.client.post("/api/v1/profiles", json=body, headers=headers) as answer:
        assert answer.ok, await answer.text()
    assert [each.endpoint for each in told(running)] == ["a@example.org", "log:l"]
    for bad in ({"receiver": "two", "mail": "a@b.example"}, {"receiver": ""}, {}):
        wrong = {"receivers": [{"name": "three", "to": [bad]}]}
        async with running.client.post("/api/v1/profiles", json=wrong, headers=headers) as answer:
            assert answer.status == 422


async def live(running: Running) -> None:
    """Let the rule tell its receiver, and one delivery be given up."""
    await send(running, TEAM + RULE)
    observer = running.control.loops.observer
    assert await observer.take_in(changed("s", [item("old", T0 - 50.0)], T0))
    assert await observer.take_in(changed("s", [item("new", T0 + 5.0), item("old", T0 - 50.0)], T0 + 10.0))
    store = running.control.resources.store
    due = await due_deliveries(store, T0 + 20.0, limit=100)
    assert {each.endpoint for each in due} >= {"hunter2@example.org", "ntfy://ntfy.example/hunter2"}
    await store.record_failure(due[0], T0 + 20.0, next_s=None, error="refused")


async def test_who_may_only_read_sees_the_name_and_no_address(running: Running) -> None:
    await live(running)
    notifications = (await running.control.queries.history.find_notifications(Wanted(), before=None, limit=9)).rows
    (of_team,) = (each for each in notifications if each.rule == "told")
    headers = await running.token("read")
    seen = 0
    for each in LISTS:
        path = each.path.format(
            name={"rules": "told", "profiles": "P"}.get(each.path.split("/")[3], "s"),
            id=of_team.notification_id,
            position=1,
        )
        async with running.client.get(path, headers=headers) as answer:
            text = await answer.text()
            assert answer.status in {200, 400, 404, 409}, (path, text)
            assert "hunter2" not in text.lower(), path
            seen += "receiver team" in text or '\\"team\\"' in text
    assert seen >= 4
    browser = Browser(running)
    await browser.sign_in("read", expires_in_s=3600.0)
    shown = f"/notifications/{of_team.notification_id}"
    for path in ("/", "/rules", "/rules/told", "/profiles/P", "/notifications", shown, "/state", "/sources/s"):
        status, text = await browser.get(path)
        assert status == 200
        assert "hunter2" not in text.lower(), path
    assert "receiver team" in (await browser.get("/rules/told"))[1]


async def test_only_a_token_that_writes_sees_its_text(running: Running) -> None:
    await send(running, TEAM)
    async with running.client.get("/api/v1/receivers", headers=await running.token("read")) as answer:
        assert answer.status == 403
    async with running.client.get("/api/v1/receivers", headers=vars(running)["headers"]) as answer:
        (found,) = (await answer.json())["items"]
    assert (found["name"], found["declared_by"]) == ("team", "api")
    assert "MAIL 'hunter2@example.org'" in found["text"]


async def test_a_file_declares_receivers_for_the_api(running: Running) -> None:
    (running.folder / "b.profile").write_text(TEAM)
    assert await running.control.declarations.reload() == ()
    await send(running, RULE)
    assert len(told(running)) == 3
    refused = await send(running, "CREATE RECEIVER \"team\" AS LOG 'x';", 409)
    assert "b.profile" in json.dumps(refused)
    (running.folder / "b.profile").unlink()
    assert "there is no receiver" in " ".join(await running.control.declarations.reload())
