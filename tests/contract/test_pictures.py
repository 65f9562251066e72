"""Pictures of pages: written once with what refers to them, and kept no longer."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select

from proxyd.core.model.delivery import Delivery, MailDelivery
from proxyd.core.model.outcome import OutcomeKind, Picture, ProbeOutcome
from proxyd.core.rules.known.state import Notification, SourceState
from proxyd.store.databases import tables as t
from proxyd.store.plan_rows import MOST_DELETED, expire_pictures
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore
from tests.observations import observed
from tests.outboxes import due_deliveries

PNG = Picture("image/png", b"\x89PNG \xff\x00")
MAIL = MailDelivery("a@example.org")
GIB = 2**30


def notification(name: str, picture: Picture | None, *deliveries: Delivery, at_s: float = 2.0) -> Notification:
    sha256 = None if picture is None else picture.sha256
    return Notification(name, "r", "s", 1.0, at_s, False, b'{"data":{"items":[]}}', deliveries, picture=sha256)


async def record(store: SqlStore, picture: Picture, *sent: Notification) -> None:
    outcome = ProbeOutcome("s", OutcomeKind.CHANGED, 1.0, 2.0, 200, picture=picture)
    await store.record(observed(SourceState("s", "https://s.example/"), outcome, notifications=sent))


async def stored(store: SqlStore) -> list[bytes]:
    rows = await store.writer.submit(lambda c: c.execute(select(t.pictures.c.data).order_by(t.pictures.c.data)).all())
    return [bytes(row.data) for row in rows]


def numbered(number: int) -> Picture:
    return Picture("image/png", b"%04d" % number)


async def test_a_picture_is_stored_once_for_all_notifications_that_have_it(store: SqlStore) -> None:
    await record(store, PNG, notification("a", PNG), notification("b", PNG), notification("c", None))
    await record(store, PNG, notification("d", PNG))
    assert await stored(store) == [PNG.data]
    found = {name: await store.history.picture(name) for name in "abcd"}
    assert found == {"a": PNG, "b": PNG, "c": None, "d": PNG}


async def test_a_picture_that_no_notification_has_is_not_stored(store: SqlStore) -> None:
    await record(store, PNG, notification("a", None))
    await record(store, PNG)
    assert await stored(store) == []


async def test_a_picture_goes_with_the_last_notification_that_has_it(store: SqlStore) -> None:
    await record(store, PNG, notification("old", PNG), notification("later", PNG, at_s=900.0))
    await record(store, PNG, notification("newest", None, at_s=900.0))
    await expire(store.writer, 1000.0, retention_s=500.0)
    assert await expire_pictures(store.writer, most_bytes=GIB) == 0
    assert await store.history.picture("later") == PNG
    await expire(store.writer, 2000.0, retention_s=500.0)
    assert await expire_pictures(store.writer, most_bytes=GIB) == 1
    assert await stored(store) == []


async def test_above_the_size_of_all_the_oldest_pictures_go_and_their_notifications_stay(store: SqlStore) -> None:
    for number in range(5):
        await record(store, numbered(number), notification(f"n{number}", numbered(number), at_s=float(number)))
    await record(store, numbered(0), notification("again", numbered(0), at_s=9.0))
    assert await expire_pictures(store.writer, most_bytes=20) == 0
    assert await expire_pictures(store.writer, most_bytes=11) == 3
    assert await stored(store) == [numbered(0).data, numbered(4).data]
    found = {name: await store.history.picture(name) for name in ("n0", "n1", "n4", "again")}
    assert found == {"n0": numbered(0), "n1": None, "n4": numbered(4), "again": numbered(0)}
    listed = await store.history.trace("n1")
    assert listed is not None
    assert listed.notification.picture is None
    assert await expire_pictures(store.writer, most_bytes=0) == 2


async def test_many_pictures_go_in_parts(store: SqlStore) -> None:
    many = range(2 * MOST_DELETED + 5)
    for number in many:
        await record(store, numbered(number), notification(f"n{number}", numbered(number), at_s=float(number)))
    assert await expire_pictures(store.writer, most_bytes=4) == len(many) - 1
    assert await stored(store) == [numbered(many[-1]).data]


async def test_a_delivery_has_the_picture_of_its_notification(store: SqlStore) -> None:
    await record(store, PNG, notification("a", PNG, MAIL), notification("b", None, replace(MAIL, address="b@c.org")))
    due = await due_deliveries(store, 5.0, limit=9)
    assert {each.notification_id: each.picture for each in due} == {"a": PNG.sha256, "b": None}
    assert await store.picture(PNG.sha256) == PNG
    assert await store.picture("gone") is None
