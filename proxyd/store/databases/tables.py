"""The tables as SQLAlchemy sees them; ``migrations/`` creates them, and a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

metadata = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER rows by itself

texts = Table(
    "texts",
    metadata,
    Column("name", String, primary_key=True),
    Column("origin", String, nullable=False),  # file or api
    Column("position", Integer, nullable=False),
    Column("text", Text, nullable=False),
)

rules = Table(
    "rules",
    metadata,
    Column("name", String, primary_key=True),
    Column("fingerprint", String, nullable=False),
    Column("accepted_s", Float, nullable=False),
    Column("meaning", Integer, nullable=False, server_default="1"),
    Column("counting", Text, nullable=False, server_default=""),  # what its counters count
)

sources = Table(
    "sources",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("url", Text, nullable=False),
    Column("reading", String, nullable=False, server_default=""),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("body_hash", String),
    Column("first_contact_s", Float),
    Column("last_start_s", Float),
    Column("last_success_s", Float),
    Column("last_outcome", String),
    Column("last_detail", Text, nullable=False, server_default=""),
    Column("newest_s", Float),
    Column("next_seq", Integer, nullable=False),
    Column("unawaited", Integer, nullable=False, server_default="0"),
    Column("arrivals", Integer, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False),
    Column("not_before_s", Float, nullable=False),
    Column("fresh_until_s", Float, nullable=False, server_default="0"),
    Column("period_s", Float),
    Column("rate", Text, nullable=False),
    Column("shown", Integer, nullable=False, server_default="0"),
    Column("slides", Boolean, nullable=False, server_default=false()),
    Column("lost_items", Float, nullable=False),
    Column("moved_url", Text),
    Column("moved_times", Integer, nullable=False, server_default="0"),
    Column("full_s", Float),
    Column("not_modified", Integer, nullable=False, server_default="0"),
    Column("doubts", Integer, nullable=False, server_default="0"),
    Column("distrust_until_s", Float, nullable=False, server_default="0"),
    Column("missing", Integer, nullable=False, server_default="0"),
    Column("last_push_s", Float),
    Column("fit", Text, nullable=False, server_default="[]"),  # how well its model predicts; empty at first
    Column("health", Text, nullable=False, server_default="{}"),  # how it fares; empty at first
    Column("record", Text, nullable=False, server_default=""),  # how the planner stands with it; empty at first
    Column("hidden", Float, nullable=False, server_default="0"),  # items that siblings announced,
    Column("hidden_since_s", Float, nullable=False, server_default="0"),  # if it was not seen since
)

fleet = Table(  # what each planner learned of all its sources together, under the number after its first shard
    "fleet",
    metadata,
    Column("fleet_id", Integer, primary_key=True, autoincrement=False),
    Column("record", Text, nullable=False),
)

plans = Table(  # the plan of the week of each planner, under the number after its first shard
    "plans",
    metadata,
    Column("plan_id", Integer, primary_key=True, autoincrement=False),
    Column("begun_s", Float, nullable=False),  # when the first plan was made
    Column("made_s", Float, nullable=False),
    Column("settings", String, nullable=False),  # a plan holds only for these
    Column("body", LargeBinary, nullable=False),
    Column("declared", String, nullable=False, server_default=""),  # this and the next only in versions before
    Column("early", LargeBinary),
)

suspensions = Table(  # paused sources, and muted rules and profiles
    "suspensions",
    metadata,
    Column("subject", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("since_s", Float, nullable=False),
    Column("until_s", Float),
    Column("by", Text, nullable=False),
)

removed = Table(  # statements of the API that somebody removed, for a day
    "removed",
    metadata,
    Column("removed_id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("at_s", Float, nullable=False),
    Column("by", Text, nullable=False),
    Index("ix_removed_at", "at_s"),
)

failing_rules = Table(  # rules that failed the last time they were evaluated
    "failing_rules",
    metadata,
    Column("rule", String, primary_key=True),
    Column("meaning", String, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("source_id", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("failed_s", Float, nullable=False),
    Column("suspended_s", Float),
)

declared = Table(  # when each source was declared
    "declared", metadata, Column("source_id", String, primary_key=True), Column("declared_s", Float, nullable=False)
)

weeks = Table(  # when in a week a source's items came
    "weeks",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("counts", LargeBinary, nullable=False),
    Column("squares", Float, nullable=False),
    Column("since_s", Float, nullable=False),
    Column("as_of_s", Float, nullable=False),
)

accounts = Table(  # what probes found compared with what was predicted
    "accounts",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),  # since 1970-01-01, UTC
    Column("part", Integer, primary_key=True, autoincrement=False),  # of the sources: the first shard of its planner
    Column("probes", Integer, nullable=False),
    Column("items", Integer, nullable=False),
    Column("predicted_items", Float, nullable=False),
    Column("timed_items", Integer, nullable=False),
    Column("predicted_timed_items", Float, nullable=False),
    Column("delay_item_s", Float, nullable=False),
    Column("predicted_delay_item_s", Float, nullable=False),
    Column("captured", Integer, nullable=False),
    Column("predicted_captured", Float, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("predicted_missed", Float, nullable=False),
)

site_days = Table(  # for how long each site was up and down
    "site_days",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),  # since 1970-01-01, UTC
    Column("up_s", Float, nullable=False),
    Column("down_s", Float, nullable=False),
    Column("probes", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("answers_s", Float, nullable=False),  # what the probes that did not fail took together
)

incidents = Table(  # the times in which a site was down
    "incidents",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("began_s", Float, primary_key=True),
    Column("ended_s", Float),
    Column("reason", Text, nullable=False),
)

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("url", Text, nullable=False),
    Column("hub", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("callback_id", String, nullable=False),
    Column("secret", String, nullable=False),
    Column("is_asked", Boolean, nullable=False),
    Column("verified_s", Float, nullable=False),
    Column("chosen_s", Float, nullable=False),
    Column("due_s", Float, nullable=False),
    Column("lease_until_s", Float, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("told", Integer, nullable=False),
    Column("misses", Integer, nullable=False),
    Column("pushes", Integer, nullable=False),
    Column("last_push_s", Float),
)

items = Table(  # the newest have the greatest positions; their words are indexed, by triggers or by an expression
    "items",
    metadata,
    Column("position", _NUMBER, primary_key=True),
    Column("source_id", String, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("item_id", Text, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("fields", Text, nullable=False),
    Column("words", Text, nullable=False, server_default=""),  # of its title and texts, for searches
    Column("published_s", Float),
    Column("event_s", Float, nullable=False),
    Column("seen_s", Float, nullable=False),
    Column("present_s", Float, nullable=False),
    Column("exact", Boolean, nullable=False),
    Column("seed", Boolean, nullable=False),
    Column("gone_s", Float),
    Column("is_update", Boolean, nullable=False, server_default=false()),  # what ``changes`` hold, for readers
    UniqueConstraint("source_id", "seq", name="uq_items_event"),
    Index("ix_items_present", "source_id", "present_s"),
)
came = items.c.is_update.is_(False)
"""Whether a row of ``items`` is an item that came, not a change of one."""
_is_there = items.c.gone_s.is_(None)
Index(  # an item that disappeared and comes back is another row
    "uq_items_there",
    items.c.source_id,
    items.c.item_id,
    unique=True,
    sqlite_where=_is_there,
    postgresql_where=_is_there,
)

marks = Table(  # what people said of items, each for herself; they go with their item
    "marks",
    metadata,
    Column("position", _NUMBER, ForeignKey("items.position", ondelete="CASCADE"), primary_key=True),
    Column("person", String, primary_key=True),
    Column("source_id", String, nullable=False),
    Column("is_read", Boolean),  # NULL if only ``read_up_to`` says
    Column("starred_s", Float),
    Index("ix_marks_source", "person", "source_id", "position"),
)
_is_starred, _is_unread = marks.c.starred_s.is_not(None), marks.c.is_read.is_(False)
Index("ix_marks_starred", marks.c.person, marks.c.position, sqlite_where=_is_starred, postgresql_where=_is_starred)
Index("ix_marks_unread", marks.c.person, marks.c.position, sqlite_where=_is_unread, postgresql_where=_is_unread)

articles = Table(  # the text of the page of an item whose feed has only a teaser; it goes with its item
    "articles",
    metadata,
    Column("position", _NUMBER, ForeignKey("items.position", ondelete="CASCADE"), primary_key=True),
    Column("html", Text, nullable=False),  # as a stranger wrote it; empty if it could not be read
    Column("failure", Text, nullable=False),
    Column("fetched_s", Float, nullable=False),
)

read_up_to = Table(  # up to which position a person has read a source, or all of them if its name is empty
    "read_up_to",
    metadata,
    Column("person", String, primary_key=True),
    Column("source_id", String, primary_key=True),
    Column("position", BigInteger, nullable=False),
)

changes = Table(  # updates and deletions of items; ``items`` are the insertions
    "changes",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String, nullable=False),  # update or delete
    Column("item_id", Text, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("fields", Text, nullable=False),
    Column("old_hash", String),
    Column("old_fields", Text),
    Column("published_s", Float),
    Column("event_s", Float, nullable=False),
    Column("seen_s", Float, nullable=False),
    Column("exact", Boolean, nullable=False),
    Index("ix_changes_seen", "seen_s"),
    Index("ix_changes_item", "source_id", "item_id", "seen_s"),
)

source_events = Table(  # failures, moves and others of sources themselves
    "source_events",
    metadata,
    Column("source_id", String, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("item_id", Text, nullable=False),  # what was awaited
    Column("fields", Text, nullable=False),
    Column("event_s", Float, nullable=False),
    Column("seen_s", Float, nullable=False),
    Index("ix_source_events_seen", "seen_s"),
)

streams = Table(
    "streams",
    metadata,
    Column("rule", String, primary_key=True),
    Column("source_id", String, primary_key=True),
    Column("counts", Text, nullable=False),
    Column("fired_seq", Integer, nullable=False),
    Column("captured", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("fired_s", Float, nullable=False, server_default="0"),
    Column("utility", Float, nullable=False, server_default="0"),
    Column("seen", Integer, nullable=False, server_default="0"),
    Column("counting", Text, nullable=False, server_default=""),  # what its counts are of
)

joint_intervals = Table(  # open, on several sources
    "joint_intervals",
    metadata,
    Column("interval_id", String, primary_key=True),
    Column("rule", String, nullable=False),
    Column("body", Text, nullable=False),
    Index("ix_joint_intervals_rule", "rule"),
)

intervals = Table(
    "intervals",
    metadata,
    Column("interval_id", _NUMBER, primary_key=True),
    Column("rule", String, nullable=False),
    Column("source_id", String, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("start_s", Float, nullable=False),
    Column("deadline_s", Float),
    Column("probed_s", Float, nullable=False),
    Column("captured", Boolean, nullable=False),
    Column("exact", Boolean, nullable=False),
    Column("delay_s", Float, nullable=False),
    Column("utility", Float, nullable=False, server_default="0"),
    Column("seen", Boolean, nullable=False, server_default=true()),  # by a probe, before it was given up
    Index("ix_intervals_rule", "rule", "probed_s"),
    Index("ix_intervals_source", "source_id", "probed_s"),
    Index("ix_intervals_probed", "probed_s"),
)

notifications = Table(
    "notifications",
    metadata,
    Column("position", _NUMBER, primary_key=True),
    Column("notification_id", String, nullable=False, unique=True),
    Column("rule", String, nullable=False),
    Column("source_id", String, nullable=False),
    Column("event_s", Float, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("late", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("muted", Boolean, nullable=False, server_default=false()),  # made while its rule was muted
    Column("limited", Boolean, nullable=False, server_default=false()),  # not sent, because of the rule's LIMIT
    Column("limited_by", String, nullable=False, server_default=""),  # the source or value that has a limit of its own
    Column("picture", String),  # of the page, if it is still stored
    Index("ix_notifications_created", "created_s"),
    Index("ix_notifications_rule", "rule", "position"),
    Index("ix_notifications_source", "source_id", "position"),
    Index("ix_notifications_limit", "rule", "limited_by", "created_s"),
)
_has_picture = notifications.c.picture.is_not(None)
Index(
    "ix_notifications_picture",
    notifications.c.picture,
    sqlite_where=_has_picture,
    postgresql_where=_has_picture,
)

pictures = Table(  # of pages, each once however many notifications have it
    "pictures",
    metadata,
    Column("sha256", String, primary_key=True),
    Column("media_type", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),  # of the data, in bytes
    Column("taken_s", Float, nullable=False),  # the last time
    Index("ix_pictures_taken", "taken_s", "size"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("position", _NUMBER, primary_key=True),
    Column("notification_id", String, ForeignKey("notifications.notification_id", ondelete="CASCADE"), nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("secret_kind", String, nullable=False),
    Column("secret_name", String, nullable=False),
    Column("lane", Text, nullable=False),
    # waiting: gathering or released (for a digest), gathered (in one), pending, held, muted, stopped
    # done: delivered, dropped, limited, dead
    Column("state", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("first_attempt_s", Float),
    Column("next_s", Float, nullable=False),
    Column("done_s", Float),
    Column("last_error", Text, nullable=False, server_default=""),
    Column("kind", String, nullable=False, server_default="webhook"),  # of its delivery: webhook, mail, ...
    Column("form", String, nullable=False, server_default="STANDARD"),
    Column("payload", Integer, nullable=False, server_default="1"),  # the version of the body
    Column("most_items", Integer),  # in the digest that it is gathered for
    Column("receiver", Text, nullable=False, server_default=""),  # the name under which its address is declared
    Column("digest_id", String),
    Column("digest", LargeBinary),  # the body of the digest, on the first of its deliveries
    UniqueConstraint("notification_id", "endpoint", name="uq_outbox_delivery"),
    Index("ix_outbox_due", "state", "next_s"),
)
_is_waiting = outbox.c.done_s.is_(None)
Index("ix_outbox_waiting", outbox.c.lane, outbox.c.position, sqlite_where=_is_waiting, postgresql_where=_is_waiting)
_is_gathered = outbox.c.digest_id.is_not(None)
Index("ix_outbox_digest", outbox.c.digest_id, sqlite_where=_is_gathered, postgresql_where=_is_gathered)

lanes = Table(  # the pairs of a rule and a receiver that have, or had, something to send
    "lanes",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("due_s", Float),  # when a notifier looks at it next
    Column("claimed_until_s", Float, nullable=False, server_default="0"),
    Column("claimed_by", String, nullable=False, server_default=""),  # a notifier, while it delivers there
)
_is_due = lanes.c.due_s.is_not(None)
Index("ix_lanes_due", lanes.c.due_s, sqlite_where=_is_due, postgresql_where=_is_due)

attempts = Table(  # deleted with their delivery
    "attempts",
    metadata,
    Column("attempt_id", _NUMBER, primary_key=True),
    Column("position", _NUMBER, ForeignKey("outbox.position", ondelete="CASCADE"), nullable=False),
    Column("attempted_s", Float, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("result", String, nullable=False),  # accepted, retry or dead
    Column("detail", Text, nullable=False),
    Index("ix_attempts_position", "position"),
)

endpoints = Table(  # that asked for no more
    "endpoints",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("rule", String, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("declared", Text, nullable=False),
    Column("disabled_s", Float, nullable=False),
    Column("detail", Text, nullable=False),
)

webhooks = Table(  # and whether they answered their ping
    "webhooks",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("form", String, primary_key=True),
    Column("secret_kind", String, primary_key=True),
    Column("secret_name", String, primary_key=True),
    Column("state", String, nullable=False),
    Column("since_s", Float, nullable=False),
    Column("detail", Text, nullable=False),
    Column("claimed_until_s", Float, nullable=False, server_default="0"),  # by the notifier that pings it
)

followers = Table(  # subscribers of the feeds of profiles, whose hub proxyd is
    "followers",
    metadata,
    Column("follower_id", String, primary_key=True),  # a hash of the callback and the feed
    Column("callback", Text, nullable=False),
    Column("host", String, nullable=False),  # of the callback
    Column("profile", Text, nullable=False),
    Column("rule", Text, nullable=False),  # empty: all of the profile
    Column("form", String, nullable=False),  # atom or json
    Column("token_id", String, nullable=False),  # under which it reads the feed
    Column("secret", Text, nullable=False),  # for signatures; empty: none
    Column("lease_until_s", Float, nullable=False),
    Column("sent_position", BigInteger, nullable=False),  # of the newest notification that it has
    Column("owed_position", BigInteger, nullable=False),  # up to which it is sent them
    Column("due_s", Float, nullable=False),  # when the next attempt may be
    Column("failures", Integer, nullable=False),  # attempts in a row
    Index("ix_followers_host", "host"),
    Index("ix_followers_feed", "profile", "rule"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("scope", String, nullable=False),
    Column("sha256", String, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float),
    Column("profiles", JSON, nullable=False, server_default="[]"),  # the only ones that it reads and writes; empty: all
    Column("person", String),  # whose it is; NULL: nobody's
    Column("fever_sha256", String),  # the SHA-256 of what clients of Fever send for it; NULL: none does
    Index("ix_tokens_fever_sha256", "fever_sha256", unique=True),
    Column("limits", JSON, nullable=False, server_default="{}"),  # how much may belong to its profiles
)

people = Table(  # who sign in to the dashboard
    "people",
    metadata,
    Column("name", String, primary_key=True),
    Column("scope", String, nullable=False),
    Column("reader", String, nullable=False),  # the ``person`` of their rows in ``marks`` and ``read_up_to``
    Column("profiles", JSON, nullable=False, server_default="[]"),  # the only ones that they read and write; empty: all
    Column("since_s", Float, nullable=False),  # since when sessions of theirs are valid
    Column("password", String),  # its argon2 hash; NULL before they have chosen one
    Column("invitation", String, unique=True),  # the SHA-256 of what their link holds
    Column("invited_until_s", Float),
    Column("subject", String),  # the account elsewhere by which they have signed in first
    Column("mail", String),  # where links are sent
    Column("link", String),  # the SHA-256 of what the link holds by which they may sign in once
    Column("link_until_s", Float),
    Index("ix_people_link", "link", unique=True),
    Column("limits", JSON, nullable=False, server_default="{}"),  # how much may belong to their profiles
)

probes = Table(  # of the last days: why each was made and what it found
    "probes",
    metadata,
    Column("position", _NUMBER, primary_key=True),
    Column("source_id", String, nullable=False),
    Column("started_s", Float, nullable=False),
    Column("finished_s", Float, nullable=False),
    Column("reason", String, nullable=False),
    Column("rule", String),
    Column("outcome", String, nullable=False),
    Column("status", Integer),
    Column("detail", Text, nullable=False),
    Column("items", Integer, nullable=False),
    Column("updates", Integer, nullable=False, server_default="0"),
    Column("delay_s", Float),
    Column("body_bytes", BigInteger, nullable=False, server_default="0"),
    Column("requests", Integer, nullable=False, server_default="1"),
    Index("ix_probes_source", "source_id", "position"),
)

audit = Table(  # who changed what; no text of it, which may hold secrets
    "audit",
    metadata,
    Column("position", _NUMBER, primary_key=True),
    Column("at_s", Float, nullable=False),
    Column("who", Text, nullable=False),
    Column("way", String, nullable=False),
    Column("address", String, nullable=False),
    Column("did", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_audit_at", "at_s"),
)

answers = Table(  # to requests with an Idempotency-Key
    "answers",
    metadata,
    Column("bearer", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("request", String, nullable=False),
    Column("status", Integer, nullable=False),
    Column("content_type", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("answered_s", Float, nullable=False),
)

members = Table(  # the processes that share a role's work
    "members",
    metadata,
    Column("member", Integer, primary_key=True, autoincrement=False),  # the number of its lock
    Column("role", String, nullable=False),
    Column("name", String, nullable=False),  # of its machine
)

planners = (
    Table(  # the members that are planners; notifiers may not read it, or their users could have tokens sent there
        "planners",
        metadata,
        Column("member", Integer, primary_key=True, autoincrement=False),
        Column("address", String, nullable=False),  # of its listener
        Column("secret", String, nullable=False),  # with which other planners ask it
        Column("runs", String, nullable=False),  # a digest of the declaration that it runs
        Column("rest_s", Float, nullable=False),  # for how long its probers may work once it has ended
        Column("settings", JSON, nullable=False, server_default="{}"),  # on which all planners must agree
        Column("probers", JSON, nullable=False),  # ids of those that may work for it, or for one that has ended
    )
)

shards = Table(  # the parts of a role's work
    "shards",
    metadata,
    Column("role", String, primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("member", Integer),  # who does it; nobody does if it is not in members
)


WORDS_IN_SQLITE = (
    """CREATE VIRTUAL TABLE item_words USING fts5(
        source_id, words, content='items', content_rowid='position', tokenize="unicode61 remove_diacritics 2")""",
    """CREATE TRIGGER item_words_insert AFTER INSERT ON items BEGIN
        INSERT INTO item_words (rowid, source_id, words) VALUES (new.position, new.source_id, new.words); END""",
    """CREATE TRIGGER item_words_delete AFTER DELETE ON items BEGIN
        INSERT INTO item_words (item_words, rowid, source_id, words)
        VALUES ('delete', old.position, old.source_id, old.words); END""",
    """CREATE TRIGGER item_words_update AFTER UPDATE OF words ON items BEGIN
        INSERT INTO item_words (item_words, rowid, source_id, words)
        VALUES ('delete', old.position, old.source_id, old.words);
        INSERT INTO item_words (rowid, source_id, words) VALUES (new.position, new.source_id, new.words); END""",
    "INSERT INTO item_words (item_words) VALUES ('rebuild')",
)
"""The statements that index the words of items; triggers keep the index in step with the table."""
