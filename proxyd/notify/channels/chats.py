"""Notifications to chats and push services over our own guarded connections."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from proxyd.core.errors import BlockedAddressError, DeliveryError
from proxyd.core.texts.safe_text import one_line
from proxyd.net.http_values import read_some, retry_after_s
from proxyd.notify.channels.chat_services import SERVICES, Ask, ChatAddress, Post
from proxyd.notify.channels.message_forms import chat_rows
from proxyd.notify.channels.webhook import client_errors, without_address

if TYPE_CHECKING:
    from proxyd.base.ports import Message
    from proxyd.net.guard import Guard

_MOST_READ = 65_536  # bytes of an answer
_MOST_BEGUN = 4096


def chat_problem(url: str, guard: Guard) -> str | None:
    """Return why an address of one of the services is refused, or ``None``."""
    address = ChatAddress.of(url)
    if address is None:
        return "a channel takes exactly one address, without spaces"
    service = SERVICES[address.scheme]
    if not service.receivers(address):
        return f"{service.name} cannot be reached by this address; it is written {service.written}"
    if not service.has_own_server(address):
        return None
    try:
        guard.check_url(URL(address.server))
    except (BlockedAddressError, ValueError) as error:
        return f"the channel's server is refused: {error}"
    return None


def is_understood(url: str) -> bool:
    """Return whether an address is one that is sent to from here."""
    address = ChatAddress.of(url)
    service = None if address is None else SERVICES.get(address.scheme)
    return address is not None and service is not None and bool(service.receivers(address))


class TakenMessages:
    """How many messages of a notification a service took, so that the next attempt goes on with the one that failed."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()

    async def send(self, message: Message, steps: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        """Take the steps, one for each message, that were not taken by an earlier attempt."""
        key = message.message_id, message.endpoint
        for number in range(self._counts.pop(key, 0), len(steps)):
            self._counts[key] = number
            while len(self._counts) > _MOST_BEGUN:  # of those that were given up nobody tells
                self._counts.popitem(last=False)
            await steps[number]()
        self._counts.pop(key, None)


class _RefusedError(DeliveryError):
    """The service understood a request, and does not accept it."""


class ChatChannel:
    """Sends notifications to the services of ``SERVICES``, in as many messages as they need.

    ``timeout_s`` limits each request. ``homes`` are other web addresses of services, by their names. Times are those of
    a ``zone``, or of this machine if it is ``None``.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        timeout_s: float,
        homes: Mapping[str, str] = MappingProxyType({}),
        zone: tzinfo | None = UTC,
    ) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._homes = homes
        self._zone = zone
        self._taken = TakenMessages()

    async def deliver(self, message: Message) -> str:
        """Return once the service took every message; the next attempt goes on with the one that failed."""
        await self._taken.send(message, self._steps(message))
        return "the channel's service accepted it"

    def _steps(self, message: Message) -> list[Callable[[], Awaitable[Any]]]:
        """Return what to do for each receiver and each message, in order."""
        address = ChatAddress.of(message.endpoint)
        if address is None:
            raise ValueError("this address has no parts")
        service = SERVICES[address.scheme]
        home = self._homes.get(service.name, service.home)
        heading, rows = chat_rows(message.body, self._zone)
        title = service.form.title(heading)
        texts = service.form.messages(title, rows)
        ask = _Asking(self._session, service.name, self._timeout_s, message.attempt_s, frozenset(address.secrets))
        steps: list[Callable[[], Awaitable[Any]]] = []
        for target in service.receivers(address):
            for number, text in enumerate(texts):
                picture = message.picture if service.attach and number == 0 else None
                post = Post(title, text, f"{message.message_id}-{number}", picture)
                steps.append(_Step(service.send, ask, home, address, target, post))
            if message.picture is not None and service.picture is not None:
                post = Post(title, "", f"{message.message_id}-picture", message.picture)
                steps.append(_Step(service.picture, ask, home, address, target, post, is_needed=False))
        return steps


@dataclass(frozen=True, slots=True)
class _Step:
    """A message to one receiver."""

    send: Callable[[Ask, str, ChatAddress, str, Post], Awaitable[Any]]
    ask: Ask
    home: str
    address: ChatAddress
    target: str
    post: Post
    is_needed: bool = True  # a picture may be refused, because the service takes none, or none of its size

    async def __call__(self) -> None:
        try:
            await self.send(self.ask, self.home, self.address, self.target, self.post)
        except _RefusedError:
            if self.is_needed:
                raise


@dataclass(frozen=True, slots=True)
class _Asking:
    """Requests to one service."""

    session: aiohttp.ClientSession
    name: str
    timeout_s: float
    now_s: float
    secrets: frozenset[str]  # of the address

    async def __call__(
        self, url: str, *, method: str = "POST", headers: Mapping[str, str] | None = None, **content: Any
    ) -> Mapping[str, Any]:
        async with client_errors(self.timeout_s):
            try:
                target = URL(url, encoded=True)
                async with asyncio.timeout(self.timeout_s):
                    response = await self.session.request(
                        method, target, headers=headers, allow_redirects=False, **content
                    )
            except ValueError as error:  # its text may hold a secret
                raise DeliveryError("the channel's address is not valid; correct it", retryable=False) from error
            async with response:
                said = await self._said(response)
        if 200 <= response.status < 300 and said.get("ok") is not False:
            return said
        is_refused = response.status < 500 and response.status != 429
        hidden = {part for value in (headers or {}).values() for part in (value, value.rpartition(" ")[2])}
        raise (_RefusedError if is_refused else DeliveryError)(
            f"{self.name} answered {response.status}{_reason(response.url, said, self.secrets | hidden)}",
            retry_after_s=retry_delay_s(response.status, response.headers, said, self.now_s),
        )

    async def _said(self, response: aiohttp.ClientResponse) -> Mapping[str, Any]:
        # What was accepted is not sent again because its answer never ends, or is coded wrongly
        try:
            async with asyncio.timeout(self.timeout_s):
                return read_answer(await read_some(response, _MOST_READ))
        except (TimeoutError, aiohttp.ClientError, OSError):
            return {}


def read_answer(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object that a service answered, or ``{}``."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _reason(url: URL, said: Mapping[str, Any], secrets: Collection[str]) -> str:
    """Return what a service says of its refusal, without the parts of its address, which may be secret."""
    errors = said.get("errors")
    told = [said.get(name) for name in ("description", "errorDescription", "message", "error")]
    told += errors[:1] if isinstance(errors, list) else []
    found = next((each for each in told if each and isinstance(each, str)), "")
    text = one_line(without_address(url, found, secrets), 200)
    return f": {text}" if text else ""


def retry_delay_s(status: int, headers: Mapping[str, str], said: Mapping[str, Any], now_s: float) -> float | None:
    """Return the seconds that a service asks to wait, in a header or, as chats do, in JSON; ``None``: it does not.

    >>> retry_delay_s(429, {}, {"parameters": {"retry_after": 3}}, 0.0)
    3.0
    """
    asked_s = retry_after_s(headers, now_s)
    if asked_s is not None or status != 429:
        return asked_s
    try:
        if (reset := headers.get("X-Limit-App-Reset")) is not None:  # Pushover's month
            seconds = float(reset) - now_s
        else:
            said = said.get("parameters") or said
            seconds = float(said["retry_after"] if "retry_after" in said else said["retry_after_ms"] / 1000.0)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return None
    return seconds if isfinite(seconds) and seconds > 0.0 else None
