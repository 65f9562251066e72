"""Webhooks according to Standard Webhooks 1.0.0: one signed POST, judged by its status."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import aiohttp
from yarl import URL

from proxyd.core.errors import BlockedAddressError, DeliveryError
from proxyd.core.model.delivery import WebhookForm
from proxyd.core.texts.safe_text import one_line
from proxyd.net.guard import refusal_in
from proxyd.net.http_values import describe, read_some, retry_after_s
from proxyd.notify.channels.message_forms import event_type, webhook_body
from proxyd.tracing import NO_TRACES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from proxyd.base.ports import Clock, Message, ResolveSecret
    from proxyd.core.model.delivery import SecretRef
    from proxyd.net.guard import Guard
    from proxyd.notify.channels import ChannelResources
    from proxyd.tracing import Tracer

_DETAIL_BYTES = 4096
_SEPARATORS = re.compile(r"[\s,]+")


class EndpointGoneError(DeliveryError):
    """The receiver answered 410: it wants no more notifications here."""


class MissingSecretError(DeliveryError):
    """The secret is not set."""


def known_secret(resolve: ResolveSecret, ref: SecretRef) -> bytes:
    """Return a secret, or raise ``MissingSecretError`` if it is not set."""
    secret = resolve(ref)
    if secret is None:
        raise MissingSecretError(f"secret {ref.name} is not set: set it and restart")
    return secret


class WebhookChannel:
    """Delivers notifications by signed POST requests, each in its own form; it neither retries nor follows redirects.

    ``timeout_s`` limits connecting, sending and reading the answer together. ``tracer`` names the trace step of each
    request, which receivers get as ``traceparent``.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        guard: Guard,
        clock: Clock,
        *,
        timeout_s: float = 15.0,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._session = session
        self._guard = guard
        self._clock = clock
        self._timeout_s = timeout_s
        self._tracer = tracer

    async def deliver(self, message: Message) -> str:
        """Return the receiver's answer once it accepted the message with a 2xx status.

        The secret is ``whsec_`` and base64, or any other text or bytes, used unchanged; several values, separated by
        white space or commas, all sign, so that one can replace another. Raises ``EndpointGoneError``: the receiver
        answered 410; ``DeliveryError``: anything else went wrong, and ``retryable`` says whether trying again can help.
        """
        if message.secret is None:
            raise DeliveryError("the webhook has no secret; give it one with SECRET", retryable=False)
        form = WebhookForm(message.form)
        body = webhook_body(message.message_id, message.rule, message.body, form=form, version=message.payload)
        # receivers refuse old timestamps, so each attempt has its own
        headers = _headers(message.message_id, message.secret, body, message.attempt_s, form)
        if context := self._tracer.context():
            headers["traceparent"] = context
        return await self._post(self._target(message.endpoint), body, headers)

    async def _post(self, target: URL, body: bytes, headers: dict[str, str]) -> str:
        async with (
            client_errors(self._timeout_s),
            asyncio.timeout(self._timeout_s),
            self._session.post(
                target, data=body, headers=headers, allow_redirects=False, auto_decompress=False
            ) as response,  # an answer whose coding cannot be undone was taken for none, and the message sent again
        ):
            return await self._judge(response)

    def _target(self, url: str) -> URL:
        try:
            target = URL(url)
            self._guard.check_url(target)
        except BlockedAddressError as error:
            raise DeliveryError(error.message, retryable=False) from error
        except ValueError as error:
            raise DeliveryError("the webhook's URL is not valid; correct it in the profile", retryable=False) from error
        return target

    async def _judge(self, response: aiohttp.ClientResponse) -> str:
        if 200 <= response.status < 300:
            return f"the receiver answered {response.status}"
        if response.status == 410:
            raise EndpointGoneError(retryable=False)
        raise DeliveryError(
            f"the receiver answered {response.status}{await _excerpt(response)}",
            retryable=True,
            retry_after_s=retry_after_s(response.headers, self._clock.time_s()),
        )


def open_webhooks(resources: ChannelResources) -> WebhookChannel:
    """Return the webhook channel."""
    timeout_s, tracer = resources.settings.delivery_timeout, resources.tracer
    return WebhookChannel(resources.session, resources.guard, resources.clock, timeout_s=timeout_s, tracer=tracer)


def signing_keys(secret: bytes | str) -> list[bytes]:
    """Return the keys of a secret, which may hold several values while one replaces another.

    A secret that is not text is a single key.

    >>> signing_keys("whsec_c2VjcmV0"), signing_keys("new, old")
    ([b'secret'], [b'new', b'old'])
    """
    raw = secret.encode() if isinstance(secret, str) else secret
    try:
        parts = [part.encode() for part in _SEPARATORS.split(raw.decode()) if part]
    except UnicodeDecodeError:
        parts = [raw]
    if not parts:
        raise DeliveryError("the webhook's secret is empty; set it and restart", retryable=False)
    return [_key(part) for part in parts]


def _key(raw: bytes) -> bytes:
    key = _from_base64(raw.removeprefix(b"whsec_")) if raw.startswith(b"whsec_") else raw
    if not key:
        raise DeliveryError("the webhook's secret is empty; set it and restart", retryable=False)
    return key


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        # the cause would show the secret
        message = "the webhook's secret is not base64 after whsec_; correct it and restart"
        raise DeliveryError(message, retryable=False) from None


def _headers(
    notification_id: str, secret: bytes | str, body: bytes, attempt_time_s: float, form: WebhookForm
) -> dict[str, str]:
    keys = signing_keys(secret)
    if form is WebhookForm.GITHUB:
        return {
            "Content-Type": "application/json",
            "X-GitHub-Event": event_type(body),
            "X-GitHub-Delivery": notification_id,
            "X-Hub-Signature-256": "sha256=" + hmac.new(keys[0], body, hashlib.sha256).hexdigest(),
        }
    is_event = form is WebhookForm.CLOUDEVENTS
    return {
        "Content-Type": "application/cloudevents+json" if is_event else "application/json",
        "webhook-id": notification_id,
        "webhook-timestamp": str(int(attempt_time_s)),
        "webhook-signature": " ".join(signature(key, notification_id, str(int(attempt_time_s)), body) for key in keys),
    }


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a message, as Standard Webhooks 1.0.0 has it.

    >>> signature(b"key", "id", "1750000000", b"{}")
    'v1,NRZoM8UlutfDATs3sDBIEtZhtjWAzCZdpDgz934dRr0='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


async def _excerpt(response: aiohttp.ClientResponse) -> str:
    """Return the beginning of the answer for people, or ``""``."""
    try:
        data = _plain(await read_some(response, _DETAIL_BYTES - 1))
    except (aiohttp.ClientError, zlib.error):
        return ""  # the status is enough
    text = one_line(without_address(response.url, data.decode("utf-8", "replace")), 200)
    return f": {text}" if text else ""


def _plain(data: bytes) -> bytes:
    # many receivers answer in gzip, unasked
    return zlib.decompressobj(31).decompress(data, _DETAIL_BYTES) if data.startswith(b"\x1f\x8b") else data


def without_address(url: URL, text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without secrets and without the parts of a URL after its host, which may be secret.

    Receivers often repeat them, also as they stand in addresses and in JSON.

    >>> without_address(URL("https://r.example/hook?token=abcdef"), "no such page: /hook?token=abcdef")
    'no such page: [hidden]'
    >>> without_address(URL("https://r.example/"), "wrong: a%2fbcd, a/bcd", ["a/bcd"])
    'wrong: [hidden], [hidden]'
    """
    told = {url.raw_path_qs, url.path_qs, url.raw_path, url.path, url.raw_query_string, *url.parts, *url.query.values()}
    told |= set(secrets)
    told |= {written for part in told for written in (quote(part, safe=""), quote_plus(part), json.dumps(part)[1:-1])}
    for part in sorted(told, key=len, reverse=True):
        text = re.sub(re.escape(part), "[hidden]", text, flags=re.IGNORECASE) if len(part) > 3 else text
    return text


@asynccontextmanager
async def client_errors(timeout_s: float) -> AsyncIterator[None]:
    """Raise what goes wrong with a request as ``DeliveryError``."""
    try:
        yield
    except TimeoutError as error:
        raise DeliveryError(f"no answer within {timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError, UnicodeError) as error:
        refused = refusal_in(error)
        if refused is not None:
            raise DeliveryError(refused.message, retryable=False) from error
        raise DeliveryError(describe(error)) from error
