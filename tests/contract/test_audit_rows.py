"""What is done is noted with its change, comes in pages, and goes with time, over each kind of database."""

from __future__ import annotations

import pytest

from proxyd.api.auth import new_token
from proxyd.base.doers import Doer, acting
from proxyd.core.errors import ConflictError, NotFoundError
from proxyd.store.declared_rows import StoredText
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore

ME = Doer("token me", "api", "192.0.2.7")
DAY_S = 86400.0


async def noted(store: SqlStore, *, before: int | None = None, limit: int = 99) -> list[tuple[str, str, str]]:
    """Return by whom what was done to what, newest first."""
    return [(each.who, each.did, each.subject) for each in await store.audit.find_deeds(before=before, limit=limit)]


async def test_what_is_refused_is_not_noted(store: SqlStore) -> None:
    token, _ = new_token("a", "read", now_s=0.0, expires_in_s=None)
    with acting(ME):
        await store.access.add_token(token)
        with pytest.raises(ConflictError):
            await store.access.add_token(token)
        with pytest.raises(NotFoundError):
            await store.access.drop_token("b", 1.0)
        with pytest.raises(NotFoundError):
            await store.replay("none", 1.0)
    (deed,) = await store.audit.find_deeds(before=None, limit=9)
    assert (deed.who, deed.way, deed.address, deed.at_s) == ("token me", "api", "192.0.2.7", 0.0)


async def test_a_declaration_notes_the_texts_that_it_changes_and_no_others(store: SqlStore) -> None:
    texts = [StoredText(f"api:notification:{name}", "api", "1") for name in "abc"]
    with acting(ME):
        await store.declarations.accept(texts, [], 1.0)
        await store.declarations.accept(texts, [], 2.0)
        await store.declarations.accept([StoredText("api:notification:b", "api", "2"), texts[2]], [], 3.0)
    assert await noted(store) == [
        ("token me", "declare", "rule b"),
        ("token me", "remove", "rule a"),
        ("token me", "declare", "rule a, rule b, rule c"),
    ]


async def test_what_nobody_asked_for_is_noted_as_of_proxyd_itself(store: SqlStore) -> None:
    await store.declarations.accept([StoredText("api:source:s", "api", "1")], [], 1.0)
    assert await noted(store) == [("proxyd", "declare", "source s")]


async def test_the_log_comes_in_pages_and_goes_after_the_retention(store: SqlStore) -> None:
    with acting(ME):
        for number in range(4):
            token, _ = new_token(str(number), "read", now_s=number * DAY_S, expires_in_s=None)
            await store.access.add_token(token)
    first = await store.audit.find_deeds(before=None, limit=2)
    assert [each.subject for each in first] == ["3", "2"]
    assert await noted(store, before=first[-1].position, limit=1) == [("token me", "make token", "1")]
    await expire(store.writer, 3.5 * DAY_S, retention_s=2 * DAY_S)
    assert [subject for _, _, subject in await noted(store)] == ["3", "2"]


async def test_the_query_of_an_address_is_left_out_of_a_name(store: SqlStore) -> None:
    texts = [StoredText("api:source:x.example/f?token=hunter2", "api", ""), StoredText("api:source:why?", "api", "")]
    await store.declarations.accept(texts, [], 1.0)
    assert await noted(store) == [("proxyd", "declare", "source x.example/f?…, source why?")]
