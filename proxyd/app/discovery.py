"""Looks at an address without a daemon."""

from __future__ import annotations

from proxyd.app.wiring import open_network
from proxyd.base.clock import SystemClock
from proxyd.config import Settings
from proxyd.daemon import Discovery
from proxyd.queries import Discovered


async def discover(settings: Settings, url: str, *, locale: str | None = None, wants_price: bool = False) -> Discovered:
    """Return what an address holds; with ``wants_price`` its page is read for its price alone."""
    async with open_network(settings, SystemClock()) as network:
        return await Discovery(network.prober).look(url, locale=locale, wants_price=wants_price)
