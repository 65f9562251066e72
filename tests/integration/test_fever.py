"""The Fever API, asked as its documentation says and as readers on phones do."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData

from proxyd.api.auth import new_token
from proxyd.api.passwords import invite, remove
from proxyd.base.doers import Doer, acting
from proxyd.daemon.reading import NOBODY
from proxyd.store.api_rows import Scope
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api

OTHERS = """WATCH 'https://other.example/feed' AS "other" INTO "Other";
WATCH 'https://shop.example' OF SITE INTO "Other";"""


@dataclass
class Phone:
    """A client written to the documentation: it posts its key, and asks by the address."""

    running: Running
    key: str

    @classmethod
    async def of(
        cls, running: Running, person: str, *, scope: Scope = "read", profiles: Sequence[str] = (), only: str = ""
    ) -> Phone:
        queries = running.control.queries
        await invite(queries, person, scope, profiles)
        name = f"{person}'s phone{only}"
        bound = [only] if only else []
        token, shown = new_token(name, "read", now_s=T0, expires_in_s=60.0, profiles=bound, person=person)
        await queries.access.add_token(token)
        return cls(running, hashlib.md5(f"{person}:{shown}".encode(), usedforsecurity=False).hexdigest())

    async def ask(self, asked: str = "", **form: str) -> Any:
        body = {"api_key": self.key} | form
        async with self.running.client.post(f"/fever/?api&{asked}", data=body) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def mark(self, **form: str) -> None:
        assert (await self.ask(**form))["auth"] == 1

    async def items(self) -> list[dict[str, Any]]:
        """Return all items, from the first on, as a client fills its cache."""
        found: list[dict[str, Any]] = []
        while page := (await self.ask(f"items&since_id={found[-1]['id'] if found else 0}"))["items"]:
            assert len(page) <= 50
            found += page
        return found

    async def unread(self) -> list[int]:
        return _ids((await self.ask("unread_item_ids"))["unread_item_ids"])

    async def saved(self) -> list[int]:
        return _ids((await self.ask("saved_item_ids"))["saved_item_ids"])


def _ids(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path, fever=True) as api:
        yield api


async def shows(running: Running, name: str, *titles: str, at_s: float = T0 + 10.0) -> None:
    items = [item(title, at_s - 5.0 + number / 1e4) for number, title in enumerate(titles)]
    assert await running.control.loops.observer.take_in(changed(name, items, at_s))


async def test_a_phone_lists_groups_and_feeds(running: Running) -> None:
    await running.control.declarations.declare(OTHERS)
    phone = await Phone.of(running, "ann")
    assert await phone.ask() == {"api_version": 3, "auth": 1, "last_refreshed_on_time": int(T0)}
    listed = await phone.ask("groups")
    assert listed.keys() == {"api_version", "auth", "last_refreshed_on_time", "groups", "feeds_groups"}
    groups = {each["title"]: each["id"] for each in listed["groups"]}
    feeds = {each["title"]: each for each in (await phone.ask("feeds"))["feeds"]}
    assert feeds.keys() == {"s", "a/b c", "other.example/feed"}  # a site has nothing to read
    of_s = feeds["s"]
    assert (of_s["favicon_id"], of_s["is_spark"], of_s["site_url"]) == (0, 0, "https://example.org/")
    members = {each["group_id"]: set(_ids(each["feed_ids"])) for each in listed["feeds_groups"]}
    assert members == {
        groups["P"]: {feeds["s"]["id"], feeds["a/b c"]["id"]},
        groups["Other"]: {feeds["other.example/feed"]["id"]},
    }
    assert all(0 < each < 2**31 for each in [*groups.values(), *(each["id"] for each in feeds.values())])
    both = await phone.ask("groups&feeds&favicons&links")
    assert (both["favicons"], both["links"], len(both["feeds"]), len(both["groups"])) == ([], [], 3, 2)


async def test_numbers_stay_over_other_declarations(running: Running) -> None:
    phone = await Phone.of(running, "ann")
    before = {each["title"]: each["id"] for each in (await phone.ask("feeds"))["feeds"]}
    await running.control.declarations.declare(OTHERS)
    after = {each["title"]: each["id"] for each in (await phone.ask("feeds"))["feeds"]}
    assert after.items() > before.items()


async def test_a_phone_reads_and_marks_as_the_dashboard_does(running: Running) -> None:
    await shows(running, "s", "A <b>", "B")
    await shows(running, "a/b c", "Other", at_s=T0 + 20.0)
    phone = await Phone.of(running, "ann")
    first, second, third = await phone.items()
    assert [each["title"] for each in (first, second, third)] == ["A <b>", "B", "Other"]
    assert first.keys() == {
        *("id", "feed_id", "title", "author", "html", "url", "is_saved", "is_read", "created_on_time")
    }
    assert (await phone.ask("items"))["total_items"] == 3
    assert await phone.unread() == [first["id"], second["id"], third["id"]]
    newest = (await phone.ask("items&max_id=0"))["items"]
    assert [each["title"] for each in newest] == ["Other", "B", "A <b>"]
    assert (await phone.ask(f"items&max_id={second['id']}"))["items"] == [first]
    named = (await phone.ask(f"items&with_ids={third['id']},{first['id']},9999,x"))["items"]
    assert named == [third, first]
    await phone.mark(mark="item", **{"as": "read"}, id=str(first["id"]))
    await phone.mark(mark="item", **{"as": "saved"}, id=str(second["id"]))
    await phone.mark(mark="item", **{"as": "saved"}, id=str(second["id"]))  # it is no toggle
    assert (await phone.unread(), await phone.saved()) == ([second["id"], third["id"]], [second["id"]])
    reading = running.control.queries.reading
    assert (await reading.folders(NOBODY)).unread == 2  # the first person reads what nobody's tokens mark
    await reading.mark([third["id"]], NOBODY, read=True)
    assert await phone.unread() == [second["id"]]
    await phone.mark(mark="item", **{"as": "unread"}, id=str(first["id"]))
    await phone.mark(mark="item", **{"as": "unsaved"}, id=str(second["id"]))
    assert (await phone.unread(), await phone.saved()) == ([first["id"], second["id"]], [])


async def test_a_feed_or_a_group_is_read_up_to_what_the_phone_knew(running: Running) -> None:
    await running.control.declarations.declare(OTHERS)
    await shows(running, "s", "A")
    await shows(running, "a/b c", "B")
    await shows(running, "s", "A", "Later", at_s=T0 + 500.0)
    await shows(running, "other.example/feed", "Other", at_s=T0 + 600.0)
    phone = await Phone.of(running, "ann")
    of = {each["title"]: each for each in await phone.items()}
    before = str(int(T0 + 100.0))
    await phone.mark(mark="feed", **{"as": "read"}, id=str(of["A"]["feed_id"]), before=before)
    assert await phone.unread() == [of[title]["id"] for title in ("B", "Later", "Other")]
    groups = {each["title"]: each["id"] for each in (await phone.ask("groups"))["groups"]}
    await phone.mark(mark="group", **{"as": "read"}, id=str(groups["P"]), before=str(int(T0 + 550.0)))
    assert await phone.unread() == [of["Other"]["id"]]
    await phone.mark(mark="group", **{"as": "read"}, id="0", before=before)
    assert await phone.unread() == [of["Other"]["id"]]
    await phone.mark(mark="group", **{"as": "read"}, id="0", before=str(int(T0 + 700.0)))
    assert await phone.unread() == []


@pytest.mark.parametrize("parts", [2, pytest.param(20, marks=pytest.mark.long)])
async def test_thousands_of_items_are_synchronized(parts: int, running: Running) -> None:
    for part in range(parts):
        await shows(running, "s", *(f"T{part}.{number}" for number in range(500)), at_s=T0 + 10.0 + part)
    phone = await Phone.of(running, "ann")
    every = [each["id"] for each in await phone.items()]
    assert (len(every), every) == (parts * 500, sorted(set(every)))
    assert (await phone.ask("items"))["total_items"] == parts * 500
    # of the first contact only the newest are unread
    assert await phone.unread() == every[480:]
    backwards: list[int] = []
    while page := (await phone.ask(f"items&max_id={backwards[-1] if backwards else 0}"))["items"]:
        backwards += [each["id"] for each in page]
    assert backwards == every[::-1]
    for each in every[-60:]:
        await phone.mark(mark="item", **{"as": "read"}, id=str(each))
    assert await phone.unread() == every[480:-60]


@pytest.mark.parametrize("as_parts", [False, True], ids=["in_a_form", "in_a_form_of_parts"])
@pytest.mark.parametrize("path", ["/fever/", "/fever"])
async def test_a_key_is_taken_as_clients_send_it(path: str, as_parts: bool, running: Running) -> None:
    phone = await Phone.of(running, "ann")
    form = FormData({"api_key": phone.key.upper(), "groups": ""})
    if as_parts:
        form = FormData(default_to_multipart=True)
        form.add_field("api_key", phone.key.upper())
        form.add_field("groups", "")
    async with running.client.post(f"{path}?api", data=form) as answer:
        found = await answer.json()
    assert (found["auth"], "groups" in found) == (1, True)


async def test_who_has_no_valid_key_learns_nothing(running: Running) -> None:
    await shows(running, "s", "A")
    phone = await Phone.of(running, "ann")
    refused = {"api_version": 3, "auth": 0}
    token, plain = new_token("a program", "admin", now_s=T0, expires_in_s=None)
    await running.control.queries.access.add_token(token)
    nobodys = hashlib.md5(f"a program:{plain}".encode(), usedforsecurity=False).hexdigest()
    for key in ("", "x", plain, nobodys, hashlib.sha256(phone.key.encode()).hexdigest(), phone.key[:-1], "0" * 32):
        async with running.client.post("/fever/?api&items&groups", data={"api_key": key}) as answer:
            assert (answer.status, await answer.json()) == (200, refused)
    async with running.client.get(f"/fever/?api&items&api_key={phone.key}") as answer:
        assert await answer.json() == refused
    async with running.client.post(f"/fever/?api&items&api_key={phone.key}") as answer:
        assert await answer.json() == refused


async def test_a_key_ends_with_its_token_its_time_and_its_person(running: Running) -> None:
    queries, refused = running.control.queries, {"api_version": 3, "auth": 0}
    dropped, gone = await Phone.of(running, "ann"), await Phone.of(running, "ben")
    await queries.access.drop_token("ann's phone", T0)
    assert await dropped.ask("items") == refused
    await remove(queries, "ben")
    assert await gone.ask("items") == refused
    late = await Phone.of(running, "cem")
    assert (await late.ask())["auth"] == 1
    await running.control.resources.clock.advance(61.0)  # type: ignore[attr-defined]
    assert await late.ask("items") == refused


async def test_only_the_hash_of_a_key_is_stored(running: Running) -> None:
    phone = await Phone.of(running, "ann")
    (token,) = await running.control.queries.access.tokens()
    assert token.fever_sha256 == hashlib.sha256(phone.key.encode()).hexdigest()
    assert phone.key not in str(token)


@pytest.mark.parametrize("way", ["person", "token"])
async def test_who_reads_one_profile_finds_nothing_of_others(way: str, running: Running) -> None:
    await running.control.declarations.declare(OTHERS)
    await shows(running, "s", "Secret")
    await shows(running, "other.example/feed", "Other", at_s=T0 + 20.0)
    everybody = await Phone.of(running, "ann")
    bound = (
        await Phone.of(running, "child", profiles=["Other"])
        if way == "person"
        else await Phone.of(running, "ben", only="Other")
    )
    secret, other = await everybody.items()
    assert [each["id"] for each in await bound.items()] == [other["id"]]
    seen = await bound.ask("groups&feeds&items&unread_item_ids&saved_item_ids")
    assert [each["title"] for each in seen["groups"]] == ["Other"]
    assert [each["title"] for each in seen["feeds"]] == ["other.example/feed"]
    assert (seen["total_items"], seen["unread_item_ids"]) == (1, str(other["id"]))
    assert (await bound.ask(f"items&with_ids={secret['id']}"))["items"] == []
    unread = await everybody.unread()
    foreign = next(each["id"] for each in (await everybody.ask("groups"))["groups"] if each["title"] == "P")
    for form in (
        {"mark": "item", "as": "saved", "id": str(secret["id"])},
        {"mark": "feed", "as": "read", "id": str(secret["feed_id"])},
        {"mark": "group", "as": "read", "id": str(foreign)},
    ):
        assert await bound.ask(**form) == await bound.ask(**form | {"id": "77777"})
    assert (await everybody.unread(), await bound.saved()) == (unread, [])


async def test_what_somebody_owns_is_named_plainly_to_them_and_unknown_to_others(running: Running) -> None:
    await running.control.declarations.declare(OTHERS)
    for owner in ("Other", "P"):
        with acting(Doer("somebody", "api", "", (owner,))):
            text = "WATCH 'https://own.example/feed' AS \"own\";"
            await running.control.declarations.declare(text)
    await shows(running, "Other⋮own.example/feed", "Mine")
    await shows(running, "P⋮own.example/feed", "Theirs", at_s=T0 + 20.0)
    await Phone.of(running, "first")
    bound = await Phone.of(running, "child", profiles=["Other"])
    seen = await bound.ask("groups&feeds&items")
    assert [each["title"] for each in seen["items"]] == ["Mine"]
    assert [each["title"] for each in seen["feeds"]].count("own.example/feed") == 1
    assert "⋮" not in str(seen)
    (own,) = seen["items"]
    (feed,) = (each for each in seen["feeds"] if each["id"] == own["feed_id"])
    assert feed["title"] == "own.example/feed"
    await bound.mark(mark="feed", **{"as": "read"}, id=str(feed["id"]))
    assert await bound.unread() == []


@pytest.mark.parametrize(
    "asked",
    [
        "items&since_id=x&max_id=-1",
        "items&with_ids=" + ",".join(["9" * 18] * 300),
        "items&max_id=99999999999999999999999999",
        "mark=item&as=read&id=x",
        "mark=feed&as=read&id=1&before=x",
        "mark=group&as=unread&id=0",
        "mark=feeds&as=read&id=1",
        "refresh&unread_recently_read=1",
    ],
)
async def test_what_makes_no_sense_is_passed_over(asked: str, running: Running) -> None:
    phone = await Phone.of(running, "ann")
    found = await phone.ask(asked)
    assert (found["auth"], found.get("items", [])) == (1, [])


async def test_it_is_off_unless_it_is_set(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api, api.client.post("/fever/?api", data={"api_key": "0" * 32}) as answer:
        assert answer.status == 404
