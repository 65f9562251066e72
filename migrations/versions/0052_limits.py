"""Keeps how much people and tokens of some profiles may declare."""

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("tokens", "people"):
        op.add_column(table, sa.Column("limits", sa.JSON(), nullable=False, server_default="{}"))


def downgrade() -> None:
    for table in ("people", "tokens"):
        op.drop_column(table, "limits")
