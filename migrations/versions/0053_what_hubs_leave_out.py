"""Adds how many of the last items a hub pushed, beside those that it left out; no hub is left any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the number, and ask the hubs again that were left."""
    op.add_column("subscriptions", sa.Column("told", sa.Integer(), nullable=False, server_default="0"))
    op.execute("UPDATE subscriptions SET misses = 0")
    op.execute("UPDATE subscriptions SET status = 'wanted', due_s = 0 WHERE status = 'demoted'")
