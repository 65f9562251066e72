"""What the daemon remembers, in one transaction per observation."""

from proxyd.store.access import KEPT_ANSWERS_S
from proxyd.store.engine import migrate_database, owner_lock
from proxyd.store.past import read_past
from proxyd.store.sql import SqlStore, StoredText, open_store

__all__ = ["KEPT_ANSWERS_S", "SqlStore", "StoredText", "migrate_database", "open_store", "owner_lock", "read_past"]
