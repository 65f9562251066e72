"""What was removed is stored for a day, newest first, and goes when it is had back."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import func, select

from proxyd.store.databases import tables as t
from proxyd.store.declared_rows import KEPT_REMOVED_S, MOST_REMOVED, Removed
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore

T0 = 1_000_000_000.0
RULE = Removed("a", "notification", "news", "WATCH 'https://a.example';", T0, "token ada")


async def count(store: SqlStore) -> int:
    return int((await store.read(select(func.count()).select_from(t.removed)))[0][0])


async def test_what_was_removed_is_there_for_a_day(store: SqlStore) -> None:
    later = replace(RULE, removed_id="b", at_s=T0 + 60.0)
    for each in (RULE, later):
        await store.removed.keep(each)
    assert await store.removed.load(T0 + 60.0, limit=5) == [later, RULE]
    assert await store.removed.load(T0 + 60.0, limit=1) == [later]
    assert await store.removed.find("a", T0 + KEPT_REMOVED_S) == RULE
    assert await store.removed.find("a", T0 + KEPT_REMOVED_S + 1.0) is None
    assert await store.removed.load(T0 + KEPT_REMOVED_S + 30.0, limit=5) == [later]
    await store.removed.forget("b")
    assert await store.removed.find("b", T0 + 60.0) is None
    assert await count(store) == 1
    await expire(store.writer, T0 + KEPT_REMOVED_S + 1.0, retention_s=1e9)
    assert await count(store) == 0


async def test_only_the_newest_are_kept(store: SqlStore) -> None:
    for number in range(MOST_REMOVED + 3):
        await store.removed.keep(replace(RULE, removed_id=str(number), at_s=T0 + number))
    found = await store.removed.load(T0 + MOST_REMOVED, limit=10 * MOST_REMOVED)
    assert [found[0].removed_id, found[-1].removed_id, len(found)] == [str(MOST_REMOVED + 2), "3", MOST_REMOVED]
    await store.removed.keep(replace(RULE, removed_id="new", at_s=T0 + 10 * KEPT_REMOVED_S))
    assert await count(store) == 1
