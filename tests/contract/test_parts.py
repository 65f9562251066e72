"""What somebody reads who sees only some rules and sources, over each kind of database."""

from __future__ import annotations

from dataclasses import replace

from proxyd.api.auth import new_token
from proxyd.base.doers import OwnerLimits
from proxyd.store.declared_rows import Removed
from proxyd.store.sql_store import SqlStore
from tests.contract.test_item_search import news, record
from tests.contract.test_outbox import notification, put
from tests.integration.api_world import T0
from tests.outboxes import due_deliveries


async def test_items_of_some_sources_are_found_and_read_and_no_others(store: SqlStore) -> None:
    for source in ("Ann⋮s", "Ben⋮s", "shared"):
        await record(store, news(0, f"kernel of {source}"), source=source)

    async def titles(sources: list[str] | None) -> set[str]:
        found = await store.items.search("kernel", source_id=None, before=None, limit=9, sources=sources)
        return {each.title for each in found}

    assert await titles(["Ann⋮s", "shared"]) == {"kernel of Ann⋮s", "kernel of shared"}
    assert await titles([]) == set()
    assert len(await titles(None)) == 3
    positions = [each.position for each in await store.items.search("kernel", source_id=None, before=None, limit=9)]
    read = await store.reading.articles(positions, sources={"Ben⋮s"})
    assert [each.item.source_id for each in read] == ["Ben⋮s"]


async def test_a_notification_and_a_dead_delivery_are_of_some_rules_or_not(store: SqlStore) -> None:
    await put(store, notification("1", rule_name="Ann⋮r"), notification("2", rule_name="Ben⋮r"))
    assert await store.history.is_of("1", ["Ann⋮r", "shared"]) == "Ann⋮r"
    assert await store.history.is_of("2", ["Ann⋮r", "shared"]) is None
    assert await store.history.is_of("1", []) is None
    for each in await due_deliveries(store, 5.0):
        await store.record_failure(each, 5.0, next_s=None, error="refused")
    dead = await store.history.dead_letters(before=None, limit=9, rules=["Ben⋮r"])
    assert [each.rule for each in dead] == ["Ben⋮r"]
    assert await store.history.dead_letters(before=None, limit=9, rules=[]) == []


async def test_what_somebody_removed_is_found_by_them(store: SqlStore) -> None:
    first = Removed("a", "source", "s", "CREATE SOURCE ...", T0, "ann")
    for each in (first, replace(first, removed_id="b", by="ben")):
        await store.removed.keep(each)
    assert await store.removed.load(T0, limit=9, by="ann") == [first]
    assert await store.removed.find("b", T0, by="ann") is None
    assert await store.removed.find("b", T0) is not None
    assert await store.removed.load(T0 + 2.0, limit=9, by="ann", since_s=T0 + 1.0) == []
    assert await store.removed.find("a", T0 + 2.0, by="ann", since_s=T0 + 1.0) is None


async def test_limits_come_back_and_a_token_has_the_lower_of_its_persons(store: SqlStore) -> None:
    await store.people.invite("ann", "write", ["Ann"], invitation="x", until_s=T0 + 60.0, now_s=T0)
    await store.people.limit("ann", OwnerLimits(sources=3, rules=2), now_s=T0)
    limits = OwnerLimits(sources=1, probes=60)
    made, _ = new_token("t", "write", now_s=T0, expires_in_s=None, profiles=["Ann"], person="ann", limits=limits)
    await store.access.add_token(made)
    found = await store.access.find_token(made.token_id)
    assert found is not None
    assert found.limits == OwnerLimits(sources=1, rules=2, probes=60)
    person = await store.access.find_token("person:ann")
    assert person is not None
    assert (person.limits, person.profiles) == (OwnerLimits(sources=3, rules=2), ("Ann",))
    assert [each.limits for each in await store.access.tokens()] == [limits]


async def test_what_a_token_may_do_began_when_its_person_got_other_rights(store: SqlStore) -> None:
    for at_s, profiles in ((T0, ["Ann", "Ben"]), (T0 + 5.0, ["Ann"])):
        await store.people.invite("ann", "write", profiles, invitation="x", until_s=T0 + 60.0, now_s=at_s)
    made, _ = new_token("t", "write", now_s=T0 + 1.0, expires_in_s=None, person="ann")
    await store.access.add_token(made)
    found = await store.access.find_token(made.token_id)
    assert found is not None
    assert (found.created_s, found.profiles) == (T0 + 5.0, ("Ann",))
