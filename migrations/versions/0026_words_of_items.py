"""Items can be searched by their words, and updates that no rule awaits are kept for people.

Items are numbered in the order in which they were seen, so that the newest that match are found first. Words are
indexed by SQLite's FTS5, which triggers keep in step with the items, or by a GIN index of PostgreSQL.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from proxyd.store.databases.tables import WORDS_IN_SQLITE
from proxyd.store.rows import words_of

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ROWS = 1000
_COLUMNS = "source_id, seq, item_id, content_hash, fields, published_s, event_s, seen_s, present_s, exact, seed, gone_s"
_IS_THERE = sa.text("gone_s IS NULL")
_ITEMS = sa.table(
    "items", sa.column("position", sa.Integer()), sa.column("fields", sa.Text()), sa.column("words", sa.Text())
)
_WITHOUT_SQLITE = (
    "DROP TRIGGER item_words_insert",
    "DROP TRIGGER item_words_delete",
    "DROP TRIGGER item_words_update",
    "DROP TABLE item_words",
)
_IN_POSTGRESQL = ("CREATE INDEX ix_items_words ON items USING gin (to_tsvector('simple', words))",)


def upgrade() -> None:
    op.add_column("sources", sa.Column("unawaited", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("sources", sa.Column("arrivals", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("probes", sa.Column("updates", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_changes_item", "changes", ["source_id", "item_id", "seen_s"])
    _make_items(
        sa.Column("position", _NUMBER, primary_key=True),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        *_columns(),
        sa.Column("words", sa.Text(), nullable=False, server_default=""),
        sa.UniqueConstraint("source_id", "seq", name="uq_items_event"),
    )
    connection = op.get_bind()
    _fill_words(connection)
    for statement in WORDS_IN_SQLITE if connection.dialect.name == "sqlite" else _IN_POSTGRESQL:
        connection.exec_driver_sql(statement)


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("published_s", sa.Float()),
        sa.Column("event_s", sa.Float(), nullable=False),
        sa.Column("seen_s", sa.Float(), nullable=False),
        sa.Column("present_s", sa.Float(), nullable=False),
        sa.Column("exact", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.Boolean(), nullable=False),
        sa.Column("gone_s", sa.Float()),
    ]


def _make_items(*columns: sa.schema.SchemaItem) -> None:
    """Make the table anew with other columns, and the same rows in the order in which they were seen."""
    op.rename_table("items", "former_items")
    op.create_table("items", *columns)
    op.execute(f"INSERT INTO items ({_COLUMNS}) SELECT {_COLUMNS} FROM former_items ORDER BY seen_s, source_id, seq")
    op.drop_table("former_items")
    op.create_index("ix_items_present", "items", ["source_id", "present_s"])
    op.create_index(
        "uq_items_there",
        "items",
        ["source_id", "item_id"],
        unique=True,
        sqlite_where=_IS_THERE,
        postgresql_where=_IS_THERE,
    )


def _fill_words(connection: sa.Connection) -> None:
    c, last = _ITEMS.c, 0
    own = sa.update(_ITEMS).where(c.position == sa.bindparam("at")).values(words=sa.bindparam("found"))
    some = sa.select(c.position, c.fields).order_by(c.position).limit(_ROWS)
    while rows := connection.execute(some.where(c.position > last)).all():
        connection.execute(own, [{"at": row.position, "found": words_of(json.loads(row.fields))} for row in rows])
        last = rows[-1].position


def downgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in _WITHOUT_SQLITE if is_sqlite else ():
        op.execute(statement)
    _make_items(
        sa.Column("source_id", sa.String(), primary_key=True),
        sa.Column("seq", sa.Integer(), primary_key=True),
        *_columns(),
    )
    op.drop_index("ix_changes_item", "changes")
    with op.batch_alter_table("probes") as batch:
        batch.drop_column("updates")
    with op.batch_alter_table("sources") as batch:
        batch.drop_column("unawaited")
        batch.drop_column("arrivals")
