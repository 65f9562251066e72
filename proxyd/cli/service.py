"""The verb that runs the daemon."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Coroutine

from proxyd import log
from proxyd.app import wiring as app
from proxyd.cli.failures import leaves
from proxyd.config import Settings, load
from proxyd.errors import ProfileError, ProxydError, StoreError


def serve(options: argparse.Namespace) -> int:
    """Run the daemon."""
    settings = load(options.config, role=options.role)
    settings.check_roles()
    log.configure(settings.log_format, settings.log_level)
    errors: list[ProxydError] = []
    try:
        asyncio.run(_served(settings))
    except* ProxydError as group:
        errors = leaves(group)
    for error in errors:
        named = settings.database_shown in str(error) or not isinstance(error, StoreError)
        where = "" if named else f" (database {settings.database_shown})"
        print(f"proxyd: {_said(error)}{where}", file=sys.stderr)
    return 1 if errors else 0


def _said(error: ProxydError) -> str:
    """Return what went wrong; the journal gets no text of profiles, which may hold secrets."""
    if isinstance(error, ProfileError) and not sys.stderr.isatty():
        return f"{error.without_texts}\n`proxyd check` shows the lines"
    return str(error)


def _served(settings: Settings) -> Coroutine[None, None, None]:
    """Return the coroutine that runs the daemon: on its own file, or as one of several machines."""
    if settings.database_path is not None and not settings.nats:
        return app.serve(settings)
    from proxyd.app import machine as roles  # it needs drivers that are optional dependencies

    return roles.serve(settings)
