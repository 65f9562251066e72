"""Stores which notifications were not sent because of their rule's limit."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("notifications", sa.Column("limited", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("notifications", sa.Column("limited_by", sa.String(), nullable=False, server_default=""))
    op.create_index("ix_notifications_limit", "notifications", ["rule", "limited_by", "created_s"])


def downgrade() -> None:
    op.execute("UPDATE outbox SET state = 'dropped' WHERE state = 'limited'")
    op.drop_index("ix_notifications_limit", "notifications")
    op.execute("ALTER TABLE notifications DROP COLUMN limited_by")  # a copied table would take the outbox with it
    op.execute("ALTER TABLE notifications DROP COLUMN limited")
