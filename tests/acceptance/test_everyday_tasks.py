"""Tasks of docs/how-to.md, as they are written there, by the daemon: a login, a POST, a price, and trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.acceptance.support import SECRET, World, eventually, world
from tests.browser.devtools import running_chromium
from tests.pages import ROOT, blocks

TELL = "WEBHOOK '{url}' SECRET ENV 'SECRET_HOOK'"
OFTEN = "FRESHNESS IGNORE ROBOTS IGNORE BACKOFF OFF"


def task(heading: str, number: int = 0) -> str:
    """Return one of the profiles that a task of the page shows."""
    page = ROOT / "docs" / "how-to.md"
    above, _, _ = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    found = [each.text for each in blocks(page) if each.language == "profile" and each.line > above.count("\n")]
    assert found[number].count("\n") <= 3
    return found[number]


@pytest.fixture
async def w(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


def declared(w: World, text: str, address: str, page: str) -> str:
    """Return a task's profile for a page of the origin, with what tells the receiver."""
    assert address in text
    return text.replace(address, w.origin.url(page)).replace("SECRET_COOKIE", "SECRET_HOOK")


def told(w: World) -> list[str]:
    """Return the titles of what was told, in order."""
    return [each.data["title"] for each in w.receiver.accepted("hook")]


async def heard(w: World, count: int) -> None:
    """Wait until so much was told."""
    await eventually(lambda: len(told(w)) >= count, f"{count} notifications", state=lambda: told(w))


def shows(w: World, name: str, answer: Callable[[web.Request, str], web.Response | None]) -> None:
    """Serve a page of the origin; ``None`` is a refusal."""

    async def handle(request: web.Request) -> web.Response:
        return answer(request, await request.text()) or web.Response(status=403)

    w.origin.pages[name] = handle


def html(text: str) -> web.Response:
    return web.Response(text=f"<html><body><p>{text}</p></body></html>", content_type="text/html")


async def test_a_page_behind_a_login(w: World) -> None:
    orders = ["Order 1: sent"]
    shows(w, "orders", lambda request, _: html(orders[0]) if request.headers.get("Cookie") == SECRET else None)
    text = declared(
        w,
        task("Watch a page behind a login, or one that is asked by POST"),
        "https://shop.example.org/orders",
        "orders",
    )
    text = text.replace("MAIL 'me@example.org'", TELL.format(url=w.receiver.url("hook")))
    w.daemon.declare(text.replace(";", f" {OFTEN};", 1))
    await w.daemon.start()
    await w.origin.was_asked("orders", times=2)
    orders[0] = "Order 1: arrived"
    await heard(w, 1)
    (arrival,) = w.receiver.accepted("hook")
    assert "Order 1: arrived" in arrival.body.decode()
    assert SECRET not in w.daemon.log


async def test_a_page_that_is_asked_by_post(w: World) -> None:
    stock = [0]

    def answer(request: web.Request, body: str) -> web.Response | None:
        is_asked = (request.method, body) == ("POST", '{"query": "{ item { stock } }"}')
        return web.json_response({"data": {"item": {"stock": stock[0]}}}) if is_asked else None

    shows(w, "graphql", answer)
    text = declared(
        w,
        task("Watch a page behind a login, or one that is asked by POST", 1),
        "https://shop.example.org/graphql",
        "graphql",
    )
    text = text.replace("MAIL 'me@example.org'", TELL.format(url=w.receiver.url("hook")))
    w.daemon.declare(text.replace(";\nWATCH", f" {OFTEN};\nWATCH"))
    await w.daemon.start()
    await w.origin.was_asked("graphql", times=2)
    stock[0] = 7
    await heard(w, 1)
    assert told(w) == ["left: 0 → 7"]


async def test_a_price_that_falls(w: World) -> None:
    price = ["1.299,00 €"]
    shows(w, "lamp", lambda *_: html(f'<b itemprop="price">{price[0]}</b>'))
    text = declared(w, task("Watch a price"), "https://shop.example/lamp", "lamp")
    source = f"CREATE SOURCE \"lamp\" OF PRICE AT '{w.origin.url('lamp')}' {OFTEN};\n"
    w.daemon.declare(source + text.replace("MAIL 'me@example.org'", TELL.format(url=w.receiver.url("hook"))))
    await w.daemon.start()
    await w.origin.was_asked("lamp", times=2)
    price[0] = "1.350,00 €"
    await w.origin.was_asked("lamp", times=3)
    price[0] = "1.199,50 €"
    await heard(w, 1)
    (title,) = told(w)
    assert title.endswith("price: 1350 → 1199.5")


@pytest.mark.long
async def test_a_site_that_is_down_and_up_again_over_a_restart(w: World) -> None:
    """Failures are counted in the database: those before a kill and those after it make three."""
    is_down, answered = [False], [0]

    def answer(*_: object) -> web.Response:
        answered[0] += 1
        return web.Response(status=500) if is_down[0] else html("here")

    shows(w, "site", answer)
    trouble = task("Hear of feeds that died").replace("MAIL 'me@example.org'", TELL.format(url=w.receiver.url("hook")))
    source = f"CREATE SOURCE \"site\" OF PAGE AT '{w.origin.url('site')}' {OFTEN};\n"
    w.daemon.declare(f"{source}{trouble}WATCH '{w.origin.url('site')}' OF PAGE;")
    await w.daemon.start()
    await w.origin.was_asked("site", times=2)
    is_down[0] = True
    for _ in range(3):
        await w.origin.was_asked("site")
        await w.daemon.kill()
        await w.daemon.start()
    await heard(w, 1)
    is_down[0] = False
    await heard(w, 2)
    fell, rose = told(w)
    assert "site has failed since" in fell
    assert "site answers again after failing since" in rose


JOBS = """<!doctype html><title>Jobs</title><ul></ul><script>
fetch('/jobs.json').then(found => found.json()).then(jobs => { for (const job of jobs)
  document.querySelector('ul').insertAdjacentHTML('beforeend', `<li class=job><a href="/job/${job}">${job}</a></li>`) })
</script>"""


@pytest.mark.long
async def test_a_page_built_by_scripts_goes_on_when_its_browser_comes_back(tmp_path: Path) -> None:
    jobs = ["Cook"]
    with running_chromium(tmp_path / "chromium") as chromium:
        async with world(tmp_path, browser=chromium.address) as w:
            shows(w, "jobs", lambda *_: web.Response(text=JOBS, content_type="text/html"))
            shows(w, "jobs.json", lambda *_: web.json_response(jobs))
            text = declared(w, task("Watch a page built by scripts"), "https://example.org/jobs", "jobs")
            text = text.replace(
                "TELL MAIL 'me@example.org'", f"SCREENSHOT TELL {TELL.format(url=w.receiver.url('hook'))}"
            )
            w.daemon.declare(text)
            await w.daemon.start()
            await w.origin.was_asked("jobs.json", times=2)
            jobs.append("Baker")
            await heard(w, 1)
            (arrival,) = w.receiver.accepted("hook")
            token = (await w.daemon.cli("token", "create", "--name", "me", "--scope", "read")).out.strip()
            status, _, picture = await w.daemon.request("GET", arrival.data["screenshot"], token=token)
            assert (status, picture[:4]) == (200, b"\x89PNG")
            chromium.kill()
            await w.daemon.metric_reaches('proxyd_probes_total{outcome="no_browser"}', 1.0)
            jobs.append("Smith")
            chromium.restart()
            await heard(w, 2)
            assert told(w) == ["Baker", "Smith"]
