"""The migrations make exactly the tables that the code reads and writes."""

from __future__ import annotations

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine

from proxyd.store.engine import migrate, sqlite_connections
from proxyd.store.tables import metadata


async def test_the_newest_schema_is_the_one_the_code_knows(tmp_path: Path) -> None:
    def differences(engine: Engine) -> list[object]:
        with engine.connect() as connection:
            return list(compare_metadata(MigrationContext.configure(connection), metadata))

    async with sqlite_connections(tmp_path / "p.db") as (writer, _):
        await migrate(writer)
        await migrate(writer)
        assert await writer.call(differences) == []
