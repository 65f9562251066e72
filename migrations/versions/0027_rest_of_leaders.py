"""Stores who may work for a leader, and for how long once it has ended."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leaders", sa.Column("rest_s", sa.Float()))
    op.add_column("leaders", sa.Column("probers", sa.JSON()))


def downgrade() -> None:
    op.execute("ALTER TABLE leaders DROP COLUMN probers")
    op.execute("ALTER TABLE leaders DROP COLUMN rest_s")
