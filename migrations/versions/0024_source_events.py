"""Stores how sources themselves fare, and what happened to them."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sources", sa.Column("health", sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "source_events",
        sa.Column("source_id", sa.String(), primary_key=True),
        sa.Column("seq", sa.Integer(), primary_key=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("event_s", sa.Float(), nullable=False),
        sa.Column("seen_s", sa.Float(), nullable=False),
    )
    op.create_index("ix_source_events_seen", "source_events", ["seen_s"])


def downgrade() -> None:
    op.drop_table("source_events")
    op.drop_column("sources", "health")
