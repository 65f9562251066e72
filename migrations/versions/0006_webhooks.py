"""Which webhooks have shown that they are there; those that accepted something before did."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("form", sa.String(), nullable=False),
        sa.Column("secret_kind", sa.String(), nullable=False),
        sa.Column("secret_name", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "form", "secret_kind", "secret_name"),
    )
    op.create_index("ix_notifications_source", "notifications", ["source_id", "position"], unique=False)
    op.execute(
        "INSERT INTO webhooks SELECT endpoint, form, secret_kind, secret_name, 'confirmed', max(done_s), '' FROM outbox"
        " WHERE kind = 'webhook' AND state = 'delivered' GROUP BY endpoint, form, secret_kind, secret_name"
    )


def downgrade() -> None:
    op.drop_index("ix_notifications_source", "notifications")
    op.execute("UPDATE outbox SET state = 'pending' WHERE state = 'held'")
    op.drop_table("webhooks")
