"""How many bytes the decoded body of a probe had; of older probes that is not known and counts as 0."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("probes", sa.Column("body_bytes", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("probes") as batch:
        batch.drop_column("body_bytes")
