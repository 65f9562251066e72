"""Notifiers claim the lanes that are due, instead of having shards of the endpoints."""

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

SHARDS = 64
WAITING = sa.text("done_s IS NULL")
DUE = sa.text("due_s IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "lanes",
        sa.Column("lane", sa.Text(), primary_key=True),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("due_s", sa.Float()),
        sa.Column("claimed_until_s", sa.Float(), nullable=False, server_default="0"),
        sa.Column("claimed_by", sa.String(), nullable=False, server_default=""),
    )
    op.execute(
        "INSERT INTO lanes (lane, endpoint, due_s) SELECT lane, min(endpoint), 0 FROM outbox WHERE state = 'pending'"
        " GROUP BY lane"
    )
    op.create_index("ix_lanes_due", "lanes", ["due_s"], sqlite_where=DUE, postgresql_where=DUE)
    op.drop_index("ix_outbox_lane", "outbox")
    op.drop_column("outbox", "shard")
    op.create_index("ix_outbox_waiting", "outbox", ["lane", "position"], sqlite_where=WAITING, postgresql_where=WAITING)
    op.execute("DELETE FROM shards WHERE role = 'notifier'")
    op.execute("DELETE FROM members WHERE role = 'notifier'")
    op.add_column("webhooks", sa.Column("claimed_until_s", sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("webhooks", "claimed_until_s")
    op.drop_index("ix_outbox_waiting", "outbox")
    op.add_column("outbox", sa.Column("shard", sa.Integer(), nullable=False, server_default="0"))
    endpoints = [row[0] for row in op.get_bind().execute(sa.text("SELECT DISTINCT endpoint FROM outbox"))]
    shard_of = sa.text("UPDATE outbox SET shard = :shard WHERE endpoint = :endpoint")
    for endpoint in endpoints:
        op.get_bind().execute(shard_of, {"shard": zlib.crc32(endpoint.encode()) % SHARDS, "endpoint": endpoint})
    op.create_index("ix_outbox_lane", "outbox", ["state", "lane", "position"])
    op.drop_table("lanes")
