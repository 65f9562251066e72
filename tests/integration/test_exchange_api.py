"""Feeds of other programs over the API, in and out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from proxyd.core.language.syntax.expression_printer import format_trigger
from tests.integration.api_world import Running, running_api

OPML = """<?xml version="1.0"?><opml version="1.0"><body><outline text="News">
<outline type="rss" text="A &quot;quoted&quot; &lt;feed&gt;" xmlUrl="https://example.org/a?b=1&amp;c='2'"/>
<outline type="rss" title="Same" xmlUrl="feed:https://example.org/c"/></outline></body></opml>"""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as world:
        yield world


async def test_feeds_come_in_and_go_out_again(running: Running) -> None:
    headers = await running.token("write") | {"Content-Type": "text/x-opml"}
    async with running.client.post("/api/v1/import?name=Mine&dry_run=true", data=OPML, headers=headers) as answer:
        tried = await answer.json()
        assert (answer.status, tried["cost"]["sources_added"]) == (200, 2)
    assert "News" not in running.control.declarations.declaration.profiles
    async with running.client.post("/api/v1/import?name=Mine", data=OPML, headers=headers) as answer:
        made = await answer.json()
        assert (answer.status, made["added"]) == (201, ["News: new items"])
        assert (made["sources_added"], made["sources_known"], made["unreadable"]) == (2, 0, 0)
    sources = running.control.declarations.declaration.sources
    assert sources['A "quoted" <feed>'].url == "https://example.org/a?b=1&c='2'"
    async with running.client.get("/api/v1/export", headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "text/x-opml")
        exported = await answer.text()
    again = headers | {"Idempotency-Key": "again"}
    async with running.client.post("/api/v1/import?name=Copy&dry_run=true", data=exported, headers=again) as answer:
        tried = await answer.json()
        assert (answer.status, tried["cost"]["sources_added"], tried["sources_known"]) == (200, 0, 4)
    async with running.client.delete("/api/v1/profiles/News", headers=headers) as answer:
        assert (await answer.json())["removed"] == ["News: new items"]


async def test_a_repeated_import_adds_what_is_new_and_says_what_it_cannot_read(running: Running) -> None:
    headers = await running.token("write") | {"Content-Type": "text/plain"}
    for body, counts in [
        ("https://one.example/1", (1, 0, 0)),
        ("https://one.example/2\nmailto:me\nhttps://one.example/1", (1, 1, 1)),
        ("https://one.example/1\nhttps://one.example/2", (0, 2, 0)),
    ]:
        async with running.client.post("/api/v1/import?match=cve", data=body, headers=headers) as answer:
            made = await answer.json()
            assert (made["sources_added"], made["sources_known"], made["unreadable"]) == counts
            assert [fault.partition(" is not")[0] for fault in made["faults"]] == ["the list:2: 'mailto:me'"][
                : counts[2]
            ]
    rule = running.control.declarations.declaration.rules["Imported: new items"]
    assert len(rule.source_ids) == 2
    assert "ILIKE '%cve%'" in format_trigger(rule.trigger)


async def test_a_long_list_is_declared_whole_though_no_text_may_be_so_long(running: Running) -> None:
    addresses = "\n".join(f"https://example.org/{'x' * 900}/{number}" for number in range(1200))
    headers = await running.token("write") | {"Content-Type": "text/plain"}
    async with running.client.post("/api/v1/import", data=BytesIO(addresses.encode()), headers=headers) as answer:
        assert answer.status == 201, await answer.text()
    assert len(running.control.declarations.declaration.rules["Imported: new items"].source_ids) == 1200


async def test_lists_are_read_one_after_the_other_and_many_at_once_are_asked_to_come_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, read = threading.Event(), threading.BoundedSemaphore(1)

    def merged(*_: object) -> tuple[list[str], dict[str, Any]]:
        assert read.acquire(blocking=False)
        release.wait()
        read.release()
        return [], {"sources_added": 0, "sources_known": 0, "unreadable": 0, "faults": []}

    monkeypatch.setattr("proxyd.api.rest.profile_handlers._merge_listing", merged)
    headers = await running.token("write") | {"Content-Type": "text/plain"}
    status = asyncio.Queue[int]()

    async def send() -> None:
        async with running.client.post("/api/v1/import?dry_run=true", data="x", headers=headers) as answer:
            await status.put(answer.status)

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(send())
        assert [await status.get() for _ in range(2)] == [503, 503]
        release.set()
    assert [status.get_nowait() for _ in range(4)] == [200] * 4


async def test_lists_that_come_at_once_take_no_name_of_each_other(running: Running) -> None:
    headers = await running.token("write") | {"Content-Type": "text/x-opml"}
    urls = [f"https://{number}.example/" for number in range(4)]

    async def send(url: str) -> int:
        body = f'<opml><body><outline type="rss" text="News" xmlUrl="{url}"/></body></opml>'
        async with running.client.post("/api/v1/import", data=body, headers=headers) as answer:
            return answer.status

    assert await asyncio.gather(*map(send, urls)) == [201] * 4
    assert {each.url for each in running.control.declarations.declaration.sources.values()} > set(urls)


@pytest.mark.parametrize(
    ("body", "kind", "status", "said"),
    [
        ("<opml><body>", "text/x-opml", 422, "not well-formed"),
        ('<!DOCTYPE opml [<!ENTITY a "b">]><opml/>', "text/xml", 422, "DOCTYPE"),
        ("# mine\nmailto:me", "text/plain", 422, "the list:2: 'mailto:me'"),
        ("http://[::1", "text/plain", 422, "not an http or https address"),
        ("# nothing", "text/plain", 422, "lists no feed"),
        ("{}", "application/json", 415, "text/x-opml"),
        ("x" * (9 * 2**20), "text/plain", 413, ""),
    ],
)
async def test_what_is_no_list_is_refused(running: Running, body: str, kind: str, status: int, said: str) -> None:
    headers = await running.token("write") | {"Content-Type": kind}
    async with running.client.post("/api/v1/import", data=BytesIO(body.encode()), headers=headers) as answer:
        problem = await answer.json()
        assert (answer.status, said in problem["detail"]) == (status, True), problem
    assert set(running.control.declarations.declaration.profiles) == {"P"}


async def test_a_list_takes_no_name_of_another_and_keeps_its_own(running: Running) -> None:
    headers = await running.token("write") | {"Content-Type": "text/plain"}
    for name, numbers in (("A", (1, 2)), ("B", (8, 9)), ("A", (2, 3))):
        body = "\n".join(f"https://one.example/{number}" for number in numbers)
        async with running.client.post(f"/api/v1/import?name={name}", data=body, headers=headers) as answer:
            assert answer.status == 201
    sources = {
        each.url: name for name, each in running.control.declarations.declaration.sources.items() if "one" in each.url
    }
    assert {url[-1]: name for url, name in sources.items()} == {
        "1": "one.example",
        "2": "one.example 2",
        "8": "one.example 3",
        "9": "one.example 4",
        "3": "one.example 5",
    }
    rules = running.control.declarations.declaration.rules
    assert len(rules["A: new items"].source_ids) == 3
    assert len(rules["B: new items"].source_ids) == 2


async def test_a_name_that_is_none_is_said_to_be_so(running: Running) -> None:
    headers = await running.token("write") | {"Content-Type": "text/plain"}
    query = {"name": "  "}
    async with running.client.post(
        "/api/v1/import", params=query, data="https://a.example/", headers=headers
    ) as answer:
        assert (answer.status, (await answer.json())["detail"]) == (422, "'  ' is not a valid name for a list")
