"""Stores pictures of pages, and which notifications have them."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pictures",
        sa.Column("sha256", sa.String(), primary_key=True),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("taken_s", sa.Float(), nullable=False),
    )
    op.create_index("ix_pictures_taken", "pictures", ["taken_s", "size"])
    op.add_column("notifications", sa.Column("picture", sa.String()))
    has_picture = sa.text("picture IS NOT NULL")
    op.create_index(
        "ix_notifications_picture",
        "notifications",
        ["picture"],
        sqlite_where=has_picture,
        postgresql_where=has_picture,
    )


def downgrade() -> None:
    op.drop_index("ix_notifications_picture", "notifications")
    op.drop_column("notifications", "picture")
    op.drop_table("pictures")
