"""Paused sources and muted rules, notifications made while muted, and what each stream counts."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "suspensions",
        sa.Column("subject", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float()),
        sa.Column("by", sa.Text(), nullable=False),
    )
    op.add_column("notifications", sa.Column("muted", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("rules", sa.Column("counting", sa.Text(), nullable=False, server_default=""))
    op.add_column("streams", sa.Column("counting", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    for now, before in (("muted", "gathering"), ("released", "gathering"), ("stopped", "pending"), ("dropped", "dead")):
        op.execute(f"UPDATE outbox SET state = '{before}' WHERE state = '{now}'")
    for table in ("streams", "rules"):
        with op.batch_alter_table(table) as batch:
            batch.drop_column("counting")
    op.execute("ALTER TABLE notifications DROP COLUMN muted")  # a copied table would take the outbox with it
    op.drop_table("suspensions")
