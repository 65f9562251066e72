"""Updates and deletions of items, what is known of a source's origin, and its subscription at a hub."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("items") as items:
        items.add_column(sa.Column("gone_s", sa.Float(), nullable=True))
        items.drop_constraint("uq_items_identity", type_="unique")
    is_there = sa.text("gone_s IS NULL")
    op.create_index(
        "uq_items_there",
        "items",
        ["source_id", "item_id"],
        unique=True,
        sqlite_where=is_there,
        postgresql_where=is_there,
    )
    op.create_table(
        "changes",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("old_hash", sa.String(), nullable=True),
        sa.Column("old_fields", sa.Text(), nullable=True),
        sa.Column("published_s", sa.Float(), nullable=True),
        sa.Column("event_s", sa.Float(), nullable=False),
        sa.Column("seen_s", sa.Float(), nullable=False),
        sa.Column("exact", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "seq"),
    )
    op.create_index("ix_changes_seen", "changes", ["seen_s"], unique=False)
    with op.batch_alter_table("sources") as sources:
        sources.add_column(sa.Column("reading", sa.String(), nullable=False, server_default=""))
        sources.add_column(sa.Column("moved_url", sa.Text(), nullable=True))
        sources.add_column(sa.Column("moved_times", sa.Integer(), nullable=False, server_default="0"))
        sources.add_column(sa.Column("full_s", sa.Float(), nullable=True))
        sources.add_column(sa.Column("not_modified", sa.Integer(), nullable=False, server_default="0"))
        sources.add_column(sa.Column("doubts", sa.Integer(), nullable=False, server_default="0"))
        sources.add_column(sa.Column("distrust_until_s", sa.Float(), nullable=False, server_default="0"))
        sources.add_column(sa.Column("missing", sa.Integer(), nullable=False, server_default="0"))
        sources.add_column(sa.Column("last_push_s", sa.Float(), nullable=True))
    op.create_table(
        "subscriptions",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("hub", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("callback_id", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("is_asked", sa.Boolean(), nullable=False),
        sa.Column("verified_s", sa.Float(), nullable=False),
        sa.Column("chosen_s", sa.Float(), nullable=False),
        sa.Column("due_s", sa.Float(), nullable=False),
        sa.Column("lease_until_s", sa.Float(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("misses", sa.Integer(), nullable=False),
        sa.Column("pushes", sa.Integer(), nullable=False),
        sa.Column("last_push_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("source_id"),
    )


def downgrade() -> None:
    op.drop_table("subscriptions")
    with op.batch_alter_table("sources") as sources:
        names = ("missing", "distrust_until_s", "doubts", "not_modified", "full_s", "moved_times", "moved_url")
        for name in ("last_push_s", *names, "reading"):
            sources.drop_column(name)
    op.drop_table("changes")
    op.drop_index("uq_items_there", "items")
    op.execute("DELETE FROM items WHERE gone_s IS NOT NULL")
    with op.batch_alter_table("items") as items:
        items.drop_column("gone_s")
        items.create_unique_constraint("uq_items_identity", ["source_id", "item_id"])
