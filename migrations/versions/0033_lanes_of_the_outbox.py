"""Lets the lanes with waiting deliveries be found one after the other, without a look at those that are done."""

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_outbox_lane", "outbox")
    op.create_index("ix_outbox_lane", "outbox", ["state", "lane", "position"])


def downgrade() -> None:
    op.drop_index("ix_outbox_lane", "outbox")
    op.create_index("ix_outbox_lane", "outbox", ["lane", "state", "position"])
