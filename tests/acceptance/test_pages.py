"""Pages that are no feeds, through the daemon: rows, prices and texts that come, change and go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.acceptance.support import SECRET, World, eventually, world

CLASSES = """CREATE DOMAIN "D" AS
CLASS::QUAKE EACH JSON '$.features[*]' KEY id (id:String FROM JSON '$.id', mag:Decimal FROM JSON '$.properties.mag')
CLASS::QUOTE(last:Decimal FROM CSS 'b.price')
CLASS::PAGE;
CREATE PROFILE "P" AS (DOMAIN "D");
"""


class Pages:
    """What the origin shows now; the quote asks for a token."""

    def __init__(self) -> None:
        self.quakes: dict[str, float] = {"q1": 4.0, "q2": 5.0}
        self.price = 10.0
        self.text = "Tea 3"
        self.page_status = 200

    async def show_quakes(self, request: web.Request) -> web.StreamResponse:
        features = [{"id": name, "properties": {"mag": mag}} for name, mag in self.quakes.items()]
        return web.json_response({"features": features})

    async def show_quote(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {SECRET}" or request.headers.get("X-Kind") != "quote":
            return web.Response(status=401)
        return web.Response(text=f"<html><b class=price>{self.price}</b></html>", content_type="text/html")

    async def show_page(self, request: web.Request) -> web.StreamResponse:
        body = f"<html><body><h1>Prices</h1><p>{self.text}</p></body></html>"
        return web.Response(text=body, content_type="text/html", status=self.page_status)


def declare(w: World, pages: Pages) -> None:
    w.origin.pages |= {"quakes": pages.show_quakes, "quote": pages.show_quote, "page": pages.show_page}
    asks = "AUTH BEARER SECRET ENV 'SECRET_HOOK' HEADER 'X-Kind' 'quote'"
    text = CLASSES
    for name, of, options in (("quakes", "QUAKE", ""), ("quote", "QUOTE", asks), ("page", "PAGE", "")):
        text += f"CREATE SOURCE \"{name}\" OF {of} AT '{w.origin.url(name)}' {options};\n"
    text += watch(w, "new", "ON INSERT TO QUAKE WHEN mag >= 5", "SELECT id, mag FROM QUAKE")
    text += watch(w, "stronger", "ON UPDATE TO QUAKE WHEN NEW.mag > OLD.mag", "SELECT id, OLD.mag, NEW.mag FROM QUAKE")
    text += watch(w, "gone", "ON DELETE TO QUAKE", "SELECT id FROM QUAKE")
    text += watch(w, "price", "ON UPDATE TO QUOTE WHEN COUNT(*) % 2 = 0", "SELECT OLD.last AS was, last FROM QUOTE")
    text += watch(w, "text", "ON UPDATE TO PAGE", "SELECT DIFF(OLD.text, NEW.text) AS difference FROM PAGE")
    text += watch(w, "lost", "ON DELETE TO PAGE", "SELECT OLD.text FROM PAGE")
    w.daemon.declare(text)


def watch(w: World, name: str, trigger: str, query: str) -> str:
    return (
        f'INSERT NOTIFICATION "{name}" INTO "P" SET QUERY "{query}" SET TRIGGER "{trigger}"\n'
        "START NOW END NEVER SET UTILITY STRICT SET POLICY UNIFORM(1 CHRONON)\n"
        f"SET DELIVERY WEBHOOK '{w.receiver.url(name)}' SECRET ENV 'SECRET_HOOK';\n"
    )


async def received(w: World, rule: str, count: int | None = None) -> list[Mapping[str, Any]]:
    """Wait until a rule has so many notifications, by default one more, and return the rows of the newest."""
    count = count or len(w.receiver.accepted(rule)) + 1
    await eventually(lambda: len(w.receiver.accepted(rule)) >= count, f"notification {count} of {rule}")
    rows: list[Mapping[str, Any]] = json.loads(w.receiver.accepted(rule)[-1].body)["data"]["items"]
    return rows


async def test_rows_prices_and_texts_that_come_change_and_go_arrive(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        pages = Pages()
        declare(w, pages)
        await w.daemon.start()
        await w.daemon.knows("quakes", "quote", "page")
        pages.quakes = {"q3": 6.0, "q2": 5.5}
        assert await received(w, "new") == [{"id": "q3", "mag": 6}]
        assert await received(w, "stronger", 1) == [{"id": "q2", "OLD.mag": 5, "NEW.mag": 5.5}]
        assert await received(w, "gone", 1) == [{"id": "q1"}]
        pages.text = "Tea 4"
        assert await received(w, "text") == [{"difference": "- Tea 3\n+ Tea 4"}]
        pages.page_status = 404
        assert (await received(w, "lost"))[0]["OLD.text"].endswith("Tea 4")
        w.receiver.check()


async def test_one_line_watches_a_price(tmp_path: Path) -> None:
    """Another rule on the page has it probed often; its text is what a shop sends."""
    async with world(tmp_path) as w:
        lamp = {"@type": "Product", "name": "Lamp", "offers": {"price": "1.299,00", "priceCurrency": "EUR"}}

        async def show(request: web.Request) -> web.StreamResponse:
            text = f'<html lang="de"><script type="application/ld+json">{json.dumps(lamp)}</script></html>'
            return web.Response(text=text, content_type="text/html")

        w.origin.pages["lamp"] = show
        url, hook = w.origin.url("lamp"), f"WEBHOOK '{w.receiver.url('cheaper')}' SECRET ENV 'SECRET_HOOK'"
        text = f"WATCH '{url}' OF PRICE AS \"cheaper\" WHERE NEW.price < OLD.price TELL {hook};\n"
        text += 'CREATE PROFILE "P";\n' + watch(w, "often", "ON UPDATE TO PRICE", "SELECT price FROM PRICE")
        w.daemon.declare(text)
        await w.daemon.start()
        await w.daemon.knows(url.partition("://")[2])
        lamp["offers"] = {"price": "1.199,50", "priceCurrency": "EUR"}
        await received(w, "cheaper")
        data = json.loads(w.receiver.accepted("cheaper")[0].body)["data"]
        assert data["title"] == "Lamp: price: 1299 → 1199.5"


@pytest.mark.long
async def test_an_update_before_a_kill_is_remembered_with_what_it_replaced(tmp_path: Path) -> None:
    """The rule fires on each second update: the first is seen before the kill, the second after it."""
    async with world(tmp_path) as w:
        pages = Pages()
        declare(w, pages)
        await w.daemon.start()
        await w.daemon.knows("quote")
        pages.price = 11.0
        await w.origin.was_asked("quote", times=3)
        await w.daemon.kill()
        await w.daemon.start()
        pages.price = 12.0
        assert await received(w, "price") == [{"was": 10, "last": 11}, {"was": 11, "last": 12}]
