"""The reader: its pages without their scripts, its routes, and articles of strangers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lxml.etree import Element
from lxml.html import document_fromstring

from proxyd.api.item_lists import safe_html
from proxyd.base.ports import MaySend, always
from proxyd.client import ApiError, Client
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import PREVIEW_FIELD
from tests.fleets import changed, item, source
from tests.hostile import ALL
from tests.integration.api_world import T0, Running, running_api
from tests.integration.dashboard_world import OWN, Browser

OPENED = {"Accept": "text/html"}
BASE = "https://a.example/posts/1"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path) as api:
        yield api


async def shows(running: Running, name: str, *items: Item) -> None:
    assert await running.control.loops.observer.take_in(changed(name, items, T0 + 10.0))


async def signed(running: Running) -> Browser:
    browser = Browser(running)
    await browser.sign_in("read")
    return browser


def entries(page: str) -> list[tuple[str, bool]]:
    """Return the titles of the items of a page, and whether each is read."""
    rows = re.findall(r'<li id="i\d+" data-position="\d+"( class="read")?>.*?<bdi>(.*?)</bdi>', page, re.DOTALL)
    return [(title, bool(read)) for read, title in rows]


def places(page: str) -> list[str]:
    return re.findall(r'class="open" href="([^"]*)"', page)


async def test_items_are_read_starred_and_marked_by_forms(running: Running) -> None:
    await shows(running, "s", *(item(f"S{number}", T0 + number) for number in (1, 2, 3)))
    await shows(running, "a/b c", item("Other", T0 + 4.0))
    browser = await signed(running)
    status, page = await browser.get("/read")
    assert status == 200
    assert "<title>(4) Unread · proxyd</title>" in page
    assert entries(page) == [("Other", False), ("S3", False), ("S2", False), ("S1", False)]
    first = places(page)[0]
    assert (await browser.get(first, **OPENED))[0] == 200
    assert "<title>(3) Unread" in (await browser.get("/read"))[1]
    position = first.rpartition("/")[2]
    answer, _ = await browser.post(
        f"/read/{position}/mark", {"read": "false", "starred": "true", "back": "/read?view=all"}
    )
    assert (answer.status, answer.headers["Location"]) == (303, "/read?view=all")
    assert entries((await browser.get("/read?view=starred"))[1]) == [("Other", False)]
    newest = re.findall(r'name="up_to" value="(\d+)"', page)[0]
    await browser.post("/read/marks", {"up_to": newest, "source": "s", "profile": "", "back": "//evil.example"})
    page = (await browser.get("/read"))[1]
    assert entries(page) == [("Other", False)]
    assert "<title>(1) Unread" in page
    await browser.post("/read/marks", {"items": position})
    assert "<title>Unread · proxyd</title>" in (await browser.get("/read"))[1]
    assert entries((await browser.get("/read?view=all"))[1])[0] == ("Other", True)


async def test_a_folder_is_a_profile_with_the_sources_that_its_rules_read(running: Running) -> None:
    await running.control.declarations.declare(OWN.replace('INTO "Q"', 'INTO "Q" FROM SOURCES "s"'))
    await shows(running, "s", item("In", T0 + 1.0))
    await shows(running, "a/b c", item("Out", T0 + 2.0))
    browser = await signed(running)
    page = (await browser.get("/read?profile=Q"))[1]
    assert entries(page) == [("In", False)]
    assert "<title>(1) Unread · Q · proxyd</title>" in page
    assert entries((await browser.get("/read?profile=P"))[1]) == [("Out", False), ("In", False)]
    assert entries((await browser.get("/read?source=a/b c"))[1]) == [("Out", False)]
    assert (await browser.get("/read?profile=nowhere"))[0] == 404
    assert "view=all" in places((await browser.get("/read?view=all&profile=P"))[1])[0]


async def test_an_article_leads_to_the_next_and_is_read_only_when_somebody_opens_it(running: Running) -> None:
    await shows(running, "s", *(item(f"S{number}", T0 + number) for number in (1, 2, 3)))
    browser = await signed(running)
    newest, middle, oldest = places((await browser.get("/read"))[1])
    for headers in (
        {"Accept": "image/*"},
        {**OPENED, "Sec-Purpose": "prefetch"},
        {**OPENED, "Sec-Fetch-Dest": "image"},
    ):
        await browser.get(middle, **headers)
    assert "(3) Unread" in (await browser.get("/read"))[1]
    page = (await browser.get(middle, **OPENED))[1]
    assert f'rel="prev" href="{newest}"' in page
    assert f'rel="next" href="{oldest}"' in page
    assert 'rel="prev"' not in (await browser.get(newest, **OPENED))[1]
    assert (await browser.get("/read/99", **OPENED))[0] == 404
    assert (await browser.get("/read/x", **OPENED))[0] == 400


async def test_only_articles_may_show_pictures_of_the_web(running: Running) -> None:
    sound = "https://a.example/x.mp3"
    await shows(running, "s", item("S", T0, content='<p>Hi <img src="/a.png"></p>', enclosure=sound, author="Ann"))
    browser = await signed(running)
    (place,) = places((await browser.get("/read"))[1])
    policies = {}
    for path in ("/read", place):
        async with running.client.get(path) as answer:
            policies[path], page = answer.headers["Content-Security-Policy"], await answer.text()
    assert "img-src 'self' data:;" in policies["/read"]
    assert "img-src 'self' data: http: https:;" in policies[place]
    assert policies[place].replace(" http: https:", "").removesuffix("; media-src") == policies["/read"]
    assert f'<audio controls preload="none" src="{sound}">' in page
    assert "Ann" in page


class Pages:
    """A prober that answers for pages of articles."""

    def __init__(self) -> None:
        self.asked: list[ProbeRequest] = []
        self.html = ""

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.asked.append(request)
        if not self.html:
            return ProbeOutcome(request.source_id, OutcomeKind.HTTP_ERROR, T0, T0, 503, detail="status 503")
        page = Item("page", {PREVIEW_FIELD: self.html}, None, "h")
        return ProbeOutcome(request.source_id, OutcomeKind.CHANGED, T0, T0, 200, items=(page,))


async def test_the_page_of_a_teaser_is_fetched_once_and_after_a_failure_when_somebody_asks(running: Running) -> None:
    pages = Pages()
    running.control.queries.reading._prober = pages
    await running.control.declarations.declare(source("full", options="FULL ARTICLES"))
    link = "https://a.example/1"
    long = item("Long", T0 + 1.0, link="https://a.example/2", content="word " * 400)
    await shows(running, "full", item("Short", T0, link=link, content="Teaser"), long)
    await shows(running, "s", item("Plain", T0, content="Teaser", link=link))
    browser = await signed(running)
    plain, whole, short = places((await browser.get("/read"))[1])
    for place in (plain, whole):
        assert "<h1" in (await browser.get(place, **OPENED))[1]
    assert pages.asked == []
    for _ in range(2):
        page = (await browser.get(short, **OPENED))[1]
        assert "Teaser" in page
        assert "could not be fetched: <bdi>http_error: status 503" in page
    assert len(pages.asked) == 1
    assert (pages.asked[0].url, pages.asked[0].obeys_robots) == (link, True)
    pages.html = "<p>The whole article.</p><script>x</script>"
    answer, _ = await browser.post(f"{short}/fetch", {"back": short})
    assert answer.status == 303
    for _ in range(2):
        page = (await browser.get(short, **OPENED))[1]
        assert "<p>The whole article.</p></div>" in page
    assert len(pages.asked) == 2


@pytest.mark.parametrize("text", ALL.values(), ids=ALL.keys())
async def test_what_strangers_write_never_runs(running: Running, text: str) -> None:
    text = text[:60_000].encode("utf-8", "replace").decode()
    await shows(running, "s", item(text, T0, content=f"<div>{text}</div>", link="https://a.example/1", author=text))
    browser = await signed(running)
    status, listed = await browser.get("/read")
    assert status == 200
    status, page = await browser.get(places(listed)[0], **OPENED)
    assert status == 200
    for each in (listed, page):
        (body,) = document_fromstring(each).xpath("//main")
        assert not body.xpath(".//script | .//iframe | .//svg | .//style | .//textarea | .//object")
        for name, value in (pair for node in body.iter(Element) for pair in node.items()):
            assert not name.startswith("on")
            assert name not in {"href", "src"} or value.startswith(("/", "https://")), value


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ('<form action="/x"><input name="a"><button>b</button></form>', "b"),
        ('<p style="position:fixed" class="x" id="main" onclick="a()">t</p>', "<p>t</p>"),
        ('<a href="javascript:alert(1)">x</a>', '<a target="_blank" rel="noopener noreferrer">x</a>'),
        ('<a href="data:text/html,x">x</a>', '<a target="_blank" rel="noopener noreferrer">x</a>'),
        ('<a href="https://[x">x</a>', '<a target="_blank" rel="noopener noreferrer">x</a>'),
        ("<iframe src=//evil.example></iframe><svg><script>x</script></svg><math><mtext>", ""),
        ('<meta http-equiv="refresh" content="0"><base href="https://e.example"><link rel=stylesheet href=x>t', "t"),
        ('<img src="http://192.168.0.1/reboot">', '<img loading="lazy" referrerpolicy="no-referrer">'),
        ('<img src="//localhost/read/1">', '<img loading="lazy" referrerpolicy="no-referrer">'),
        (
            '<img src="a.png" srcset="b 2x" width=1>',
            '<img loading="lazy" referrerpolicy="no-referrer" src="https://a.example/posts/a.png" width="1">',
        ),
    ],
)
def test_unsafe_parts_of_html_are_left_out(html: str, shown: str) -> None:
    def in_order(tag: re.Match[str]) -> str:
        return f"<img {' '.join(sorted(tag[1].split()))}>"

    assert re.sub(r"<img (.*?)>", in_order, safe_html(html, BASE)) == shown


async def test_the_api_lists_shows_and_marks_items(running: Running) -> None:
    await shows(running, "s", item("One", T0 + 1.0, content="<p>x<script>y</script>"), item("Two", T0 + 2.0))
    token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(str(running.client.make_url("")), token) as asked:
        two, one = await asked.find_items(view="unread", profile="P")
        assert [(each["title"], each["read"], each["starred"]) for each in (two, one)] == [
            ("Two", False, False),
            ("One", False, False),
        ]
        assert (await asked.item(one["position"]))["content"] == "<p>x</p>"
        assert await asked.mark_items([one["position"], 99], starred=True) == {"items": 1}
        assert await asked.mark_items(up_to=two["position"], read=True, source="s") == {"items": None}
        assert await asked.find_items(view="unread") == []
        assert [each["title"] for each in await asked.find_items(view="starred")] == ["One"]
        assert [(each["title"], each["read"]) for each in await asked.find_items("two")] == [("Two", True)]
        wrong: list[dict[str, Any]] = [
            {"items": [1], "up_to": 1, "read": True},
            {"read": True},
            {"items": [1], "source": "s", "read": True},
            {"up_to": 1, "read": False},
        ]
        for arguments in wrong:
            with pytest.raises(ApiError) as refused:
                await asked.mark_items(**arguments)
            assert refused.value.status == 400
        with pytest.raises(ApiError, match="a search takes no view and no profile"):
            await asked.find_items("two", view="unread")
        with pytest.raises(ApiError, match="there is no such item"):
            await asked.item(99)
