"""One notification, traced from the probe to its receivers; and which of them are asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxyd.base.ports import WebhookState
from proxyd.client import Client
from proxyd.core.model.field_values import iso_time
from tests.fleets import changed, item, rule
from tests.integration.api_world import T0, Running, running_api, told
from tests.outboxes import due_deliveries

TITLE = "channel.item.title"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


@pytest.fixture
async def client(running: Running) -> AsyncIterator[Client]:
    token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(str(running.client.make_url("")), token) as opened:
        yield opened


async def probed(running: Running) -> None:
    """Let the rule fire for two items that one probe found, in two intervals."""
    take_in = running.control.loops.observer.take_in
    await take_in(changed("s", [item("first", T0 - 5.0)], T0))
    news = [item("third", T0 + 25.0), item("second", T0 + 5.0)]
    await take_in(changed("s", [*news, item("first", T0 - 5.0)], T0 + 31.0))


async def test_a_notification_is_traced_to_its_interval_its_probe_and_its_items(
    running: Running, client: Client
) -> None:
    await probed(running)
    traces = [await client.notification(each["id"]) for each in await client.notifications()]
    third, second = traces
    assert [third["rows"], second["rows"]] == [[{TITLE: "third"}], [{TITLE: "second"}]]
    assert second["event"] == "2001-09-09T01:46:45.000Z"
    (interval,) = second["intervals"]
    assert interval == {
        "source": "s",
        "start": "2001-09-09T01:46:40.000Z",
        "end": interval["end"],
        "probed": "2001-09-09T01:47:10.000Z",
        "captured": interval["captured"],
        "exact": True,
        "delay_s": 26.0,
        "utility": interval["utility"],
    }
    assert third["intervals"][0]["start"] == "2001-09-09T01:47:00.000Z"
    probe = second["probe"]
    assert (probe["source"], probe["url"]) == ("s", "https://example.org/s")
    assert (probe["finished"], probe["outcome"]) == ("2001-09-09T01:47:11.000Z", "changed")
    assert [found["item"] for found in probe["found"]] == ["second", "third"]
    assert (second["position"], third["position"]) == (1, 2)
    assert second["attempts"] == []
    assert [each["state"] for each in second["deliveries"]] == ["held"]
    assert "  it found third" in second["summary"]
    assert f"row: {TITLE}='second'" in second["summary"]


async def test_the_attempts_of_a_notification_are_told_in_their_order(running: Running, client: Client) -> None:
    await probed(running)
    store = running.control.resources.store
    for each in await store.webhooks.list_unconfirmed():
        await store.webhooks.record_ping(each.webhook, WebhookState.CONFIRMED, T0, "204")
    (due,) = await due_deliveries(store, T0 + 40.0, hold_s=60.0, limit=1)
    await store.record_failure(due, T0 + 41.0, next_s=T0 + 50.0, error="status 503")
    (again,) = await due_deliveries(store, T0 + 50.0, hold_s=60.0, limit=1)
    await store.record_delivery(again, T0 + 51.0)
    found = await client.notification(due.notification_id)
    told = [(each["at"], each["result"], each["detail"]) for each in found["attempts"]]
    assert told == [
        ("2001-09-09T01:47:21.000Z", "retry", "status 503"),
        ("2001-09-09T01:47:31.000Z", "accepted", ""),
    ]
    assert found["deliveries"][0]["state"] == "delivered"
    assert "attempt: 2001-09-09T01:47:21.000Z https://r.example/hook: retry (status 503)" in found["summary"]


async def test_what_is_no_longer_stored_is_said_to_be(running: Running, client: Client) -> None:
    await running.tell(told("a", late=True, partial=True, missing=["b"], supplement_to="ntf_0"))
    found = await client.notification("a")
    assert (found["intervals"], found["probe"]["found"]) == ([], [])
    assert found["summary"][0] == "a, late, partial, supplement to ntf_0"
    assert "interval: no longer stored" in found["summary"]
    assert "delivery: not sent anywhere" in found["summary"]


async def test_an_event_of_a_source_has_no_interval(running: Running, client: Client) -> None:
    await running.tell(told("a", event={"kind": "recovery", "time": iso_time(T0), "seen": iso_time(T0)}))
    assert "interval: no longer stored" not in (await client.notification("a"))["summary"]


async def test_notifications_are_asked_for_by_rule_profile_source_and_time(running: Running, client: Client) -> None:
    text = 'CREATE PROFILE "Q" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");\n' + rule("q").replace('"P"', '"Q"')
    await running.control.declarations.declare(text)
    await running.tell(
        told("a", at_s=T0), told("b", rule_name="q", at_s=T0 + 60.0), told("c", rule_name="gone", at_s=T0 + 120.0)
    )

    async def names(**wanted: Any) -> str:
        return "".join(found["id"] for found in await client.notifications(**wanted))

    assert await names() == "cba"
    assert await names(rule="gone") == "c"
    assert await names(rule="never there") == ""
    assert await names(profile="Q") == "b"
    assert await names(profile="Q", rule="r") == ""
    assert await names(source="s", limit=2) == "cb"
    assert await names(source="t") == ""
    assert await names(since="2001-09-09T01:47:40Z") == "cb"
    assert await names(since="2001-09-09T03:47:40+02:00", rule="q") == "b"


async def test_filters_hold_on_every_page(running: Running) -> None:
    await running.tell(*(told(f"n{n}", rule_name="r" if n % 2 else "other") for n in range(10)))
    headers = await running.token("read")
    found, query = [], {"rule": "r", "limit": "2"}
    while True:
        async with running.client.get("/api/v1/notifications", params=query, headers=headers) as answer:
            page = await answer.json()
        found += [each["id"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found == ["n9", "n7", "n5", "n3", "n1"]
