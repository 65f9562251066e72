"""What every outbox keeps: attempts, digests, and endpoints that want no more; across a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sqlalchemy import Connection, bindparam, select, text, update

from proxyd.base.ports import DueDelivery, Gathered, WebhookState
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import ChannelDelivery, Delivery, MailDelivery, SecretRef, WebhookDelivery, WebhookForm
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.backups import open_store
from proxyd.store.databases import tables as t
from proxyd.store.lanes import Claim, claim, mark_due
from proxyd.store.listed_rows import DeliveryAttempt, Wanted
from proxyd.store.outbox import DisabledEndpoint, SqlOutbox
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore
from tests.fleets import WEBHOOK, declaration, rule, source
from tests.outboxes import due_deliveries, next_due_s

OUTCOME = ProbeOutcome("s", OutcomeKind.CHANGED, 1.0, 2.0, 200)
URL = "https://receiver.example/hook"
ENDPOINT = WebhookDelivery(URL, SecretRef("env", "SECRET_A"))
DIGEST = f"{WEBHOOK} SET DIGEST EVERY 1 HOUR AT MOST 3 ITEMS"


def notification(name: str, *deliveries: Delivery, rule_name: str = "r", created_s: float = 2.0) -> Notification:
    return Notification(name, rule_name, "s", 1.0, created_s, False, name.encode(), deliveries or (ENDPOINT,))


async def put(store: SqlStore, *sent: Notification) -> None:
    await store.record_results(RuleResults(notifications=sent))


async def test_a_delivery_of_a_receiver_is_shown_by_its_name_and_sent_to_its_address(store: SqlStore) -> None:
    await put(store, notification("1", MailDelivery("a@example.org", "team"), MailDelivery("b@example.org")))
    (row,) = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert {each.endpoint for each in row.deliveries} == {"receiver team", "b@example.org"}
    found = await due_deliveries(store, 5.0)
    assert {each.endpoint for each in found} == {"a@example.org", "b@example.org"}
    for each in found:
        await store.record_failure(each, 5.0, next_s=None, error="refused")
    dead = await store.history.dead_letters(before=None, limit=9)
    assert {each.endpoint for each in dead} == {"receiver team", "b@example.org"}
    trace = await store.history.trace("1")
    assert trace is not None
    assert {each.endpoint for each in trace.attempts} == {"receiver team", "b@example.org"}


async def test_a_notification_that_was_recorded_before_is_not_told_again(store: SqlStore) -> None:
    first, other = notification("n"), notification("m")
    await put(store, first)
    await put(store, replace(first, body=b"again"), other, replace(other, body=b"too"))
    found = await store.history.find_notifications(Wanted(), before=None, limit=9)
    assert [(each.notification_id, each.body) for each in found.rows] == [("m", b"m"), ("n", b"n")]
    assert (await store.outbox_depth())[0] == 2


async def declare(store: SqlStore, *statements: str, now_s: float = 1.0) -> None:
    await store.declarations.accept([], declaration(source("a"), *statements).rules.values(), now_s)
    for each in await store.webhooks.list_unconfirmed():
        await store.webhooks.record_ping(each.webhook, WebhookState.CONFIRMED, now_s, "")


def listed(gathered: Gathered) -> bytes:
    return b" ".join([*gathered.bodies, str(gathered.most_items).encode()])


async def due(store: SqlOutbox, now_s: float) -> list[tuple[str, bytes]]:
    found = await due_deliveries(store, now_s, limit=9)
    return [(one.notification_id, one.body) for one in found]


async def test_every_way_of_delivery_is_kept_with_what_it_needs(store: SqlStore) -> None:
    github = replace(ENDPOINT, form=WebhookForm.GITHUB)
    await put(store, notification("1", github, MailDelivery("a@example.org"), ChannelDelivery("tgram://token/chat")))
    found = await due_deliveries(store, 5.0, limit=9)
    assert [(d.kind, d.form, d.endpoint, d.secret_name) for d in found] == [
        ("webhook", "GITHUB", URL, "SECRET_A"),
        ("mail", "STANDARD", "a@example.org", ""),
        ("channel", "STANDARD", "tgram://token/chat", ""),
    ]
    shown = (await store.history.find_notifications(Wanted(), before=None, limit=1)).rows[0].deliveries
    assert [one.endpoint for one in shown] == [URL, "a@example.org", "tgram://[hidden]"]


async def test_shut_endpoints_are_passed_over(store: SqlStore) -> None:
    await put(store, notification("1"), notification("2", MailDelivery("a@example.org")))
    found = await due_deliveries(store, 5.0, limit=9, shut={URL: 1.0})
    assert [d.notification_id for d in found] == ["2"]
    assert await next_due_s(store, 5.0, shut={URL, "a@example.org"}) is None


async def test_of_two_that_make_a_digest_at_once_none_loses_what_only_the_other_read(store: SqlStore) -> None:
    await declare(store, rule("g", clauses=DIGEST))
    await put(store, *(notification(name, rule_name="g") for name in "12"))
    late_reads, early_is_done = threading.Event(), threading.Event()

    def compose_late(gathered: Gathered) -> bytes:
        late_reads.set()
        early_is_done.wait()
        return listed(gathered)

    def compose_early(gathered: Gathered) -> bytes:
        if late:  # its first digest is written
            early_is_done.set()
            late[0].result()
        else:
            asyncio.run_coroutine_threadsafe(put(store, notification("3", rule_name="g")), loop).result()
            late.append(asyncio.run_coroutine_threadsafe(store.make_digests(9000.0, compose_late), loop))
            late_reads.wait()
        return listed(gathered)

    loop, late = asyncio.get_running_loop(), list[Future[None]]()
    await store.make_digests(9000.0, compose_early)
    sent = []
    while found := await due_deliveries(store, 9000.0, limit=9):
        sent += [one.body for one in found]
        for one in found:
            await store.record_delivery(one, 9000.0)
    assert sent == [b"1 2 3", b"3 3"]


class Row(NamedTuple):
    """A delivery in the outbox."""

    position: int
    lane: str
    endpoint: str
    state: str
    next_s: float
    first_attempt_s: float | None
    digest_id: str | None
    digest: bytes | None


def due_of(found: Sequence[Row], now_s: float, busy: Collection[str], shut: Collection[str]) -> list[int]:
    """Return what ``due_deliveries`` should, by the words of its contract."""

    def is_recent(row: Row) -> bool:
        return row.state == "pending" and (row.first_attempt_s is None or row.first_attempt_s + 600.0 > now_s)

    def holds_back(row: Row) -> bool:
        of_digest = [each for each in found if row.digest_id is not None and each.digest_id == row.digest_id]
        leads = any(each.digest and is_recent(each) for each in of_digest)
        return is_recent(row) or row.state == "released" or (row.state == "gathered" and leads)

    chosen, held = dict[str, int](), set(busy)
    for row in found:
        is_due = row.state == "pending" and (row.first_attempt_s is None or row.next_s <= now_s)
        if is_due and row.endpoint not in shut and row.lane not in held:
            chosen.setdefault(row.lane, row.position)
        if holds_back(row):
            held.add(row.lane)
    return sorted(chosen.values())


async def test_the_first_of_each_lane_is_due_unless_something_before_it_holds_it_back(store: SqlStore) -> None:
    rng = np.random.default_rng(3)
    ways = [ENDPOINT, MailDelivery("a@example.org")]
    await put(store, *(notification(f"{n}", *ways, rule_name=f"r{n % 3}") for n in range(15)))
    o, now_s = t.outbox.c, 1000.0
    states, digests = ["pending"] * 4 + ["delivered", "gathered", "released", "held"], [None, None, "dgs_1", "dgs_2"]
    columns = ("state", "next_s", "first_attempt_s", "digest_id", "digest", "done_s")
    drawn = update(t.outbox).where(o.position == bindparam("of")).values({name: bindparam(name) for name in columns})

    def draw(values: list[dict[str, object]], connection: Connection) -> None:
        connection.execute(drawn, values)
        mark_due(connection, connection.scalars(select(o.lane)), 0.0)

    for _ in range(60):
        places = [row[0] for row in await store.read(select(o.position).order_by(o.position))]
        some = states[: rng.integers(4, 9)]
        values = [
            {
                "of": place,
                "state": (state := some[rng.integers(len(some))]),
                "done_s": 1.0 if state == "delivered" else None,
                "next_s": float(rng.choice([900.0, 1000.0, 1100.0])),
                "first_attempt_s": [None, 350.0, 950.0][rng.integers(3)],
                "digest_id": digests[rng.integers(4)],
                "digest": [None, b"d"][rng.integers(2)],
            }
            for place in places
        ]
        await store.writer.submit(partial(draw, values))
        found = [Row(*row) for row in await store.read(select(*(o[name] for name in Row._fields)).order_by(o.position))]
        lanes = sorted({row.lane for row in found})
        busy, shut = set(rng.choice(lanes, rng.integers(3)).tolist()), {URL} if rng.random() < 0.2 else set[str]()
        wanted = due_of(found, now_s, busy, shut)
        for limit in (1, 9):
            due = await due_deliveries(store, now_s, limit=limit, busy=busy, shut=shut)
            assert [each.position for each in due] == wanted[:limit]
        lane_due_s = {row.lane: row.due_s for row in await store.read(select(t.lanes))}
        for lane in lanes:
            alone = [row for row in found if row.lane == lane or row.digest]
            turns = [at_s for at_s in (950.0, 1000.0, 1100.0, 1550.0) if at_s > now_s and due_of(alone, at_s, (), ())]
            if not due_of(alone, now_s, (), ()) and alone[0].endpoint not in shut:
                assert lane_due_s[lane] == min(turns, default=None)


_ROWS_READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'outbox'"
_DONE = update(t.outbox).values(state="delivered", done_s=3.0)


def work_of(connection: Connection, claim: Callable[[Connection], Claim]) -> int:
    """Return how many rows of the outbox a claim of two lanes reads, or how many steps SQLite takes."""
    if connection.dialect.name == "postgresql":
        before: int = connection.scalars(text(_ROWS_READ)).one()
        assert len(claim(connection).positions) == 2
        after: int = connection.scalars(text(_ROWS_READ)).one()
        return after - before
    steps: list[None] = []
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(lambda: steps.append(None), 1)
    assert len(claim(connection).positions) == 2
    driver.set_progress_handler(None, 0)
    return len(steps)


async def test_a_claim_reads_no_more_with_many_delivered_rows_than_with_few(store: SqlStore) -> None:
    claiming = partial(claim, by="a", now_s=5.0, hold_s=600.0, until_s=0.0, limit=9, shut=())
    work = []
    for many in (10, 3000):
        await put(store, *(notification(f"old {many} {n}", rule_name=f"r{n % 2}") for n in range(many)))
        await store.writer.submit(partial(Connection.execute, statement=_DONE))
        await store.upkeep.vacuum()
        await put(store, *(notification(f"new {many} {n}", rule_name=f"r{n}") for n in range(2)))
        work.append(await store.writer.submit(partial(work_of, claim=claiming), is_last=True))
    few, many = work
    assert many <= few


async def test_what_failed_at_an_endpoint_is_due_at_once_when_that_works_again(store: SqlStore) -> None:
    await put(store, notification("1"), notification("2"), notification("x", rule_name="q"))
    for due in await due_deliveries(store, 10.0, limit=9):
        await store.record_failure(due, 10.0, next_s=2000.0, error="500")
    await store.retry_now("https://other.example/", 20.0)
    assert await due_deliveries(store, 20.0, limit=9) == []
    await store.retry_now(URL, 20.0)
    woken = await due_deliveries(store, 20.0, limit=9)
    assert [(each.notification_id, each.attempts) for each in woken] == [("1", 1), ("x", 1)]


async def test_every_attempt_is_kept_until_its_notification_expires(store: SqlStore) -> None:
    await put(store, notification("1"), notification("other", rule_name="q"))
    first = (await due_deliveries(store, 10.0, limit=1))[0]
    await store.record_failure(first, 10.0, next_s=20.0, error="503", duration_s=0.5)
    again = (await due_deliveries(store, 20.0, limit=1))[0]
    await store.record_delivery(again, 20.0, duration_s=0.25, detail="200")
    assert await store.history.delivery_attempts("1") == [
        DeliveryAttempt(URL, None, attempted_s=9.5, duration_s=0.5, result="retry", detail="503"),
        DeliveryAttempt(URL, None, attempted_s=19.75, duration_s=0.25, result="accepted", detail="200"),
    ]
    assert await store.history.delivery_attempts("other") == []
    await expire(store.writer, 1e6, retention_s=100.0)
    assert await store.history.delivery_attempts("1") == []


async def test_a_410_gives_up_the_whole_lane_until_it_is_replayed(store: SqlStore) -> None:
    await put(store, notification("1"), notification("2"), notification("x", rule_name="q"))
    first = (await due_deliveries(store, 10.0, limit=1))[0]
    await store.record_failure(first, 10.0, next_s=None, error="410", disables=True)
    assert (await store.outbox_depth()).dead == 2
    await put(store, notification("3"))
    assert [(d.notification_id, d.is_disabled) for d in await due_deliveries(store, 11.0, hold_s=0.0, limit=9)] == [
        ("x", False),
        ("3", True),
    ]
    disabled = DisabledEndpoint("r", URL, "webhook STANDARD env SECRET_A", disabled_s=10.0, detail="410")
    assert await store.list_disabled_endpoints() == [disabled]
    assert await store.replay("1", 12.0) == 1
    assert await store.list_disabled_endpoints() == []
    assert [d.is_disabled for d in await due_deliveries(store, 13.0, hold_s=0.0, limit=9)] == [False, False]


@pytest.mark.parametrize(
    ("clauses", "is_disabled"),
    [(WEBHOOK, True), (WEBHOOK.replace("SECRET_A", "SECRET_B"), False), (f"{WEBHOOK} FORM GITHUB", False), ("", False)],
    ids=["the same", "another secret", "another form", "none"],
)
async def test_an_endpoint_that_is_declared_otherwise_is_enabled(
    store: SqlStore, clauses: str, is_disabled: bool
) -> None:
    await declare(store, rule("r", clauses=WEBHOOK))
    await put(store, notification("1"))
    first = (await due_deliveries(store, 10.0, limit=1))[0]
    await store.record_failure(first, 10.0, next_s=None, error="410", disables=True)
    await declare(store, rule("r", clauses=clauses))
    assert bool(await store.list_disabled_endpoints()) is is_disabled


async def test_an_accepted_test_enables(store: SqlStore) -> None:
    await put(store, notification("1"))
    first = (await due_deliveries(store, 10.0, limit=1))[0]
    await store.record_failure(first, 10.0, next_s=None, error="410", disables=True)
    await store.enable("r", URL)
    assert await store.list_disabled_endpoints() == []


async def test_what_a_rule_gathers_goes_out_as_one_when_its_period_is_over(store: SqlStore) -> None:
    await declare(store, rule("r", clauses=DIGEST))
    made = {"a": 0.0, "b": 9.0, "c": 3600.0}
    await put(store, *[notification(name, created_s=created_s) for name, created_s in made.items()])
    assert await due(store, 3599.0) == []
    assert await store.next_digest_s() == 3600.0
    await store.make_digests(3600.0, listed)
    assert await store.next_digest_s() == 7200.0
    found = (await due_deliveries(store, 3600.0, limit=9))[0]
    assert (found.is_digest, found.body, found.notification_id[:4]) == (True, b"a b 3", "dgs_")
    await store.record_delivery(found, 3601.0, detail="200")
    rows = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert {row.notification_id: row.deliveries[0].state for row in rows} == {
        "a": "delivered",
        "b": "delivered",
        "c": "gathering",
    }
    assert await store.history.delivery_attempts("a") == await store.history.delivery_attempts("b") != []


LIMITED = f"{WEBHOOK} SET LIMIT 2 PER HOUR"


async def states(store: SqlStore) -> dict[str, tuple[str, bool]]:
    """Return the state of each notification's delivery, and whether the limit of its rule kept it from being sent."""
    found = (await store.history.find_notifications(Wanted(), before=None, limit=99)).rows
    return {row.notification_id: (row.deliveries[0].state, row.limited) for row in found}


async def test_what_exceeds_a_limit_is_recorded_and_not_sent(store: SqlStore) -> None:
    await declare(store, rule("r", clauses=LIMITED))
    sent, kept = ("pending", False), ("limited", True)
    await put(store, *[notification(name, created_s=created_s) for name, created_s in (("a", 0.0), ("b", 1800.0))])
    await put(store, notification("c", created_s=1801.0), notification("d", created_s=3599.0))
    await put(store, notification("e", created_s=3600.0), notification("f", created_s=3601.0))
    assert await states(store) == {"a": sent, "b": sent, "c": kept, "d": kept, "e": sent, "f": kept}
    assert [name for name, _ in await due(store, 9999.0)] == ["a"]  # then b and e, in the order of their lane
    await store.replay("c", 9999.0)
    assert (await states(store))["c"] == ("pending", True)


async def test_a_limit_of_each_source_or_value_counts_these_alone(store: SqlStore) -> None:
    await declare(store, rule("r", clauses=f"{WEBHOOK} SET LIMIT 1 PER DAY PER title"))
    made = [replace(notification(f"{key}{n}"), limited_by=key) for n in range(2) for key in ("x", "y")]
    await put(store, *made)
    assert {name: limited for name, (_, limited) in (await states(store)).items()} == {
        "x0": False,
        "y0": False,
        "x1": True,
        "y1": True,
    }


async def test_a_limit_holds_over_a_restart_and_does_not_touch_other_rules(database: str | Path) -> None:
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await declare(store, rule("r", clauses=LIMITED), rule("q", clauses=WEBHOOK))
        await put(store, notification("a"), notification("b"))
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await declare(store, rule("r", clauses=LIMITED), rule("q", clauses=WEBHOOK))
        await put(store, notification("c"), *[notification(f"q{n}", rule_name="q") for n in range(4)])
        assert [name for name, (_, limited) in (await states(store)).items() if limited] == ["c"]


async def test_a_daily_digest_goes_out_at_its_time_of_day(store: SqlStore) -> None:
    await declare(store, rule("r", clauses=f"{WEBHOOK} SET DIGEST DAILY AT '08:00' IN 'Europe/Berlin'"))
    seven_s = 7 * 3600.0  # 08:00 in Berlin, in the winter of 1970
    await put(store, notification("a", created_s=100.0), notification("b", created_s=seven_s))
    assert await store.next_digest_s() == seven_s
    await store.make_digests(seven_s, listed)
    (found,) = await due_deliveries(store, seven_s, limit=9)
    assert found.body == b"a None"  # and no limit of items
    assert await store.next_digest_s() == seven_s + 86400.0


async def test_a_digest_is_the_same_after_a_restart_and_what_came_late_makes_another(database: str | Path) -> None:
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await declare(store, rule("r", clauses=DIGEST))
        await put(store, notification("a"), notification("b"))
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await declare(store, rule("r", clauses=DIGEST), now_s=3600.0)
        await store.make_digests(3600.0, listed)
        first = await due(store, 3600.0)
        await put(store, notification("late"))
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        await store.make_digests(9000.0, listed)
        assert await due(store, 9000.0) == first
        delivery = (await due_deliveries(store, 9000.0, limit=1))[0]
        await store.record_delivery(delivery, 9000.0)
        second = await due(store, 9000.0)
    assert [body for _, body in (*first, *second)] == [b"a b 3", b"late 3"]
    assert first[0][0] != second[0][0]


async def test_a_digest_that_was_given_up_is_replayed_whole_and_as_it_was(store: SqlStore) -> None:
    await declare(store, rule("r", clauses=DIGEST))
    await put(store, notification("a"), notification("b"))
    await store.make_digests(3600.0, listed)
    before = await due(store, 3600.0)
    delivery = (await due_deliveries(store, 3600.0, limit=1))[0]
    await store.record_failure(delivery, 3601.0, next_s=None, error="no")
    assert (await store.outbox_depth()).dead == 2
    assert await store.replay("b", 3700.0) == 1
    assert await due(store, 3700.0) == before
    delivery = (await due_deliveries(store, 3700.0, limit=1))[0]
    await store.record_failure(delivery, 3701.0, next_s=None, error="no")
    assert await store.replay(None, 3800.0) == 1
    assert await due(store, 3800.0) == before


async def test_what_is_gathered_does_not_expire(store: SqlStore) -> None:
    await declare(store, rule("r", clauses=DIGEST.replace("1 HOUR", "4 WEEKS")))
    await put(store, notification("a"))
    await expire(store.writer, 1e6, retention_s=100.0)
    await store.make_digests(1e7, listed)
    assert [body for _, body in await due(store, 1e7)] == [b"a 3"]


def hook(form: str = "STANDARD") -> str:
    return f"SET DELIVERY WEBHOOK '{URL}' SECRET ENV 'SECRET_A' FORM {form}"


async def accept(store: SqlStore, form: str, now_s: float) -> None:
    await store.declarations.accept([], declaration(source("a"), rule("r", clauses=hook(form))).rules.values(), now_s)


async def test_what_goes_to_a_webhook_waits_until_that_has_answered(store: SqlStore) -> None:
    await accept(store, "STANDARD", 1.0)
    await put(store, notification("1"), notification("2", MailDelivery("a@example.org")))
    assert [name for name, _ in await due(store, 5.0)] == ["2"]
    assert await next_due_s(store, 5.0, shut=["a@example.org"]) is None
    assert await store.outbox_depth() == (1, 2.0, 1, 0)
    (waiting,) = await store.webhooks.list_unconfirmed()
    assert (waiting.webhook, waiting.since_s) == (ENDPOINT, 1.0)
    await store.webhooks.record_ping(waiting.webhook, WebhookState.CONFIRMED, 6.0, "204")
    assert [name for name, _ in await due(store, 7.0)] == ["1", "2"]


async def test_a_webhook_is_claimed_by_one_until_that_says_no_more(store: SqlStore) -> None:
    await accept(store, "STANDARD", 1.0)
    webhooks = store.webhooks
    assert await webhooks.claim([ENDPOINT], 2.0, 22.0) == [ENDPOINT]
    assert await webhooks.claim([ENDPOINT], 21.0, 99.0) == []
    await webhooks.record_ping(ENDPOINT, WebhookState.UNCONFIRMED, 21.0, "503")
    await webhooks.extend_claims([ENDPOINT], 41.0)
    assert await webhooks.claim([ENDPOINT], 40.0, 99.0) == []
    assert await webhooks.claim([ENDPOINT], 41.0, 99.0) == [ENDPOINT]


async def test_a_webhook_that_is_declared_again_stays_confirmed_and_one_in_another_form_is_asked(
    store: SqlStore,
) -> None:
    await accept(store, "STANDARD", 1.0)
    await store.webhooks.record_ping(ENDPOINT, WebhookState.CONFIRMED, 2.0, "204")
    await accept(store, "STANDARD", 3.0)
    assert [(each.state, each.since_s) for each in await store.webhooks.all()] == [("confirmed", 2.0)]
    await accept(store, "GITHUB", 4.0)
    assert [(each.form, each.state) for each in await store.webhooks.all()] == [("GITHUB", "unconfirmed")]
    await put(store, notification("old form"))
    assert [name for name, _ in await due(store, 5.0)] == ["old form"]


async def test_what_was_held_for_a_webhook_that_is_declared_no_more_is_given_up(store: SqlStore) -> None:
    """A mistyped address must get nothing once it is mended."""
    await accept(store, "STANDARD", 1.0)
    await put(store, notification("1"))
    await store.declarations.accept([], [], 2.0)
    assert await due(store, 5.0) == []
    assert await store.outbox_depth() == (0, None, 0, 1)
    (found,) = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert "was removed before" in found.deliveries[0].last_error


async def test_two_unanswered_webhooks_may_be_removed_at_once(store: SqlStore) -> None:
    other = WEBHOOK.replace("/hook", "/other")
    await store.declarations.accept(
        [], declaration(source("a"), rule("r", clauses=f"{WEBHOOK} {other}")).rules.values(), 1.0
    )
    webhooks = [each.webhook for each in await store.webhooks.list_unconfirmed()]
    await put(store, notification("1", *webhooks))
    await store.declarations.accept([], [], 2.0)
    assert len(await store.history.dead_letters(before=None, limit=9)) == len(webhooks) == 2


async def test_a_digest_for_a_webhook_that_has_not_answered_is_held_too(store: SqlStore) -> None:
    each_hour = f"{hook()} SET DIGEST EVERY 1 HOUR"
    await store.declarations.accept([], declaration(source("a"), rule("r", clauses=each_hour)).rules.values(), 1.0)
    await put(store, notification("1"), notification("2"))
    await store.make_digests(3600.0, listed)
    assert await due(store, 3600.0) == []
    assert (await store.outbox_depth()).held == 1
    await store.webhooks.record_ping(ENDPOINT, WebhookState.UNANSWERED, 3601.0, "503")
    assert [body for _, body in await due(store, 3602.0)] == [b"1 2 None"]


async def test_what_is_held_survives_a_restart(database: str | Path) -> None:
    async with open_store(database, ChrononGrid(10.0)) as first, first.writer.running():
        await accept(first, "STANDARD", 1.0)
        await put(first, notification("1"))
    async with open_store(database, ChrononGrid(10.0)) as second, second.writer.running():
        await accept(second, "STANDARD", 2.0)
        await put(second, notification("2"))
        assert await due(second, 5.0) == []
        await second.webhooks.record_ping(ENDPOINT, WebhookState.CONFIRMED, 6.0, "204")
        assert [name for name, _ in await due(second, 7.0)] == ["1"]


async def test_a_late_refusal_does_not_undo_that_a_webhook_answered(store: SqlStore) -> None:
    await accept(store, "STANDARD", 1.0)
    await store.webhooks.record_ping(ENDPOINT, WebhookState.UNANSWERED, 2.0, "503")
    await store.webhooks.record_ping(ENDPOINT, WebhookState.CONFIRMED, 3.0, "204")
    await store.webhooks.record_ping(ENDPOINT, WebhookState.UNANSWERED, 4.0, "410")
    assert [(each.state, each.since_s) for each in await store.webhooks.all()] == [("confirmed", 3.0)]


async def test_after_a_jump_back_nothing_waits_for_a_year(store: SqlStore) -> None:
    year_s = 365 * 86400.0
    await put(store, notification("1", created_s=year_s))
    (one,) = await due_deliveries(store, year_s, limit=9)
    await store.record_failure(one, year_s, next_s=year_s + 60.0, error="503")
    await put(store, notification("2", created_s=5.0))
    await store.declarations.accept([], [], 10.0)
    assert [name for name, _ in await due(store, 10.0)] == ["1"]
    assert [name for name, _ in await due(store, 10.0 + 600.0)] == ["1"]


async def test_a_first_attempt_is_due_at_once_although_the_clock_of_its_planner_was_ahead(store: SqlStore) -> None:
    await put(store, notification("1", created_s=3600.0), notification("2", created_s=2.0))
    await store.declarations.accept([], [], 10.0)  # on one machine: after a restart
    assert [name for name, _ in await due(store, 10.0)] == ["1"]


async def test_two_notifiers_never_have_the_same_lane_and_one_that_ends_leaves_it_to_the_other(store: SqlStore) -> None:
    other = SqlOutbox(store.writer, store.read, store.read)

    async def take(outbox: SqlOutbox, now_s: float, limit: int = 9) -> list[DueDelivery]:
        claimed = await outbox.claim_deliveries(now_s, hold_s=600.0, until_s=now_s + 15.0, limit=limit)
        return list(claimed.deliveries)

    await put(store, notification("1"), notification("2"), notification("x", rule_name="q"))
    (ours,), (theirs,) = await take(store, 5.0, limit=1), await take(other, 5.0)
    assert {ours.notification_id, theirs.notification_id} == {"1", "x"}
    await put(store, notification("3", created_s=6.0), notification("y", rule_name="q", created_s=6.0))
    assert [await take(store, 19.0), await take(other, 19.0)] == [[], []]
    await store.extend_claims([ours.lane], 40.0)
    assert await take(other, 21.0) == []
    assert await take(store, 21.0) == [theirs]  # the other one has ended
    await other.record_failure(theirs, 22.0, next_s=23.0, error="503")  # or was only slow
    assert await take(other, 24.0) == []
    await store.give_back([ours], 25.0)
    assert await take(other, 25.0) == [ours]


async def test_what_comes_while_its_lane_is_claimed_is_due_with_the_result(store: SqlStore) -> None:
    await put(store, notification("1"))
    (one,) = (await store.claim_deliveries(5.0, hold_s=600.0, until_s=25.0, limit=9)).deliveries
    await put(store, notification("2", created_s=6.0))
    await store.record_delivery(one, 7.0)
    assert [name for name, _ in await due(store, 7.0)] == ["2"]
