"""Whether a probe saw the page of an execution interval before it was given up; of older ones that is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("intervals", sa.Column("seen", sa.Boolean(), nullable=False, server_default=sa.true()))


def downgrade() -> None:
    with op.batch_alter_table("intervals") as batch:
        batch.drop_column("seen")
