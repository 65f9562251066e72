"""Mail over real sockets to a server that takes it, or does not."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.notify.channels.mail import MailChannel, MailSettings
from tests.servers import free_port

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
TO = "reader@example.org"
Tls: TypeAlias = Literal["starttls", "tls", "none"]
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
    port = free_port()
    controller = Controller(sink, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


def channel(port: int, *, tls: Tls = "none", user: str = "", password: str = "") -> MailChannel:
    host = "127.0.0.1" if tls == "none" else "localhost"
    return MailChannel(MailSettings(host, port, tls, "proxyd@example.net", 5.0, user, password))


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
            assert await channel(port).deliver(message()) == "the mail server accepted it: taken as 42"
    first, second = sink.mails
    assert {first["Message-ID"], second["Message-ID"]} == {"<ntf_1@example.net>"}
    assert (first["From"], first["To"], first["Bcc"]) == ("proxyd@example.net", TO, None)
    assert first["Subject"].startswith("Žluťoučký xxx")
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Date"] == second["Date"] == "Sun, 01 Mar 2026 12:00:00 +0000"
    assert [part.get_content_type() for part in first.iter_parts()] == ["text/plain", "text/html"]
    for part in first.iter_parts():
        assert "Žluťoučký " + "x" * 300 in part.get_content()


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


class Wire:
    """Passes bytes on between a client and a server; keeps those of the client, as anyone on the way could."""

    def __init__(self) -> None:
        self.sent = b""

    @asynccontextmanager
    async def before(self, port: int) -> AsyncIterator[int]:
        """Yield the port to connect to; at the end wait until both sides have hung up."""
        ended: list[asyncio.Future[None]] = []

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ended.append(asyncio.get_running_loop().create_future())
            there, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(self._pass_on(reader, back, keep=True), self._pass_on(there, writer, keep=False))
            ended[-1].set_result(None)

        async with await asyncio.start_server(relay, "127.0.0.1") as server:
            yield server.sockets[0].getsockname()[1]
            await asyncio.gather(*ended)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, keep: bool) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                self.sent += piece if keep else b""
                writer.write(piece)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


class Login:
    """Lets one password in and remembers that it was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, _server: object, _session: object, _envelope: object, _how: str, data: object) -> AuthResult:
        self.asked += 1
        return AuthResult(success=getattr(data, "password", b"") == b"hunter2", handled=False)


def serving_tls(sink: Sink, how: Tls, authority: trustme.CA, *names: str) -> Any:
    """Serve over TLS with a certificate for ``names``, with the password *hunter2*."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    if how == "tls":  # of which its check of AUTH does not know
        return serving(sink, authenticator=Login(), auth_required=True, auth_require_tls=False, ssl_context=context)
    return serving(sink, authenticator=Login(), auth_required=True, require_starttls=True, tls_context=context)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """Return an authority that this process trusts."""
    trusted = trustme.CA()
    trusted.cert_pem.write_to_path(str(tmp_path / "authorities.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authorities.pem"))
    return trusted


@pytest.mark.parametrize("how", ["tls", "starttls"])
async def test_over_tls_nobody_on_the_way_reads_the_password_or_the_mail(how: Tls, authority: trustme.CA) -> None:
    sink, wire = Sink(), Wire()
    async with serving_tls(sink, how, authority, "localhost") as port, wire.before(port) as public:
        mail = channel(public, tls=how, user="me", password="hunter2")
        assert await mail.deliver(message()) == "the mail server accepted it: taken as 42"
    assert len(sink.mails) == 1
    is_upgraded = wire.sent.startswith(b"EHLO ") and b"\r\nSTARTTLS\r\n\x16" in wire.sent
    assert is_upgraded if how == "starttls" else wire.sent.startswith(b"\x16")  # 22: a handshake
    assert [text for text in (b"AUTH", b"MAIL FROM", b"reader@") if text in wire.sent] == []


@pytest.mark.parametrize("how", ["tls", "starttls"])
@pytest.mark.parametrize(
    ("names", "is_trusted"),
    [(("localhost",), False), (("example.org",), True)],
    ids=["unknown authority", "other name"],
)
async def test_to_a_server_that_is_not_vouched_for_nothing_is_said(
    how: Tls, names: tuple[str, ...], is_trusted: bool, authority: trustme.CA
) -> None:
    sink, wire = Sink(), Wire()
    issuer = authority if is_trusted else trustme.CA()
    async with serving_tls(sink, how, issuer, *names) as port, wire.before(port) as public:
        with pytest.raises(DeliveryError, match="certificate verify failed") as caught:
            await channel(public, tls=how, user="me", password="hunter2").deliver(message())
    assert caught.value.retryable
    assert sink.mails == []
    assert [text for text in (b"AUTH", b"MAIL FROM", b"reader@") if text in wire.sent] == []


async def test_where_starttls_is_wanted_and_not_offered_nothing_goes_in_the_clear() -> None:
    sink, wire, login = Sink(), Wire(), Login()
    async with serving(sink, authenticator=login, auth_require_tls=False) as port, wire.before(port) as public:
        with pytest.raises(DeliveryError, match="STARTTLS") as caught:
            await channel(public, tls="starttls", user="me", password="hunter2").deliver(message())
    assert caught.value.retryable
    assert (sink.mails, login.asked) == ([], 0)
    assert wire.sent.splitlines()[1:] in ([], [b"QUIT"])


async def test_a_server_in_the_clear_is_not_spoken_to_where_tls_is_wanted_from_the_start() -> None:
    sink, wire = Sink(), Wire()
    async with serving(sink) as port, wire.before(port) as public:
        with pytest.raises(DeliveryError) as caught:
            await channel(public, tls="tls", user="me", password="hunter2").deliver(message())
    assert caught.value.retryable
    assert sink.mails == []
    assert wire.sent.startswith(b"\x16")


async def test_a_mail_server_that_is_silent_is_asked_again_later() -> None:
    async with serving(Sink()) as port:
        silent = MailChannel(MailSettings("127.0.0.1", port, "none", "proxyd@example.org", 0.0))
        with pytest.raises(DeliveryError, match="the mail server did not answer within 0 s") as caught:
            await silent.deliver(message())
    assert caught.value.retryable
