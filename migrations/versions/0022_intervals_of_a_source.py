"""Finds the intervals of a source in the last days."""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_intervals_source", "intervals", ["source_id", "probed_s"])


def downgrade() -> None:
    op.drop_index("ix_intervals_source", "intervals")
