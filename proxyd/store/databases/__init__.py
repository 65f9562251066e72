"""SQLite and PostgreSQL: connections, migrations, copies, backups, leases and shards."""
