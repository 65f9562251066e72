"""Verbs that run or look after the daemon itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from proxyd import __version__, app, log
from proxyd.cli.failures import leaves
from proxyd.cli.sockets import socket_of
from proxyd.client import Client
from proxyd.config import load
from proxyd.errors import ProxydError
from proxyd.store import migrate_database, owner_lock


def serve(options: argparse.Namespace) -> int:
    """Run the daemon."""
    settings = load(options.config)
    log.configure(settings.log_format, settings.log_level)
    errors: list[ProxydError] = []
    try:
        asyncio.run(app.serve(settings))
    except* ProxydError as group:
        errors = leaves(group)
    for error in errors:
        print(f"proxyd: {error}", file=sys.stderr)
    return 1 if errors else 0


def migrate(options: argparse.Namespace) -> int:
    """Bring the database to the newest schema."""
    settings = load(options.config)
    with owner_lock(settings.database_path):
        asyncio.run(migrate_database(settings.database_path))
    print(f"{settings.database_path} is at the newest schema")
    return 0


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
