"""Chats, push services and other channels through apprise, if it is installed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import cache, partial, wraps
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

from proxyd.base.ports import Message
from proxyd.core.errors import BlockedAddressError, DeliveryError
from proxyd.core.language import channel_scheme
from proxyd.net.guard import Guard, GuardedConnections, guard_calls
from proxyd.notify.channels.chat_texts import ChatForm
from proxyd.notify.channels.chats import TakenMessages, read_answer, retry_delay_s
from proxyd.notify.channels.message_forms import chat_rows


class ChannelAddressError(ValueError):
    """A channel's address is refused; the text does not hold the address, which may hold a token."""


def has_channels() -> bool:
    """Return whether the package that sends messages to channels is installed."""
    return find_spec("apprise") is not None


@cache
def _load_apprise() -> ModuleType:
    # here, because it is slow to import and most users never need it
    apprise = import_module("apprise")
    _forget_environment(import_module("requests").Session)
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its log lines name chats and tokens
    return apprise


def _forget_environment(session: type[Any]) -> None:
    # Sessions of the library with which apprise asks services followed HTTP_PROXY, so that the guard saw the proxy's
    # address alone, and sent passwords of .netrc
    begin = session.__init__

    @wraps(begin)
    def begin_without(self: Any) -> None:
        begin(self)
        self.trust_env = False

    session.__init__ = begin_without


class ChannelAddresses:
    """The addresses to which channels may send.

    Parameters
    ----------
    schemes
        The allowed schemes, in lower case.
    guard
        Says which hosts may be reached.
    """

    def __init__(self, schemes: Collection[str], guard: Guard) -> None:
        self._schemes = frozenset(schemes)
        self.guard = guard

    def open(self, url: str) -> Any:
        """Return apprise's service at an address.

        The text is never split: apprise would send to every address that it finds in one. Raises
        ``ChannelAddressError``: it is not exactly one address, its scheme is not allowed, or apprise or the guard
        refuses it.
        """
        scheme = channel_scheme(url)
        if scheme is None:
            raise ChannelAddressError("a channel takes exactly one address, without spaces")
        if scheme not in self._schemes:
            raise ChannelAddressError(f"the setting channel_schemes does not allow {scheme}://")
        service = _load_apprise().Apprise.instantiate(url)
        if service is None:
            raise ChannelAddressError(f"apprise cannot read this {scheme}:// address")
        if "host" in service.template_tokens and service.host:  # for other services the host is a token
            try:
                self.guard.check_host(service.host)
            except BlockedAddressError as error:
                raise ChannelAddressError(f"the channel's server is refused: {error}") from error
        return service

    def problem(self, url: str) -> str | None:
        """Return why an address is refused, or ``None``; without apprise only a sender can say."""
        if not has_channels():
            return None
        try:
            self.open(url)
        except ChannelAddressError as error:
            return str(error)
        return None


_THREADS = 4
_MOST_READ = 65_536  # bytes of an answer
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Sending:
    """A notification on its way: apprise's service, and the messages that it takes."""

    service: Any
    form: ChatForm
    title: str
    texts: list[str]


@dataclass(slots=True)
class _Refusal:
    """What a service answered last that is no success: its status, and the seconds that it asks to wait."""

    status: int | None = None
    asked_s: float | None = None


class AppriseChannel:
    """Sends texts in threads of its own, as apprise blocks; the guard judges every connection."""

    def __init__(self, addresses: ChannelAddresses, *, timeout_s: float, zone: tzinfo | None = UTC) -> None:
        self._addresses = addresses
        self._zone = zone  # of the times in messages; ``None`` for that of this machine
        self._timeout_s = timeout_s
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="channel")
        self._turns = asyncio.Semaphore(_THREADS)
        self._taken = TakenMessages()

    def close(self) -> None:
        """Start no more deliveries; running threads end by themselves."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def deliver(self, message: Message) -> str:
        """Return once the service took the text, in as many messages as it needs.

        The next attempt goes on with the message that failed. Raises ``DeliveryError``: not retryable if the address is
        refused, if apprise is missing, or if the guard refuses the service's host.
        """
        if not has_channels():
            raise DeliveryError("proxyd[apprise] is not installed: install it, restart and replay", retryable=False)
        async with self._turns:
            sending = await self._in_thread(lambda _: self._prepare(message))
            sends = (partial(self._send, sending, text, message.attempt_s) for text in sending.texts)
            await self._taken.send(message, [partial(self._in_thread, send) for send in sends])
        return "the channel's service accepted it"

    async def _in_thread(self, call: Callable[[GuardedConnections], _T]) -> _T:
        connections = GuardedConnections()
        calling = asyncio.get_running_loop().run_in_executor(self._executor, call, connections)
        try:
            return await asyncio.wait_for(calling, self._timeout_s)
        except TimeoutError as error:
            connections.end()
            raise DeliveryError(f"the channel did not answer within {self._timeout_s:g} s") from error

    def _prepare(self, message: Message) -> _Sending:
        try:
            service = self._addresses.open(message.endpoint)
        except ChannelAddressError as error:
            raise DeliveryError(f"{error}; correct the profile or the setting, and replay", retryable=False) from error
        for name in ("socket_connect_timeout", "socket_read_timeout"):  # an address may ask for years
            if not 0.0 < getattr(service, name) <= self._timeout_s:
                setattr(service, name, self._timeout_s)
        heading, rows = chat_rows(message.body, self._zone)
        form = ChatForm.of(service, message.endpoint.partition(":")[0].lower())
        title = form.title(heading)
        return _Sending(service, form, title, form.messages(title, rows))

    def _send(self, sending: _Sending, text: str, now_s: float, connections: GuardedConnections) -> None:
        apprise = _load_apprise()
        sender, body_format = apprise.Apprise(sending.service), apprise.NotifyFormat(sending.form.source)
        try:
            with guard_calls(self._addresses.guard, connections) as refused, _note_refusals(now_s) as refusal:
                is_sent = bool(sender.notify(body=text, title=sending.title, body_format=body_format))
        finally:
            connections.end()
        if refused:
            raise DeliveryError(f"the channel's server is refused: {refused[0]}", retryable=False)
        if not is_sent:
            answered = "" if refusal.status is None else f": it answered {refusal.status}"
            said = f"the channel's service did not accept it, or could not be reached{answered}"
            raise DeliveryError(said, retry_after_s=refusal.asked_s)


_notes: ContextVar[tuple[float, _Refusal] | None] = ContextVar("_notes", default=None)


@contextmanager
def _note_refusals(now_s: float) -> Iterator[_Refusal]:
    """Yield what a service answers if it refuses."""
    # apprise says only whether it took a message
    _watch_answers()
    refusal = _Refusal()
    token = _notes.set((now_s, refusal))
    try:
        yield refusal
    finally:
        _notes.reset(token)


@cache
def _watch_answers() -> None:
    """Let the client of apprise's services tell their refusals, and not ask again after one that asks to wait."""
    # Some services of apprise would sleep in their thread and ask again themselves
    requests: Any = import_module("requests")
    send = requests.Session.send

    def send_and_note(session: Any, request: Any, **options: Any) -> Any:
        response, notes = send(session, request, **options), _notes.get()
        if notes is None or response.status_code < 400:
            return response
        now_s, refusal = notes
        refusal.status, refusal.asked_s = response.status_code, _retry_after_of(response, now_s)
        if response.status_code == 429 or refusal.asked_s:
            raise requests.RequestException(f"status {response.status_code}")
        return response

    requests.Session.send = send_and_note


def _retry_after_of(response: Any, now_s: float) -> float | None:
    said = read_answer(response.content) if len(response.content) <= _MOST_READ else {}
    return retry_delay_s(response.status_code, response.headers, said, now_s)
