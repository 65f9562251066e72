"""Chats, push services and other channels through apprise, if it is installed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from proxyd.errors import DeliveryError
from proxyd.net import Connections, guarded
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.channel_address import ChannelAddressError, ChannelAddresses, has_channels, load_apprise
from proxyd.notify.message_forms import chat_text
from proxyd.ports import Message

_THREADS = 4


class AppriseChannel:
    """Sends texts in threads of its own, as apprise blocks; the guard judges every connection."""

    def __init__(self, addresses: ChannelAddresses, *, timeout_s: float) -> None:
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="channel")
        self._turns = asyncio.Semaphore(_THREADS)

    def close(self) -> None:
        """Start no more deliveries; running threads end by themselves."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def deliver(self, message: Message) -> str:
        """Return once the service took the text.

        Raises
        ------
        DeliveryError
            Not retryable if the address is refused, if apprise is missing, or if the guard refuses the service's host.
        """
        if not has_channels():
            raise DeliveryError("proxyd[apprise] is not installed: install it, restart and replay", retryable=False)
        title, text = chat_text(message.body)
        loop, connections = asyncio.get_running_loop(), Connections()
        async with self._turns:
            sending = loop.run_in_executor(self._executor, self._send, message.endpoint, title, text, connections)
            try:
                is_sent = await asyncio.wait_for(sending, self._timeout_s)
            except TimeoutError as error:
                connections.end()
                raise DeliveryError(f"the channel did not answer within {self._timeout_s:g} s") from error
        if not is_sent:
            raise DeliveryError("the channel's service did not accept it, or could not be reached")
        return "the channel's service accepted it"

    def _send(self, url: str, title: str, text: str, connections: Connections) -> bool:
        apprise = load_apprise()
        try:
            service = self._addresses.open(url)
        except ChannelAddressError as error:
            raise DeliveryError(f"{error}; correct the profile or the setting, and replay", retryable=False) from error
        for name in ("socket_connect_timeout", "socket_read_timeout"):  # an address may ask for years
            if not 0.0 < getattr(service, name) <= self._timeout_s:
                setattr(service, name, self._timeout_s)
        sender = apprise.Apprise(service)
        try:
            with guarded(self._addresses.guard, connections) as refused:
                is_sent = bool(sender.notify(body=text, title=title, body_format=apprise.NotifyFormat.TEXT))
        finally:
            connections.end()
        if refused:
            raise DeliveryError(f"the channel's server is refused: {refused[0]}", retryable=False)
        return is_sent


def open_apprise(resources: ChannelResources) -> AppriseChannel:
    """Return the channel of chats and push services; its threads end with the daemon."""
    settings = resources.settings
    addresses = ChannelAddresses(settings.channel_schemes, resources.guard)
    channel = AppriseChannel(addresses, timeout_s=settings.delivery_timeout)
    resources.at_end(channel.close)
    return channel
