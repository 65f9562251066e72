"""Rules that fail, and since when they are suspended for it."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "failing_rules",
        sa.Column("rule", sa.String(), primary_key=True),
        sa.Column("meaning", sa.String(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failed_s", sa.Float(), nullable=False),
        sa.Column("suspended_s", sa.Float()),
    )


def downgrade() -> None:
    op.drop_table("failing_rules")
