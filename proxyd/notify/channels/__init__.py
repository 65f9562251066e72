"""The channels, one module each, and the resources that they are opened with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxyd.tracing import NO_TRACES

if TYPE_CHECKING:
    import aiohttp

    from proxyd.base.ports import Clock
    from proxyd.config.settings import Settings
    from proxyd.net.guard import Guard
    from proxyd.tracing import Tracer


@dataclass(frozen=True, slots=True)
class ChannelResources:
    """Settings, the guarded HTTP session, and ``at_end``, which takes functions to call when the daemon stops."""

    settings: Settings
    session: aiohttp.ClientSession
    guard: Guard
    clock: Clock
    at_end: Callable[[Callable[[], None]], object]
    tracer: Tracer = NO_TRACES
