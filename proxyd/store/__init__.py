"""What the daemon remembers, in one transaction per observation."""

from proxyd.store.access import KEPT_ANSWERS_S
from proxyd.store.backups import back_up, check_copy, restore, vacuum, whole_or_nothing
from proxyd.store.engine import StoreConnections
from proxyd.store.opening import copy_database, is_postgresql, migrate_database, open_store, owner_lock
from proxyd.store.past import read_past
from proxyd.store.sql import SqlStore, StoredText

__all__ = [
    "KEPT_ANSWERS_S",
    "SqlStore",
    "StoreConnections",
    "StoredText",
    "back_up",
    "check_copy",
    "copy_database",
    "is_postgresql",
    "migrate_database",
    "open_store",
    "owner_lock",
    "read_past",
    "restore",
    "vacuum",
    "whole_or_nothing",
]
