"""Records the data of a version, for the tests of later ones: run it in a checkout of that version, once a release.

``python -m tests.upgrades.record FILE`` lets the daemon watch an origin for some seconds and writes its database as
SQL. Two receivers accept, one answers 503, so that the outbox holds what waits.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from tests.acceptance.support import World, eventually, world

ORIGIN, RECEIVER = "127.0.0.1:1", "127.0.0.1:2"  # in the file, instead of the ports of the run
SHOP = """CREATE DOMAIN "Pages" AS CLASS::PAGE;
CREATE SOURCE shop OF PAGE AT '{shop}';
CREATE PROFILE "shops" AS (DOMAIN "Pages", LANGUAGE "SQL", USER "u");
INSERT NOTIFICATION "prices" INTO "shops"
SET QUERY "SELECT DIFF(OLD.text, NEW.text) AS difference FROM PAGE"
SET TRIGGER "ON UPDATE TO PAGE"
START NOW END NEVER SET UTILITY STRICT
SET DELIVERY WEBHOOK '{prices}' SECRET ENV 'SECRET_HOOK'
SET DIGEST EVERY 1 HOUR AT MOST 20 ITEMS;
"""


async def fill(w: World) -> None:
    """Let the daemon see items and changes of a page, tell of them, and stop."""
    price = ["10.00"]

    async def page(_: web.Request) -> web.Response:
        body = f"<title>Shop</title><table><tr><td>Lamp</td><td>{price[-1]}</td></tr></table>"
        return web.Response(text=body, content_type="text/html")

    w.origin.pages["shop"] = page
    shop = SHOP.format(shop=w.origin.url("shop"), prices=w.receiver.url("prices"))
    w.daemon.declare(w.text(["s1", "s2"], {"each": 1, "third": 3, "down": 1}) + shop)
    w.origin.feed("s1", "atom").add(4, age_s=3600.0)
    w.origin.feed("s2").add(2, age_s=7200.0)
    w.receiver.scripts["down"].extend(["503"] * 1000)
    await w.daemon.start()
    await w.daemon.knows("s1", "s2", "shop")
    token = (await w.daemon.cli("token", "create", "--name", "me", "--scope", "write")).out.strip()
    for count in range(1, 4):
        w.origin.feeds["s1"].add(2)
        w.origin.feeds["s2"].add(1)
        price.append(f"{count}1.00")
        await w.receiver.received("each", 3 * count)
        await eventually(lambda asked=w.origin.asked["shop"]: w.origin.asked["shop"] > asked + 1, "the page is seen")
    status, answer = await w.daemon.post_profile(f"CREATE SOURCE later OF RSS AT '{w.origin.url('s2')}';", token=token)
    assert status == 201, answer
    await w.daemon.stop()


async def recorded() -> str:
    """Return the database of a run as SQL, without the older half of the probes."""
    with TemporaryDirectory() as folder:
        async with world(Path(folder)) as w:
            await fill(w)
            with closing(sqlite3.connect(w.daemon.database, isolation_level=None)) as connection:
                connection.execute("DELETE FROM probes WHERE position <= (SELECT max(position) / 2 FROM probes)")
                lines = [line for line in connection.iterdump() if "item_words" not in line]
            text = "\n".join(lines) + "\n"
            for port, address in ((w.origin.port, ORIGIN), (w.receiver.port, RECEIVER)):
                text = text.replace(f"127.0.0.1:{port}", address)
    return text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(asyncio.run(recorded()), encoding="utf-8")
