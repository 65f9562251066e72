"""Stores which items people have read and starred."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "marks",
        sa.Column("position", _NUMBER, sa.ForeignKey("items.position", ondelete="CASCADE"), primary_key=True),
        sa.Column("person", sa.String(), primary_key=True),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("is_read", sa.Boolean()),
        sa.Column("starred_s", sa.Float()),
    )
    op.create_index("ix_marks_source", "marks", ["person", "source_id", "position"])
    starred, unread = sa.column("starred_s").is_not(None), sa.column("is_read").is_(False)
    for name, where in (("ix_marks_starred", starred), ("ix_marks_unread", unread)):
        op.create_index(name, "marks", ["person", "position"], sqlite_where=where, postgresql_where=where)
    op.create_table(
        "read_up_to",
        sa.Column("person", sa.String(), primary_key=True),
        sa.Column("source_id", sa.String(), primary_key=True),
        sa.Column("position", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("read_up_to")
    op.drop_table("marks")
