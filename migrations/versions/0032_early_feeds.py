"""Remembers for which declaration a plan was made, and which feeds may be asked before that is loaded."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("declared", sa.String(), nullable=False, server_default=""))
    op.add_column("plans", sa.Column("early", sa.LargeBinary()))


def downgrade() -> None:
    op.drop_column("plans", "early")
    op.drop_column("plans", "declared")
