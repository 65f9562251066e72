"""The handler and endpoint that have sources probed now."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from proxyd.api import wire
from proxyd.api.listings import Listings
from proxyd.api.rest.endpoint import Endpoint, read_body


class ProbeHandlers:
    """Has sources probed now."""

    def __init__(self, listings: Listings) -> None:
        self._plans = listings.plans

    async def probe(self, request: web.Request) -> wire.Items[wire.ProbeAsked]:
        """Have a source, or the sources of a rule or of a profile, probed as soon as politeness allows."""
        asked = await read_body(request, wire.ProbeWanted)
        return await self._plans.probe(asked.name)


def probe_endpoints(listings: Listings) -> Sequence[Endpoint]:
    """Return the endpoint that has sources probed."""
    handlers = ProbeHandlers(listings)
    return (
        Endpoint("POST", "/api/v1/probe", "write", handlers.probe, wire.Items[wire.ProbeAsked], body=wire.ProbeWanted,
                 raises=(404, 409, 413, 422, 503), is_keyed=True),
    )  # fmt: skip
