"""What the daemon remembers, in one transaction per observation."""

from proxyd.store.access import KEPT_ANSWERS_S
from proxyd.store.opening import copy_database, is_postgresql, migrate_database, open_store
from proxyd.store.past import read_past
from proxyd.store.sql import SqlStore, StoredText
from proxyd.store.sqlite import owner_lock

__all__ = [
    "KEPT_ANSWERS_S",
    "SqlStore",
    "StoredText",
    "copy_database",
    "is_postgresql",
    "migrate_database",
    "open_store",
    "owner_lock",
    "read_past",
]
