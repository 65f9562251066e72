"""Verbs that run or look after the daemon itself."""

from __future__ import annotations

import argparse
import asyncio
import sys

from proxyd import app, log
from proxyd.cli.failures import leaves
from proxyd.config import load
from proxyd.errors import ProfileError, ProxydError, StoreError
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
        named = str(settings.database_path) in str(error) or not isinstance(error, StoreError)
        where = "" if named else f" (database {settings.database_path})"
        print(f"proxyd: {_said(error)}{where}", file=sys.stderr)
    return 1 if errors else 0


def _said(error: ProxydError) -> str:
    """Return what went wrong; a journal gets none of what profiles say, for secrets may stand there."""
    if isinstance(error, ProfileError) and not sys.stderr.isatty():
        return f"{error.without_texts}\n`proxyd check` shows the lines"
    return str(error)


def migrate(options: argparse.Namespace) -> int:
    """Bring the database to the newest schema."""
    settings = load(options.config)
    with owner_lock(settings.database_path):
        asyncio.run(migrate_database(settings.database_path))
    print(f"{settings.database_path} is at the newest schema")
    return 0
