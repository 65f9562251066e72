"""What the daemon remembers, in one transaction per observation."""

from proxyd.store.engine import owner_lock
from proxyd.store.sql import OutboxEntry, SqlStore, StoredText, StoredToken, open_store

__all__ = ["OutboxEntry", "SqlStore", "StoredText", "StoredToken", "open_store", "owner_lock"]
