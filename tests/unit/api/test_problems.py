"""What goes wrong in a request is told in a problem document."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from proxyd.api.problems import problems
from proxyd.core.errors import StoreBusyError, StoreError, StoreUnreachableError


async def answered(error: Exception) -> tuple[int, str | None, str]:
    async def fail(_: web.Request) -> web.Response:
        raise error

    app = web.Application(middlewares=[problems])
    app.router.add_get("/", fail)
    async with TestClient(TestServer(app)) as client, client.get("/") as answer:
        return answer.status, answer.headers.get("Retry-After"), await answer.text()


@pytest.mark.parametrize("kind", [StoreBusyError, StoreUnreachableError])
async def test_who_asks_while_the_database_is_busy_or_away_is_to_ask_again(kind: type[StoreError]) -> None:
    status, again, said = await answered(kind("the database failed: it is locked by 10.1.2.3"))
    assert (status, again) == (503, "5")
    assert "try again" in said
    assert "10.1.2.3" not in said


async def test_a_database_that_failed_otherwise_is_a_fault_without_details() -> None:
    status, _, said = await answered(StoreError("the database failed: it is malformed"))
    assert status == 500
    assert "malformed" not in said
