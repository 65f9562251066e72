"""A port that leads to another one, which changes, as that of a load balancer does; it can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Passes connections on to a port of this machine; ``target`` is ``None`` while it is cut."""

    def __init__(self, target: int | None) -> None:
        self.target = target
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    def lead_to(self, target: int | None) -> None:
        """End all connections; lead new ones elsewhere, or nowhere."""
        self.target = target
        for writer in self._open:
            writer.transport.abort()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes both ways, until one side ends."""
        if self.target is None:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass_on(reader, back))
                tasks.create_task(_pass_on(there, writer))
        finally:
            for each in (writer, back):
                each.transport.abort()
                self._open.discard(each)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def relay(target: int | None) -> AsyncIterator[Relay]:
    """Lead a port to another one, or nowhere, while the context is open."""
    made = Relay(target)
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.lead_to(None)
        server.close()
