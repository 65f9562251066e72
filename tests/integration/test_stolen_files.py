"""What somebody finds who takes the files: only their owner can open them, and no token is in them."""

from __future__ import annotations

import os
from pathlib import Path

from proxyd.api.auth import new_token
from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_store, owner_lock


async def test_the_database_its_logs_and_its_copies_are_their_owners_alone_and_hold_no_token(tmp_path: Path) -> None:
    database = tmp_path / "data" / "proxyd.db"
    token, shown = new_token("me", "admin", now_s=1.0, expires_in_s=None)
    before = os.umask(0o022)
    try:
        with owner_lock(database):
            async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
                await store.access.add_token(token)
                await store.upkeep.backup(tmp_path / "data" / "copy.db")
                files = {path: path.read_bytes() for path in database.parent.glob("*.db*")}
                modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("proxyd.db", "proxyd.db-wal", "proxyd.db-shm", "copy.db"), 0o600)
    secret = shown.split("_", 2)[2].encode()
    assert any(token.sha256.encode() in held for held in files.values())
    assert not any(secret in held for held in files.values())
