"""Mail over SMTP: a notification as text, with the same Message-ID on every attempt."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from email.message import EmailMessage
from email.policy import SMTP
from typing import Literal

import aiosmtplib

from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.core.model.outcome import Picture
from proxyd.core.texts.safe_text import one_line
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.message_forms import LETTER, event_type, html_text, plain_text, sent_at, subject

_CONNECTIONS = 4
_NOT_IN_NAMES = re.compile(r'[/\\:*?"<>|]')  # of files, on some system
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class MailSettings:
    """How mail is handed over; ``host`` is empty if no server is set."""

    host: str
    port: int
    tls: Literal["starttls", "tls", "none"]
    sender: str
    timeout_s: float
    user: str = ""
    password: str = ""
    zone: tzinfo | None = UTC  # of the times in mails; ``None`` for that of this machine

    def __repr__(self) -> str:
        return f"MailSettings({self.host}:{self.port}, {self.tls}, {self.sender})"


class MailChannel:
    """Hands mails over to one SMTP server, a few at a time; it does not retry."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._turns = asyncio.Semaphore(_CONNECTIONS)

    async def deliver(self, message: Message) -> str:
        """Return the server's answer once it took the mail.

        Raises ``DeliveryError``: a permanent refusal (5xx) of the recipient or the text is not retryable. Everything
        else is: if the server refuses us, or none is set, the operator can fix that.
        """
        settings = self._settings
        if not settings.host:
            raise DeliveryError("no mail can be sent: set smtp and mail_from, and restart")
        mail = compose(message, settings.sender, settings.zone)
        async with self._turns:
            with _smtp_errors(settings.timeout_s):
                async with asyncio.timeout(settings.timeout_s):
                    return await self._send(mail)

    async def _send(self, mail: EmailMessage) -> str:
        settings = self._settings
        _, said = await aiosmtplib.send(
            mail,
            hostname=settings.host,
            port=settings.port,
            username=settings.user or None,
            password=settings.password or None,
            use_tls=settings.tls == "tls",
            start_tls=settings.tls == "starttls",
            timeout=settings.timeout_s,
        )
        return one_line(f"the mail server accepted it: {said}")


def open_mail(resources: ChannelResources) -> MailChannel:
    """Return the mail channel."""
    settings = resources.settings
    host, port = settings.smtp_address
    return MailChannel(
        MailSettings(
            host if settings.mail_from else "",
            port,
            settings.smtp_tls,
            settings.mail_from,
            settings.delivery_timeout,
            settings.smtp_user,
            settings.smtp_password,
            settings.zone,
        )
    )


def compose(message: Message, sender: str, zone: tzinfo | None = UTC) -> EmailMessage:
    """Return a message as a mail, with a Message-ID that repetitions share."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = message.endpoint
    letter = json.loads(message.body)["data"] if event_type(message.body) == LETTER else None
    title = subject(message.rule, message.body) if letter is None else letter["title"]
    mail["Subject"] = title.replace("=?", "= ?")  # else it is decoded, with line ends
    mail["Date"] = sent_at(message.body)
    mail["Message-ID"] = f"<{message.message_id}@{sender.rpartition('@')[2].strip('<> ')}>"
    mail["Auto-Submitted"] = "auto-generated"
    if letter is not None:
        mail.set_content(letter["text"])
        return mail
    mail.set_content(plain_text(message.rule, message.body, zone))
    mail.add_alternative(html_text(message.rule, message.body, zone), subtype="html")
    if message.picture is not None:
        _attach(mail, message.picture, message.rule)
    return mail


def _attach(mail: EmailMessage, picture: Picture, rule: str) -> None:
    main, _, kind = picture.media_type.partition("/")
    name = _NOT_IN_NAMES.sub("-", one_line(rule, _LONGEST_NAME)) or "screenshot"
    mail.add_attachment(picture.data, maintype=main, subtype=kind, filename=f"{name}.{kind}")


@contextmanager
def _smtp_errors(timeout_s: float) -> Iterator[None]:
    try:
        yield
    except aiosmtplib.SMTPRecipientsRefused as error:
        raise _refusal(error.recipients[0]) from error
    except aiosmtplib.SMTPDataError as error:
        raise _refusal(error) from error
    except aiosmtplib.SMTPAuthenticationError as error:
        raise DeliveryError(f"the mail server refused user or password: {error.code}") from None  # may echo them
    except (TimeoutError, aiosmtplib.SMTPTimeoutError) as error:
        raise DeliveryError(f"the mail server did not answer within {timeout_s:g} s") from error
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise DeliveryError(one_line(f"the mail server failed: {error}")) from error


def _refusal(error: aiosmtplib.SMTPResponseException) -> DeliveryError:
    text = one_line(f"the mail server answered {error.code}: {error.message}")
    return DeliveryError(text, retryable=error.code < 500)
