"""What a planner that stands by has read and checked already, so that it need not when it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

from proxyd.core.language import CheckSettings, SourceText
from proxyd.core.planning.numba_kernels import load_libraries
from proxyd.daemon.declared_texts import NOTHING_DECLARED, NOTHING_PARSED, check_texts
from proxyd.daemon.profile_folder import ProfileFolder
from proxyd.errors import ConfigError, ProfileError, StoreError
from proxyd.ports import Clock
from proxyd.store import StoredText

_LOOK_S = 10.0
log = structlog.get_logger("profiles")


class StandbyTexts:
    """Follows the files and the texts of the API while another machine leads.

    What it has read is used where the text is still the same; everything is checked again when this machine leads.
    """

    def __init__(self, folder: Path, settings: CheckSettings, clock: Clock) -> None:
        self._folder = ProfileFolder(folder)
        self._settings = settings
        self._clock = clock
        self._last: list[SourceText] = []
        self.texts = NOTHING_DECLARED

    async def follow(self, load_texts: Callable[[], Awaitable[Sequence[StoredText]]]) -> None:
        """Read and check what has changed, again and again, until cancelled."""
        while True:
            try:
                await self._look(await load_texts())
            except (ConfigError, ProfileError, StoreError) as error:  # the leader says so
                log.debug("the texts are not read yet", error=str(error))
            await self._clock.sleep(_LOOK_S)

    async def _look(self, stored: Sequence[StoredText]) -> None:
        files = await asyncio.to_thread(self._folder.read)
        texts = [*files, *(SourceText(each.name, each.text) for each in stored if each.origin == "api")]
        if texts != self._last:
            checked = await asyncio.to_thread(check_texts, texts, NOTHING_PARSED, self._settings, self.texts)
            self._last, self.texts = texts, checked.written
            if checked.declaration.sources:
                await asyncio.to_thread(load_libraries)
