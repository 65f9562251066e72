"""Mail over real sockets to a server that takes it, or does not."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from proxyd.errors import DeliveryError
from proxyd.notify import MailChannel, MailSettings
from proxyd.ports import Message

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
TO = "reader@example.org"
BODY = json.dumps(
    {
        "type": "proxyd.notification",
        "timestamp": "2026-03-01T12:00:00.000Z",
        "data": {"id": "ntf_1", "rule": "R", "source": "s", "items": [{"title": "Žluťoučký " + "x" * 300}]},
    }
).encode()


class Sink:
    """Answers each mail as it is told and keeps those that it took."""

    def __init__(self, *, recipient: str = "250 OK", text: str = "250 taken as 42") -> None:
        self.mails: list[EmailMessage] = []
        self._recipient = recipient
        self._text = text

    async def handle_RCPT(  # noqa: N802 - its library's name
        self, server: object, session: object, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.rcpt_tos.append(address)
        return self._recipient

    async def handle_DATA(self, server: object, session: object, envelope: Envelope) -> str:  # noqa: N802 - likewise
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return self._text


@asynccontextmanager
async def serving(sink: Sink, **options: Any) -> AsyncIterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    controller = Controller(sink, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


def channel(port: int, *, user: str = "", password: str = "") -> MailChannel:
    return MailChannel(MailSettings("127.0.0.1", port, "none", "proxyd@example.net", 5.0, user, password))


def message() -> Message:
    return Message("ntf_1", "R\r\nBcc: other@example.org", TO, BODY, 1e9, "mail")


async def refusal(sink: Sink) -> DeliveryError:
    async with serving(sink) as port:
        with pytest.raises(DeliveryError) as caught:
            await channel(port).deliver(message())
    return caught.value


async def test_a_mail_says_what_was_found_and_repetitions_can_be_told() -> None:
    sink = Sink()
    async with serving(sink) as port:
        for _ in range(2):
            assert await channel(port).deliver(message()) == "the mail server took it: taken as 42"
    first, second = sink.mails
    assert {first["Message-ID"], second["Message-ID"]} == {"<ntf_1@example.net>"}
    assert (first["From"], first["To"], first["Bcc"]) == ("proxyd@example.net", TO, None)
    assert first["Subject"].startswith("R Bcc: other@example.org: Žluťoučký xxx")
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Date"] == second["Date"] == "Sun, 01 Mar 2026 12:00:00 +0000"
    assert first.get_content_type() == "text/plain"
    assert "title: Žluťoučký " + "x" * 300 in first.get_content()


@pytest.mark.parametrize(
    ("sink", "retryable"),
    [
        (Sink(recipient="450 come again"), True),
        (Sink(recipient="550 no such user"), False),
        (Sink(text="451 come again"), True),
        (Sink(text="554 this is spam"), False),
    ],
    ids=["recipient later", "recipient never", "text later", "text never"],
)
async def test_only_a_refusal_for_good_is_given_up(sink: Sink, retryable: bool) -> None:
    error = await refusal(sink)
    assert error.retryable is retryable
    assert error.message.startswith("the mail server answered 4" if retryable else "the mail server answered 5")


async def test_a_server_that_is_not_there_is_tried_again() -> None:
    async with serving(Sink()) as port:
        pass
    with pytest.raises(DeliveryError) as caught:
        await channel(port).deliver(message())
    assert caught.value.retryable


async def test_without_a_server_mail_waits() -> None:
    settings = MailSettings("", 0, "none", "", 5.0)
    with pytest.raises(DeliveryError, match="set smtp and mail_from") as caught:
        await MailChannel(settings).deliver(message())
    assert caught.value.retryable


@pytest.mark.parametrize("password", ["right", "hunter2"])
async def test_a_password_is_used_and_never_shown(password: str) -> None:
    def authenticate(_server: object, _session: object, _envelope: object, _how: str, data: object) -> AuthResult:
        return AuthResult(success=getattr(data, "password", b"") == b"right", handled=False)

    sink = Sink()
    async with serving(sink, authenticator=authenticate, auth_required=True, auth_require_tls=False) as port:
        mail = channel(port, user="me", password=password)
        if password == "right":
            await mail.deliver(message())
        else:
            with pytest.raises(DeliveryError) as caught:
                await mail.deliver(message())
            assert caught.value.retryable
            assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {mail._settings!r}"
    assert len(sink.mails) == (1 if password == "right" else 0)
