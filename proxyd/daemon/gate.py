"""The gate to other planners: the one place at which a daemon asks what it may do where several share the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from proxyd.core.rules.known.compiled import Swap
from proxyd.core.rules.known.knowledge import Ownership


class Gate:
    """A daemon alone: all sources are its own, and so is the declaration. A cluster has another gate."""

    controls = True
    """Whether this planner changes the declaration; otherwise it follows what another one has stored."""

    async def start(
        self, load: Callable[[], Awaitable[None]], stopping: asyncio.Event, tasks: asyncio.TaskGroup
    ) -> bool:
        """Run the declaration, which ``load`` does; return whether that was done before ``stopping``."""
        await load()
        return True

    async def controls_before(self, stopping: asyncio.Event) -> bool:
        """Wait until this planner looks after the declaration; return whether that was so before ``stopping``."""
        return True

    async def find_moving(self, swap: Swap) -> tuple[Ownership, list[str]] | None:
        """Return what is ours under a declaration, and the sources that this concerns; ``None`` if as before."""
        return None

    def move(self, owned: Ownership, sources: list[str]) -> None:
        """Follow ``find_moving`` once its declaration runs."""

    async def run(self) -> None:
        """Keep in step with the other planners until cancelled."""
