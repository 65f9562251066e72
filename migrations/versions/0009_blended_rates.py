"""Evidence of each source's update rate under several half-lives: what was known counts for all of them."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_HALF_LIVES = 4
_SECOND = 1  # a rate was learned with a half-life of four weeks


def upgrade() -> None:
    op.add_column("sources", sa.Column("rate", sa.Text(), nullable=True))
    connection = op.get_bind()
    old = sa.table("sources", *map(sa.column, ("source_id", "rate_as_of_s", "rate_events", "rate_exposure_s", "rate")))
    rows = connection.execute(
        sa.select(old.c.source_id, old.c.rate_as_of_s, old.c.rate_events, old.c.rate_exposure_s)
    ).all()
    for source_id, as_of_s, events, exposure_s in rows:
        rate = json.dumps([as_of_s, [events] * _HALF_LIVES, [exposure_s] * _HALF_LIVES])
        connection.execute(sa.update(old).where(old.c.source_id == source_id).values(rate=rate))
    with op.batch_alter_table("sources") as batch:
        batch.alter_column("rate", existing_type=sa.Text(), nullable=False)
        for name in ("rate_events", "rate_exposure_s", "rate_as_of_s"):
            batch.drop_column(name)


def downgrade() -> None:
    with op.batch_alter_table("sources") as batch:
        batch.add_column(sa.Column("rate_events", sa.Float(), nullable=False, server_default="0"))
        batch.add_column(sa.Column("rate_exposure_s", sa.Float(), nullable=False, server_default="0"))
        batch.add_column(sa.Column("rate_as_of_s", sa.Float(), nullable=True))
    connection = op.get_bind()
    new = sa.table("sources", *map(sa.column, ("source_id", "rate_as_of_s", "rate_events", "rate_exposure_s", "rate")))
    for source_id, text in connection.execute(sa.select(new.c.source_id, new.c.rate)).all():
        as_of_s, events, exposure_s = json.loads(text)
        known = {"rate_as_of_s": as_of_s, "rate_events": events[_SECOND], "rate_exposure_s": exposure_s[_SECOND]}
        connection.execute(sa.update(new).where(new.c.source_id == source_id).values(**known))
    with op.batch_alter_table("sources") as batch:
        batch.drop_column("rate")
