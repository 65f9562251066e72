"""Several planners share the sources: each plans those of its shards, and follows what the others store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, sqrt
from typing import TypeVar

import structlog

from proxyd.api.forwarding import Peer
from proxyd.app.wiring import Built
from proxyd.base.clock import Signal
from proxyd.base.ports import Clock
from proxyd.cluster.division import Division, division_of, division_under
from proxyd.core.model.profile import found_name
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import Swap
from proxyd.core.rules.known.knowledge import Knowledge, Ownership
from proxyd.core.rules.known.state import JointInterval, SourceState
from proxyd.core.rules.known.subscriptions import Hubs, Subscription
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.daemon.declarations import Declarations, Gate
from proxyd.daemon.plan_loop import in_parts
from proxyd.daemon.rule_evaluation import StreamRecall
from proxyd.store.databases.membership import Member, Shares
from proxyd.store.databases.shards import FIRST_SHARD, SHARDS
from proxyd.store.followed_rows import FollowedFleet
from proxyd.store.sql_store import SqlStore


class Sharing:
    """The part of a decider that shares its sources with other planners."""

    def __init__(self, decider: Decider) -> None:
        self._known = decider.known
        self._captures = decider.captures
        self._recalls = decider.recalls
        self._hubs = decider.hubs
        self._placement = decider.placement

    def follow(
        self,
        states: Iterable[SourceState],
        streams: Iterable[StreamState],
        weeks: Mapping[str, WeekCounts],
        now_s: float,
    ) -> None:
        """Take in what other planners have stored of their sources; our own are left alone."""
        known, programs = self._known, self._known.compiled.programs
        for state in states:
            if not known.has(state.source_id):
                known.estimates.keep(state)
        for stream in streams:
            if (program := programs.get(stream.rule)) is not None and not self._recalls.is_ours(stream):
                next_seq = known.next_seq(stream.source_id, program)
                known.streams[stream.rule, stream.source_id] = program.open_stream(stream, next_seq, now_s)
        known.estimates.weeks.update((name, week) for name, week in weeks.items() if not known.has(name))

    def follow_moves(self) -> None:
        """Read sources where the moves lead that other planners have accepted; call it after ``follow``."""
        self._known.compiled = self._known.compiled.following(self._known.estimates.accepted)

    def release(self, division: Division, lost: Iterable[str]) -> None:
        """Leave sources to other planners: ``division`` says what is ours now, ``lost`` which sources were until now.

        No more probes of these begin. What is under way is still taken in. Sources that are still ours may be among
        ``lost``.
        """
        self._known.owned = division
        self._captures.release()
        self._hubs.release(lambda each: self._looks_after(each, division))
        self._placement.release(lost)

    def take_over(
        self,
        division: Division,
        gained: Collection[str],
        records: Mapping[str, SourceRecord],
        stored: Iterable[Subscription],
        open_joint: Sequence[JointInterval],
    ) -> None:
        """Take sources over from other planners: ``division`` says what is ours now, ``gained`` which were not before.

        What else these planners have stored was passed to ``follow``. ``SourcePlacement.place_in_parts`` places them
        after ``recalls.lost`` has restored the events of their streams.
        """
        known, old = self._known, division_of(self._known)
        new_rules = {each.rule for each in open_joint if each.rule in known.compiled.programs}
        new_rules = {name for name in new_rules if not known.has_rule(name)}
        subscriptions = [
            each for each in stored if self._looks_after(each, division) and not self._looks_after(each, old)
        ]
        known.owned = division
        self._captures.take_over(each for each in open_joint if each.rule in new_rules and known.has_rule(each.rule))
        self._hubs.take_over(subscriptions)
        for each in subscriptions if known.settings.subscribes else ():  # others are allowed once they are placed
            self._hubs.allow(each.source_id, known.address_of_pushes(each.source_id))
        self._placement.take_over(gained, records)

    def _looks_after(self, subscription: Subscription, division: Division) -> bool:
        """Whether a division gives us a subscription: with its source, or by its address if that was removed."""
        source = self._known.compiled.declaration.sources.get(subscription.source_id)
        return division.has(subscription.url if source is None else source.url)


def part_of_budget(known: Knowledge, now_s: float) -> float:
    """Return our part of the budget, 0 to 1; the parts of all planners make up the whole."""
    # A budget that is spent where it saves most delay gives each source probes in proportion to the square root of its
    # update rate and its weight, whoever plans it. So each planner knows its part without asking the others. This
    # passes through all sources: run it in a thread.
    compiled, own, total = known.compiled, 0.0, 0.0
    for source_id, rules in compiled.rules_of.items():
        if source_id in known.paused:
            continue
        source = compiled.sources[source_id]
        state = known.estimates.state(source, compiled.reading(source_id))  # another declaration may come meanwhile
        rate_per_s = known.estimates.rate_per_s(state, source, now_s)
        weight = max(compiled.programs[each].weight for each in rules)
        wanted = sqrt(max(rate_per_s * weight, 0.0) * source.probe_units)
        total += wanted
        if known.has(source_id):
            own += wanted
    return own / total if total > 0 else 1.0


_MANY = 0.05  # of all that are planned here
_PART = 200  # sources that are taken in at once, which takes some milliseconds
_K = TypeVar("_K")
_V = TypeVar("_V")


class Handovers:
    """Keeps a decider in step with the planners that share its work."""

    def __init__(self, recall: StreamRecall, followed: FollowedFleet, clock: Clock) -> None:
        self._recall = recall
        self._decider = recall.decider
        self._known = recall.decider.known
        self._sharing = Sharing(recall.decider)
        self._store = recall.store
        self._followed = followed
        self._clock = clock
        self.is_reading = False
        self._read_at_s = self._next_read_s = -inf  # when what others wrote was read, and is read again

    async def give_up(self, own: frozenset[int]) -> bool:
        """Leave the sources of all shards but ``own`` to other planners; return whether there were any.

        No more probes of these begin.
        """
        before = division_of(self._known)
        kept = replace(before, own=own if before.own is None else own & before.own)
        if kept == before:
            return False
        compiled = None
        while compiled is not self._known.compiled:  # another declaration may come meanwhile
            compiled = self._known.compiled
            lost = await asyncio.to_thread(_only_in, before, kept, self._known)
        self._sharing.release(replace(division_of(self._known), own=kept.own), lost)  # ties may be others by now
        await in_parts(self._decider.placement.place_in_parts(self._clock.time_s))
        if lost:
            log.info("sources are another planner's now", sources=len(lost))
        return bool(lost)

    def release(self, division: Division, lost: Iterable[str]) -> None:
        """Leave sources to other planners; ``division`` says what is ours now."""
        self._sharing.release(division, lost)

    @property
    def is_reading_due(self) -> bool:
        """Whether it is time to ``catch_up``, even if no sources come."""
        return self._clock.monotonic_s() >= self._next_read_s

    async def catch_up(self) -> None:
        """Take in what other planners have stored; note when to do it again."""
        began_s, self.is_reading = self._clock.monotonic_s(), True
        try:
            await self._follow_others()
        finally:
            self.is_reading = False
        now_s = self._clock.monotonic_s()
        self._next_read_s = now_s + _rest_s(now_s - began_s, began_s - self._read_at_s)
        self._read_at_s = began_s

    async def _follow_others(self) -> None:
        found, now_s = await self._followed.catch_up(lambda name: not self._known.has(name)), self._clock.time_s()
        for states in _parts(found.states):
            self._sharing.follow(states.values(), (), {}, now_s)
            await asyncio.sleep(0)
        for streams in _parts(found.streams):
            self._sharing.follow((), streams.values(), {}, now_s)
            await asyncio.sleep(0)
        for weeks in _parts(found.weeks):
            self._sharing.follow((), (), weeks, now_s)
            await asyncio.sleep(0)
        self._sharing.follow_moves()

    def gains(self, own: frozenset[int]) -> bool:
        """Whether ``take`` would take sources of the shards ``own``, so that ``catch_up`` is needed before."""
        return self._with(own) != division_of(self._known)

    def _with(self, own: frozenset[int]) -> Division:
        before = division_of(self._known)
        return replace(before, own=own.union(before.own or ()), expected=frozenset())

    async def take(self, own: frozenset[int]) -> bool:
        """Plan the sources of the shards ``own`` too; ``catch_up`` must have read what their planners stored.

        Call it with no other change of the declaration under way. Returns whether so many have come that another plan
        is due.
        """
        before, wanted = division_of(self._known), self._with(own)
        if wanted == before:
            return False
        now_s, captures = self._clock.time_s(), self._decider.captures
        gained = await asyncio.to_thread(
            lambda: self._decider.placement.neediest_first(_only_in(wanted, before, self._known), now_s)
        )
        await self._recall.restore_pending_of(gained, now_s)
        captures.read_for(wanted)
        await self._recall.refresh_query_rows()
        subscriptions = await self._store.subscriptions.load()
        joint = await self._store.plan.load_joint_intervals()
        records = await asyncio.to_thread(self._followed.records, gained)
        self._sharing.take_over(wanted, gained, records, subscriptions.values(), joint)
        await in_parts(self._decider.placement.place_in_parts(self._clock.time_s))
        if gained:
            log.info("sources have come from other planners", sources=len(gained))
        return len(gained) > _MANY * len(self._decider.planner.sources)


def _only_in(one: Division, other: Division, known: Knowledge) -> list[str]:
    sources = known.compiled.declaration.sources
    return [name for name, source in sources.items() if one.has(source.url) and not other.has(source.url)]


def _parts(found: Mapping[_K, _V]) -> Iterable[dict[_K, _V]]:
    each = iter(found.items())
    while part := dict(islice(each, _PART)):
        yield part


_LOOK_S = 1.0
_SHARE_OF_READING = 0.02  # of the time, for what others wrote, unless that would take longer than a second
_MOST_SHARE_OF_READING = 0.25
_SOON_S = 0.2
_RESHARED_S = 10.0
_MOST_SHARE_OF_PARTS = 0.02  # of the time, to compute our part of the budget
log = structlog.get_logger("planners")


def _rest_s(read_s: float, unread_s: float) -> float:
    """Return how long to leave unread what other planners write, after it took ``read_s`` to read ``unread_s`` of it.

    Who takes a planner's sources over must first read what that one wrote.

    Examples
    --------
    >>> _rest_s(0.1, 2.0), _rest_s(1.5, 60.0), _rest_s(2.0, 4.0)
    (4.9, 40.0, 6.0)
    """
    usual_s = read_s / _SHARE_OF_READING - read_s
    second_s = unread_s / read_s if read_s > 0 else inf  # after which it takes a second
    return max(_LOOK_S, read_s / _MOST_SHARE_OF_READING - read_s, min(usual_s, second_s))


class _BudgetShare:
    """Has a planner spend its part of the budget, which changes with the sources and with their rates."""

    def __init__(self, decider: Decider, clock: Clock) -> None:
        self._decider = decider
        self._clock = clock
        self._computed_for: tuple[object, ...] = (None, None, None)
        self._again_s = 0.0

    async def update(self) -> None:
        """Compute our part again if the sources have changed, or after a while, as rates are learned."""
        known, began_s = self._decider.known, self._clock.monotonic_s()
        shared = (known.owned, known.compiled, known.paused)
        is_same = all(one is other for one, other in zip(shared, self._computed_for, strict=True))
        if is_same and began_s < self._again_s:
            return
        self._decider.planner.share(await asyncio.to_thread(part_of_budget, known, self._clock.time_s()))
        now_s = self._clock.monotonic_s()
        self._computed_for, self._again_s = shared, now_s + max(_RESHARED_S, (now_s - began_s) / _MOST_SHARE_OF_PARTS)


class SharedFleet(Gate):
    """Keeps this planner in step with the others: sources come and go with shards, and the declaration is the same.

    The planner that has the first shard looks after the declaration.
    """

    def __init__(
        self,
        shares: Shares,
        stored: FollowedFleet,
        recall: StreamRecall,
        declarations: Declarations,
        busy: Sequence[Callable[[], Collection[str]]],
        clock: Clock,
        can_probe: Callable[[], bool],
    ) -> None:
        """Make what ``run`` runs; ``busy`` return the sources of which something is under way.

        It has sources, unless no planner can probe, only while it ``can_probe``.
        """
        self._shares = shares
        self._stored = stored
        self._known = recall.decider.known
        self._history = recall.store.history
        self._handovers = Handovers(recall, stored, clock)
        self._declarations = declarations
        self._busy = busy
        self._clock = clock
        self._can_probe = can_probe
        self._changes = -1  # of the declaration, up to which it runs here
        self._noted = ""
        self._could_probe_s = 0.0  # by the monotonic clock
        self._budget_share = _BudgetShare(recall.decider, clock)
        self._wake = Signal()
        self.controls = False
        self._in_control = asyncio.Event()
        self._newest = 0  # position of the last notification
        self.looked = Signal()  # notified after each look
        self.told = Signal()  # notified whenever some planner has recorded notifications
        self.released = Signal()  # notified whenever sources have gone to other planners
        self.gained = Signal()  # notified whenever sources have come from other planners
        self.many_gained = Signal()  # notified when so many have come that another plan is due
        declarations.gate = self

    async def start(
        self, load: Callable[[], Awaitable[None]], stopping: asyncio.Event, tasks: asyncio.TaskGroup
    ) -> bool:
        """Take shards, and run the declaration; return whether that was done before ``stopping``."""
        sharing = tasks.create_task(self.follow(), name="shards")
        starting = tasks.create_task(self._run_declaration(load), name="start")
        ending = tasks.create_task(stopping.wait(), name="end")
        ending.add_done_callback(lambda _: sharing.cancel())
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        has_started = starting.done()
        starting.cancel()
        return has_started

    async def follow(self) -> None:
        """Take free shards, and give some up to other planners, until cancelled."""
        await self._shares.follow(self._clock.sleep, self._wake.notify, self._busy_shards)

    async def _run_declaration(self, load: Callable[[], Awaitable[None]]) -> None:
        """Run the declaration, as its planner or as another one has stored it; wait until there is one.

        Raises ``ConfigError`` or ``ProfileError``: this planner looks after the declaration, the directory has errors,
        and nothing else is stored.
        """
        await self._shares.has_looked.wait()
        while not self._declarations.has_started:
            if FIRST_SHARD in self._shares.own:
                self.controls = True
                await load()
                self._take_control()
            elif not await self._follow_declaration():
                await self._clock.sleep(_SOON_S)
        await self.look()

    async def controls_before(self, stopping: asyncio.Event) -> bool:
        """Wait until this planner looks after the declaration; return whether that was so before ``stopping``."""
        waiting = [asyncio.create_task(each.wait(), name="control") for each in (self._in_control, stopping)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        return self._in_control.is_set()

    async def find_moving(self, swap: Swap) -> tuple[Ownership, list[str]] | None:
        """Return how planners divide the sources of a declaration, and those that this concerns."""
        return await asyncio.to_thread(division_under, division_of(self._known), swap)

    def move(self, owned: Ownership, sources: list[str]) -> None:
        """Leave sources to the planners that have those that they are tied to."""
        assert isinstance(owned, Division)
        self._handovers.release(replace(owned, own=division_of(self._known).own), sources)  # shards may be others

    async def run(self) -> None:
        """Follow the other planners until cancelled."""
        while True:
            await self.look()
            await self._wake.sleep(self._clock, _LOOK_S)

    async def look(self) -> None:
        """Give sources up, take others over, and run what is declared."""
        own, declarations = self._shares.own, self._declarations
        if await self._handovers.give_up(own):
            self.released.notify()
        if not self.controls:
            await self._follow_declaration()
        await declarations.suspensions.follow_others()
        async with declarations.suspensions.turn:
            is_settled = self._noted == declarations.digest and self._shares.all_run(declarations.digest)
            may_take = is_settled or not (division_of(self._known).ties or division_of(self._known).expected)
            if (may_take and self._handovers.gains(own)) or self._handovers.is_reading_due:
                await self._handovers.catch_up()
            before = self._known.owned
            has_many_more = may_take and await self._handovers.take(own & self._shares.own)
            if self._known.owned is not before:
                self.gained.notify()
        if FIRST_SHARD in own and not self.controls:  # last: sources would wait until the profiles are read
            self.controls = True
            if declarations.has_started:
                await declarations.reload()
            self._take_control()
        await self._note_runs()
        await self._budget_share.update()
        if has_many_more:  # the plan depends on our part of the budget
            self.many_gained.notify()
        newest = await self._history.newest_position()
        if newest != self._newest:
            self._newest = newest
            self.told.notify()
        self.looked.notify()

    async def _follow_declaration(self) -> bool:
        """Run the declaration as it is stored; return whether that was done."""
        changes = await self._stored.changes()
        if changes != self._changes:
            found = await asyncio.to_thread(self._stored.declaration)
            if found is not None and await self._declarations.follow(found):
                self._changes = changes
        return changes == self._changes

    def _take_control(self) -> None:
        log.info("this planner looks after the declaration")
        self._in_control.set()

    async def _note_runs(self) -> None:
        """Let the others know what runs here, once nothing is under way of sources that it has given to them.

        They take its sources if it cannot probe for as long as a lease: NATS may only restart.
        """
        digest, now_s = self._declarations.digest, self._clock.monotonic_s()
        if can_probe := self._can_probe():
            self._could_probe_s = now_s
        elif self._noted and now_s - self._could_probe_s > self._shares.lease_s:
            log.warning("no prober is heard of here: planners that have one take the sources")
            await self._shares.note_runs("")
            self._noted = ""
        is_ready = bool(self._noted) or can_probe
        if is_ready and digest != self._noted and all(map(self._known.has, self._under_way())):
            await self._shares.note_runs(digest)
            self._noted = digest

    def _under_way(self) -> set[str]:
        return {source_id for each in self._busy for source_id in each()}

    async def _busy_shards(self) -> set[int]:
        """Return the shards in which something is under way, or that are not given up yet."""
        division, sources = division_of(self._known), self._known.compiled.declaration.sources
        if self._declarations.suspensions.turn.locked() and not self._handovers.is_reading:
            return set(range(SHARDS))
        there = (sources[each].url for each in self._under_way() if each in sources)
        return {*map(division.shard_of, there), *((division.own or frozenset()) - self._shares.own)}


def share_fleet(built: Built, shares: Shares, stored: FollowedFleet, can_probe: Callable[[], bool]) -> None:
    """Let a daemon that does not run yet plan only a share of the sources, in step with other planners."""
    known, notifier = built.decider.known, built.loops.notifier
    known.owned = Division(frozenset(), scope_of=built.decider.settings.throttle_scope)
    busy = (built.loops.probes.under_way, built.loops.pushes.under_way)
    fleet = SharedFleet(shares, stored, built.recall, built.declarations, busy, built.resources.clock, can_probe)
    fleet.released.listen(built.loops.probes.give_back)
    fleet.gained.listen(built.loops.probes.choose_again)
    fleet.many_gained.listen(built.loops.plan_loop.plan_soon)
    fleet.looked.listen(notifier.wake)
    fleet.told.listen(built.news.notify)


@dataclass(frozen=True, slots=True)
class SharingPlanners:
    """Says which planner answers what: the one with a source, or the one that looks after the declaration."""

    shares: Shares
    known: Knowledge
    hubs: Hubs
    store: SqlStore

    @property
    def secret(self) -> str:
        """What other planners ask this one with."""
        return self.shares.secret

    def answering(self, source: str | None, profiles: Sequence[str] = ()) -> Peer | None:
        """Return who answers a request about a source, or another one; ``None`` if this planner does."""
        sources = self.known.compiled.declaration.sources
        declared = None if source is None else sources.get(found_name(source, sources, profiles))
        return self._having(FIRST_SHARD if declared is None else division_of(self.known).shard_of(declared.url))

    def planner_of_host(self, host: str) -> Peer | None:
        """Return the other planner that spaces the requests to a host; ``None`` if this one does, or nobody."""
        division = division_of(self.known)
        return self._having(division.shard_of_scope(division.scope_of(host)))

    def _having(self, shard: int) -> Peer | None:
        holder = None if shard in self.shares.own else self.shares.holder_of(shard)
        if holder is None or holder.number == self.shares.number:  # ours, where probers still work for the last one
            return None
        return _peer(holder)

    def others(self) -> list[Peer]:
        """Return all other planners."""
        return [_peer(each) for each in self.shares.others]

    async def peer_called(self, callback_id: str) -> Peer | None:
        """Return who has the source with this callback of its hub; ``None`` if this planner or nobody has."""
        if self.hubs.subscription_called(callback_id) is not None:
            return None
        source = await self.store.subscriptions.source_of(callback_id)
        return None if source is None else self.answering(source)


def _peer(member: Member) -> Peer:
    return Peer(member.name, member.address, member.secret)
