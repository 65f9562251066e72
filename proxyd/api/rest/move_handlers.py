"""Handlers and endpoints of sources that have moved permanently."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from proxyd.api import wire
from proxyd.api.rest.endpoint import Endpoint, listing, read_body
from proxyd.api.wire import converters as payloads
from proxyd.queries import Queries


class MoveHandlers:
    """Handlers that list moves and accept them."""

    def __init__(self, queries: Queries) -> None:
        self._moves = queries.moves

    async def list_moves(self) -> wire.Items[wire.MoveShown]:
        """List the permanent moves of sources, by source."""
        return wire.Items[wire.MoveShown](items=[payloads.move(each) for each in await self._moves.all()])

    async def accept_move(self, request: web.Request) -> wire.MoveMade:
        """Read a source where its permanent redirects lead, from now on and over restarts."""
        asked = await read_body(request, wire.MoveWanted)
        made = await self._moves.accept(asked.source, to=asked.url)
        return wire.MoveMade(said=made.said, move=None if made.move is None else payloads.move(made.move))


def move_endpoints(queries: Queries) -> Sequence[Endpoint]:
    """Return the endpoints of moves."""
    handlers = MoveHandlers(queries)
    return (
        listing("/api/v1/moves", handlers.list_moves, wire.Items[wire.MoveShown]),
        Endpoint("POST", "/api/v1/moves", "write", handlers.accept_move, wire.MoveMade, body=wire.MoveWanted,
                 raises=(404, 409, 413, 422, 503), is_keyed=True),
    )  # fmt: skip
