"""The files beside a database that its copies hold: profiles, their lists, and the settings file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from proxyd.store.databases.connections import store_errors

_TABLE = "kept_files"


def keep_files(copy: Path, texts: Mapping[str, str]) -> None:
    """Put texts into a copy of a database, by name; raises ``StoreError``."""
    with store_errors(), closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (name TEXT PRIMARY KEY, text TEXT NOT NULL)")
        connection.executemany(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", texts.items())


def kept_files(copy: Path) -> dict[str, str]:
    """Return the texts in a copy, by name; none in one of an earlier version. Raises ``StoreError``."""
    with store_errors(), closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone():
            return {}
        return dict(connection.execute(f"SELECT name, text FROM {_TABLE}"))


def drop_files(database: Path) -> None:
    """Take the texts out of a database that is put in place."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
