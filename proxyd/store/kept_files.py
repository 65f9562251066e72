"""The files beside a database that its copies hold: profiles, their lists, and the settings file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from proxyd.core.errors import StoreError
from proxyd.core.language import MAX_FILE_BYTES, is_list
from proxyd.core.texts.safe_text import visible
from proxyd.store.databases.connections import store_errors

SETTINGS_FILE: Final = "proxyd.toml"
_FOLDER: Final = "profiles/"
_TABLE = "kept_files"
_LONGEST_NAME = 255  # bytes, which a file system takes


def keep_files(copy: Path, texts: Mapping[str, str]) -> None:
    """Put texts into an unfinished copy of a database, by name; raises ``StoreError``."""
    with store_errors(), closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("PRAGMA journal_mode = OFF")  # a copy that is broken off is thrown away
        connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (name TEXT PRIMARY KEY, text TEXT NOT NULL)")
        connection.executemany(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", texts.items())


def kept_files(copy: Path) -> dict[str, str]:
    """Return the texts in a copy, by name; none in one of an earlier version.

    Raises ``StoreError``: the copy cannot be read, or holds what no backup puts there: whoever made it may want
    something written elsewhere.
    """
    with store_errors(), closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone():
            return {}
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_FILE_BYTES + 1000)
        found: dict[str, str] = {}
        for name, text in connection.execute(f"SELECT name, text FROM {_TABLE} ORDER BY name"):
            if not (isinstance(name, str) and isinstance(text, str) and _is_kept_name(name)):
                raise StoreError(f"{copy} holds the file {visible(str(name))[:60]!r}, which proxyd did not put there")
            found[name] = text
        return found


def _is_kept_name(name: str) -> bool:
    """Return whether a backup would hold a file under this name.

    >>> [_is_kept_name(each) for each in ("profiles/news.profile", "profiles/.hosts.csv", "proxyd.toml")]
    [True, True, True]
    >>> [_is_kept_name(each) for each in ("profiles/.profile", "profiles/../a.profile", "profiles/run.sh")]
    [False, False, False]
    """
    file = name.removeprefix(_FOLDER)
    if name == file or "/" in file or "\0" in file or len(os.fsencode(file)) > _LONGEST_NAME:
        return name == SETTINGS_FILE
    return (file.endswith(".profile") and not file.startswith(".")) or is_list(file)


def profiles_among(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the profiles and lists among kept texts, by their names in the folder of profiles.

    >>> profiles_among({"profiles/a.profile": "-- a", "proxyd.toml": ""})
    {'a.profile': '-- a'}
    """
    return {name.removeprefix(_FOLDER): text for name, text in texts.items() if name.startswith(_FOLDER)}


def drop_files(database: Path) -> None:
    """Take the texts out of a database that is put in place."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
