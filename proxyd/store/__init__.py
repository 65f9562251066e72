"""The daemon's store: one transaction for each observation."""

from proxyd.store.api_rows import KEPT_ANSWERS_S
from proxyd.store.backups import (
    back_up,
    check_copy,
    copy_database,
    is_postgresql,
    migrate_database,
    open_store,
    owner_lock,
    restore,
    vacuum,
    whole_or_nothing,
)
from proxyd.store.databases.connections import StoreConnections
from proxyd.store.declared_rows import StoredText
from proxyd.store.plan_rows import StoredPlan
from proxyd.store.seen_events import read_past
from proxyd.store.sql_store import SqlStore

__all__ = [
    "KEPT_ANSWERS_S",
    "SqlStore",
    "StoreConnections",
    "StoredPlan",
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
