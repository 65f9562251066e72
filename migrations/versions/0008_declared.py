"""Since when each source is declared; those that were probed before have been so for ever."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "declared",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("declared_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.execute("INSERT INTO declared SELECT source_id, 0.0 FROM sources")


def downgrade() -> None:
    op.drop_table("declared")
