"""The paper's example through the daemon: a stock page is looked at when a financial report appears."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.acceptance.support import World, eventually, world

CLASSES = """CREATE DOMAIN "Markets" AS
CLASS::REPORT(channel.item.title:String, channel.item.guid:String, channel.item.pubDate:Timestamp)
CLASS::QUOTE(symbol:String FROM JSON '$.symbol', last:Decimal FROM JSON '$.last');
CREATE PROFILE "Trading" AS (DOMAIN "Markets");
"""


class Quotes:
    """Stock pages, each asked for by its own address; one can be made to answer with an error."""

    def __init__(self) -> None:
        self.last = {"acme": 10.0, "beta": 20.0}
        self.failing = False

    def handler(self, symbol: str) -> Any:
        async def show(request: web.Request) -> web.StreamResponse:
            if self.failing:
                return web.Response(status=500)
            return web.json_response({"symbol": symbol, "last": self.last[symbol]})

        return show


def declare(w: World, quotes: Quotes, *, life: str = "", also: str = "") -> None:
    feed = w.origin.feed("news", "atom")
    feed.add(1, age_s=3600.0)
    text = CLASSES + f"CREATE SOURCE \"news\" OF REPORT AT '{w.origin.url('news')}';\n"
    for symbol in quotes.last:
        w.origin.pages[symbol] = quotes.handler(symbol)
        text += f"CREATE SOURCE \"{symbol}\" OF QUOTE AT '{w.origin.url(symbol)}' ROBOTS IGNORE;\n"
    w.daemon.declare(
        f'{text}INSERT NOTIFICATION "price" INTO "Trading" SET QUERY "SELECT symbol, last FROM QUOTE '
        'ORDER BY symbol"\nSET TRIGGER "ON INSERT TO REPORT" START NOW END NEVER SET UTILITY STRICT '
        f"{life} SET DELIVERY WEBHOOK '{w.receiver.url('price')}' SECRET ENV 'SECRET_HOOK';\n{also}"
    )


async def told(w: World, count: int = 1) -> list[dict[str, Any]]:
    await eventually(
        lambda: len(w.receiver.accepted("price")) >= count,
        f"{count} notifications",
        state=lambda: [each.data for each in w.receiver.accepted("price")],
    )
    w.receiver.check()
    return [json.loads(each.body)["data"] for each in w.receiver.accepted("price")]


async def test_a_report_has_the_stock_pages_looked_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        quotes = Quotes()
        declare(w, quotes)
        await w.daemon.start()
        await w.daemon.knows("news")
        assert w.origin.asked["acme"] == 0
        w.origin.feeds["news"].add(1)
        (first,) = await told(w)
        assert first["items"] == [{"symbol": "acme", "last": 10}, {"symbol": "beta", "last": 20}]
        assert (first["partial"], first["late"], first["missing"]) == (False, False, [])
        assert {page["source"]: page["captured"] for page in first["pages"]} == {"acme": True, "beta": True}
        assert (w.origin.asked["acme"], w.origin.asked["beta"]) == (1, 1)


@pytest.mark.long
async def test_an_interval_that_is_open_outlives_a_kill(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        quotes = Quotes()
        declare(w, quotes)
        await w.daemon.start()
        await w.daemon.knows("news")
        quotes.failing = True
        w.origin.feeds["news"].add(1)
        await w.origin.was_asked("acme", "beta")
        await w.daemon.kill()
        quotes.failing = False
        await w.daemon.start()
        assert len(await told(w)) == 1
        w.origin.feeds["news"].add(1)
        second = (await told(w, 2))[1]
        assert second["items"] == [{"symbol": "acme", "last": 10}, {"symbol": "beta", "last": 20}]


async def test_a_window_that_passes_is_told_as_partial_and_supplemented_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        quotes = Quotes()
        also = (
            'INSERT NOTIFICATION "watch" INTO "Trading" SET QUERY "SELECT symbol FROM QUOTE" '
            'SET TRIGGER "ON INSERT TO QUOTE" START NOW END NEVER SET UTILITY STRICT SET POLICY INDEX;'
        )  # nobody asks a page for the first rule once its window is over
        declare(w, quotes, life="SET LIFE WINDOW(2 SECONDS) SET POLICY INDEX SET EMPTY DELIVER", also=also)
        await w.daemon.start()
        await w.daemon.knows("news")
        quotes.failing = True
        w.origin.feeds["news"].add(1)
        (partial,) = await told(w)
        assert (partial["partial"], partial["items"], sorted(partial["missing"])) == (True, [], ["acme", "beta"])
        quotes.failing = False
        _, supplement = await told(w, 2)
        assert supplement["supplement_to"] == partial["id"]
        assert [row["symbol"] for row in supplement["items"]] == ["acme", "beta"]
