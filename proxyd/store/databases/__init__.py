"""SQLite and PostgreSQL: connections, migrations, copies, backups and leader locks."""
