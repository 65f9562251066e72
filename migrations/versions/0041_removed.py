"""Keeps what was removed from the declaration for a day."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "removed",
        sa.Column("removed_id", sa.String(), primary_key=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
    )
    op.create_index("ix_removed_at", "removed", ["at_s"])


def downgrade() -> None:
    op.drop_table("removed")
