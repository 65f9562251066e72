"""Verbs that say how things stand."""

from __future__ import annotations

import argparse
import asyncio
import json

from proxyd import __version__
from proxyd.cli.sockets import socket_of
from proxyd.client import Client
from proxyd.config import load


def config(options: argparse.Namespace) -> int:
    """Print the settings in force."""
    values = load(options.config).describe()
    if options.json:
        print(json.dumps(values, indent=2))
        return 0
    for key, value in values.items():
        print(f"{key} = {json.dumps(value)}" if value is not None else f"# {key} is not set")
    return 0


def healthcheck(options: argparse.Namespace) -> int:
    """Exit 0 if the daemon is ready."""
    settings = load(options.config)

    async def ask() -> dict[str, object]:
        async with Client.over_socket(socket_of(settings), timeout_s=options.timeout) as client:
            return await client.ready()

    answer = asyncio.run(ask())
    print("ready" if answer["ready"] else f"not ready: {answer}")
    return 0 if answer["ready"] else 1


def version(options: argparse.Namespace) -> int:
    """Print the version."""
    print(f"proxyd {__version__}")
    return 0
