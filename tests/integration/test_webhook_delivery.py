"""Webhooks over real sockets, verified with the library a receiver would use."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from proxyd.clock import SystemClock
from proxyd.errors import DeliveryError
from proxyd.net import Guard, HostTokens, make_session
from proxyd.notify.webhook import EndpointGoneError, WebhookChannel
from tests.fakes import FakeClock

BODY = json.dumps({"type": "item", "timestamp": "2026-03-01T12:00:00Z", "data": {"title": "Ž"}}).encode()
KEY = b"0123456789abcdef0123456789abcdef"
WHSEC = "whsec_" + base64.b64encode(KEY).decode()
LOOPBACK = Guard([ip_network("127.0.0.0/8")])
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def receiving(handler: Handler) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def channel(guard: Guard = LOOPBACK, timeout_s: float = 5.0) -> AsyncIterator[WebhookChannel]:
    async with make_session(guard, contact="x") as session:
        yield WebhookChannel(session, guard, FakeClock(), timeout_s=timeout_s)


def answering(status: int, text: str = "", headers: dict[str, str] | None = None) -> Handler:
    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return handle


async def failure(handler: Handler, timeout_s: float = 5.0) -> DeliveryError:
    async with receiving(handler) as url, channel(timeout_s=timeout_s) as hook:
        with pytest.raises(DeliveryError) as caught:
            await hook.deliver("msg_1", url, WHSEC, BODY, 1e9)
    return caught.value


@pytest.mark.parametrize(
    ("secret", "receivers_key"),
    [
        (WHSEC, WHSEC),
        (WHSEC.rstrip("="), WHSEC),
        (WHSEC.encode(), WHSEC),
        ("any other string é", base64.b64encode("any other string é".encode()).decode()),
        (KEY, base64.b64encode(KEY).decode()),
    ],
    ids=["whsec", "unpadded", "whsec as bytes", "text", "bytes"],
)
async def test_the_receiver_can_verify_the_signature(secret: str | bytes, receivers_key: str) -> None:
    seen: list[tuple[dict[str, str], bytes]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append((dict(request.headers), await request.read()))
        return web.Response(status=204)

    now_s = SystemClock().time_s()
    async with receiving(handle) as url, channel() as hook:
        await hook.deliver("msg_1", url, secret, BODY, now_s)
    headers, body = seen[0]
    assert Webhook(receivers_key).verify(body, headers) == json.loads(BODY)
    assert body == BODY
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_1", str(int(now_s)))
    assert headers["webhook-signature"].startswith("v1,")
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("proxyd/")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_is_success(status: int) -> None:
    async with receiving(answering(status)) as url, channel() as hook:
        await hook.deliver("msg_1", url, WHSEC, BODY, 1e9)


@pytest.mark.parametrize("status", [400, 401, 404, 408, 425, 429, 500, 503])
async def test_every_other_status_may_be_retried(status: int) -> None:
    error = await failure(answering(status, "no\r\nthanks " + "x" * 9999, {"Retry-After": "30"}))
    assert (error.retryable, error.retry_after_s) == (True, 30.0)
    assert error.message.startswith(f"the receiver answered {status}: no thanks xxx")
    assert len(error.message) < 300


async def test_gone_disables() -> None:
    error = await failure(answering(410))
    assert isinstance(error, EndpointGoneError)
    assert (error.retryable, error.disables) == (False, True)


async def test_redirects_are_not_followed() -> None:
    asked = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    error = await failure(handle)
    assert (asked, error.retryable) == (["/hook"], True)
    assert "307" in error.message


async def test_a_receiver_that_does_not_answer_is_retried() -> None:
    async with receiving(answering(200)) as url:
        pass
    async with channel() as hook:
        with pytest.raises(DeliveryError) as caught:
            await hook.deliver("msg_1", url, WHSEC, BODY, 1e9)
    assert caught.value.retryable


async def test_a_slow_receiver_is_a_timeout() -> None:

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    error = await failure(handle, timeout_s=0.1)
    assert error.retryable
    assert error.message == "no answer within 0.1 s"


@pytest.mark.parametrize("url", ["{url}", "ftp://example.org/", "http://u:hunter2@example.org/", "http://[bad", "/x"])
async def test_refused_addresses_are_not_retried_and_nobody_arrives(url: str) -> None:
    arrived = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        arrived.append(request)
        return web.Response()

    async with receiving(handle) as here, channel(Guard()) as hook:
        with pytest.raises(DeliveryError) as caught:
            await hook.deliver("msg_1", url.format(url=here), WHSEC, BODY, 1e9)
    assert arrived == []
    assert not caught.value.retryable
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("secret", ["whsec_not base64 hunter2!", "whsec_", "", b""])
async def test_a_bad_secret_is_not_retried_and_not_told(secret: str | bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with channel() as hook:
        with pytest.raises(DeliveryError) as caught:
            await hook.deliver("msg_1", "http://127.0.0.1:1/", secret, BODY, 1e9)
    error = caught.value
    assert not error.retryable
    assert "hunter2" not in f"{error!r} {error.__cause__!r} {caplog.text}"
    assert error.__suppress_context__ or error.__context__ is None


async def test_each_request_takes_the_token_of_its_host() -> None:
    clock = FakeClock()
    tokens = HostTokens(clock, 5.0)
    async with receiving(answering(200)) as url, make_session(LOOPBACK, contact="x") as session:
        await WebhookChannel(session, LOOPBACK, clock, tokens=tokens).deliver("m", url, WHSEC, BODY, 1e9)
    assert len(tokens) == 1
