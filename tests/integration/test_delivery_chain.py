"""Store, dispatcher and channel together: a digest from its notifications to its receiver."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np

from proxyd.base.metrics import Metrics
from proxyd.base.ports import Message, WebhookState
from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import Delivery, MailDelivery, SecretRef, WebhookDelivery
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.store.backups import open_store
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import declaration, rule, source
from tests.outboxes import due_deliveries

T0 = 1_000_000_800.0  # a full hour


class Inbox:
    """Keeps what it was sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.arrived = asyncio.Event()

    async def deliver(self, message: Message) -> str:
        self.messages.append(message)
        self.arrived.set()
        return "taken"


def notification(number: int, *deliveries: Delivery) -> Notification:
    data = {"id": f"ntf_{number}", "rule": "r", "items": [{"title": str(number)}]}
    body = json.dumps({"type": "proxyd.notification", "timestamp": "2026-03-01T12:00:00.000Z", "data": data})
    return Notification(f"ntf_{number}", "r", "s", T0, T0, False, body.encode(), deliveries)


async def test_what_was_gathered_before_a_restart_arrives_once_when_the_hour_is_over(tmp_path: Path) -> None:
    clauses = "SET DELIVERY MAIL 'a@example.org' SET DIGEST EVERY 1 HOUR AT MOST 2 ITEMS"
    rules = declaration(source("a"), rule("r", clauses=clauses)).rules.values()
    sent = tuple(notification(number, MailDelivery("a@example.org")) for number in range(3))
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        await store.declarations.accept([], rules, T0)
        await store.record_results(
            RuleResults(
                notifications=sent,
            )
        )
    inbox, clock = Inbox(), FakeClock(T0 + 60.0)
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        dispatcher = Dispatcher(
            store, inbox, lambda _ref: None, clock, np.random.default_rng(1), Metrics(), DispatcherSettings(600.0, 4)
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(dispatcher.run())
            await clock.someone_sleeps()
            assert inbox.messages == []
            await clock.advance(3540.0)
            await inbox.arrived.wait()
            await dispatcher.drain(10.0)
        attempts = await store.history.delivery_attempts("ntf_2")
    (message,) = inbox.messages
    data = json.loads(message.body)["data"]
    assert (message.kind, message.endpoint, data["count"]) == ("mail", "a@example.org", 3)
    assert [each["id"] for each in data["notifications"]] == ["ntf_0", "ntf_1"]
    assert data["left_out"] == {"notifications": 1, "items": 1}
    assert [attempt.result for attempt in attempts] == ["accepted"]


async def test_each_receiver_gets_the_version_of_the_payload_that_its_rule_asks_for(tmp_path: Path) -> None:
    told = "WEBHOOK 'https://{}.example/' SECRET ENV 'SECRET_A'"
    text = (
        f"WATCH 'https://example.org/feed' AS \"r\" TELL {told.format('two')}, {told.format('one')} PAYLOAD 1;"
        'CREATE PROFILE "P"; INSERT NOTIFICATION "long" INTO "P" SET QUERY "SELECT title FROM FEED"'
        f' SET TRIGGER "ON INSERT TO FEED" SET DELIVERY {told.format("old")};'
    )
    checked = check([SourceText("t", text)])
    assert checked.declaration is not None
    rules = checked.declaration.rules
    deliveries = [*rules["r"].deliveries, *rules["long"].deliveries]
    secret = SecretRef("env", "SECRET_A")
    assert [each.payload for each in deliveries if isinstance(each, WebhookDelivery)] == [2, 1, 0]
    assert deliveries[2] == WebhookDelivery("https://old.example/", secret)
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        await store.declarations.accept([], rules.values(), T0)
        await store.record_results(RuleResults(notifications=(notification(1, *deliveries),)))
        for each in await store.webhooks.list_unconfirmed():
            await store.webhooks.record_ping(each.webhook, WebhookState.CONFIRMED, T0, "204")
        due = await due_deliveries(store, T0, limit=10, busy=set(), shut={})
    assert {each.endpoint: each.payload for each in due} == {
        "https://two.example/": 2,
        "https://one.example/": 1,
        "https://old.example/": 1,
    }
