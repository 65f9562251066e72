"""The API of Google Reader, asked as readers on phones ask it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.daemon.discovery import Discovered, FeedDiscovery
from proxyd.daemon.reading import NOBODY
from proxyd.store.api_rows import Scope
from tests.fleets import changed, item
from tests.integration.api_world import T0, Running, running_api

READ, STARRED = "user/-/state/com.google/read", "user/-/state/com.google/starred"
READING = "user/-/state/com.google/reading-list"
API = "/reader/api/0"


@dataclass
class Phone:
    """A client that signs in once, and sends forms as phones do."""

    running: Running
    headers: dict[str, str]

    @classmethod
    async def signed_in(cls, running: Running, scope: Scope = "read") -> Phone:
        password = (await running.token(scope))["Authorization"].removeprefix("Bearer ")
        form = {"Email": "me", "Passwd": password, "service": "reader", "accountType": "GOOGLE"}
        async with running.client.post("/accounts/ClientLogin", data=form) as answer:
            assert answer.status == 200
            said = dict(line.split("=") for line in (await answer.text()).split())
        return cls(running, {"Authorization": f"GoogleLogin auth={said['Auth']}"})

    async def get(self, path: str, *pairs: tuple[str, str]) -> Any:
        given = [("output", "json"), ("client", "test"), ("ck", "1"), *pairs]
        async with self.running.client.get(f"{API}/{path}", params=given, headers=self.headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def post(self, path: str, *pairs: tuple[str, str]) -> tuple[int, str]:
        given = [("T", "token"), *pairs]
        async with self.running.client.post(f"{API}/{path}", data=given, headers=self.headers) as answer:
            return answer.status, await answer.text()

    async def ids(self, stream: str = READING, *pairs: tuple[str, str]) -> list[str]:
        """Return the numbers of all items of a stream."""
        found: list[str] = []
        more: Sequence[tuple[str, str]] = ()
        while True:
            answer = await self.get("stream/items/ids", ("s", stream), ("n", "10000"), *pairs, *more)
            found += [each["id"] for each in answer["itemRefs"]]
            if "continuation" not in answer:
                return found
            more = (("c", answer["continuation"]),)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


async def shows(running: Running, name: str, *titles: str, at_s: float = T0 + 10.0) -> None:
    items = [item(title, at_s - 5.0 + number / 1e4) for number, title in enumerate(titles)]
    assert await running.control.loops.observer.take_in(changed(name, items, at_s))


async def titles(phone: Phone, stream: str, *pairs: tuple[str, str]) -> list[str]:
    return [each["title"] for each in (await phone.get(f"stream/contents/{stream}", *pairs))["items"]]


async def test_a_phone_lists_reads_and_marks(running: Running) -> None:
    await shows(running, "s", "A", "B")
    await shows(running, "a/b c", "Other", at_s=T0 + 20.0)
    phone = await Phone.signed_in(running)
    assert (await phone.get("user-info"))["userId"] == "1"
    listed = (await phone.get("subscription/list"))["subscriptions"]
    (of_s,) = (each for each in listed if each["id"] == "feed/s")
    (folder,) = of_s["categories"]
    assert folder["id"] in [each["id"] for each in (await phone.get("tag/list"))["tags"]]
    unread = (await phone.get("unread-count"))["unreadcounts"]
    counts = {each["id"]: each["count"] for each in unread}
    newest_s = {each["id"]: int(each["newestItemTimestampUsec"]) / 1e6 for each in unread}
    assert newest_s["feed/s"] < newest_s["feed/a/b c"] == newest_s[READING] == T0 + 20.0
    assert (counts["feed/s"], counts["feed/a/b c"], counts[READING], counts[folder["id"]]) == (2, 1, 3, 3)
    assert await titles(phone, READING) == ["Other", "B", "A"]
    assert await titles(phone, "feed/a/b c") == ["Other"]
    assert len(await titles(phone, folder["id"])) == 3
    newest, middle, oldest = await phone.ids()
    long = [("i", f"tag:google.com,2005:reader/item/{int(middle):016x}"), ("i", oldest)]
    assert await phone.post("edit-tag", *long, ("a", READ)) == (200, "OK")
    assert await phone.post("edit-tag", ("i", f"{int(oldest):016x}"), ("a", STARRED)) == (200, "OK")
    assert await phone.ids(READING, ("xt", READ)) == [newest]
    assert await phone.ids(STARRED) == [oldest]
    assert await phone.ids(READ) == [middle, oldest]
    (shown,) = (await phone.get("stream/contents", ("s", STARRED)))["items"]
    assert {READ, STARRED, READING} <= set(shown["categories"])
    assert shown["origin"]["streamId"] == "feed/s"
    assert await phone.post("edit-tag", ("i", oldest), ("r", READ), ("r", STARRED)) == (200, "OK")
    assert await phone.ids("user/1/state/com.google/reading-list", ("xt", "user/1/state/com.google/read")) == [
        newest,
        oldest,
    ]
    assert await phone.ids(STARRED) == []


async def test_its_marks_are_those_of_the_dashboard(running: Running) -> None:
    await shows(running, "s", "A", "B")
    phone = await Phone.signed_in(running)
    newest, oldest = await phone.ids()
    await running.control.queries.reading.mark([int(newest)], NOBODY, read=True, starred=True)
    assert await phone.ids(READING, ("xt", READ)) == [oldest]
    assert await phone.ids(STARRED) == [newest]
    assert (await phone.post("mark-all-as-read", ("s", "feed/s")))[0] == 200
    assert await phone.ids(READING, ("xt", READ)) == []
    assert (await running.control.queries.reading.folders(NOBODY)).unread == 0


async def test_only_what_the_phone_has_seen_is_marked_as_read(running: Running) -> None:
    await shows(running, "s", "A", "B")
    await shows(running, "s", "A", "B", "Later", at_s=T0 + 500.0)
    phone = await Phone.signed_in(running)
    at = str(int((T0 + 100.0) * 1e6))
    assert (await phone.post("mark-all-as-read", ("s", READING), ("ts", at)))[0] == 200
    assert await titles(phone, READING, ("xt", READ)) == ["Later"]


@pytest.mark.parametrize("parts", [1, pytest.param(20, marks=pytest.mark.long)])
async def test_thousands_of_items_are_synchronized(parts: int, running: Running) -> None:
    await shows(running, "s", "Old", at_s=T0 + 1.0)
    for part in range(parts):
        await shows(running, "s", *(f"T{part}.{number}" for number in range(500)), at_s=T0 + 10.0 + part)
    phone = await Phone.signed_in(running)
    every = await phone.ids()
    assert len(every) == len(set(every)) == parts * 500 + 1
    assert await phone.ids(READING, ("r", "o")) == every[::-1]
    assert await phone.ids(READING, ("ot", str(int(T0 + 10.0 + parts - 1)))) == every[:500]
    status, text = await phone.post("stream/items/contents", *(("i", each) for each in every[:1000]))
    assert status == 200
    assert text.count('"crawlTimeMsec"') == len(every[:1000])
    half = parts * 250
    assert await phone.post("edit-tag", ("a", READ), *(("i", each) for each in every[:half])) == (200, "OK")
    assert await phone.ids(READING, ("xt", READ)) == every[half:]
    page = await phone.get("stream/contents", ("s", "feed/s"), ("n", "300"))
    assert (len(page["items"]), bool(page["continuation"])) == (250, True)


@pytest.mark.parametrize(
    ("path", "pairs"),
    [
        ("edit-tag", [("i", "x"), ("a", READ)]),
        ("edit-tag", [("a", READ)]),
        ("edit-tag", [("i", "-1"), ("a", READ)]),
        ("edit-tag", [("i", "1_0"), ("a", READ)]),
        ("stream/items/ids", [("s", "elsewhere")]),
        ("stream/items/ids", [("s", "feed/\0")]),
        ("stream/items/ids", [("s", "user/-/state/com.google/broadcast")]),
        ("mark-all-as-read", [("s", STARRED)]),
        ("stream/items/contents", [("i", "1")] * 1_001),
        ("stream/items/ids", [("n", "many")]),
        ("stream/items/ids", [("c", "9" * 30)]),
        ("stream/items/contents", [("i", "tag:google.com,2005:reader/item/zz")]),
        ("subscription/edit", [("ac", "subscribe"), ("s", "feed/x")]),
        ("subscription/edit", [("ac", "mark"), ("s", "feed/s")]),
        ("subscription/edit", [("ac", "unsubscribe")]),
        ("subscription/edit", [("ac", "unsubscribe"), ("s", "feed/s")]),
        ("subscription/quickadd", [("quickadd", "no address")]),
    ],
)
async def test_what_makes_no_sense_is_refused(running: Running, path: str, pairs: list[tuple[str, str]]) -> None:
    phone = await Phone.signed_in(running, "write")
    assert (await phone.post(path, *pairs))[0] == 400


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Discovered]:
    """Return what addresses hold, of which nothing else can be read."""
    known: dict[str, Discovered] = {}

    async def look(_self: FeedDiscovery, url: str) -> Discovered:
        silent = ProbeOutcome(url, OutcomeKind.UNREACHABLE, T0, T0, detail="connection refused")
        return known.get(url, Discovered(silent, "FEED"))

    monkeypatch.setattr(FeedDiscovery, "look", look)
    return known


async def test_a_phone_adds_moves_and_removes_sources(running: Running, found: dict[str, Discovered]) -> None:
    of = {"https://blog.example/": "https://blog.example/feed.xml", "https://page.example/a": "https://page.example/a"}
    for url, watched in of.items():
        outcome = ProbeOutcome(watched, OutcomeKind.CHANGED, T0, T0, 200)
        found[url] = Discovered(outcome, "FEED") if url != watched else Discovered(outcome, "PAGE", noise=("Visitors",))
    phone, declared = await Phone.signed_in(running, "write"), running.control.declarations
    status, told = await phone.post("subscription/quickadd", ("quickadd", "feed/https://blog.example/"))
    assert (status, json.loads(told)["streamId"]) == (200, "feed/blog.example/feed.xml")
    again = await phone.post("subscription/quickadd", ("quickadd", "https://blog.example/"))
    assert json.loads(again[1])["numResults"] == 1
    label = ("a", "user/1000/label/Later")
    asked = ("ac", "subscribe"), ("s", "feed/https://page.example/a"), ("t", "A page"), label
    assert await phone.post("subscription/edit", *asked) == (200, "OK")
    assert declared.declaration.sources["page.example/a"].ignored == ("Visitors",)
    assert await phone.post("subscription/edit", ("ac", "edit"), ("s", "feed/blog.example/feed.xml"), label) == (
        200,
        "OK",
    )
    listed = {each["id"]: each for each in (await phone.get("subscription/list"))["subscriptions"]}
    for name in ("feed/blog.example/feed.xml", "feed/page.example/a"):
        assert [each["label"] for each in listed[name]["categories"]] == ["Later"]
    gone = ("ac", "unsubscribe"), ("s", "feed/blog.example/feed.xml"), ("s", "feed/page.example/a")
    assert await phone.post("subscription/edit", *gone) == (200, "OK")
    assert set(declared.declaration.sources) == {"s", "a/b c"}
    assert [each.by for each in await declared.removals(limit=5)] == ["token write None"] * 2


async def test_a_phone_is_told_why_it_cannot_change_a_source(running: Running, found: dict[str, Discovered]) -> None:
    phone = await Phone.signed_in(running, "write")
    for pairs, said in (
        ([("ac", "subscribe"), ("s", "feed/https://down.example/")], "cannot be read: connection refused"),
        ([("ac", "unsubscribe"), ("s", "feed/s")], "declares s; change it there"),
    ):
        status, told = await phone.post("subscription/edit", *pairs)
        assert (status, said in told) == (400, True)
    assert (await phone.post("subscription/edit", ("ac", "unsubscribe"), ("s", "feed/none")))[0] == 404
    reader = await Phone.signed_in(running)
    for path in ("subscription/edit", "subscription/quickadd"):
        status, told = await reader.post(
            path, ("ac", "unsubscribe"), ("s", "feed/s"), ("quickadd", "https://x.example")
        )
        assert (status, "needs a token of scope write" in told) == (403, True)
    assert found == {}


async def test_texts_of_strangers_are_no_markup(running: Running) -> None:
    found = item("A", T0 + 1.0)
    hostile = {
        "channel.item.author": "<script>a()</script>",
        "channel.item.category": "&lt;script&gt;b()&lt;/script&gt;",
    }
    found = replace(found, fields={**found.fields, **hostile})
    page = replace(item("B", T0 + 1.0), fields={"name": "B", "note": "<img src=x onerror=c()>\nsecond"})
    assert await running.control.loops.observer.take_in(changed("s", [found, page], T0 + 10.0))
    phone = await Phone.signed_in(running)
    contents = {each["title"]: each["summary"]["content"] for each in (await phone.get("stream/contents"))["items"]}
    assert "<script" not in contents["A"]
    assert contents["B"] == "<p>name: B</p><p>note:<br>&lt;img src=x onerror=c()&gt;<br>second</p>"


async def test_long_articles_come_whole_until_there_are_too_many(running: Running) -> None:
    whole = "<p>" + "word " * 30_000 + "</p>"
    articles = [item(f"T{number}", T0 + 1.0) for number in range(70)]
    articles = [replace(each, fields={**each.fields, "channel.item.content": whole}) for each in articles]
    assert await running.control.loops.observer.take_in(changed("s", articles, T0 + 10.0))
    phone = await Phone.signed_in(running)
    found = (await phone.get("stream/contents", ("n", "250")))["items"]
    lengths = [len(each["summary"]["content"]) for each in found]
    assert len(lengths) == 70
    assert lengths[0] > 100_000
    assert sum(lengths) < 11_000_000
    assert 0 < lengths[-1] <= 1_000


async def test_nothing_is_told_without_the_password(running: Running) -> None:
    await shows(running, "s", "A")
    phone = await Phone.signed_in(running)
    password = phone.headers["Authorization"].removeprefix("GoogleLogin auth=")
    for headers in ({}, {"Authorization": "GoogleLogin auth="}, {"Authorization": f"GoogleLogin auth={password}x"}):
        for path in ("user-info", "subscription/list", "stream/contents", "unread-count", "tag/list"):
            async with running.client.get(f"{API}/{path}", headers=headers) as answer:
                assert answer.status == 401
    form = {"Email": "me", "Passwd": "pxd_000000000000_wrong"}
    async with running.client.post("/accounts/ClientLogin", data=form) as answer:
        assert (answer.status, await answer.text()) == (401, "Error=BadAuthentication\n")
    async with running.client.post("/accounts/ClientLogin", data={"Passwd": "x" * 5_000}) as answer:
        assert answer.status == 413  # whoever has no password yet cannot make it read long forms
    assert (await phone.post("stream/items/ids", ("s", "user/-/label/nobody")))[0] == 404
