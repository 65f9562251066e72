"""Followers of feeds come back, are owed what was told, and are counted, over each kind of database."""

from __future__ import annotations

from dataclasses import replace

from proxyd.store.follower_rows import Follower
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore

ONE = Follower("1", "https://a.example/1", "a.example", "P", "", "atom", "t", "s", 1000.0, 5, 5)
OF_RULE = replace(ONE, follower_id="2", rule="r", token_id="u")
OTHER = replace(ONE, follower_id="3", host="b.example", profile="Q")


async def names_due(store: SqlStore, now_s: float = 0.0) -> list[str]:
    return [each.follower_id for each in await store.followers.due(now_s, limit=10)]


async def test_those_of_a_profile_and_those_of_a_rule_are_owed_what_it_told(store: SqlStore) -> None:
    for each in (ONE, OF_RULE, OTHER):
        await store.followers.keep(each, 0.0)
    assert await names_due(store) == []
    await store.followers.owe(["P"], ["r"], 7)
    assert await names_due(store) == ["1", "2"]
    await store.followers.note_sent("1", 7)
    await store.followers.note_failure("2", due_s=50.0)
    assert (await names_due(store, 49.0), await names_due(store, 50.0)) == ([], ["2"])
    await store.followers.owe_all(8)
    assert await names_due(store, 50.0) == ["1", "3", "2"]  # who failed comes last
    assert await names_due(store, 1000.0) == []


async def test_a_renewal_keeps_the_place_of_a_follower(store: SqlStore) -> None:
    await store.followers.keep(ONE, 0.0)
    await store.followers.note_sent("1", 9)
    await store.followers.keep(replace(ONE, secret="new", lease_until_s=2000.0, sent_position=0), 0.0)
    assert await store.followers.find("1") == replace(ONE, secret="new", lease_until_s=2000.0, sent_position=9)


async def test_an_older_copy_of_the_database_owes_what_it_tells_from_then_on(store: SqlStore) -> None:
    await store.followers.keep(replace(ONE, sent_position=90, owed_position=90), 0.0)
    await store.followers.owe_all(8)
    assert await names_due(store) == []
    await store.followers.owe_all(9)
    assert await names_due(store) == ["1"]


async def test_they_are_counted_by_host_and_token_and_go_with_their_lease(store: SqlStore) -> None:
    for each in (ONE, OF_RULE, OTHER):
        await store.followers.keep(each, 0.0)
    assert await store.followers.counts("a.example", "t") == (3, 2, 2)
    await store.followers.drop(ONE, 0.0)
    await expire(store.writer, 1001.0, retention_s=86400.0)
    assert await store.followers.counts("a.example", "t") == (0, 0, 0)
