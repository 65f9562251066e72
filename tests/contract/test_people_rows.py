"""Links by which people sign in, and the tokens of their phones, over each kind of database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proxyd.api.auth import new_token
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.store.person_rows import Person
from proxyd.store.sql_store import SqlStore
from tests.integration.api_world import T0, told


async def invite(store: SqlStore, name: str, mail: str | None = None) -> Person:
    await store.people.invite(name, "write", (), invitation=f"to {name}", until_s=T0 + 60.0, now_s=T0, mail=mail)
    found = await store.people.find(name)
    assert found is not None
    return found


async def test_a_link_is_used_by_one_of_those_who_try_at_once(store: SqlStore) -> None:
    await invite(store, "ann", "ann@example.org")
    await store.people.keep_link("ann", "hash", until_s=T0 + 900.0)
    assert await store.people.use_link("hash", now_s=T0 + 900.0) is None
    assert await store.people.use_link("other", now_s=T0) is None
    found = await asyncio.gather(*(store.people.use_link("hash", now_s=T0) for _ in range(5)))
    assert [each.name for each in found if each is not None] == ["ann"]
    assert await store.people.find_linked("hash", now_s=T0) is None


@pytest.mark.parametrize(
    ("written", "name"),
    [("ann", "ann"), ("Ann@Example.org", "ann"), ("Ann", None), ("both@example.org", None), ("none", None), ("", None)],
)
async def test_who_is_addressed_is_the_only_one(store: SqlStore, written: str, name: str | None) -> None:
    await invite(store, "ann", "ann@example.org")
    await invite(store, "ben", "both@example.org")
    await invite(store, "cem", "both@example.org")
    await invite(store, "none")
    found = await store.people.find_addressed(written)
    assert (None if found is None else found.name) == name


async def test_a_token_is_found_by_what_phones_send_for_it_and_does_no_more_than_its_person(store: SqlStore) -> None:
    await invite(store, "ann")
    token, _ = new_token("phone", "admin", now_s=T0, expires_in_s=None, person="ann")
    other, _ = new_token("program", "read", now_s=T0, expires_in_s=None)
    for each in (token, other):
        await store.access.add_token(each)
    assert (token.fever_sha256 is not None, other.fever_sha256) == (True, None)
    found = await store.access.find_fever(token.fever_sha256 or "")
    assert found == replace(token, scope="write", marks_as="me")
    assert await store.access.find_fever("") is None
    await store.people.drop("ann", T0)
    assert await store.access.find_fever(token.fever_sha256 or "") is None


async def test_the_position_before_a_time_leaves_out_nothing_that_was_stored_in_another_order(store: SqlStore) -> None:
    assert await store.history.position_before(T0, 7) == 7
    made = [told(name, at_s=T0 + at_s) for name, at_s in (("a", 1.0), ("c", 3.0), ("b", 2.0), ("d", 4.0))]
    await store.record_results(RuleResults(notifications=tuple(made)))
    newest = await store.history.newest_position()
    expected = {0.0: 4, 1.5: 3, 2.0: 3, 2.5: 3, 3.5: 1, 4.0: 1, 4.5: 0}  # how many are after it
    for since_s, count in expected.items():
        assert newest - await store.history.position_before(T0 + since_s, newest) == count, since_s
