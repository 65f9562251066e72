"""Accounts by day alone: nobody asks for them by source; and deliveries are found by the digest that they are in."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_COUNTS = ("probes", "items", "timed_items", "captured", "missed")
_SUMS = (
    *("predicted_items", "predicted_timed_items", "delay_item_s", "predicted_delay_item_s"),
    *("predicted_captured", "predicted_missed"),
)


def upgrade() -> None:
    _remake([sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False)], "day")
    is_gathered = sa.text("digest_id IS NOT NULL")
    op.create_index("ix_outbox_digest", "outbox", ["digest_id"], sqlite_where=is_gathered, postgresql_where=is_gathered)


def downgrade() -> None:
    op.drop_index("ix_outbox_digest", "outbox")
    keys: list[sa.Column[Any]] = [sa.Column("day", sa.Integer(), primary_key=True)]
    _remake([*keys, sa.Column("source_id", sa.String(), primary_key=True)], "day, source_id", "day, ''")


def _remake(keys: list[sa.Column[Any]], names: str, values: str = "day") -> None:
    """Make the table anew with other keys, and add up what it holds."""
    counts = [sa.Column(name, sa.Integer(), nullable=False) for name in _COUNTS]
    sums = [sa.Column(name, sa.Float(), nullable=False) for name in _SUMS]
    op.create_table("accounts_new", *keys, *counts, *sums)
    kept, added = ", ".join((*_COUNTS, *_SUMS)), ", ".join(f"SUM({name})" for name in (*_COUNTS, *_SUMS))
    op.execute(f"INSERT INTO accounts_new ({names}, {kept}) SELECT {values}, {added} FROM accounts GROUP BY day")
    op.drop_table("accounts")
    op.rename_table("accounts_new", "accounts")
