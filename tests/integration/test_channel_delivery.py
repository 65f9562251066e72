"""Channels through apprise, with a service of our own."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from proxyd.errors import DeliveryError
from proxyd.notify import AppriseChannel
from proxyd.notify.channels import apprise_channel as channel
from proxyd.ports import Message

apprise = pytest.importorskip("apprise")
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated", "ignore:.*:DeprecationWarning:apprise")
BODY = json.dumps(
    {
        "type": "proxyd.notification",
        "timestamp": "2026-03-01T12:00:00.000Z",
        "data": {"id": "ntf_1", "rule": "R", "items": [{"title": "found"}]},
    }
).encode()
Service = Callable[[str, str], bool | None]


@asynccontextmanager
async def served(service: Service, *, timeout_s: float = 10.0) -> AsyncIterator[AppriseChannel]:
    """Yield a channel that may use ``ours://``, which ``service`` answers in the channel's threads."""

    def send(body: str, title: str, *_rest: object, **_options: object) -> bool | None:
        return service(title, body)

    apprise.decorators.notify(on="ours", name="ours")(send)
    opened = AppriseChannel(["ours"], timeout_s=timeout_s)
    try:
        yield opened
    finally:
        opened.close()
        apprise.NotificationManager().remove("ours")


def message(url: str = "ours://token/chat") -> Message:
    return Message("ntf_1", "R", url, BODY, 1e9, "channel")


async def test_a_text_is_sent_in_a_thread_of_its_own() -> None:
    seen = []

    def service(title: str, body: str) -> bool:
        seen.append((title, body, threading.current_thread() is threading.main_thread()))
        return True

    async with served(service) as opened:
        assert await opened.deliver(message()) == "the channel's service accepted it"
    title, body, is_main = seen[0]
    assert (title, is_main) == ("R: found", False)
    assert "title: found" in body


async def test_what_the_service_refuses_is_tried_again() -> None:
    async with served(lambda _title, _body: False) as opened:
        with pytest.raises(DeliveryError, match="did not accept it") as caught:
            await opened.deliver(message())
    assert caught.value.retryable


async def test_a_service_that_hangs_is_a_timeout() -> None:
    let_go = threading.Event()
    async with served(lambda _title, _body: let_go.wait(), timeout_s=0.1) as opened:
        with pytest.raises(DeliveryError, match="did not answer within") as caught:
            await opened.deliver(message())
        let_go.set()
    assert caught.value.retryable


async def test_a_scheme_that_is_not_allowed_is_given_up_without_a_secret_in_sight() -> None:
    async with served(lambda _title, _body: True) as opened:
        with pytest.raises(DeliveryError, match="does not allow json://") as caught:
            await opened.deliver(message("json://hunter2@127.0.0.1/"))
    assert not caught.value.retryable
    assert "hunter2" not in str(caught.value)


async def test_without_apprise_it_is_given_up_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "has_channels", lambda: False)
    async with served(lambda _title, _body: True) as opened:
        with pytest.raises(DeliveryError, match=r"proxyd\[apprise\] is not installed") as caught:
            await opened.deliver(message())
    assert not caught.value.retryable
