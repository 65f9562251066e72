"""Verbs that maintain the database, with or without a running daemon."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from proxyd.cli.printing import print_json
from proxyd.clock import SystemClock
from proxyd.config import load
from proxyd.store import back_up, copy_database, migrate_database, restore, vacuum


def migrate(options: argparse.Namespace) -> int:
    """Migrate the database to the newest schema."""
    settings = load(options.config)
    asyncio.run(migrate_database(settings.database))
    print(f"{settings.database_shown} is at the newest schema")
    return 0


def write_backup(options: argparse.Namespace) -> int:
    """Write a copy of the database and check it; the daemon keeps running."""
    settings = load(options.config)
    asyncio.run(back_up(settings.database, options.file))
    size = options.file.stat().st_size
    if options.json:
        print_json({"file": str(options.file), "bytes": size})
    else:
        print(f"{options.file}: {size / 2**20:.1f} MiB, checked; `proxyd restore {options.file}` brings it back")
    return 0


def put_back(options: argparse.Namespace) -> int:
    """Replace the database with a backup."""
    settings = load(options.config)
    stamp = datetime.fromtimestamp(SystemClock().wall_s(), UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = asyncio.run(restore(settings.database, options.file, stamp=stamp, replaces=options.replace))
    if options.json:
        print_json({"database": settings.database_shown, "kept": None if aside is None else str(aside)})
    else:
        kept = "" if aside is None else f"; the previous one is kept as {aside}"
        print(f"{settings.database_shown} is restored from {options.file}{kept}")
    return 0


def copy(options: argparse.Namespace) -> int:
    """Copy the whole database to an empty one."""
    settings = load(options.config)
    target = load(options.config, database=options.target)
    counts = asyncio.run(copy_database(settings.database, target.database))
    if options.json:
        print_json({"database": target.database_shown, "rows": counts})
    else:
        print(f"{sum(counts.values())} rows of {len(counts)} tables copied to {target.database_shown}")
        print("now let the setting database name it, and start the daemon")
    return 0


def tidy(options: argparse.Namespace) -> int:
    """Free the space of deleted rows."""
    settings = load(options.config)
    path = settings.database_path
    before = _size(path)
    asyncio.run(vacuum(settings.database))
    back = "" if path is None else f": {before / 2**20:.1f} MiB before, {_size(path) / 2**20:.1f} MiB now"
    print(f"{settings.database_shown} is vacuumed{back}")
    return 0


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.exists() else 0
