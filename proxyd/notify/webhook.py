"""Webhooks as Standard Webhooks 1.0.0 describes them: one signed POST, judged by its status."""

from __future__ import annotations

import asyncio
import base64
import binascii
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
from standardwebhooks import Webhook
from yarl import URL

from proxyd.errors import BlockedAddressError, DeliveryError
from proxyd.net import describe, one_line, read_some, refusal_in, retry_after_s

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxyd.net import Guard, HostTokens
    from proxyd.ports import Clock

_DETAIL_BYTES = 4096


class EndpointGoneError(DeliveryError):
    """The receiver answered 410: it wants no more notifications here."""

    disables = True


class WebhookChannel:
    """Delivers notifications by signed POST requests; it neither retries nor follows redirects.

    Parameters
    ----------
    tokens
        Spaces the requests to one host, where given; waiting for them does not count towards ``timeout_s``.
    timeout_s
        Connecting, sending and reading the answer together.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        guard: Guard,
        clock: Clock,
        *,
        tokens: HostTokens | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self._session = session
        self._guard = guard
        self._clock = clock
        self._tokens = tokens
        self._timeout_s = timeout_s

    async def deliver(
        self, notification_id: str, url: str, secret: bytes | str, body: bytes, attempt_time_s: float
    ) -> None:
        """Return when the receiver has accepted ``body`` with a status of the 200s.

        Parameters
        ----------
        notification_id
            The same on every attempt, so that receivers can tell repetitions.
        secret
            ``whsec_`` and base64, or any other text or bytes, used as they are.
        attempt_time_s
            Unix seconds for ``webhook-timestamp``; receivers refuse old ones, so each attempt has its own.

        Raises
        ------
        EndpointGoneError
            The receiver answered 410.
        DeliveryError
            Anything else went wrong; ``retryable`` says whether trying again can help.
        """
        headers = _headers(notification_id, secret, body, attempt_time_s)
        target = self._target(url)
        if self._tokens is not None:
            await self._tokens.take(target.raw_host or "")
        async with (
            _client_errors(self._timeout_s),
            asyncio.timeout(self._timeout_s),
            self._session.post(target, data=body, headers=headers, allow_redirects=False) as response,
        ):
            await self._judge(response)

    def _target(self, url: str) -> URL:
        try:
            target = URL(url)
            self._guard.check_url(target)
        except BlockedAddressError as error:
            raise DeliveryError(error.message, retryable=False) from error
        except ValueError as error:
            raise DeliveryError("the URL cannot be read", retryable=False) from error
        return target

    async def _judge(self, response: aiohttp.ClientResponse) -> None:
        if 200 <= response.status < 300:
            return
        if response.status == 410:
            raise EndpointGoneError(retryable=False)
        raise DeliveryError(
            f"the receiver answered {response.status}{await _excerpt(response)}",
            retryable=True,
            retry_after_s=retry_after_s(response.headers, self._clock.time_s()),
        )


def signing_key(secret: bytes | str) -> bytes:
    """Return the key of a secret.

    >>> signing_key("whsec_c2VjcmV0")
    b'secret'
    >>> signing_key("secret")
    b'secret'
    """
    raw = secret.encode() if isinstance(secret, str) else secret
    if raw.startswith(b"whsec_"):
        raw = _from_base64(raw.removeprefix(b"whsec_"))
    if not raw:
        raise DeliveryError("the webhook's secret is empty", retryable=False)
    return raw


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        # the cause would show the secret
        raise DeliveryError("the webhook's secret is not base64 after whsec_", retryable=False) from None


def _headers(notification_id: str, secret: bytes | str, body: bytes, attempt_time_s: float) -> dict[str, str]:
    when = datetime.fromtimestamp(int(attempt_time_s), UTC)  # the library takes any other zone for UTC
    return {
        "Content-Type": "application/json",
        "webhook-id": notification_id,
        "webhook-timestamp": str(int(attempt_time_s)),
        "webhook-signature": Webhook(signing_key(secret)).sign(notification_id, when, body.decode()),
    }


async def _excerpt(response: aiohttp.ClientResponse) -> str:
    """Return the beginning of the answer for people, or ``""``; trouble while reading it changes nothing."""
    try:
        data = await read_some(response, _DETAIL_BYTES - 1)
    except aiohttp.ClientError:
        return ""
    text = one_line(data.decode("utf-8", "replace"), 200)
    return f": {text}" if text else ""


@asynccontextmanager
async def _client_errors(timeout_s: float) -> AsyncIterator[None]:
    """Turn what the HTTP client raises into DeliveryError."""
    try:
        yield
    except TimeoutError as error:
        raise DeliveryError(f"no answer within {timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError, UnicodeError) as error:
        refused = refusal_in(error)
        if refused is not None:
            raise DeliveryError(refused.message, retryable=False) from error
        raise DeliveryError(describe(error)) from error
