"""The index of the words of items: FTS5 with triggers in SQLite, GIN in PostgreSQL."""

from __future__ import annotations

IN_SQLITE = (
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

WITHOUT_SQLITE = (
    "DROP TRIGGER item_words_insert",
    "DROP TRIGGER item_words_delete",
    "DROP TRIGGER item_words_update",
    "DROP TABLE item_words",
)

IN_POSTGRESQL = ("CREATE INDEX ix_items_words ON items USING gin (to_tsvector('simple', words))",)
