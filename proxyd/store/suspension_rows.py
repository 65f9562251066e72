"""Paused sources, muted rules with the deliveries that they keep back, and rules that fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update

from proxyd.base.doers import Doer, current_doer
from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import EMPTY_DECLARATION, Declaration
from proxyd.core.model.suspension import Key, Subject, Suspension, lasting, mute_of, rules_to_mute
from proxyd.core.rules.known.failing_rules import FailingRule
from proxyd.store.audit_rows import note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import LOCKS, NEWS, StoreReader
from proxyd.store.lanes import mark_due
from proxyd.store.rows import as_type, rule_of
from proxyd.store.statements import Upsert, delete_named, execute_many
from proxyd.store.writer import Writer

_UPSERT = Upsert(t.failing_rules)


class SqlFailingRules:
    """Stores the rules that failed the last time they were evaluated."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def load(self) -> dict[str, FailingRule]:
        """Return every rule that failed the last time, by name."""
        return {row.rule: as_type(FailingRule, row) for row in await self._read(select(t.failing_rules))}

    async def resume(self, rule: str, now_s: float) -> None:
        """Forget a rule, because somebody has it evaluated again."""
        doer = current_doer()

        def write(connection: Connection) -> None:
            _forget(connection, [rule])
            note_deed(connection, doer, now_s, "resume", f"rule {rule}")

        await self._writer.submit(write)

    async def keep(self, rules: Collection[str]) -> None:
        """Forget all rules but these."""

        def write(connection: Connection) -> None:
            stored = connection.execute(select(t.failing_rules.c.rule)).scalars()
            _forget(connection, [rule for rule in stored if rule not in rules])

        await self._writer.submit(write)


def record_failing(connection: Connection, failing: Iterable[FailingRule]) -> None:
    """Store how rules fail now; forget those that do not."""
    newest = {each.rule: each for each in failing}
    execute_many(connection, _UPSERT, [asdict(each) for each in newest.values() if each.failures])
    _forget(connection, [each.rule for each in newest.values() if not each.failures])


def _forget(connection: Connection, rules: list[str]) -> None:
    delete_named(connection, t.failing_rules, t.failing_rules.c.rule, rules)


_KEPT = ("muted", "stopped")
_SENDING = ("pending", "held", "gathering", "released")
_NO_RULE = "its rule was removed while it was muted"


def _moves_of(before: Sequence[str], **values: Any) -> Any:
    """Return a statement that changes the deliveries of a lane that are in some states."""
    o = t.outbox.c
    is_before = or_(*(o.state == state for state in before))  # not IN, which takes no list of parameters
    return update(t.outbox).where(o.lane == bindparam("of_lane"), o.done_s.is_(None), is_before).values(**values)


@dataclass(frozen=True, slots=True)
class _Suspended:
    """All suspensions after a change, and the number of notifications that it released or dropped."""

    suspensions: Mapping[Key, Suspension]
    released: int = 0


class SqlSuspensions:
    """Stores suspensions, and says which rules' new notifications are kept back.

    A delivery that was ``stopped`` goes on as it was when its rule is no longer muted: an attempt may be under way.
    Those that were ``muted`` before any attempt go out as one digest.
    """

    def __init__(self, writer: Writer, read: StoreReader, *, is_shared: bool = False) -> None:
        self._writer = writer
        self._read = read
        self._is_shared = is_shared
        self._muted: frozenset[str] = frozenset()
        self._declaration = EMPTY_DECLARATION

    async def load(self) -> list[Suspension]:
        """Return every suspension, by subject and name."""
        c = t.suspensions.c
        found = await self._read(select(t.suspensions).order_by(c.subject, c.name))
        return [_suspension(row) for row in found]

    def follow(self, declaration: Declaration) -> None:
        """Follow a declaration, whose suspensions another planner changes."""
        self._declaration = declaration

    def mutes_among(self, rules: Collection[str], connection: Connection) -> frozenset[str]:
        """Return which of some rules are muted; if planners share the rules, the transaction has the lock ``NEWS``."""
        if not self._is_shared:
            return self._muted.intersection(rules)
        suspensions, declared = _load_suspensions(connection), self._declaration.rules
        return frozenset(
            each
            for each in rules
            if each in declared and mute_of(each, declared[each].profiles, suspensions) is not None
        )

    async def change(
        self,
        edit: Callable[[dict[Key, Suspension]], Iterable[Suspension]],
        declaration: Declaration,
        now_s: float,
        *,
        dropped: Collection[str] = (),
    ) -> _Suspended:
        """Replace the suspensions by the edited ones that still hold, and keep back or release deliveries accordingly.

        The kept notifications of the rules ``dropped``, if these are no longer muted, are never sent.
        """
        doer = current_doer()

        def write(connection: Connection) -> _Suspended:
            if self._is_shared:
                connection.execute(select(func.pg_advisory_xact_lock(LOCKS, NEWS)))
            stored = _load_suspensions(connection)
            edited = {each.key: each for each in edit(dict(stored))}
            _note_edit(connection, doer, now_s, stored, edited)
            wanted = lasting(edited.values(), declaration, now_s)
            if wanted != stored:
                connection.execute(delete(t.suspensions))
                execute_many(
                    connection,
                    insert(t.suspensions),
                    [asdict(each) | {"subject": each.subject.value} for each in wanted.values()],
                )
            muted = rules_to_mute(wanted, declaration)
            count = _settle(connection, muted, declaration.rules, now_s, dropped)
            self._muted, self._declaration = muted, declaration
            return _Suspended(wanted, count)

        return await self._writer.submit(write)


def _load_suspensions(connection: Connection) -> dict[Key, Suspension]:
    return {each.key: each for each in map(_suspension, connection.execute(select(t.suspensions)))}


def _note_edit(
    connection: Connection, doer: Doer, now_s: float, before: Mapping[Key, Suspension], after: Mapping[Key, Suspension]
) -> None:
    """Note what somebody pauses, mutes and resumes; what ends by itself is not noted."""
    begun = [each for key, each in after.items() if before.get(key) != each]
    ended = [each for key, each in before.items() if key not in after]
    for each, (of_source, of_others) in [
        *((each, ("pause", "mute")) for each in begun),
        *((each, ("resume", "unmute")) for each in ended),
    ]:
        did = of_source if each.subject is Subject.SOURCE else of_others
        subject = each.name if each.subject is Subject.ALL else f"{each.subject.value} {each.name}"
        is_timed = each.until_s is not None and each.key in after
        note_deed(connection, doer, now_s, did, subject, f"until {iso_time(each.until_s or 0.0)}" if is_timed else "")


def _suspension(row: Any) -> Suspension:
    return as_type(Suspension, row, subject=Subject(row.subject))


def _settle(
    connection: Connection, muted: Collection[str], declared: Collection[str], now_s: float, dropped: Collection[str]
) -> int:
    """Keep back the deliveries of muted rules and let the others go; return how many notifications these are."""
    if muted:
        lanes = [{"of_lane": lane} for lane in _lanes(connection, _SENDING) if rule_of(lane) in muted]
        execute_many(connection, _moves_of(("pending",), state="stopped"), lanes)
        execute_many(connection, _moves_of(("held", "gathering", "released"), state="muted"), lanes)
    kept = {lane: count for lane, count in _lanes(connection, _KEPT).items() if rule_of(lane) not in muted}
    lost = {lane for lane in kept if rule_of(lane) not in declared}
    _end(connection, lost, now_s, state="dead", last_error=_NO_RULE)
    _end(connection, {lane for lane in kept.keys() - lost if rule_of(lane) in dropped}, now_s, state="dropped")
    free = [{"of_lane": lane} for lane in kept]
    execute_many(connection, _moves_of(("stopped",), state="pending"), free)
    execute_many(connection, _moves_of(("muted",), state="released", next_s=now_s), free)
    # a digest that was stopped or has ended holds back none of those that it gathers
    mark_due(connection, [*kept, *_lanes(connection, ("gathered",))], now_s)
    most: dict[str, int] = defaultdict(int)
    for lane, count in kept.items():
        most[rule_of(lane)] = max(most[rule_of(lane)], count)
    return sum(most.values())


def _end(connection: Connection, lanes: Collection[str], now_s: float, **values: Any) -> None:
    """End the kept deliveries of some lanes, and those that are gathered in the digests among them."""
    of_lanes = [{"of_lane": lane} for lane in sorted(lanes)]
    execute_many(connection, _moves_of(_KEPT, done_s=now_s, **values), of_lanes)
    o, leader = t.outbox.c, t.outbox.alias("leader")
    is_ended = and_(leader.c.lane == bindparam("of_lane"), leader.c.digest.is_not(None), leader.c.done_s == now_s)
    ended = select(leader.c.digest_id).where(is_ended, leader.c.state == values["state"])
    follow = update(t.outbox).where(o.state == "gathered", o.digest_id.in_(ended)).values(done_s=now_s, **values)
    execute_many(connection, follow, of_lanes)


def _lanes(connection: Connection, states: Iterable[str]) -> dict[str, int]:
    """Return the number of deliveries in some states, by lane; the index of states makes this cheap."""
    counts: dict[str, int] = defaultdict(int)
    for state in states:
        query = select(t.outbox.c.lane, func.count()).where(t.outbox.c.state == state).group_by(t.outbox.c.lane)
        for lane, count in connection.execute(query):
            counts[lane] += count
    return counts
