"""Makes the tables of 1.0, of those of any version before if there are some.

A new database gets all tables. In one of 0.1 (revision 0016), or of a state between 0.1 and 1.0, what is missing is
added and filled, and what is left over is dropped: this looks at what is there, and needs no revision before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from proxyd.store.databases.tables import WORDS_IN_SQLITE
from proxyd.store.rows import words_of

revision = "0053"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_HALF_LIVES = 4  # of rates
_SOME = 1000  # rows for each statement
_BUSY = ("sources", "streams", "outbox", "weeks")  # their rows change with every probe

_TABLES = sa.MetaData()

Columns = Mapping[str, Collection[str]]
"""The names of the columns of each table."""


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


sa.Table(
    "accounts",
    _TABLES,
    sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("part", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("probes", sa.Integer(), nullable=False),
    sa.Column("items", sa.Integer(), nullable=False),
    sa.Column("predicted_items", sa.Float(), nullable=False),
    sa.Column("timed_items", sa.Integer(), nullable=False),
    sa.Column("predicted_timed_items", sa.Float(), nullable=False),
    sa.Column("delay_item_s", sa.Float(), nullable=False),
    sa.Column("predicted_delay_item_s", sa.Float(), nullable=False),
    sa.Column("captured", sa.Integer(), nullable=False),
    sa.Column("predicted_captured", sa.Float(), nullable=False),
    sa.Column("missed", sa.Integer(), nullable=False),
    sa.Column("predicted_missed", sa.Float(), nullable=False),
)
sa.Table(
    "answers",
    _TABLES,
    sa.Column("bearer", sa.String(), primary_key=True),
    sa.Column("key", sa.String(), primary_key=True),
    sa.Column("request", sa.String(), nullable=False),
    sa.Column("status", sa.Integer(), nullable=False),
    sa.Column("content_type", sa.String(), nullable=False),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    sa.Column("answered_s", sa.Float(), nullable=False),
)
sa.Table(
    "audit",
    _TABLES,
    sa.Column("position", _NUMBER, primary_key=True),
    sa.Column("at_s", sa.Float(), nullable=False),
    sa.Column("who", sa.Text(), nullable=False),
    sa.Column("way", sa.String(), nullable=False),
    sa.Column("address", sa.String(), nullable=False),
    sa.Column("did", sa.String(), nullable=False),
    sa.Column("subject", sa.Text(), nullable=False),
    sa.Column("detail", sa.Text(), nullable=False),
    sa.Index("ix_audit_at", "at_s"),
)
sa.Table(
    "changes",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("seq", sa.Integer(), primary_key=True),
    sa.Column("kind", sa.String(), nullable=False),
    sa.Column("item_id", sa.Text(), nullable=False),
    sa.Column("content_hash", sa.String(), nullable=False),
    sa.Column("fields", sa.Text(), nullable=False),
    sa.Column("old_hash", sa.String()),
    sa.Column("old_fields", sa.Text()),
    sa.Column("published_s", sa.Float()),
    sa.Column("event_s", sa.Float(), nullable=False),
    sa.Column("seen_s", sa.Float(), nullable=False),
    sa.Column("exact", sa.Boolean(), nullable=False),
    sa.Index("ix_changes_item", "source_id", "item_id", "seen_s"),
    sa.Index("ix_changes_seen", "seen_s"),
)
sa.Table(
    "declared",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("declared_s", sa.Float(), nullable=False),
)
sa.Table(
    "endpoints",
    _TABLES,
    sa.Column("lane", sa.Text(), primary_key=True),
    sa.Column("rule", sa.String(), nullable=False),
    sa.Column("endpoint", sa.Text(), nullable=False),
    sa.Column("declared", sa.Text(), nullable=False),
    sa.Column("disabled_s", sa.Float(), nullable=False),
    sa.Column("detail", sa.Text(), nullable=False),
)
sa.Table(
    "failing_rules",
    _TABLES,
    sa.Column("rule", sa.String(), primary_key=True),
    sa.Column("meaning", sa.String(), nullable=False),
    sa.Column("failures", sa.Integer(), nullable=False),
    sa.Column("source_id", sa.String(), nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("failed_s", sa.Float(), nullable=False),
    sa.Column("suspended_s", sa.Float()),
)
sa.Table(
    "fleet",
    _TABLES,
    sa.Column("fleet_id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("record", sa.Text(), nullable=False),
)
sa.Table(
    "followers",
    _TABLES,
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
    sa.Index("ix_followers_feed", "profile", "rule"),
    sa.Index("ix_followers_host", "host"),
)
sa.Table(
    "incidents",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("began_s", sa.Float(), primary_key=True),
    sa.Column("ended_s", sa.Float()),
    sa.Column("reason", sa.Text(), nullable=False),
)
sa.Table(
    "intervals",
    _TABLES,
    sa.Column("interval_id", _NUMBER, primary_key=True),
    sa.Column("rule", sa.String(), nullable=False),
    sa.Column("source_id", sa.String(), nullable=False),
    sa.Column("seq", sa.Integer(), nullable=False),
    sa.Column("start_s", sa.Float(), nullable=False),
    sa.Column("deadline_s", sa.Float()),
    sa.Column("probed_s", sa.Float(), nullable=False),
    sa.Column("captured", sa.Boolean(), nullable=False),
    sa.Column("exact", sa.Boolean(), nullable=False),
    sa.Column("delay_s", sa.Float(), nullable=False),
    sa.Column("utility", sa.Float(), nullable=False, server_default="0"),
    sa.Column("seen", sa.Boolean(), nullable=False, server_default=sa.true()),
    sa.Index("ix_intervals_probed", "probed_s"),
    sa.Index("ix_intervals_rule", "rule", "probed_s"),
    sa.Index("ix_intervals_source", "source_id", "probed_s"),
)
sa.Table(
    "items",
    _TABLES,
    sa.Column("position", _NUMBER, primary_key=True),
    sa.Column("source_id", sa.String(), nullable=False),
    sa.Column("seq", sa.Integer(), nullable=False),
    sa.Column("item_id", sa.Text(), nullable=False),
    sa.Column("content_hash", sa.String(), nullable=False),
    sa.Column("fields", sa.Text(), nullable=False),
    sa.Column("words", sa.Text(), nullable=False, server_default=""),
    sa.Column("published_s", sa.Float()),
    sa.Column("event_s", sa.Float(), nullable=False),
    sa.Column("seen_s", sa.Float(), nullable=False),
    sa.Column("present_s", sa.Float(), nullable=False),
    sa.Column("exact", sa.Boolean(), nullable=False),
    sa.Column("seed", sa.Boolean(), nullable=False),
    sa.Column("gone_s", sa.Float()),
    sa.Column("is_update", sa.Boolean(), nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("source_id", "seq", name="uq_items_event"),
    sa.Index("ix_items_present", "source_id", "present_s"),
    sa.Index("uq_items_there", "source_id", "item_id", unique=True, **_where("gone_s IS NULL")),
)
sa.Table(
    "joint_intervals",
    _TABLES,
    sa.Column("interval_id", sa.String(), primary_key=True),
    sa.Column("rule", sa.String(), nullable=False),
    sa.Column("body", sa.Text(), nullable=False),
    sa.Index("ix_joint_intervals_rule", "rule"),
)
sa.Table(
    "lanes",
    _TABLES,
    sa.Column("lane", sa.Text(), primary_key=True),
    sa.Column("endpoint", sa.Text(), nullable=False),
    sa.Column("due_s", sa.Float()),
    sa.Column("claimed_until_s", sa.Float(), nullable=False, server_default="0"),
    sa.Column("claimed_by", sa.String(), nullable=False, server_default=""),
    sa.Index("ix_lanes_due", "due_s", **_where("due_s IS NOT NULL")),
)
sa.Table(
    "members",
    _TABLES,
    sa.Column("member", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("role", sa.String(), nullable=False),
    sa.Column("name", sa.String(), nullable=False),
)
sa.Table(
    "notifications",
    _TABLES,
    sa.Column("position", _NUMBER, primary_key=True),
    sa.Column("notification_id", sa.String(), nullable=False, unique=True),
    sa.Column("rule", sa.String(), nullable=False),
    sa.Column("source_id", sa.String(), nullable=False),
    sa.Column("event_s", sa.Float(), nullable=False),
    sa.Column("created_s", sa.Float(), nullable=False),
    sa.Column("late", sa.Boolean(), nullable=False),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    sa.Column("muted", sa.Boolean(), nullable=False, server_default=sa.false()),
    sa.Column("limited", sa.Boolean(), nullable=False, server_default=sa.false()),
    sa.Column("limited_by", sa.String(), nullable=False, server_default=""),
    sa.Column("picture", sa.String()),
    sa.Index("ix_notifications_created", "created_s"),
    sa.Index("ix_notifications_limit", "rule", "limited_by", "created_s"),
    sa.Index("ix_notifications_picture", "picture", **_where("picture IS NOT NULL")),
    sa.Index("ix_notifications_rule", "rule", "position"),
    sa.Index("ix_notifications_source", "source_id", "position"),
)
sa.Table(
    "people",
    _TABLES,
    sa.Column("name", sa.String(), primary_key=True),
    sa.Column("scope", sa.String(), nullable=False),
    sa.Column("reader", sa.String(), nullable=False),
    sa.Column("profiles", sa.JSON(), nullable=False, server_default="[]"),
    sa.Column("since_s", sa.Float(), nullable=False),
    sa.Column("password", sa.String()),
    sa.Column("invitation", sa.String(), unique=True),
    sa.Column("invited_until_s", sa.Float()),
    sa.Column("subject", sa.String()),
    sa.Column("mail", sa.String()),
    sa.Column("link", sa.String()),
    sa.Column("link_until_s", sa.Float()),
    sa.Column("limits", sa.JSON(), nullable=False, server_default="{}"),
    sa.Index("ix_people_link", "link", unique=True),
)
sa.Table(
    "pictures",
    _TABLES,
    sa.Column("sha256", sa.String(), primary_key=True),
    sa.Column("media_type", sa.String(), nullable=False),
    sa.Column("data", sa.LargeBinary(), nullable=False),
    sa.Column("size", sa.Integer(), nullable=False),
    sa.Column("taken_s", sa.Float(), nullable=False),
    sa.Index("ix_pictures_taken", "taken_s", "size"),
)
sa.Table(
    "planners",
    _TABLES,
    sa.Column("member", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("address", sa.String(), nullable=False),
    sa.Column("secret", sa.String(), nullable=False),
    sa.Column("runs", sa.String(), nullable=False),
    sa.Column("rest_s", sa.Float(), nullable=False),
    sa.Column("settings", sa.JSON(), nullable=False, server_default="{}"),
    sa.Column("probers", sa.JSON(), nullable=False),
)
sa.Table(
    "plans",
    _TABLES,
    sa.Column("plan_id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("begun_s", sa.Float(), nullable=False),
    sa.Column("made_s", sa.Float(), nullable=False),
    sa.Column("settings", sa.String(), nullable=False),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    sa.Column("declared", sa.String(), nullable=False, server_default=""),
    sa.Column("early", sa.LargeBinary()),
)
sa.Table(
    "probes",
    _TABLES,
    sa.Column("position", _NUMBER, primary_key=True),
    sa.Column("source_id", sa.String(), nullable=False),
    sa.Column("started_s", sa.Float(), nullable=False),
    sa.Column("finished_s", sa.Float(), nullable=False),
    sa.Column("reason", sa.String(), nullable=False),
    sa.Column("rule", sa.String()),
    sa.Column("outcome", sa.String(), nullable=False),
    sa.Column("status", sa.Integer()),
    sa.Column("detail", sa.Text(), nullable=False),
    sa.Column("items", sa.Integer(), nullable=False),
    sa.Column("updates", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("delay_s", sa.Float()),
    sa.Column("body_bytes", sa.BigInteger(), nullable=False, server_default="0"),
    sa.Column("requests", sa.Integer(), nullable=False, server_default="1"),
    sa.Index("ix_probes_source", "source_id", "position"),
)
sa.Table(
    "read_up_to",
    _TABLES,
    sa.Column("person", sa.String(), primary_key=True),
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("position", sa.BigInteger(), nullable=False),
)
sa.Table(
    "removed",
    _TABLES,
    sa.Column("removed_id", sa.String(), primary_key=True),
    sa.Column("kind", sa.String(), nullable=False),
    sa.Column("name", sa.Text(), nullable=False),
    sa.Column("text", sa.Text(), nullable=False),
    sa.Column("at_s", sa.Float(), nullable=False),
    sa.Column("by", sa.Text(), nullable=False),
    sa.Index("ix_removed_at", "at_s"),
)
sa.Table(
    "rules",
    _TABLES,
    sa.Column("name", sa.String(), primary_key=True),
    sa.Column("fingerprint", sa.String(), nullable=False),
    sa.Column("accepted_s", sa.Float(), nullable=False),
    sa.Column("meaning", sa.Integer(), nullable=False, server_default="1"),
    sa.Column("counting", sa.Text(), nullable=False, server_default=""),
)
sa.Table(
    "shards",
    _TABLES,
    sa.Column("role", sa.String(), primary_key=True),
    sa.Column("shard", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("member", sa.Integer()),
)
sa.Table(
    "site_days",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("up_s", sa.Float(), nullable=False),
    sa.Column("down_s", sa.Float(), nullable=False),
    sa.Column("probes", sa.Integer(), nullable=False),
    sa.Column("failures", sa.Integer(), nullable=False),
    sa.Column("answers_s", sa.Float(), nullable=False),
)
sa.Table(
    "source_events",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("seq", sa.Integer(), primary_key=True),
    sa.Column("kind", sa.String(), nullable=False),
    sa.Column("item_id", sa.Text(), nullable=False),
    sa.Column("fields", sa.Text(), nullable=False),
    sa.Column("event_s", sa.Float(), nullable=False),
    sa.Column("seen_s", sa.Float(), nullable=False),
    sa.Index("ix_source_events_seen", "seen_s"),
)
sa.Table(
    "sources",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("url", sa.Text(), nullable=False),
    sa.Column("reading", sa.String(), nullable=False, server_default=""),
    sa.Column("etag", sa.Text()),
    sa.Column("last_modified", sa.Text()),
    sa.Column("body_hash", sa.String()),
    sa.Column("first_contact_s", sa.Float()),
    sa.Column("last_start_s", sa.Float()),
    sa.Column("last_success_s", sa.Float()),
    sa.Column("last_outcome", sa.String()),
    sa.Column("last_detail", sa.Text(), nullable=False, server_default=""),
    sa.Column("newest_s", sa.Float()),
    sa.Column("next_seq", sa.Integer(), nullable=False),
    sa.Column("unawaited", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("arrivals", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("failures", sa.Integer(), nullable=False),
    sa.Column("not_before_s", sa.Float(), nullable=False),
    sa.Column("fresh_until_s", sa.Float(), nullable=False, server_default="0"),
    sa.Column("period_s", sa.Float()),
    sa.Column("rate", sa.Text(), nullable=False),
    sa.Column("shown", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("slides", sa.Boolean(), nullable=False, server_default=sa.false()),
    sa.Column("lost_items", sa.Float(), nullable=False),
    sa.Column("moved_url", sa.Text()),
    sa.Column("moved_times", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("full_s", sa.Float()),
    sa.Column("not_modified", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("doubts", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("distrust_until_s", sa.Float(), nullable=False, server_default="0"),
    sa.Column("missing", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("last_push_s", sa.Float()),
    sa.Column("fit", sa.Text(), nullable=False, server_default="[]"),
    sa.Column("health", sa.Text(), nullable=False, server_default="{}"),
    sa.Column("record", sa.Text(), nullable=False, server_default=""),
    sa.Column("hidden", sa.Float(), nullable=False, server_default="0"),
    sa.Column("hidden_since_s", sa.Float(), nullable=False, server_default="0"),
)
sa.Table(
    "streams",
    _TABLES,
    sa.Column("rule", sa.String(), primary_key=True),
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("counts", sa.Text(), nullable=False),
    sa.Column("fired_seq", sa.Integer(), nullable=False),
    sa.Column("captured", sa.Integer(), nullable=False),
    sa.Column("missed", sa.Integer(), nullable=False),
    sa.Column("fired_s", sa.Float(), nullable=False, server_default="0"),
    sa.Column("utility", sa.Float(), nullable=False, server_default="0"),
    sa.Column("seen", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("counting", sa.Text(), nullable=False, server_default=""),
)
sa.Table(
    "subscriptions",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("url", sa.Text(), nullable=False),
    sa.Column("hub", sa.Text(), nullable=False),
    sa.Column("topic", sa.Text(), nullable=False),
    sa.Column("status", sa.String(), nullable=False),
    sa.Column("callback_id", sa.String(), nullable=False),
    sa.Column("secret", sa.String(), nullable=False),
    sa.Column("is_asked", sa.Boolean(), nullable=False),
    sa.Column("verified_s", sa.Float(), nullable=False),
    sa.Column("chosen_s", sa.Float(), nullable=False),
    sa.Column("due_s", sa.Float(), nullable=False),
    sa.Column("lease_until_s", sa.Float(), nullable=False),
    sa.Column("failures", sa.Integer(), nullable=False),
    sa.Column("misses", sa.Integer(), nullable=False),
    sa.Column("pushes", sa.Integer(), nullable=False),
    sa.Column("last_push_s", sa.Float()),
    sa.Column("told", sa.Integer(), nullable=False, server_default="0"),
)
sa.Table(
    "suspensions",
    _TABLES,
    sa.Column("subject", sa.String(), primary_key=True),
    sa.Column("name", sa.String(), primary_key=True),
    sa.Column("since_s", sa.Float(), nullable=False),
    sa.Column("until_s", sa.Float()),
    sa.Column("by", sa.Text(), nullable=False),
)
sa.Table(
    "texts",
    _TABLES,
    sa.Column("name", sa.String(), primary_key=True),
    sa.Column("origin", sa.String(), nullable=False),
    sa.Column("position", sa.Integer(), nullable=False),
    sa.Column("text", sa.Text(), nullable=False),
)
sa.Table(
    "tokens",
    _TABLES,
    sa.Column("token_id", sa.String(), primary_key=True),
    sa.Column("name", sa.String(), nullable=False, unique=True),
    sa.Column("scope", sa.String(), nullable=False),
    sa.Column("sha256", sa.String(), nullable=False),
    sa.Column("created_s", sa.Float(), nullable=False),
    sa.Column("expires_s", sa.Float()),
    sa.Column("profiles", sa.JSON(), nullable=False, server_default="[]"),
    sa.Column("person", sa.String()),
    sa.Column("fever_sha256", sa.String()),
    sa.Column("limits", sa.JSON(), nullable=False, server_default="{}"),
    sa.Index("ix_tokens_fever_sha256", "fever_sha256", unique=True),
)
sa.Table(
    "webhooks",
    _TABLES,
    sa.Column("endpoint", sa.Text(), primary_key=True),
    sa.Column("form", sa.String(), primary_key=True),
    sa.Column("secret_kind", sa.String(), primary_key=True),
    sa.Column("secret_name", sa.String(), primary_key=True),
    sa.Column("state", sa.String(), nullable=False),
    sa.Column("since_s", sa.Float(), nullable=False),
    sa.Column("detail", sa.Text(), nullable=False),
    sa.Column("claimed_until_s", sa.Float(), nullable=False, server_default="0"),
)
sa.Table(
    "weeks",
    _TABLES,
    sa.Column("source_id", sa.String(), primary_key=True),
    sa.Column("counts", sa.LargeBinary(), nullable=False),
    sa.Column("squares", sa.Float(), nullable=False),
    sa.Column("since_s", sa.Float(), nullable=False),
    sa.Column("as_of_s", sa.Float(), nullable=False),
)
sa.Table(
    "articles",
    _TABLES,
    sa.Column("position", _NUMBER, sa.ForeignKey("items.position", ondelete="CASCADE"), primary_key=True),
    sa.Column("html", sa.Text(), nullable=False),
    sa.Column("failure", sa.Text(), nullable=False),
    sa.Column("fetched_s", sa.Float(), nullable=False),
)
sa.Table(
    "marks",
    _TABLES,
    sa.Column("position", _NUMBER, sa.ForeignKey("items.position", ondelete="CASCADE"), primary_key=True),
    sa.Column("person", sa.String(), primary_key=True),
    sa.Column("source_id", sa.String(), nullable=False),
    sa.Column("is_read", sa.Boolean()),
    sa.Column("starred_s", sa.Float()),
    sa.Index("ix_marks_source", "person", "source_id", "position"),
    sa.Index("ix_marks_starred", "person", "position", **_where("starred_s IS NOT NULL")),
    sa.Index(
        "ix_marks_unread",
        "person",
        "position",
        sqlite_where=sa.text("is_read IS 0"),
        postgresql_where=sa.text("is_read IS false"),
    ),
)
sa.Table(
    "outbox",
    _TABLES,
    sa.Column("position", _NUMBER, primary_key=True),
    sa.Column(
        "notification_id",
        sa.String(),
        sa.ForeignKey("notifications.notification_id", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("endpoint", sa.Text(), nullable=False),
    sa.Column("secret_kind", sa.String(), nullable=False),
    sa.Column("secret_name", sa.String(), nullable=False),
    sa.Column("lane", sa.Text(), nullable=False),
    sa.Column("state", sa.String(), nullable=False),
    sa.Column("attempts", sa.Integer(), nullable=False),
    sa.Column("first_attempt_s", sa.Float()),
    sa.Column("next_s", sa.Float(), nullable=False),
    sa.Column("done_s", sa.Float()),
    sa.Column("last_error", sa.Text(), nullable=False, server_default=""),
    sa.Column("kind", sa.String(), nullable=False, server_default="webhook"),
    sa.Column("form", sa.String(), nullable=False, server_default="STANDARD"),
    sa.Column("payload", sa.Integer(), nullable=False, server_default="1"),
    sa.Column("most_items", sa.Integer()),
    sa.Column("receiver", sa.Text(), nullable=False, server_default=""),
    sa.Column("digest_id", sa.String()),
    sa.Column("digest", sa.LargeBinary()),
    sa.UniqueConstraint("notification_id", "endpoint", name="uq_outbox_delivery"),
    sa.Index("ix_outbox_digest", "digest_id", **_where("digest_id IS NOT NULL")),
    sa.Index("ix_outbox_due", "state", "next_s"),
    sa.Index("ix_outbox_waiting", "lane", "position", **_where("done_s IS NULL")),
)
sa.Table(
    "attempts",
    _TABLES,
    sa.Column("attempt_id", _NUMBER, primary_key=True),
    sa.Column("position", _NUMBER, sa.ForeignKey("outbox.position", ondelete="CASCADE"), nullable=False),
    sa.Column("attempted_s", sa.Float(), nullable=False),
    sa.Column("duration_s", sa.Float(), nullable=False),
    sa.Column("result", sa.String(), nullable=False),
    sa.Column("detail", sa.Text(), nullable=False),
    sa.Index("ix_attempts_position", "position"),
)


def upgrade() -> None:
    connection = op.get_bind()
    before = _columns(connection)
    if before:
        _drop_indexes(connection, before)
        _remake_accounts(before)
        _remake_items(before)
    for table in _TABLES.sorted_tables:
        if table.name not in before:
            connection.execute(sa.schema.CreateTable(table))
    if before:
        there = _columns(connection)
        for table in _TABLES.sorted_tables:
            _add_columns(table, there[table.name])
        _fill(connection, before)
        _drop_leftovers(connection)
    for table in _TABLES.sorted_tables:
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            index.create(connection)
    _index_words(connection)
    if connection.dialect.name == "postgresql":
        for name in _BUSY:
            op.execute(f"ALTER TABLE {name} SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)")


def downgrade() -> None:
    raise NotImplementedError("`proxyd db back` puts the copy in place that was made before the upgrade")


def _columns(connection: sa.Connection) -> Columns:
    """Return what there is of these tables."""
    found = sa.inspect(connection)
    names = _TABLES.tables.keys() & set(found.get_table_names())
    return {name: [column["name"] for column in found.get_columns(name)] for name in names}


def _drop_indexes(connection: sa.Connection, before: Columns) -> None:
    """Drop every index that is none of a constraint: some have changed, and some hold a column that goes."""
    found = sa.inspect(connection)
    for table in before:
        for index in found.get_indexes(table):
            if not index.get("duplicates_constraint"):
                op.drop_index(str(index["name"]), table)


def _remake_accounts(before: Columns) -> None:
    """Have an account for each day and planner; there were accounts for each day and source, later for each day."""
    if "accounts" in before and "part" not in before["accounts"]:
        names = [column.name for column in _TABLES.tables["accounts"].columns if not column.primary_key]
        sums = ", ".join(f"sum({name})" for name in names)
        _remake("accounts", f"day, part, {', '.join(names)}", f"SELECT day, 0, {sums} FROM former GROUP BY day")


def _remake_items(before: Columns) -> None:
    """Number the items in the order in which they were seen."""
    if "position" not in before["items"]:
        names = ", ".join(c.name for c in _TABLES.tables["items"].columns if c.name in before["items"])
        _remake("items", names, f"SELECT {names} FROM former ORDER BY seen_s, source_id, seq")


def _remake(table: str, columns: str, rows: str) -> None:
    op.rename_table(table, "former")
    op.get_bind().execute(sa.schema.CreateTable(_TABLES.tables[table]))
    op.execute(f"INSERT INTO {table} ({columns}) {rows}")
    op.drop_table("former")


def _add_columns(table: sa.Table, there: Collection[str]) -> None:
    for column in table.columns:
        if column.name not in there:
            default = column.server_default
            has_value = column.nullable or default is not None  # what has none is filled first, and then made NOT NULL
            added = sa.Column(column.name, column.type, nullable=column.nullable or not has_value)
            added.server_default = default
            op.add_column(table.name, added)


def _fill(connection: sa.Connection, before: Columns) -> None:
    """Fill what is new and not empty in the beginning."""
    if "utility" not in before["streams"]:
        op.execute("UPDATE streams SET utility = captured")
    if "utility" not in before["intervals"]:
        op.execute("UPDATE intervals SET utility = 1 WHERE captured")
    if "webhooks" not in before:  # whoever has accepted something needs no ping
        op.execute(
            "INSERT INTO webhooks (endpoint, form, secret_kind, secret_name, state, since_s, detail)"
            " SELECT endpoint, form, secret_kind, secret_name, 'confirmed', max(done_s), '' FROM outbox"
            " WHERE kind = 'webhook' AND state = 'delivered' GROUP BY endpoint, form, secret_kind, secret_name"
        )
    if "declared" not in before:
        op.execute("INSERT INTO declared SELECT source_id, 0.0 FROM sources")
    if "rate" not in before["sources"]:
        _fill_rates(connection)
    if "seen" not in before["streams"]:
        _fill_seen(connection)
    if "words" not in before["items"]:
        _fill_words(connection)
    if "lanes" not in before:
        _fill_lanes(connection)
    if "told" not in before.get("subscriptions", ["told"]):  # no hub is left any more
        op.execute("UPDATE subscriptions SET misses = 0")
        op.execute("UPDATE subscriptions SET status = 'wanted', due_s = 0 WHERE status = 'demoted'")


def _fill_rates(connection: sa.Connection) -> None:
    """Take the only rate that there was for that of every half-life."""
    old = sa.table("sources", *map(sa.column, ("source_id", "rate_as_of_s", "rate_events", "rate_exposure_s", "rate")))
    rows = connection.execute(sa.select(*(c for c in old.c if c.name != "rate"))).all()
    for source_id, as_of_s, events, exposure_s in rows:
        rate = json.dumps([as_of_s, [events] * _HALF_LIVES, [exposure_s] * _HALF_LIVES])
        connection.execute(sa.update(old).where(old.c.source_id == source_id).values(rate=rate))
    with op.batch_alter_table("sources") as batch:
        batch.alter_column("rate", existing_type=sa.Text(), nullable=False)


def _fill_seen(connection: sa.Connection) -> None:
    """Count all events of a stream: before there was WHERE, these were the ones that counted."""
    old = sa.table("streams", *map(sa.column, ("rule", "source_id", "counts", "seen")))
    rows = connection.execute(sa.select(old.c.rule, old.c.source_id, old.c.counts)).all()
    for rule, source_id, counts in rows:
        first = (json.loads(counts) or [0])[0]
        seen = int(first[0] if isinstance(first, list) else first)
        same = (old.c.rule == rule) & (old.c.source_id == source_id)
        connection.execute(sa.update(old).where(same).values(seen=seen))


def _fill_words(connection: sa.Connection) -> None:
    c, last = _TABLES.tables["items"].c, 0
    own = sa.update(c.position.table).where(c.position == sa.bindparam("at")).values(words=sa.bindparam("found"))
    some = sa.select(c.position, c.fields).order_by(c.position).limit(_SOME)
    while rows := connection.execute(some.where(c.position > last)).all():
        connection.execute(own, [{"at": row.position, "found": words_of(json.loads(row.fields))} for row in rows])
        last = rows[-1].position


def _fill_lanes(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":  # before 0.1 lanes were joined with a character that PostgreSQL cannot hold
        rule = "SELECT rule FROM notifications WHERE notifications.notification_id = outbox.notification_id"
        op.execute(f"UPDATE outbox SET lane = ({rule}) || char(10) || endpoint WHERE instr(lane, char(0))")
        op.execute("UPDATE endpoints SET lane = rule || char(10) || endpoint WHERE instr(lane, char(0))")
    op.execute(
        "INSERT INTO lanes (lane, endpoint, due_s) SELECT lane, min(endpoint), 0 FROM outbox WHERE state = 'pending'"
        " GROUP BY lane"
    )
    for table in ("shards", "members"):  # notifiers claim lanes instead
        op.execute(f"DELETE FROM {table} WHERE role = 'notifier'")


def _drop_leftovers(connection: sa.Connection) -> None:
    for name, there in _columns(connection).items():
        for column in there:
            if column not in _TABLES.tables[name].columns:
                op.drop_column(name, column)
    op.execute("DROP TABLE IF EXISTS leaders")


def _index_words(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        op.execute("CREATE INDEX ix_items_words ON items USING gin (to_tsvector('simple', words))")
    elif not sa.inspect(connection).has_table("item_words"):
        for statement in WORDS_IN_SQLITE:
            connection.exec_driver_sql(statement)
