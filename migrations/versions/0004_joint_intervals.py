"""Intervals that several pages must capture, and the utility gained."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "joint_intervals",
        sa.Column("interval_id", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("interval_id"),
    )
    op.create_index("ix_joint_intervals_rule", "joint_intervals", ["rule"], unique=False)
    with op.batch_alter_table("streams") as streams:
        streams.add_column(sa.Column("fired_s", sa.Float(), nullable=False, server_default="0"))
        streams.add_column(sa.Column("utility", sa.Float(), nullable=False, server_default="0"))
    with op.batch_alter_table("intervals") as intervals:
        intervals.add_column(sa.Column("utility", sa.Float(), nullable=False, server_default="0"))
    op.execute("UPDATE streams SET utility = captured")
    op.execute("UPDATE intervals SET utility = 1 WHERE captured")


def downgrade() -> None:
    with op.batch_alter_table("intervals") as intervals:
        intervals.drop_column("utility")
    with op.batch_alter_table("streams") as streams:
        streams.drop_column("utility")
        streams.drop_column("fired_s")
    op.drop_table("joint_intervals")
