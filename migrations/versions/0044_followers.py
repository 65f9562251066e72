"""Keeps who has the feeds of profiles pushed (WebSub)."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "followers",
        sa.Column("follower_id", sa.String(), primary_key=True),
        sa.Column("callback", sa.Text(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("form", sa.String(), nullable=False),
        sa.Column("token_id", sa.String(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("lease_until_s", sa.Float(), nullable=False),
        sa.Column("sent_position", sa.BigInteger(), nullable=False),
        sa.Column("owed_position", sa.BigInteger(), nullable=False),
        sa.Column("due_s", sa.Float(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
    )
    op.create_index("ix_followers_host", "followers", ["host"])
    op.create_index("ix_followers_feed", "followers", ["profile", "rule"])


def downgrade() -> None:
    op.drop_table("followers")
