"""Chats, push services and other channels through apprise, if it is installed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

from proxyd.config.profile_files import has_channels
from proxyd.errors import DeliveryError
from proxyd.notify.channels import ChannelResources
from proxyd.notify.message_forms import plain_text, subject
from proxyd.ports import Message

_THREADS = 4


class AppriseChannel:
    """Sends texts in threads of its own, as apprise blocks. Apprise bypasses the guard, so schemes are allow-listed."""

    def __init__(self, schemes: Collection[str], *, timeout_s: float) -> None:
        self._schemes = frozenset(schemes)
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
            Not retryable if the scheme is not allowed, apprise cannot send to it, or the address cannot be read.
        """
        self._check(message.endpoint)
        title, text = subject(message.rule, message.body), plain_text(message.rule, message.body)
        loop = asyncio.get_running_loop()
        async with self._turns:
            sending = loop.run_in_executor(self._executor, _send, message.endpoint, title, text)
            try:
                is_sent = await asyncio.wait_for(sending, self._timeout_s)
            except TimeoutError as error:
                raise DeliveryError(f"the channel did not answer within {self._timeout_s:g} s") from error
        if not is_sent:
            raise DeliveryError("the channel's service did not accept it, or could not be reached")
        return "the channel's service accepted it"

    def _check(self, url: str) -> None:
        scheme = url.partition("://")[0].lower()
        if scheme not in self._schemes:
            message = f"the setting channel_schemes does not allow {scheme}://: add it, restart and replay"
            raise DeliveryError(message, retryable=False)
        if not has_channels():
            raise DeliveryError("proxyd[apprise] is not installed: install it, restart and replay", retryable=False)


def open_apprise(resources: ChannelResources) -> AppriseChannel:
    """Return the channel of chats and push services; its threads end with the daemon."""
    settings = resources.settings
    channel = AppriseChannel(settings.channel_schemes, timeout_s=settings.delivery_timeout)
    resources.at_end(channel.close)
    return channel


def _send(url: str, title: str, text: str) -> bool:
    apprise = import_module("apprise")  # slow to import, and most users never need it
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its log lines name chats and tokens
    sender = apprise.Apprise()
    if not sender.add(url):
        raise DeliveryError("apprise cannot read the channel's address; correct it in the profile", retryable=False)
    return bool(sender.notify(body=text, title=title, body_format=apprise.NotifyFormat.TEXT))
