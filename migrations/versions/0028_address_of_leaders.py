"""Stores where the listener of a leader is, so that machines that stand by can forward requests to it."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leaders", sa.Column("address", sa.String()))


def downgrade() -> None:
    op.execute("ALTER TABLE leaders DROP COLUMN address")
