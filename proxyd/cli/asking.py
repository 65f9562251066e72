"""Connects verbs to a running daemon: through the local Unix socket, or another daemon with --url."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from proxyd.client import Client
from proxyd.client.wire import unreachable
from proxyd.config import TOKEN, Settings, api_token, load, socket_address
from proxyd.errors import ConfigError

T = TypeVar("T")
_NO_TOKEN = f"--url needs a token: put what `proxyd token create` printed on the daemon's machine into {TOKEN}"


def ask(options: argparse.Namespace, question: Callable[[Client], Awaitable[T]], *, timeout_s: float = 30.0) -> T:
    """Return the daemon's answer to a question."""

    async def asked() -> T:
        async with client_of(options, timeout_s=timeout_s) as client:
            return await question(client)

    return asyncio.run(asked())


def client_of(options: argparse.Namespace, *, timeout_s: float = 30.0) -> Client:
    """Return a client for the daemon that the options name."""
    if options.url is None:
        return Client.over_socket(socket_of(load(options.config)), timeout_s=timeout_s)
    token = api_token()
    if token is None:
        raise ConfigError([_NO_TOKEN])
    return Client.over_http(options.url, token, timeout_s=timeout_s)


def socket_of(settings: Settings) -> str:
    """Return the address of the daemon's Unix socket; raises if its folder does not exist."""
    try:
        return socket_address(settings.socket_path)
    except OSError as error:
        raise unreachable(str(settings.socket_path), error) from error
