"""The declaration: files of the profiles directory and texts sent over the API, swapped in together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_urlsafe

import structlog

from proxyd.base.clock import Signal
from proxyd.base.doers import FILES, Doer, acting, current_doer
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock, ResolveSecret
from proxyd.config.profile_files import read_directory
from proxyd.core.errors import (
    BusyError,
    ChangedError,
    ConfigError,
    ConflictError,
    NotFoundError,
    ProfileError,
    RuleError,
)
from proxyd.core.language import (
    MEANING,
    CheckSettings,
    DropStatement,
    Parsed,
    SourceText,
    Statement,
    StatementKind,
    counters_to_restart,
    find_named,
    is_list,
    no_such,
    rule_counting,
    what_changed,
)
from proxyd.core.model.delivery import WebhookDelivery
from proxyd.core.model.profile import Declaration, found_name, owner_of, plain_name
from proxyd.core.model.suspension import Subject
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rules.answers.advice import PlanCost, Trial, demand_besides_week, differs_little
from proxyd.core.rules.known.compiled import Swap
from proxyd.core.rules.known.knowledge import Ownership
from proxyd.daemon.declared_texts import (
    NOTHING_DECLARED,
    NOTHING_PARSED,
    CheckedTexts,
    DeclarationChanges,
    GivenTexts,
    OnlyIf,
    check_texts,
    describe_removal,
    key_of,
    keys_of,
    only_profile,
    read_sent,
    sources_only_of,
    texts_of,
)
from proxyd.daemon.owner_limits import refuse_more, usage_of
from proxyd.daemon.parts import Parts
from proxyd.daemon.plan_loop import Compute, LoadSources, in_parts, in_thread, last_week, load_sources, restore
from proxyd.daemon.rule_evaluation import StreamRecall
from proxyd.daemon.suspensions import Suspensions
from proxyd.store.declared_rows import Removed
from proxyd.store.followed_rows import StoredDeclaration


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


log = structlog.get_logger("profiles")


class _ProfileFolder:
    """The profiles directory, and what it looked like when it was last read and last looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[tuple[str, int, int], ...] | None = None
        self._looked: tuple[tuple[str, int, int], ...] | None = None

    def read(self) -> list[SourceText]:
        """Return the texts of the files; raises as ``read_directory`` does."""
        self._read = self._snapshot()
        return read_directory(self._folder)

    def look_for_change(self) -> bool:
        """Return whether files have changed since they were read, but not since the last call."""
        # Editors empty a file before they write it, so a file that still changes is not read yet
        found, before = self._snapshot(), self._looked
        if found == self._read:
            return False
        self._looked = found
        return found == before

    def _snapshot(self) -> tuple[tuple[str, int, int], ...]:
        found = []
        with suppress(OSError):  # reading the folder reports the reason
            paths = [path for path in self._folder.iterdir() if path.match("*.profile") or is_list(path.name)]
            for path in sorted(paths):
                with suppress(OSError):
                    stat = path.stat()
                    found.append((path.name, stat.st_mtime_ns, stat.st_size))
        return tuple(found)


def _changes_of(running: Declaration, wanted: Declaration) -> DeclarationChanges:
    """Return what changes if one declaration replaces another."""
    before, after = running.rules, wanted.rules
    both = sorted(before.keys() & after.keys())
    edited = [name for name in both if before[name].fingerprint != after[name].fingerprint]
    restarted = {name: counters_to_restart(after[name], rule_counting(before[name])) for name in edited}
    return DeclarationChanges(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        {name: counters for name, counters in restarted.items() if counters},
    )


def _rules_with_new_query(running: Declaration, wanted: Declaration) -> frozenset[str]:
    both = running.rules.keys() & wanted.rules.keys()
    return frozenset(name for name in both if running.rules[name].query != wanted.rules[name].query)


MOST_STREAMS = 1_000_000  # through the API; each takes 400 bytes


_NO_CHANGES = DeclarationChanges((), (), {})


class Declarations:
    """Keeps the running declaration in step with the files and the API; after any error nothing changes."""

    def __init__(
        self,
        folder: Path,
        recall: StreamRecall,
        clock: Clock,
        settings: CheckSettings,
        metrics: Metrics,
        secrets: ResolveSecret,
        load: LoadSources | None = None,
    ) -> None:
        self._folder = _ProfileFolder(folder)
        self._store = store = recall.store
        self._decider = decider = recall.decider
        self._known = decider.known
        self._recall = recall
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self._secrets = secrets
        self.declared = Signal()  # notified whenever a declaration has been swapped in
        self._load_sources = load or partial(load_sources, store)
        self._parts = Parts()
        self._given = GivenTexts((), {})
        self.texts = NOTHING_DECLARED
        self._names_before: frozenset[str] = frozenset()  # of the sources that were declared before the start
        self.digest = ""  # of the texts that run here
        self._is_sound = False  # whether the files that run would be accepted now
        self.suspensions = Suspensions(decider, store, clock)  # its turn: one declaration at a time, from check to swap
        self._started = asyncio.Event()
        self.gate = Gate()
        self.compute: Compute = in_thread

    @property
    def declaration(self) -> Declaration:
        """The running declaration."""
        return self._known.compiled.declaration

    @property
    def shown(self) -> Declaration:
        """The running declaration, as far as whoever asks may see it."""
        profiles = current_doer().profiles
        return self._parts.of(self.declaration, profiles) if profiles else self.declaration

    async def prepare(self) -> Declaration:
        """Return what ``shown`` does, which is quick from now on."""
        if profiles := current_doer().profiles:
            await self._parts.prepare(self.declaration, profiles)
        return self.shown

    @property
    def receivers(self) -> Mapping[str, tuple[str, Statement]]:
        """The receivers that have names, each with its file; to whoever sees only some profiles, those of these."""
        found, owners = self.texts.declared.get(StatementKind.RECEIVER, {}), current_doer().profiles
        return {name: each for name, each in found.items() if owner_of(name) in owners} if owners else found

    def full_name_of(self, name: str, *kinds: Subject, to_change: bool = False) -> str:
        """Return the full name of what whoever asks means, who may see only some profiles.

        Raises ``NotFoundError`` if that is not in what they see, and ``ConflictError`` if they may not change it.
        """
        profiles = current_doer().profiles
        if not profiles:
            return name
        shown = self.ready()
        known = {Subject.SOURCE: shown.sources, Subject.RULE: shown.rules, Subject.PROFILE: shown.profiles}
        found = ((kind, found_name(name, known[kind], profiles)) for kind in kinds if kind in known)
        kind, full = next(((kind, full) for kind, full in found if full in known[kind]), (Subject.ALL, name))
        if kind is Subject.ALL:
            raise no_such(" or ".join(each.value for each in kinds), name, ())
        if to_change and not self._is_of(kind, full, profiles):
            raise ConflictError(f"the {kind.value} {full!r} is of others too, who change it")
        return full

    def _is_of(self, kind: Subject, name: str, profiles: Collection[str]) -> bool:
        """Whether something belongs to some profiles, or a rule is in no others."""
        if kind is Subject.RULE:
            return set(self.declaration.rules[name].profiles) <= set(profiles)
        return kind is Subject.PROFILE or owner_of(name) in profiles

    def ready(self) -> Declaration:
        """Return what ``shown`` does; raises ``BusyError`` until the declaration is loaded."""
        if not self.has_started:
            raise BusyError("the daemon is starting; try again in a few seconds")
        return self.shown

    @property
    def has_started(self) -> bool:
        """Whether the store's state has been loaded."""
        return self._started.is_set()

    async def start(self) -> None:
        """Load the directory; if it has errors, run on the last good declaration in the store.

        Raises ``ConfigError`` or ``ProfileError``: the directory has errors, and the store has no declaration.
        """
        async with self.suspensions.turn:
            stored = last_week(self._decider.settings, self._store.plan, self.compute)
            week = asyncio.create_task(stored, name="remembered plan")
            try:
                await self._load(week)
            finally:
                week.cancel()
                await asyncio.gather(week, return_exceptions=True)
        self._started.set()

    async def _load(self, week: asyncio.Task[WeekPlan | None]) -> None:
        """Load the directory, or what is stored, while the plan of the ``week`` is made again."""
        stored = GivenTexts.of_stored(await self._store.declarations.load_texts())
        meanings = await self._store.declarations.meanings()
        self._names_before = await self._store.declarations.source_names()
        try:
            files = await asyncio.to_thread(self._folder.read)
            if files != stored.files:  # what ran keeps its names, also beside what was written meanwhile
                with suppress(ConfigError, ProfileError):
                    self.texts = (await self._check(stored.all(), accepted_before=True)).written
            with acting(FILES):
                await self._swap(replace(stored, files=files), week=week)
            self._is_sound = True
            self._metrics.reload_ok.set(1)
        except (ConfigError, ProfileError) as error:
            self._metrics.reload_ok.set(0)
            if not stored.all():
                raise
            log.error(  # noqa: TRY400 - a user's errors, not ours: no traceback
                "profiles have errors; running on the last good declaration", errors=_without_texts(error)
            )
            await self._swap(stored, accepted_before=True, week=week)
        for rule in self.declaration.rules.values():
            if (changed := what_changed(rule, meanings.get(rule.name, MEANING))) is not None:
                log.warning("a rule means something else since this version", rule=rule.name, now=changed)
        await self._recall.restore_pending(self._clock.time_s())

    # -- several planners

    async def follow(self, found: StoredDeclaration) -> bool:
        """Run what another planner has accepted and stored; return whether that was complete."""
        given, now_s = GivenTexts.of_stored(found.texts), self._clock.time_s()
        if not self._started.is_set():
            self._names_before = frozenset(found.declared)
        async with self.suspensions.turn:
            checked = await self._check(given.all(), accepted_before=True)
            declaration = checked.declaration
            has_times = found.accepted.keys() >= declaration.rules.keys()
            has_times = has_times and found.declared.keys() >= declaration.sources.keys()
            if not has_times:  # the other planner was still writing them when they were read
                return False
            if not self._started.is_set():
                week = await last_week(self._decider.settings, self._store.plan, self.compute)
                await restore(self._decider, self._store, self._load_sources, week, now_s)
            await self._store.declarations.follow(declaration.rules.values())
            await self.suspensions.read(declaration)
            await self._run(checked, found.accepted, found.declared, now_s)
            self._given, self.digest = given, await asyncio.to_thread(given.digest)
        self._started.set()
        return True

    # -- files and the API

    async def reload_if_changed(self) -> None:
        """Reload if a file was added, changed or removed, and nothing has changed since the last check."""
        if await asyncio.to_thread(self._folder.look_for_change):
            await self.reload()

    async def reload(self) -> tuple[str, ...]:
        """Check the files and swap all of them in; return the errors that prevented it, which are also logged."""
        await self._started.wait()
        try:
            async with self.suspensions.turn:
                files = await asyncio.to_thread(self._folder.read)
                is_same = self._is_sound and files == self._given.files
                with acting(FILES):
                    changes = _NO_CHANGES if is_same else await self._swap(replace(self._given, files=files))
                self._is_sound = True
        except (ConfigError, ProfileError) as error:
            self._metrics.reload_ok.set(0)
            said = "profiles have errors; nothing was changed: `proxyd check` shows them"
            log.error(said, errors=_without_texts(error))  # noqa: TRY400 - as above
            return tuple(_without_texts(error).splitlines())
        self._metrics.reload_ok.set(1)
        counts = {"rules": len(self.declaration.rules), "sources": len(self.declaration.sources)}
        rules = {"added": changes.added, "removed": changes.removed, "restarted": dict(changes.restarted)}
        log.info("profiles loaded", **counts, **rules)
        return ()

    async def declare(
        self,
        *texts: str | Parsed,
        only_if: OnlyIf | None = None,
        instead_of: Declaration | None = None,
        by: str | None = None,
    ) -> DeclarationChanges:
        """Add texts to the API's declaration, replacing those with the same names; ``DROP`` removes.

        What ``by`` removes can be had back for a day. If whoever asks may see only some profiles, what the texts
        declare belongs to these.

        Raises ``ProfileError``: every error, with its position in the texts; ``ConflictError``: a file declares the
        name; ``NotFoundError``: ``DROP`` of a name that the API never declared; ``ChangedError``: ``only_if`` rejects
        the profile's current text, or ``instead_of`` does not run any more; ``BusyError``: another planner looks after
        the declaration.
        """
        await self._may_change()
        async with self.suspensions.turn:
            if instead_of is not None and all(instead_of is not each for each in (self.declaration, self.shown)):
                raise ChangedError("the declaration has changed meanwhile")
            given, checked, warnings = await self._with(texts, only_if)
            return replace(await self._swap_for(given, by, checked), warnings=warnings)

    async def removals(self, *, limit: int) -> list[Removed]:
        """Return what was removed from the API's declaration in the last day, newest first.

        Who sees only some profiles sees what they removed themselves, since they have these.
        """
        by, since_s = self._only_by
        return await self._store.removed.load(self._clock.time_s(), limit=limit, by=by, since_s=since_s)

    @property
    def _only_by(self) -> tuple[str | None, float]:
        # by time, too: whoever had the name before may have had other profiles
        doer = current_doer()
        return (doer.who, doer.since_s) if doer.profiles else (None, 0.0)

    async def restore(self, removed_id: str) -> tuple[Removed, DeclarationChanges]:
        """Declare again what was removed; raises ``NotFoundError`` a day later, and what ``declare`` raises."""
        by, since_s = self._only_by
        removed = await self._store.removed.find(removed_id, self._clock.time_s(), by=by, since_s=since_s)
        if removed is None:
            raise NotFoundError("what was removed is kept for a day; this is no longer there")
        changes = await self.declare(removed.text)
        await self._store.removed.forget(removed_id)
        return removed, changes

    async def _swap_for(
        self, given: GivenTexts, by: str | None, checked: CheckedTexts | None = None
    ) -> DeclarationChanges:
        """Run texts, and keep what is no longer among those of the API if somebody removed it."""
        gone = [key for key in self._given.api if key not in given.api]
        texts = [self._given.api[key] for key in gone]
        changes = await self._swap(given, checked)
        if by is not None and gone:
            kind, name = describe_removal(gone)
            removed = Removed(token_urlsafe(8), kind, name, "\n".join(texts), self._clock.time_s(), by)
            await self._store.removed.keep(removed)
        return changes

    async def _may_change(self) -> None:
        """Wait for the start; raise ``BusyError`` if another planner looks after the declaration."""
        await self._started.wait()
        if not self.gate.controls:
            raise BusyError("another planner looks after the declaration; try again in a few seconds")

    def _must_take(self, name: str, takes: Callable[[str], bool]) -> None:
        """Raise ``ChangedError`` unless ``takes`` accepts a profile's text, which is empty if it does not exist."""
        text = self.texts.text_of(name, current_doer().profiles) if name in self.declaration.profiles else ""
        if not takes(text):
            raise ChangedError(f"profile {name!r} has changed since it was read; read it again")

    async def try_out(self, *texts: str | Parsed, only_if: OnlyIf | None = None) -> tuple[DeclarationChanges, PlanCost]:
        """Check texts for the API; return their changes and their demand on the budget. Raises as ``declare`` does."""
        await self._may_change()
        async with self.suspensions.turn:
            _, checked, warnings = await self._with(texts, only_if)
            await in_parts(self._decider.placement.place_in_parts(self._clock.time_s))
            trial = await self._trial(checked.declaration, self._clock.time_s())
            changes = await asyncio.to_thread(_changes_of, self.declaration, checked.declaration)
        return replace(changes, warnings=warnings), await self.compute(trial.cost, trial.size)

    async def _trial(self, wanted: Declaration, now_s: float) -> Trial:
        running = self._known.compiled
        accepted = dict.fromkeys(wanted.rules, now_s)
        accepted |= {name: each.accepted_s for name, each in running.programs.items() if name in accepted}
        swap = await asyncio.to_thread(self._decider.compile, wanted, accepted, running.since_s, now_s)
        if not differs_little(swap):
            return await asyncio.to_thread(Trial.of, self._decider, wanted, now_s)
        asked_per_s = await in_parts(demand_besides_week(self._decider.planner))
        return await asyncio.to_thread(Trial.of_difference, self._decider, swap, now_s, asked_per_s)

    async def _with(
        self, texts: Sequence[str | Parsed], only_if: OnlyIf | None
    ) -> tuple[GivenTexts, CheckedTexts, tuple[RuleError, ...]]:
        """Return the texts that run with more of the API added, checked, and the warnings about what was added.

        Raises ``ChangedError`` unless ``only_if`` accepts.
        """
        owners = current_doer().profiles
        parsed, new = await asyncio.to_thread(read_sent, texts, owners, self._given.api, await self.prepare())
        if only_if is not None:
            self._must_take(only_profile(parsed[0]) if only_if.profile is None else only_if.profile, only_if.takes)
        files, api, replaced = self._given.files, dict(self._given.api), set[str]()
        for statement in [statement for each in parsed for statement in each.statements]:
            kind, name = statement.kind, statement.name.value
            self.texts.refuse_owned(kind, name)
            gone = [*keys_of(kind, name), *self._rule_of_all(kind, name, owners)]
            if not isinstance(statement, DropStatement):
                replaced.update(gone)
            elif not sum(api.pop(key, None) is not None for key in gone):
                raise NotFoundError(f"DROP: the API has not declared a {kind.value.lower()} {plain_name(name)!r}")
        api = {key: value for key, value in api.items() if key not in replaced}
        given, as_sent = GivenTexts(files, api | new), {each.source: each for each in parsed}
        beside, sent = [*files, *texts_of(api), *as_sent], {each.source.text for each in parsed}
        written = sum(not isinstance(each, DropStatement) for text in parsed for each in text.statements)
        try:
            if written > len(new):  # two statements have one name, which only the text that was sent shows
                await self._check(beside, as_sent, from_api=True)
            checked = await self._check(given.all())
        except ProfileError:
            await self._check(beside, as_sent, from_api=True)  # it raises with the places in what was sent
            raise
        if (doer := current_doer()).limits.set:
            await asyncio.to_thread(self._refuse_more, doer, checked)
        if sum(len(rule.source_ids) for rule in checked.declaration.rules.values()) > MOST_STREAMS:
            await asyncio.to_thread(self._refuse_many, checked)
        warnings: Sequence[RuleError] = ()
        if any(each.file in new for each in checked.warnings):
            warnings = (await self._check(beside, as_sent, from_api=True)).warnings
        return given, checked, tuple(each for each in warnings if each.text in sent)

    def _rule_of_all(self, kind: StatementKind, name: str, owners: Sequence[str]) -> list[str]:
        """Return the text of a rule that everybody may change in whose place one of an owner comes, if there is one.

        Raises ``ConflictError`` if that rule is in profiles of others too, or in a file.
        """
        shared = plain_name(name) if owners and kind is StatementKind.NOTIFICATION else ""
        rule = self.declaration.rules.get(shared)
        if rule is None or set(owners).isdisjoint(rule.profiles):
            return []
        if not set(owners).issuperset(rule.profiles) or not self.texts.is_of_api(kind, shared):
            raise ConflictError(f"the rule {shared!r} of your profile is of whoever writes all; choose another name")
        return [key_of(kind, shared)]

    def _refuse_more(self, doer: Doer, checked: CheckedTexts) -> None:
        """Raise ``ConflictError`` if somebody would have more than their limits allow."""
        chronon_s, profiles = self._settings.chronon_s, frozenset(doer.profiles)
        used = usage_of(profiles, self.declaration, self.texts, chronon_s=chronon_s)
        wanted = usage_of(profiles, checked.declaration, checked.written, chronon_s=chronon_s)
        refuse_more(doer.limits, used, wanted)

    def _refuse_many(self, checked: CheckedTexts) -> None:
        """Raise ``ConflictError`` if the API would add streams beyond ``MOST_STREAMS``; those of files do not count."""
        streams = checked.written.pairs_of_api(checked.declaration)
        if streams > max(MOST_STREAMS, self.texts.pairs_of_api(self.declaration)):
            raise ConflictError(
                f"through the API, rules would lead to {streams} pairs of a rule and a source; at most {MOST_STREAMS} "
                "are allowed: let rules name fewer sources with FROM SOURCES, or declare them in files"
            )

    async def drop_profile(
        self,
        name: str,
        *,
        only_if: Callable[[str], bool] | None = None,
        by: str | None = None,
        with_sources: bool = False,
    ) -> DeclarationChanges:
        """Remove a profile of the API, what belongs to it, and its rules that are in no other profile.

        Perhaps also the sources of these.

        Raises ``ChangedError`` if ``only_if`` rejects its text.
        """
        await self._may_change()
        async with self.suspensions.turn:
            if only_if is not None and name in self.declaration.profiles:
                self._must_take(name, only_if)
            self.texts.refuse_owned(StatementKind.PROFILE, name)
            find_named("profile", name, self.shown.profiles)
            gone = {*keys_of(StatementKind.PROFILE, name), *self._given.texts_of_owner(name)}
            gone.update(self.texts.files_of_rules_only_in(name))
            if with_sources and not current_doer().profiles:
                sources = await asyncio.to_thread(sources_only_of, name, self.declaration)
                gone.update(key_of(StatementKind.SOURCE, each) for each in sources)
            api = {key: text for key, text in self._given.api.items() if key not in gone}
            return await self._swap_for(replace(self._given, api=api), by)

    async def _swap(
        self,
        given: GivenTexts,
        checked: CheckedTexts | None = None,
        *,
        accepted_before: bool = False,
        week: asyncio.Task[WeekPlan | None] | None = None,
    ) -> DeclarationChanges:
        """Accept texts and run them; at a start ``week`` returns the plan of the week that was stored."""
        if checked is None:
            checked = await self._check(given.all(), accepted_before=accepted_before)
        declaration, now_s = checked.declaration, self._clock.time_s()
        accepted = await self._store.declarations.accept(given.rows(), declaration.rules.values(), now_s)
        if week is not None:
            await restore(self._decider, self._store, self._load_sources, await week, now_s)
        await self.suspensions.follow(declaration)
        declared = await self._store.declarations.declare_sources(declaration.sources, now_s)
        if self._known.owned.is_whole:
            self.digest = ""  # a plan that is made meanwhile may be for either
        changes = await self._run(checked, accepted, declared, now_s)
        self._given, self.digest = given, await asyncio.to_thread(given.digest)
        return changes

    async def _run(
        self, checked: CheckedTexts, accepted: Mapping[str, float], declared: Mapping[str, float], now_s: float
    ) -> DeclarationChanges:
        """Run a declaration that is stored, in place of the last one."""
        declaration, running = checked.declaration, self.declaration
        changes = await asyncio.to_thread(_changes_of, running, declaration)
        requeried = await asyncio.to_thread(_rules_with_new_query, running, declaration)
        swap = await asyncio.to_thread(self._decider.compile, declaration, accepted, declared, now_s)
        declaration = swap.after.declaration  # which may be an equal one
        moving = await self.gate.find_moving(swap)
        moved = set(self._known.estimates.accepted)
        declare = partial(self._decider.declare, declaration, accepted, now_s, declared, swap=swap, in_parts=True)
        backlog = declare() if self._started.is_set() else await asyncio.to_thread(declare)  # nothing else runs yet
        if moving is not None:
            self.gate.move(*moving)
        forgotten = moved - self._known.estimates.accepted.keys()
        if self.gate.controls:
            await self._store.move([self._known.states[name] for name in sorted(forgotten)])
        if self.gate.controls and (changes.removed or not self._started.is_set()):
            await self._store.failing.keep(self._known.failing.all().keys())
        self.texts = checked.written
        await self._store.forget_streams(changes.removed)  # an observation may have been committed after ``accept``
        await self._recall.refresh_query_rows()
        await self._recall.refill(requeried, now_s)
        for entry in backlog:
            await self._recall.replay(entry, now_s)
        self._metrics.sources.set(len(declaration.sources))
        self._metrics.rules.set(len(declaration.rules))
        self._metrics.reload_s.set(now_s)
        await asyncio.to_thread(_warn_of_secrets, declaration, self._secrets)
        for warning in [*checked.warnings, *self._moves_of()]:
            log.warning(warning.message, file=warning.file, line=warning.line)
        if self._started.is_set():  # what other planners have now is removed before they are told
            placement = self._decider.placement
            place = placement.place_declared_in_parts if moving is None else placement.place_in_parts
            await in_parts(place(self._clock.time_s))
        else:  # most are placed while others are probed
            next(self._decider.placement.place_in_parts(self._clock.time_s), None)
        self.declared.notify()
        return changes

    def _moves_of(self) -> list[RuleError]:
        """Return a warning at the address of each source that is read at another one, because it has moved."""
        moved = {name: self.texts.address_of(name) for name in sorted(self._known.compiled.moved)}
        accepted = self._known.estimates.accepted
        return [written.warning(accepted[name].url) for name, written in moved.items() if written is not None]

    async def _check(
        self,
        texts: Sequence[SourceText],
        parsed: Mapping[SourceText, Parsed] = NOTHING_PARSED,
        *,
        from_api: bool = False,
        accepted_before: bool = False,
    ) -> CheckedTexts:
        names = frozenset() if self._started.is_set() else self._names_before
        settings = replace(self._settings, from_api=from_api, accepted_before=accepted_before, names_before=names)
        # A large declaration takes seconds, and probes must go on
        return await asyncio.to_thread(check_texts, texts, parsed, settings, self.texts)


def _without_texts(error: ConfigError | ProfileError) -> str:
    # the log must not show the profiles' texts, which may hold secrets
    return error.without_texts if isinstance(error, ProfileError) else str(error)


def _warn_of_secrets(declaration: Declaration, secrets: ResolveSecret) -> None:
    for rule in declaration.rules.values():
        for delivery in rule.deliveries:
            if isinstance(delivery, WebhookDelivery) and secrets(delivery.secret) is None:
                log.warning("a webhook's secret is not set", rule=rule.name, secret=delivery.secret.name)
