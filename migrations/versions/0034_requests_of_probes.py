"""Stores how many requests a probe made, for those who ask what a host was asked."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("probes", sa.Column("requests", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    with op.batch_alter_table("probes") as batch:
        batch.drop_column("requests")
