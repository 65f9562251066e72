"""Sessions with PostgreSQL end when they should: not while a copy takes hours."""

from __future__ import annotations

from sqlalchemy import Connection, text

from proxyd.store.opening import open_connections, owned_connections
from tests.servers import PostgresServer

TIMEOUTS = ("idle_session_timeout", "idle_in_transaction_session_timeout")


def shown(connection: Connection, *names: str) -> list[str]:
    """Return what settings of the session are in force."""
    return [str(connection.scalar(text(f"SHOW {name}"))) for name in names]


async def test_a_session_that_holds_locks_while_others_copy_is_not_ended(postgresql: PostgresServer) -> None:
    address = postgresql.create()
    for name in TIMEOUTS:
        postgresql.query(f"ALTER DATABASE {address.rpartition('/')[2]} SET {name} = '7s'")
    async with owned_connections(address) as connections:
        assert await connections.writer.call(lambda c: shown(c, *TIMEOUTS)) == ["0", "0"]
    async with open_connections(address, lease_s=30.0) as connections:
        assert await connections.writer.call(lambda c: shown(c, *TIMEOUTS)) == ["30s", "30s"]
