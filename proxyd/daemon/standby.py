"""What a planner that stands by has read, checked and compiled already, so that it need not when it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import structlog

from proxyd.core.language import CheckSettings, SourceText
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.numba_kernels import load_libraries
from proxyd.core.rules.compiled import Swap, compile_declaration
from proxyd.daemon.declared_texts import NOTHING_DECLARED, NOTHING_PARSED, CheckedTexts, check_texts
from proxyd.daemon.profile_folder import ProfileFolder
from proxyd.daemon.remembered import week_of
from proxyd.errors import ConfigError, ProfileError, StoreError
from proxyd.ports import Clock
from proxyd.store import SqlStore, StoredPlan, StoredText
from proxyd.store.followed_rows import FollowedDeclaration, FollowedSources, RememberedSources

_LOOK_S = 10.0
_MOST_SHARE = 0.1  # of the time, for looks
log = structlog.get_logger("standby")


class Standby:
    """Follows the declaration, the sources and the plan while another machine leads.

    Once this machine leads, ``sources``, ``week`` and ``swap`` read what has changed since, and make again only that.
    ``texts`` is what was read of the declaration; it is used where a text is still the same.
    """

    def __init__(self, folder: Path, settings: CheckSettings, clock: Clock, *, chronon_s: float) -> None:
        self._folder = ProfileFolder(folder)
        self._settings = settings
        self._clock = clock
        self._chronon_s = chronon_s
        self._last: list[SourceText] = []
        self._checked: CheckedTexts | None = None
        self._swap: Swap | None = None
        self._compiled = 0  # after so many changes
        self._plan: tuple[StoredPlan, WeekPlan | None] | None = None
        self._sources = FollowedSources()
        self._declared = FollowedDeclaration()
        self.texts = NOTHING_DECLARED

    async def follow(self, store: SqlStore) -> None:
        """Read what has changed, again and again, until cancelled."""
        while True:
            began_s = self._clock.monotonic_s()
            try:
                await self._look(store)
            except (ConfigError, ProfileError, StoreError) as error:  # the leader says so
                log.debug("it is not known yet what the leader does", error=str(error))
            took_s = self._clock.monotonic_s() - began_s
            await self._clock.sleep(max(_LOOK_S, took_s / _MOST_SHARE))

    async def _look(self, store: SqlStore) -> None:
        await self._read(await store.declarations.load_texts())
        if self._checked is not None and self._checked.declaration.sources:
            await asyncio.to_thread(load_libraries)
            await self._sources.catch_up(store.read_each)
            made_s = await store.plan.made_s()
            if (self._plan is None or self._plan[0].made_s != made_s) and (stored := await store.plan.load()):
                await self.week(stored)
            await self._declared.catch_up(store.read_each)
            await self._compile(self._checked.declaration)

    async def _read(self, stored: Sequence[StoredText]) -> None:
        files = await asyncio.to_thread(self._folder.read)
        texts = [*files, *(SourceText(each.name, each.text) for each in stored if each.origin == "api")]
        if texts != self._last:
            self._checked = await asyncio.to_thread(check_texts, texts, NOTHING_PARSED, self._settings, self.texts)
            self._last, self.texts = texts, self._checked.written

    async def _compile(self, declaration: Declaration) -> None:
        """Compile a declaration, unless that was done, or the leader has not accepted it."""
        changes = self._declared.changes
        if self._swap is not None and self._swap.after.declaration is declaration and self._compiled == changes:
            return
        accepted, declared = self._declared.since_s()
        if accepted.keys() >= declaration.rules.keys():
            compiling = partial(compile_declaration, chronon_s=self._chronon_s)
            self._swap = await asyncio.to_thread(compiling, declaration, accepted, declared)
            self._compiled = changes

    # -- once this machine leads

    async def sources(self, store: SqlStore) -> RememberedSources:
        """Return what is remembered of each source."""
        await self._sources.catch_up(store.read_each)
        return self._sources.remembered()

    async def week(self, stored: StoredPlan) -> WeekPlan | None:
        """Return the plan of the week that is stored, or ``None`` if it cannot be read."""
        if self._plan is None or self._plan[0] != stored:
            self._plan = stored, await asyncio.to_thread(week_of, stored)
        return self._plan[1]

    def checked(self, texts: Sequence[SourceText]) -> CheckedTexts | None:
        """Return what texts declare, or ``None`` if these were not checked."""
        return self._checked if texts == self._last else None

    def swap(
        self, declaration: Declaration, accepted: Mapping[str, float], declared: Mapping[str, float]
    ) -> Swap | None:
        """Return the declaration compiled, or ``None`` if that was not done."""
        swap = self._swap
        if swap is None or swap.after.declaration != declaration or swap.after.since_s != declared:
            return None
        programs = swap.after.programs.values()
        return swap if all(each.accepted_s == accepted[each.rule.name] for each in programs) else None
