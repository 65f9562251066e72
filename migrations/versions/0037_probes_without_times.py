"""Drops the index of probes by time, which only deleted old ones: a page of each commit."""

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_probes_started", "probes")


def downgrade() -> None:
    op.create_index("ix_probes_started", "probes", ["started_s"])
