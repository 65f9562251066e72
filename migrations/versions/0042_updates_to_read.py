"""Keeps changes of watched pages among the items that people read."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("items", sa.Column("is_update", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.execute(sa.text("DELETE FROM items WHERE is_update"))
    op.drop_column("items", "is_update")
