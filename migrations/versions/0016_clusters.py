"""Who leads; lanes without a character that PostgreSQL cannot hold, and numbers that it does not run out of."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_NUMBERS = {
    "intervals": "interval_id",
    "notifications": "position",
    "outbox": "position",
    "attempts": "attempt_id",
    "probes": "position",
}
_BUSY = ("sources", "streams", "outbox", "weeks")


def upgrade() -> None:
    op.create_table(
        "leaders",
        sa.Column("role", sa.String(), primary_key=True),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("since_s", sa.Float(), nullable=False),
    )
    _join_lanes_with(10)
    if op.get_bind().dialect.name == "postgresql":
        _number_with("bigint", sa.BigInteger(), sa.Integer())
        for table in _BUSY:  # their rows change with every probe
            op.execute(f"ALTER TABLE {table} SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)")


def downgrade() -> None:
    op.drop_table("leaders")
    if op.get_bind().dialect.name == "postgresql":
        _number_with("integer", sa.Integer(), sa.BigInteger())
        for table in _BUSY:
            op.execute(f"ALTER TABLE {table} RESET (fillfactor, autovacuum_vacuum_scale_factor)")
    else:
        _join_lanes_with(0)


def _join_lanes_with(character: int) -> None:
    """Spell each lane as its rule and its endpoint with a character between them."""
    rule = "SELECT rule FROM notifications WHERE notifications.notification_id = outbox.notification_id"
    name = "chr" if op.get_bind().dialect.name == "postgresql" else "char"
    op.execute(f"UPDATE outbox SET lane = ({rule}) || {name}({character}) || endpoint")
    op.execute(f"UPDATE endpoints SET lane = rule || {name}({character}) || endpoint")


def _number_with(name: str, new: sa.Integer, old: sa.Integer) -> None:
    for table, column in _NUMBERS.items():
        op.alter_column(table, column, type_=new, existing_type=old)
        op.execute(f"ALTER SEQUENCE {table}_{column}_seq AS {name}")
    op.alter_column("attempts", "position", type_=new, existing_type=old)
