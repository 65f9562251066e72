"""The probes of the last days: why each was made and what came of it."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "probes",
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("started_s", sa.Float(), nullable=False),
        sa.Column("finished_s", sa.Float(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("rule", sa.String()),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("delay_s", sa.Float()),
    )
    op.create_index("ix_probes_source", "probes", ["source_id", "position"])
    op.create_index("ix_probes_started", "probes", ["started_s"])


def downgrade() -> None:
    op.drop_table("probes")
