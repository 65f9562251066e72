"""How many items each feed shows, and whether old ones slide off."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sources", sa.Column("shown", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("sources", sa.Column("slides", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    with op.batch_alter_table("sources") as batch:
        batch.drop_column("slides")
        batch.drop_column("shown")
