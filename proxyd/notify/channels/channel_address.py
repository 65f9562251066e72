"""Addresses of channels: exactly one service, of an allowed scheme, on a host that the guard allows."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from proxyd.core.errors import BlockedAddressError
from proxyd.core.language import channel_scheme
from proxyd.net import Guard


class ChannelAddressError(ValueError):
    """A channel's address is refused; the text does not hold the address, which may hold a token."""


def has_channels() -> bool:
    """Return whether the package that sends messages to channels is installed."""
    return find_spec("apprise") is not None


@cache
def load_apprise() -> ModuleType:
    """Return apprise, which is slow to import and which most users never need."""
    apprise = import_module("apprise")
    _forget_environment(import_module("requests").Session)
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its log lines name chats and tokens
    return apprise


def _forget_environment(session: type[Any]) -> None:
    """Let sessions of the library that apprise asks services with read no environment.

    They followed HTTP_PROXY, so that the guard saw the proxy's address alone, and sent passwords of .netrc.
    """
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

        The text is never split: apprise would send to every address that it finds in one.

        Raises
        ------
        ChannelAddressError
            It is not exactly one address, its scheme is not allowed, or apprise or the guard refuses it.
        """
        scheme = channel_scheme(url)
        if scheme is None:
            raise ChannelAddressError("a channel takes exactly one address, without spaces")
        if scheme not in self._schemes:
            raise ChannelAddressError(f"the setting channel_schemes does not allow {scheme}://")
        service = load_apprise().Apprise.instantiate(url)
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
