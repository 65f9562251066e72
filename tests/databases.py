"""Databases at the newest schema, made once and copied: every revision again costs more than most tests do."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import threading
from functools import cache
from pathlib import Path

from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_store


def migrate(database: str | Path) -> None:
    """Bring a database to the newest schema."""

    async def opened() -> None:
        async with open_store(database, ChrononGrid(10.0)):
            pass

    thread = threading.Thread(target=lambda: asyncio.run(opened()))  # whether or not a loop runs in this one
    thread.start()
    thread.join()


def migrated_file(path: Path) -> Path:
    """Make a file of SQLite at the newest schema, unless it is there, and return its path."""
    if not path.exists():
        shutil.copy(_template(), path)
    return path


@cache
def _template() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="proxyd-migrated-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "p.db"
    migrate(path)
    return path
