"""Whatever an origin answers, it is an outcome; its next probe still comes and the others go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from tests.acceptance.support import Feed, Handler, Origin, eventually, world

MEGABYTE = 1024 * 1024


def answer(body: bytes, media_type: str = "application/rss+xml", status: int = 200) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=media_type, status=status)

    return handle


async def endless(request: web.Request) -> web.StreamResponse:
    """50 MB of a feed, of unannounced length."""
    response = web.StreamResponse(headers={"Content-Type": "application/rss+xml"})
    await response.prepare(request)
    await response.write(b'<?xml version="1.0"?><rss version="2.0"><channel><title>')
    for _ in range(50):
        await response.write(b"x" * MEGABYTE)
    return response


async def cut_off(request: web.Request) -> web.StreamResponse:
    _, body = _whole()
    response = web.StreamResponse(headers={"Content-Type": "application/rss+xml", "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    assert request.transport is not None
    request.transport.abort()
    return response


def _whole() -> tuple[str, bytes]:
    feed = Feed("cut")
    feed.add(50)
    return feed.document()


def slow(origin: Origin) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        with suppress(TimeoutError):
            await asyncio.wait_for(origin.closing.wait(), 60.0)
        return web.Response(body=_whole()[1], content_type="application/rss+xml")

    return handle


BOMB = b"""<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "lol">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;">]>
<rss version="2.0"><channel><title>&e;</title></channel></rss>"""
OUTCOMES = {
    "html": "not_a_feed",
    "empty": "empty",
    "huge": "too_large",
    "bomb": "unsafe",
    "cut": "unreachable",
    "slow": "timeout",
    "missing": "http_error",
}


async def test_bad_answers_are_outcomes_and_stop_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, probe_timeout="3s") as w:
        w.origin.pages = {
            "html": answer(b"<!DOCTYPE html><html><body>Not found</body></html>", "text/html"),
            "empty": answer(b""),
            "huge": endless,
            "bomb": answer(BOMB),
            "cut": cut_off,
            "slow": slow(w.origin),
            "missing": answer(b"no", "text/plain", 404),
        }
        good = w.origin.feed("good", "atom")
        good.add(1, age_s=3600.0)
        w.daemon.declare(w.text([*OUTCOMES, "good"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.knows("good")
        news = good.add(2)
        assert await w.receiver.received("each", 2) == news
        for outcome in OUTCOMES.values():
            await w.daemon.metric_reaches(f'proxyd_probes_total{{outcome="{outcome}"}}', 2)
        news += good.add(2)
        assert await w.receiver.received("each", 4) == news
        assert all(w.origin.asked[name] >= 2 for name in OUTCOMES), dict(w.origin.asked)
        # Back-off doubles: while each was asked a few times, the good one was asked again and again.
        await eventually(
            lambda: max(w.origin.asked[name] for name in OUTCOMES) < w.origin.asked["good"],
            "the good feed is asked more often than any other",
            state=lambda: dict(w.origin.asked),
        )

        async def ended() -> dict[str, str]:
            said = await w.daemon.sources()
            return {name: said[name]["last_outcome"] for name in OUTCOMES}

        assert await ended() == OUTCOMES

        # A page that comes to its senses is read at its next probe, and what is new there from then on is news.
        del w.origin.pages["html"]
        healed = w.origin.feed("html")
        healed.add(1, age_s=3600.0)
        await w.daemon.knows("html")
        news += healed.add(1)
        assert sorted(await w.receiver.received("each", 5)) == sorted(news)
        w.receiver.check()


async def test_a_throttled_host_is_left_in_peace_as_long_as_it_asks(tmp_path: Path) -> None:
    async with world(tmp_path) as w:

        async def throttle(_request: web.Request) -> web.StreamResponse:
            return web.Response(status=429, headers={"Retry-After": "3600"})

        w.origin.pages["busy"] = throttle
        w.daemon.declare(w.text(["busy"], {"each": 1}))
        await w.daemon.start()
        await w.daemon.metric_reaches('proxyd_probes_total{outcome="throttled"}', 1)
        explained = await w.daemon.cli("explain", "busy")
        assert "delayed by back-off until" in explained.out
        assert w.origin.asked["busy"] == 1
