"""Keeps the name of the receiver of each delivery, which people are shown instead of its address."""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("receiver", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("outbox", "receiver")
