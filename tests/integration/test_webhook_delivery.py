"""Webhooks over real sockets, verified with the library a receiver would use."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from proxyd.base.clock import SystemClock
from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.core.model.delivery import WebhookForm
from proxyd.net.guard import Guard
from proxyd.net.session import make_session
from proxyd.notify.channels.channel_routing import Channels
from proxyd.notify.channels.webhook import EndpointGoneError, WebhookChannel, signing_keys
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


def sent(url: str, secret: str | bytes = WHSEC, *, at_s: float = 1e9) -> Message:
    return Message("msg_1", "r", url, BODY, at_s, secret=secret)


def answering(status: int, text: str = "", headers: dict[str, str] | None = None) -> Handler:
    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return handle


async def failure(handler: Handler, timeout_s: float = 5.0) -> DeliveryError:
    async with receiving(handler) as url, channel(timeout_s=timeout_s) as hook:
        with pytest.raises(DeliveryError) as caught:
            await hook.deliver(sent(url))
    return caught.value


@pytest.mark.parametrize("coding", ["br", "gzip", "deflate", "zstd", "UTF-8", "gzip, br", "none"])
async def test_an_answer_in_an_odd_coding_is_an_answer(coding: str) -> None:
    async with receiving(answering(200, "ok", {"Content-Encoding": coding})) as url, channel() as hook:
        assert await hook.deliver(sent(url)) == "the receiver answered 200"
    failed = await failure(answering(500, "no disk", {"Content-Encoding": coding}))
    assert failed.message == "the receiver answered 500: no disk"


async def test_a_refusal_in_gzip_is_shown() -> None:
    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500, body=gzip.compress(b"no disk"), headers={"Content-Encoding": "gzip"})

    assert (await failure(handle)).message == "the receiver answered 500: no disk"


@pytest.mark.parametrize(
    ("secret", "receivers_key"),
    [
        (WHSEC, WHSEC),
        (WHSEC.rstrip("="), WHSEC),
        (WHSEC.encode(), WHSEC),
        ("any-other-string-é", base64.b64encode("any-other-string-é".encode()).decode()),
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
        await hook.deliver(sent(url, secret, at_s=now_s))
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
        await hook.deliver(sent(url))


@pytest.mark.parametrize("status", [400, 401, 404, 408, 425, 429, 500, 503])
async def test_every_other_status_may_be_retried(status: int) -> None:
    error = await failure(answering(status, "no\r\nthanks " + "x" * 9999, {"Retry-After": "30"}))
    assert (error.retryable, error.retry_after_s) == (True, 30.0)
    assert error.message.startswith(f"the receiver answered {status}: no thanks xxx")
    assert len(error.message) < 300


async def test_gone_disables() -> None:
    error = await failure(answering(410))
    assert isinstance(error, EndpointGoneError)
    assert not error.retryable


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
            await hook.deliver(sent(url))
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
            await hook.deliver(sent(url.format(url=here)))
    assert arrived == []
    assert not caught.value.retryable
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("secret", ["whsec_not base64 hunter2!", "whsec_", "", b""])
async def test_a_bad_secret_is_not_retried_and_not_told(secret: str | bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with channel() as hook:
        with pytest.raises(DeliveryError) as caught:
            await hook.deliver(sent("http://127.0.0.1:1/", secret))
    error = caught.value
    assert not error.retryable
    assert "hunter2" not in f"{error!r} {error.__cause__!r} {caplog.text}"
    assert error.__suppress_context__ or error.__context__ is None


class Receiver:
    """Keeps what it was sent."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, str], bytes]] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append((dict(request.headers), await request.read()))
        return web.Response(status=204)


NOTIFICATION = json.dumps(
    {
        "type": "proxyd.notification",
        "timestamp": "2026-03-01T12:00:00.000Z",
        "data": {"id": "ntf_1", "rule": "a b/ž", "source": "kernel", "items": [{"t": "Ž", "n": 0.1}]},
    },
    ensure_ascii=False,
).encode()


async def sent_in(form: WebhookForm, secret: bytes | str, *, times: int = 1) -> list[tuple[dict[str, str], bytes]]:
    """Return what a receiver gets of one message in a form."""
    receiver = Receiver()
    async with receiving(receiver) as url, channel() as hook:
        ways = Channels({"webhook": hook})
        now_s = SystemClock().time_s()
        for _ in range(times):
            message = Message("ntf_1", "a b/ž", url, NOTIFICATION, now_s, form=form.value, secret=secret)
            assert await ways.deliver(message) == "the receiver answered 204"
    return receiver.seen


async def test_the_github_form_is_signed_as_its_receivers_verify_it() -> None:
    headers, body = (await sent_in(WebhookForm.GITHUB, b"first second"))[0]
    assert body == NOTIFICATION
    assert headers["X-Hub-Signature-256"] == "sha256=" + hmac.new(b"first", NOTIFICATION, hashlib.sha256).hexdigest()
    assert (headers["X-GitHub-Event"], headers["X-GitHub-Delivery"]) == ("proxyd.notification", "ntf_1")
    assert headers["Content-Type"] == "application/json"


async def test_version_2_of_the_payload_is_what_is_signed() -> None:
    receiver = Receiver()
    async with receiving(receiver) as url, channel() as hook:
        ways = Channels({"webhook": hook})
        now_s = SystemClock().time_s()
        await ways.deliver(Message("ntf_1", "a", url, NOTIFICATION, now_s, payload=2, secret=WHSEC))
    ((headers, body),) = receiver.seen
    message = Webhook(WHSEC).verify(body, headers)
    assert (message["version"], message["data"]["title"], message["data"]["items"]) == (2, "Ž", [{"t": "Ž", "n": 0.1}])


async def test_a_cloudevent_holds_the_same_data_and_is_signed_and_the_same_on_every_attempt() -> None:
    seen = await sent_in(WebhookForm.CLOUDEVENTS, WHSEC, times=2)
    headers, body = seen[0]
    assert seen[1][1] == body
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert Webhook(WHSEC).verify(body, headers) == {
        "specversion": "1.0",
        "id": "ntf_1",
        "source": "/proxyd/rules/a%20b%2F%C5%BE",
        "type": "proxyd.notification",
        "time": "2026-03-01T12:00:00.000Z",
        "subject": "kernel",
        "datacontenttype": "application/json",
        "data": json.loads(NOTIFICATION)["data"],
    }


@pytest.mark.parametrize("separator", [" ", "\n", ",", " ,\n "], ids=["space", "newline", "comma", "all"])
async def test_while_a_secret_changes_receivers_of_either_value_can_verify(separator: str) -> None:
    other = "whsec_" + base64.b64encode(b"another key of 32 bytes, or near").decode()
    headers, body = (await sent_in(WebhookForm.STANDARD, other + separator + WHSEC))[0]
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (WHSEC, other):
        assert Webhook(secret).verify(body, headers) == json.loads(NOTIFICATION)


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ("whsec_é", "the webhook's secret is not base64 after whsec_; correct it and restart"),
        ("whsec_", "the webhook's secret is empty; set it and restart"),
        ("", "the webhook's secret is empty; set it and restart"),
    ],
)
def test_a_secret_that_cannot_sign_is_not_shown_and_not_tried_again(secret: str, message: str) -> None:
    with pytest.raises(DeliveryError) as caught:
        signing_keys(secret)
    assert (caught.value.message, caught.value.retryable, caught.value.__cause__) == (message, False, None)


def test_a_secret_that_is_not_text_is_one_key() -> None:
    assert signing_keys(b"\xff, \xfe") == [b"\xff, \xfe"]


async def test_a_webhook_without_a_secret_is_not_sent() -> None:
    async with channel() as hook:
        with pytest.raises(DeliveryError, match="the webhook has no secret; give it one with SECRET") as caught:
            await hook.deliver(Message("msg_1", "r", "http://127.0.0.1:9/", BODY, 1e9, "webhook"))
    assert not caught.value.retryable
