"""Freshness bounds of sources."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("sources") as sources:
        sources.add_column(sa.Column("fresh_until_s", sa.Float(), nullable=False, server_default="0"))
        sources.add_column(sa.Column("period_s", sa.Float(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("sources") as sources:
        sources.drop_column("period_s")
        sources.drop_column("fresh_until_s")
