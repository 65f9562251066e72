"""What probes found beside what was predicted, by day and source; how well each source's model fits."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("day", sa.Integer(), primary_key=True),
        sa.Column("source_id", sa.String(), primary_key=True),
        sa.Column("probes", sa.Integer(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("predicted_items", sa.Float(), nullable=False),
        sa.Column("timed_items", sa.Integer(), nullable=False),
        sa.Column("predicted_timed_items", sa.Float(), nullable=False),
        sa.Column("delay_item_s", sa.Float(), nullable=False),
        sa.Column("predicted_delay_item_s", sa.Float(), nullable=False),
        sa.Column("captured", sa.Integer(), nullable=False),
        sa.Column("predicted_captured", sa.Float(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("predicted_missed", sa.Float(), nullable=False),
    )
    op.add_column("sources", sa.Column("fit", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    with op.batch_alter_table("sources") as batch:
        batch.drop_column("fit")
    op.drop_table("accounts")
