"""What a token may ask, and how it is told."""

from __future__ import annotations

from pathlib import Path

from proxyd.api.auth import Quota
from tests.fakes import FakeClock
from tests.integration.api_world import running_api


async def test_a_token_asks_so_often_and_then_waits_for_its_window(tmp_path: Path) -> None:
    async with running_api(tmp_path, quota=Quota(2, 60.0)) as running:
        mine, other = await running.token("read"), await running.token("write")
        clock = running.control.resources.clock
        assert isinstance(clock, FakeClock)
        for left in (1, 0):
            async with running.client.get("/api/v1/rules", headers=mine) as answer:
                assert (answer.status, answer.headers["RateLimit"]) == (200, f'"token";r={left};t=60')
                assert answer.headers["RateLimit-Policy"] == '"token";q=2;w=60'
        await clock.advance(20.5)
        async with running.client.get("/api/v1/rules", headers=mine) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "40")
            assert answer.headers["RateLimit"] == '"token";r=0;t=40'
            assert "api_rate" in (await answer.json())["detail"]
        async with running.client.get("/api/v1/rules", headers=other) as answer:
            assert answer.status == 200
        await clock.advance(39.5)
        async with running.client.get("/api/v1/rules", headers=mine) as answer:
            assert answer.headers["RateLimit"] == '"token";r=1;t=60'


async def test_what_is_refused_or_streamed_says_it_too_and_open_routes_do_not(tmp_path: Path) -> None:
    async with running_api(tmp_path, quota=Quota(9, 60.0)) as running:
        mine = await running.token("read")
        for path, status in (("/api/v1/rules/unknown", 404), ("/api/v1/tokens", 403), ("/api/v1/stream", 200)):
            async with running.client.get(path, headers=mine) as answer:
                assert (answer.status, "RateLimit" in answer.headers) == (status, True)
        for path in ("/healthz", "/sign-in", "/api/v1/openapi.json"):
            async with running.client.get(path, headers=mine) as answer:
                assert (answer.status, "RateLimit" in answer.headers) == (200, False)
