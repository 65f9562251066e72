"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "intervals",
        sa.Column("interval_id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.Float(), nullable=False),
        sa.Column("deadline_s", sa.Float(), nullable=True),
        sa.Column("probed_s", sa.Float(), nullable=False),
        sa.Column("captured", sa.Boolean(), nullable=False),
        sa.Column("exact", sa.Boolean(), nullable=False),
        sa.Column("delay_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("interval_id"),
    )
    op.create_index("ix_intervals_probed", "intervals", ["probed_s"], unique=False)
    op.create_index("ix_intervals_rule", "intervals", ["rule", "probed_s"], unique=False)
    op.create_table(
        "items",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("published_s", sa.Float(), nullable=True),
        sa.Column("event_s", sa.Float(), nullable=False),
        sa.Column("seen_s", sa.Float(), nullable=False),
        sa.Column("present_s", sa.Float(), nullable=False),
        sa.Column("exact", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "seq"),
        sa.UniqueConstraint("source_id", "item_id", name="uq_items_identity"),
    )
    op.create_index("ix_items_present", "items", ["source_id", "present_s"], unique=False)
    op.create_table(
        "notifications",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("notification_id", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("event_s", sa.Float(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("notification_id"),
    )
    op.create_index("ix_notifications_created", "notifications", ["created_s"], unique=False)
    op.create_table(
        "rules",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("accepted_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "sources",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("body_hash", sa.String(), nullable=True),
        sa.Column("first_contact_s", sa.Float(), nullable=True),
        sa.Column("last_start_s", sa.Float(), nullable=True),
        sa.Column("last_success_s", sa.Float(), nullable=True),
        sa.Column("last_outcome", sa.String(), nullable=True),
        sa.Column("last_detail", sa.Text(), server_default="", nullable=False),
        sa.Column("newest_s", sa.Float(), nullable=True),
        sa.Column("next_seq", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before_s", sa.Float(), nullable=False),
        sa.Column("rate_events", sa.Float(), nullable=False),
        sa.Column("rate_exposure_s", sa.Float(), nullable=False),
        sa.Column("rate_as_of_s", sa.Float(), nullable=True),
        sa.Column("lost_items", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.create_table(
        "streams",
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("fired_seq", sa.Integer(), nullable=False),
        sa.Column("captured", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "source_id"),
    )
    op.create_table(
        "texts",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("token_id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "outbox",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("notification_id", sa.String(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("secret_kind", sa.String(), nullable=False),
        sa.Column("secret_name", sa.String(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("first_attempt_s", sa.Float(), nullable=True),
        sa.Column("next_s", sa.Float(), nullable=False),
        sa.Column("done_s", sa.Float(), nullable=True),
        sa.Column("last_error", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["notification_id"], ["notifications.notification_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("notification_id", "endpoint", name="uq_outbox_delivery"),
    )
    op.create_index("ix_outbox_due", "outbox", ["state", "next_s"], unique=False)
    op.create_index("ix_outbox_lane", "outbox", ["lane", "state", "position"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_outbox_lane", table_name="outbox")
    op.drop_index("ix_outbox_due", table_name="outbox")
    op.drop_table("outbox")
    op.drop_table("tokens")
    op.drop_table("texts")
    op.drop_table("streams")
    op.drop_table("sources")
    op.drop_table("rules")
    op.drop_index("ix_notifications_created", table_name="notifications")
    op.drop_table("notifications")
    op.drop_index("ix_items_present", table_name="items")
    op.drop_table("items")
    op.drop_index("ix_intervals_rule", table_name="intervals")
    op.drop_index("ix_intervals_probed", table_name="intervals")
    op.drop_table("intervals")
