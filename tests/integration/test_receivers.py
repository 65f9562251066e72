"""Receivers with names over the API: they are used by name, changed for all, and shown without their addresses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from proxyd.api.listings import Listings
from proxyd.api.passwords import invite
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.app.server import endpoints
from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.core.language import CreateReceiver, StatementKind
from proxyd.core.model.delivery import ChannelDelivery, MailDelivery, WebhookDelivery
from proxyd.store.api_rows import Scope
from proxyd.store.listed_rows import Wanted
from tests.fakes import no_queries
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import Browser, field
from tests.integration.test_people import choose
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


async def signed_in(running: Running, scope: Scope) -> Browser:
    browser = Browser(running)
    await browser.sign_in(scope, expires_in_s=3600.0)
    return browser


def field_of_text(page: str) -> str:
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


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
    browser = await signed_in(running, "read")
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


class Answering:
    """A channel whose receivers accept, or say what went wrong."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def deliver(self, message: Message) -> str:
        self.sent.append(message)
        if message.kind == "channel":
            raise DeliveryError("the service answered 403: topic is reserved")
        return f"the receiver of {message.kind} answered 200"


@pytest.fixture
def answering(running: Running, monkeypatch: pytest.MonkeyPatch) -> Answering:
    found = Answering()
    monkeypatch.setattr(running.control.resources.channel, "deliver", found.deliver)
    return found


async def test_a_receiver_is_made_tried_changed_and_removed_without_writing(
    running: Running, answering: Answering
) -> None:
    browser = await signed_in(running, "write")
    form = {"name": "on call", "to": "ntfy://hunter2, me@example.org https://r.example/hunter2", "secret": "SECRET_A"}
    answer, _ = await browser.post("/receivers", form)
    assert (answer.status, answer.headers["Location"]) == (303, "/receivers")
    status, page = await browser.get("/receivers")
    assert (status, "hunter2" in page) == (200, False)
    assert all(place in page for place in ("on call", "ntfy://[hidden]", "me@example.org", "https://r.example/…"))
    answer, page = await browser.post("/receivers/on%20call/test")
    assert answer.status == 200
    results = [re.sub(r"<[^>]*>", "", each) for each in re.findall(r"<li><bdi>receiver.*?</li>", page)]
    assert results == [
        "receiver on call, channel: the service answered 403: topic is reserved",
        "receiver on call, mail: accepted (the receiver of mail answered 200)",
        "receiver on call, webhook: accepted (the receiver of webhook answered 200)",
    ]
    assert "hunter2" not in page
    of_kind = {each.kind: json.loads(each.body) for each in answering.sent}
    assert of_kind["webhook"]["data"] == {"receiver": "on call"}
    assert of_kind["mail"]["data"]["message"]["rows"] == ["Test from proxyd: what is told to on call comes here"]
    assert "A test message was sent to <bdi>on call</bdi>" in page
    await browser.post("/receivers", {"name": "closed", "to": "ntfy://closed"})
    assert (
        "Nothing accepted the test message for <bdi>closed</bdi>" in (await browser.post("/receivers/closed/test"))[1]
    )
    opened = await browser.get("/receivers/on%20call/change")
    assert "CHANNEL 'ntfy://[hidden 1]'" in unescape(opened[1])
    text = field_of_text(opened[1]).replace("me@", "you@")
    asked = {"of": field(opened, "of"), "name": field(opened, "name"), "text": text, "part": "1"}
    assert "Bad request" not in (await browser.post("/profiles/check", asked))[1]
    answer, _ = await browser.post("/receivers/on%20call/change", {"text": text, "tag": field(opened, "tag")})
    assert (answer.status, answer.headers["Location"]) == (303, "/receivers")
    to = running.control.declarations.texts.declared[StatementKind.RECEIVER]["on call"][1]
    assert isinstance(to, CreateReceiver)
    assert [each.value.endpoint for each in to.to][:2] == ["ntfy://hunter2", "you@example.org"]
    tag = field(await browser.get("/receivers/on%20call/change"), "tag")
    answer, _ = await browser.post("/receivers/on%20call/remove", {"tag": tag})
    assert answer.status == 303
    assert "on call" not in running.control.declarations.texts.declared.get(StatementKind.RECEIVER, {})


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"name": "team", "to": "me@example.org"}, "there is a receiver 'team' already"),
        ({"name": "a@b", "to": "me@example.org"}, "give it a name without @"),
        ({"name": "", "to": "me@example.org"}, "give it a name"),
        ({"name": "two", "to": ""}, "write a mail address, a chat or a webhook"),
        ({"name": "two", "to": "team"}, "'team' is no address"),
        ({"name": "two", "to": "https://r.example/"}, "a webhook is signed"),
        ({"name": "two", "to": "json://127.0.0.1/x"}, "127.0.0.1"),
        ({"name": "two", "to": "file:///etc/passwd"}, "nothing is sent to file://"),
        ({"name": "two\" AS LOG 'x'; DROP RECEIVER \"team", "to": "x://y"}, "nothing is sent to x://"),
    ],
)
async def test_a_form_that_names_no_receiver_is_shown_again(running: Running, form: dict[str, str], said: str) -> None:
    await send(running, TEAM)
    browser = await signed_in(running, "write")
    answer, page = await browser.post("/receivers", form)
    assert 400 <= answer.status < 500
    assert said in unescape(page)
    assert list(running.control.declarations.texts.declared[StatementKind.RECEIVER]) == ["team"]


async def test_who_may_only_read_tries_no_receiver(running: Running, answering: Answering) -> None:
    await send(running, TEAM)
    browser = await signed_in(running, "read")
    assert (await browser.get("/receivers"))[0] == 403
    assert (await browser.post("/receivers/team/test"))[0].status == 403
    async with running.client.post("/api/v1/receivers/team/test", headers=await running.token("read")) as answer:
        assert answer.status == 403
    assert answering.sent == []


async def test_who_is_bound_to_a_profile_has_receivers_of_their_own_and_no_others(
    running: Running, answering: Answering
) -> None:
    await send(running, TEAM)
    queries, browser = running.control.queries, Browser(running)
    await choose(browser, await invite(queries, "first", "admin"))
    forms = "/receivers", "/sites", "/add?url=https://site.example&kind=site"
    assert all(['name="secret"' in (await browser.get(page))[1] for page in forms])
    running.client.session.cookie_jar.clear()
    await choose(browser, await invite(queries, "ann", "write", ["Mine"]))
    assert "No receiver has a name yet" in (await browser.get("/receivers"))[1]
    assert not any(['name="secret"' in (await browser.get(page))[1] for page in forms])
    answer, _ = await browser.post("/receivers", {"name": "team", "to": "ann@example.org"})
    assert answer.status == 303
    status, page = await browser.get("/receivers")
    assert (status, "ann@example.org" in page, "⋮" in page, "hunter2" in page) == (200, True, False, False)
    answer, page = await browser.post("/receivers/team/test")
    assert [each.endpoint for each in answering.sent] == ["ann@example.org"]
    site = {"url": "https://site.example", "kind": "site", "to": "team"}
    assert (await browser.post("/add", site))[0].status == 303
    (delivery,) = running.control.declarations.declaration.rules["Mine⋮site.example"].deliveries
    assert delivery.endpoint == "ann@example.org"
    assert '<td data-label="Rules" class="n">1</td>' in (await browser.get("/receivers"))[1]
    opened = await browser.get("/receivers/team/change")
    text = field_of_text(opened[1]).replace("ann@", "you@")
    answer, page = await browser.post("/receivers/team/change", {"text": text, "tag": field(opened, "tag")})
    assert answer.status == 303, page
    (delivery,) = running.control.declarations.declaration.rules["Mine⋮site.example"].deliveries
    assert delivery.endpoint == "you@example.org"
    declared = running.control.declarations.texts.declared[StatementKind.RECEIVER]
    assert declared.keys() == {"team", "Mine⋮team"}


async def test_a_receiver_with_a_space_in_its_name_is_chosen_where_a_source_is_added(running: Running) -> None:
    await send(running, "CREATE RECEIVER \"on call\" AS MAIL 'a@example.org';")
    browser = await signed_in(running, "write")
    for form in ("/add", "/sites"):
        assert '<option value="on call">' in (await browser.get(form))[1]
    assert (await browser.post("/sites", {"addresses": "https://other.example", "to": "on call"}))[0].status == 303
    (delivery,) = running.control.declarations.declaration.rules["other.example"].deliveries
    assert (delivery.endpoint, delivery.receiver) == ("a@example.org", "on call")
    site = {"url": "https://site.example", "kind": "site", "to": "on call, you@example.org"}
    answer, page = await browser.post("/add", site)
    assert answer.status == 303, page
    deliveries = running.control.declarations.declaration.rules["site.example"].deliveries
    assert [each.endpoint for each in deliveries] == ["a@example.org", "you@example.org"]


async def test_addresses_are_tried_a_few_at_once(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most = 0, 0

    async def deliver(_: Message) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return "taken"

    monkeypatch.setattr(running.control.resources.channel, "deliver", deliver)
    lines = ", ".join(f"LOG 'l{n}'" for n in range(50))
    await send(running, f'CREATE RECEIVER "many" AS {lines};')
    results = await running.control.queries.deliveries.test_receiver("many")
    assert [each.answer for each in results] == ["taken"] * 50
    assert most == 8


async def test_a_file_declares_receivers_for_the_api(running: Running) -> None:
    (running.folder / "b.profile").write_text(TEAM)
    assert await running.control.declarations.reload() == ()
    await send(running, RULE)
    assert len(told(running)) == 3
    refused = await send(running, "CREATE RECEIVER \"team\" AS LOG 'x';", 409)
    assert "b.profile" in json.dumps(refused)
    (running.folder / "b.profile").unlink()
    assert "there is no receiver" in " ".join(await running.control.declarations.reload())
