"""Stores how long sites were up and down, day by day, and their outages."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "site_days",
        sa.Column("source_id", sa.String(), primary_key=True),
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("up_s", sa.Float(), nullable=False),
        sa.Column("down_s", sa.Float(), nullable=False),
        sa.Column("probes", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("answers_s", sa.Float(), nullable=False),
    )
    op.create_table(
        "incidents",
        sa.Column("source_id", sa.String(), primary_key=True),
        sa.Column("began_s", sa.Float(), primary_key=True),
        sa.Column("ended_s", sa.Float()),
        sa.Column("reason", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("incidents")
    op.drop_table("site_days")
