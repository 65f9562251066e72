"""Pauses sources and mutes rules and profiles: beside the declaration, and over restarts and edits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog

from proxyd.base.clock import Signal
from proxyd.base.ports import Clock
from proxyd.core.errors import BusyError, ConflictError
from proxyd.core.language import find_source, no_such
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import EVERYTHING, Key, Subject, Suspension, lasting, mute_of, suspensions_of_sources
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.failing_rules import FailingRule, FailingRules
from proxyd.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class SuspensionChange:
    """What a command did, in words, and the suspension that there is now.

    ``is_new`` says whether anything began or ended; ``notifications`` counts those that were released or dropped.
    """

    said: str
    suspension: Suspension | None
    is_new: bool = True
    notifications: int = 0


log = structlog.get_logger("suspensions")


def _all_of(known: dict[Key, Suspension]) -> Iterable[Suspension]:
    return known.values()


class Suspensions:
    """The paused sources and the muted rules and profiles; ``released`` is notified when deliveries may go again.

    ``turn`` is held from the check of a name to its suspension, and while a declaration is checked and swapped in.
    """

    def __init__(self, decider: Decider, store: SqlStore, clock: Clock) -> None:
        self._decider = decider
        self._store = store
        self._clock = clock
        self.turn = asyncio.Lock()
        self.released = Signal()
        self._known: Mapping[Key, Suspension] = {}
        self._failed_there: Mapping[str, FailingRule] = {}  # as stored when other planners were followed last
        self._has_started = False
        self._changed = Signal()
        self._stopped = False

    @property
    def failing(self) -> FailingRules:
        """The rules that failed the last time they were evaluated."""
        return self._decider.known.failing

    # -- the loop

    async def run(self) -> None:
        """End suspensions when their time is over, until ``stop``."""
        while not self._stopped:
            now_s = self._clock.time_s()
            ends_s = min((each.until_s for each in self._known.values() if each.until_s is not None), default=None)
            if ends_s is not None and ends_s <= now_s:
                async with self.turn:
                    await self._change(_all_of, self._declaration)
            elif ends_s is None:
                await self._changed.sleep(self._clock)
            else:
                await self._changed.sleep(self._clock, ends_s - now_s)

    def stop(self) -> None:
        """End the loop; returns at once."""
        self._stopped = True
        self._changed.notify()

    async def follow(self, declaration: Declaration) -> None:
        """Drop the suspensions of what a new declaration no longer has, and those whose time is over.

        Call it with ``turn`` held, before the declaration is swapped in.
        """
        await self._change(_all_of, declaration)
        self._has_started = True

    async def read(self, declaration: Declaration) -> None:
        """Follow a declaration and the suspensions as they are stored: another planner changes them.

        Call it with ``turn`` held, before the declaration is swapped in.
        """
        self._store.suspensions.follow(declaration)
        found = lasting(await self._store.suspensions.load(), declaration, self._clock.time_s())
        if found != self._known or not self._has_started:
            self._known = found
            self._decider.pause(suspensions_of_sources(self._known), self._clock.time_s())
            self._changed.notify()
        self._has_started = True

    async def follow_others(self) -> None:
        """Follow what another planner has paused, muted and resumed, and which rules failed there."""
        failing = await self._store.failing.load()
        async with self.turn:
            await self.read(self._declaration)
            if failing != self._failed_there:
                self._failed_there = failing
                self.failing.restore(failing)
                self.failing.keep(self._decider.known.compiled.programs)

    # -- queries and commands

    def of(self, subject: Subject, name: str) -> Suspension | None:
        """Return the suspension of a source, or the own one of a rule or profile."""
        return self._known.get((subject, name))

    def mute_of(self, rule: str, profiles: Iterable[str]) -> Suspension | None:
        """Return what mutes a rule, or ``None``."""
        return mute_of(rule, profiles, self._known)

    def all(self) -> list[Suspension]:
        """Return every suspension, sources first, by name."""
        order = list(Subject)
        return sorted(self._known.values(), key=lambda each: (order.index(each.subject), each.name))

    async def pause(self, source: str, by: str) -> SuspensionChange:
        """Probe a source no more."""
        async with self.turn:
            self._must_have_started()
            find_source(source, self._declaration)
            key = Subject.SOURCE, source
            if (before := self._known.get(key)) is not None:
                return SuspensionChange(f"source {source} was already paused, {before.told}", before, is_new=False)
            suspension = Suspension(*key, self._clock.time_s(), by)
            await self._change(lambda known: [*known.values(), suspension], self._declaration)
        return SuspensionChange(f"source {source} is paused: it is not probed until it is resumed", suspension)

    async def resume(self, name: str, *, subject: Subject | None = None) -> SuspensionChange:
        """Probe a paused source again, or evaluate a rule again that failed too often."""
        async with self.turn:
            # `proxyd add` gives a source and its rule one name, of which nearly always one is held
            is_paused, is_suspended = (Subject.SOURCE, name) in self._known, self.failing.is_suspended(name)
            if subject is None and is_paused != is_suspended:
                subject = Subject.SOURCE if is_paused else Subject.RULE
            key = self._meant(name, subject, Subject.SOURCE, Subject.RULE)
            if key[0] is Subject.RULE:
                return await self._resume_rule(name)
            if key not in self._known:
                return SuspensionChange(f"source {name} is not paused", None, is_new=False)
            await self._change(_without(key), self._declaration)
        return SuspensionChange(f"source {name} is probed again", None)

    async def _resume_rule(self, name: str) -> SuspensionChange:
        if not self.failing.is_suspended(name):
            muted = (
                "; it is muted: `proxyd unmute` sends its notifications" if (Subject.RULE, name) in self._known else ""
            )
            return SuspensionChange(f"rule {name} is not suspended{muted}", None, is_new=False)
        self.failing.resume(name)
        await self._store.failing.resume(name, self._clock.time_s())
        return SuspensionChange(f"rule {name} is evaluated again, on what its sources show from now on", None)

    async def mute(
        self, name: str, by: str, *, subject: Subject | None = None, until_s: float | None = None
    ) -> SuspensionChange:
        """Keep back the notifications of a rule, of every rule of a profile, or of all."""
        async with self.turn:
            key = self._meant(name, subject, Subject.RULE, Subject.PROFILE)
            now_s = self._clock.time_s()
            if until_s is not None and until_s <= now_s:
                raise ConflictError(f"{iso_time(until_s)} has passed; give a later time")
            before = self._known.get(key)
            since_s = now_s if before is None else before.since_s
            suspension = Suspension(*key, since_s, by if before is None else before.by, until_s)
            await self._change(lambda known: [*_without(key)(known), suspension], self._declaration)
        called, ends = _words_for(key), _ends(suspension)
        said = f"{called} was already muted; now {ends}" if before else f"{called} is muted {ends}"
        kept = "what it finds meanwhile is kept, and comes as one digest when it is unmuted"
        return SuspensionChange(f"{said}; {kept}", suspension, is_new=before is None)

    async def unmute(self, name: str, *, subject: Subject | None = None, drop: bool = False) -> SuspensionChange:
        """Send what was kept back as one digest for each receiver, or drop it."""
        async with self.turn:
            key = self._meant(name, subject, Subject.RULE, Subject.PROFILE)
            called = _words_for(key)
            if key not in self._known:
                return SuspensionChange(f"{called} is not muted{self._by_profile(key)}", None, is_new=False)
            dropped = _rules_of(key, self._declaration) if drop else ()
            count = await self._change(_without(key), self._declaration, dropped=dropped)
        said = f"{called} is no longer muted"
        if still := self._by_profile(key):
            return SuspensionChange(f"{said} itself{still}", None)
        kept = f"{count} kept notification{'s' * (count != 1)}"
        became = "dropped" if drop else "sent, as one digest for each receiver"
        return SuspensionChange(f"{said}; {kept} {'are' if count != 1 else 'is'} {became}", None, notifications=count)

    # -- how

    @property
    def _declaration(self) -> Declaration:
        return self._decider.known.compiled.declaration

    async def _change(
        self,
        edit: Callable[[dict[Key, Suspension]], Iterable[Suspension]],
        declaration: Declaration,
        *,
        dropped: Iterable[str] = (),
    ) -> int:
        """Store the edited suspensions, follow them, and return how many notifications may go, or were dropped."""
        now_s = self._clock.time_s()
        found = await self._store.suspensions.change(edit, declaration, now_s, dropped=frozenset(dropped))
        if edit is _all_of:
            for key in self._known.keys() - found.suspensions.keys():
                log.info("a suspension has ended", subject=key[0].value, name=key[1])
        self._known = found.suspensions
        self._decider.pause(suspensions_of_sources(self._known), now_s)
        if found.released:
            self.released.notify()
        self._changed.notify()
        return found.released

    def _meant(self, name: str, subject: Subject | None, *kinds: Subject) -> Key:
        """Return which of these kinds a name means; raises if it means none, or several."""
        self._must_have_started()
        if subject is Subject.ALL:
            return Subject.ALL, EVERYTHING
        declared: Mapping[Subject, Mapping[str, object]] = {
            Subject.SOURCE: self._declaration.sources,
            Subject.RULE: self._declaration.rules,
            Subject.PROFILE: self._declaration.profiles,
        }
        meant = {each: declared[each] for each in kinds if subject in {None, each}}
        found = [each for each, known in meant.items() if name in known]
        if len(found) > 1:
            both = " and a ".join(each.value for each in found)
            raise ConflictError(f"a {both} are called {name!r}; say which of them you mean")
        if not found:
            what = " or ".join(each.value for each in meant)
            raise no_such(what, name, sorted({each for known in meant.values() for each in known}))
        return found[0], name

    def _must_have_started(self) -> None:
        if not self._has_started:
            raise BusyError("the daemon is starting; try again in a few seconds")

    def _by_profile(self, key: Key) -> str:
        """Return what else mutes a rule or a profile, as the end of a sentence."""
        profiles = self._declaration.rules[key[1]].profiles if key[0] is Subject.RULE else ()
        found = None if key[0] is Subject.ALL else self.mute_of("" if key[0] is Subject.PROFILE else key[1], profiles)
        return "" if found is None else f", but {_words_for(found.key)} is, {found.told}"


def _without(key: Key) -> Callable[[dict[Key, Suspension]], list[Suspension]]:
    return lambda known: [each for each in known.values() if each.key != key]


def _words_for(key: Key) -> str:
    """Return what a suspension is about, in words."""
    return EVERYTHING if key[0] is Subject.ALL else f"{key[0].value} {key[1]}"


def _ends(suspension: Suspension) -> str:
    return "until it is unmuted" if suspension.until_s is None else f"until {iso_time(suspension.until_s)}"


def _rules_of(key: Key, declaration: Declaration) -> list[str]:
    """Return the rules that a mute is about."""
    if key[0] is Subject.ALL:
        return list(declaration.rules)
    if key[0] is Subject.RULE:
        return [key[1]]
    return [name for name, rule in declaration.rules.items() if key[1] in rule.profiles]
