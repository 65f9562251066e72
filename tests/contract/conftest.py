"""The stores that every contract is checked on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxyd.model.chronon import ChrononGrid
from proxyd.store import SqlStore, open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """An empty database."""
    if request.param == "sqlite":
        return tmp_path / "p.db"
    address: str = request.getfixturevalue("postgresql").create()
    return address


@pytest.fixture
async def store(database: str | Path) -> AsyncIterator[SqlStore]:
    """A store over it, whose writer runs."""
    async with open_store(database, ChrononGrid(10.0)) as opened, opened.writer.running():
        yield opened
