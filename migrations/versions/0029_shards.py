"""Divides endpoints into shards, so that several notifiers deliver at the same time."""

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

SHARDS = 64


def upgrade() -> None:
    op.add_column("outbox", sa.Column("shard", sa.Integer(), nullable=False, server_default="0"))
    endpoints = [row[0] for row in op.get_bind().execute(sa.text("SELECT DISTINCT endpoint FROM outbox"))]
    if endpoints:
        _divide(endpoints)
    op.create_table(
        "members",
        sa.Column("member", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
    )
    op.create_table(
        "shards",
        sa.Column("role", sa.String(), primary_key=True),
        sa.Column("shard", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("member", sa.Integer()),
    )
    op.execute("DELETE FROM leaders WHERE role = 'notifier'")


def _divide(endpoints: list[str]) -> None:
    """Give each delivery the shard of its endpoint, in one pass."""
    shards = op.create_table(
        "shards_of_endpoints",
        sa.Column("endpoint", sa.Text(), primary_key=True),
        sa.Column("shard", sa.Integer(), nullable=False),
        prefixes=["TEMPORARY"],
    )
    op.bulk_insert(shards, [{"endpoint": each, "shard": zlib.crc32(each.encode()) % SHARDS} for each in endpoints])
    found = "SELECT s.shard FROM shards_of_endpoints AS s WHERE s.endpoint = outbox.endpoint"
    op.execute(f"UPDATE outbox SET shard = ({found})")
    op.drop_table("shards_of_endpoints")


def downgrade() -> None:
    op.drop_table("shards")
    op.drop_table("members")
    with op.batch_alter_table("outbox") as batch:
        batch.drop_column("shard")
