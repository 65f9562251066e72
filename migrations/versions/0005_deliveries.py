"""What was tried to deliver, other ways than webhooks, digests, and endpoints that want no more."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("outbox") as outbox:
        outbox.add_column(sa.Column("kind", sa.String(), nullable=False, server_default="webhook"))
        outbox.add_column(sa.Column("form", sa.String(), nullable=False, server_default="STANDARD"))
        outbox.add_column(sa.Column("most_items", sa.Integer(), nullable=True))
        outbox.add_column(sa.Column("digest_id", sa.String(), nullable=True))
        outbox.add_column(sa.Column("digest", sa.LargeBinary(), nullable=True))
    op.create_table(
        "attempts",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("attempted_s", sa.Float(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("result", sa.String(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["position"], ["outbox.position"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
    op.create_index("ix_attempts_position", "attempts", ["position"], unique=False)
    op.create_table(
        "endpoints",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("declared", sa.Text(), nullable=False),
        sa.Column("disabled_s", sa.Float(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("lane"),
    )
    op.create_index("ix_notifications_rule", "notifications", ["rule", "position"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_notifications_rule", "notifications")
    op.drop_table("endpoints")
    op.drop_table("attempts")
    op.execute("DELETE FROM outbox WHERE kind != 'webhook' OR form != 'STANDARD'")
    op.execute("UPDATE outbox SET state = 'pending' WHERE state IN ('gathering', 'gathered')")
    with op.batch_alter_table("outbox") as outbox:
        for name in ("digest", "digest_id", "most_items", "form", "kind"):
            outbox.drop_column(name)
