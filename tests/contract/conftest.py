"""The store that every contract is checked on, over each kind of database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_store
from proxyd.store.sql_store import SqlStore


@pytest.fixture
async def store(database: str | Path) -> AsyncIterator[SqlStore]:
    """A store over it, whose writer runs."""
    async with open_store(database, ChrononGrid(10.0)) as opened, opened.writer.running():
        yield opened
