"""When in a week each source's items came."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "weeks",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("counts", sa.LargeBinary(), nullable=False),
        sa.Column("squares", sa.Float(), nullable=False),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("as_of_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("source_id"),
    )


def downgrade() -> None:
    op.drop_table("weeks")
