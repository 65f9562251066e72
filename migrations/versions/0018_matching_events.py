"""Rules count the events that pass WHERE; streams also know how many there were in all.

``meaning`` says under which meaning of the language a rule was accepted: 1 before WHERE, 2 since. ``payload`` is the
version of a delivery's body.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_STREAMS = sa.table(
    "streams",
    sa.column("rule", sa.String()),
    sa.column("source_id", sa.String()),
    sa.column("counts", sa.Text()),
    sa.column("seen", sa.Integer()),
)


def upgrade() -> None:
    op.add_column("streams", sa.Column("seen", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("rules", sa.Column("meaning", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("outbox", sa.Column("payload", sa.Integer(), nullable=False, server_default="1"))
    connection = op.get_bind()
    rows = connection.execute(sa.select(_STREAMS.c.rule, _STREAMS.c.source_id, _STREAMS.c.counts)).all()
    counted = [{"of": row.rule, "at": row.source_id, "events": _events(row.counts)} for row in rows]
    if counted:
        same = (_STREAMS.c.rule == sa.bindparam("of")) & (_STREAMS.c.source_id == sa.bindparam("at"))
        connection.execute(sa.update(_STREAMS).where(same).values(seen=sa.bindparam("events")), counted)


def _events(counts: str) -> int:
    first = (json.loads(counts) or [0])[0]
    return int(first[0] if isinstance(first, list) else first)


def downgrade() -> None:
    with op.batch_alter_table("streams") as batch:
        batch.drop_column("seen")
    with op.batch_alter_table("outbox") as batch:
        batch.drop_column("payload")
    with op.batch_alter_table("rules") as batch:
        batch.drop_column("meaning")
