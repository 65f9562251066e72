"""The last good declaration: its texts, rules and sources."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update

from proxyd.base.doers import Doer, current_doer
from proxyd.core.language import MEANING, rule_counting
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.profile import NotificationRule, plain_name
from proxyd.store.audit_rows import named, note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.digest_rows import LimitTimes, RuleTimes
from proxyd.store.lanes import mark_due
from proxyd.store.outbox import forget_changed_endpoints
from proxyd.store.rows import DigestTimes, rule_of
from proxyd.store.statements import delete_named, execute_many
from proxyd.store.webhook_states import SqlWebhooks
from proxyd.store.writer import Writer

_LONGEST_WAIT_S = 2 * 86400.0  # the longest step of the ladder of retries is a day and its jitter


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text of the declaration: a file, or a text sent over the API."""

    name: str
    origin: str
    text: str

    @property
    def told(self) -> str:
        """What it declares, in words; a file is named.

        >>> StoredText("api:notification:a:b", "api", "").told, StoredText("/p/a.profile", "file", "").told
        ('rule a:b', 'a.profile')
        >>> StoredText("api:profile:P⋮P", "api", "").told  # a profile that owns itself
        'profile P'
        """
        if self.origin == "file":
            return self.name.rpartition("/")[2]
        kind, _, name = self.name.removeprefix("api:").partition(":")
        name = plain_name(name) if kind == "profile" else name
        return f"{'rule' if kind == 'notification' else kind} {name}" if name else kind


def in_order(texts: Sequence[StoredText]) -> list[StoredText]:
    """Return texts as they are declared: files by name, then what was sent over the API, in order."""
    files = sorted((each for each in texts if each.origin == "file"), key=attrgetter("name"))
    return [*files, *(each for each in texts if each.origin != "file")]


KEPT_REMOVED_S, MOST_REMOVED = 86_400.0, 500


@dataclass(frozen=True, slots=True)
class Removed:
    """What somebody removed at once from what the API had declared: its text, when in unix seconds, and by whom."""

    removed_id: str
    kind: str
    name: str
    text: str
    at_s: float
    by: str


class SqlRemoved:
    """What was removed in the last day, so that it can be had back; the newest ``MOST_REMOVED``."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def keep(self, removed: Removed) -> None:
        """Store what was removed, and forget what is too old or too much."""
        c = t.removed.c

        def write(connection: Connection) -> None:
            connection.execute(insert(t.removed).values(asdict(removed)))
            kept = select(c.removed_id).order_by(c.at_s.desc(), c.removed_id).limit(MOST_REMOVED)
            is_old = c.at_s < removed.at_s - KEPT_REMOVED_S
            connection.execute(delete(t.removed).where(or_(is_old, c.removed_id.not_in(kept))))

        await self._writer.submit(write)

    async def load(self, now_s: float, *, limit: int, by: str | None = None, since_s: float = 0.0) -> list[Removed]:
        """Return what was removed in the last day, or since then, newest first; of somebody if ``by`` names them."""
        c, since_s = t.removed.c, max(since_s, now_s - KEPT_REMOVED_S)
        query = select(t.removed).where(c.at_s >= since_s).order_by(c.at_s.desc(), c.removed_id)
        query = query if by is None else query.where(c.by == by)
        return [Removed(**row._asdict()) for row in await self._read(query.limit(limit))]

    async def find(
        self, removed_id: str, now_s: float, *, by: str | None = None, since_s: float = 0.0
    ) -> Removed | None:
        """Return one of what ``load`` does, by its id, or ``None``."""
        c, since_s = t.removed.c, max(since_s, now_s - KEPT_REMOVED_S)
        query = select(t.removed).where(c.removed_id == removed_id, c.at_s >= since_s)
        query = query if by is None else query.where(c.by == by)
        return next((Removed(**row._asdict()) for row in await self._read(query)), None)

    async def forget(self, removed_id: str) -> None:
        """Forget what somebody has back."""
        gone = delete(t.removed).where(t.removed.c.removed_id == removed_id)
        await self._writer.submit(lambda connection: connection.execute(gone))


class SqlDeclarations:
    """Stores the declaration; ``times`` says when messages of its rules are sent.

    What is stored of texts and sources is remembered, so that a declaration writes what it changes.
    """

    def __init__(self, writer: Writer, read: StoreReader, webhooks: SqlWebhooks, grid: ChrononGrid) -> None:
        self._writer = writer
        self._read = read
        self._webhooks = webhooks
        self._chronon_s = grid.length_s
        self.times = RuleTimes()
        self._texts: dict[str, StoredText] | None = None
        self._declared: dict[str, float] | None = None  # since when, in unix seconds

    async def load_texts(self) -> list[StoredText]:
        """Return the texts of the last good declaration: files by name, then what was sent over the API, in order."""
        self._texts = self._declared = None  # another process may have changed them
        found = await self._read(select(t.texts).order_by(t.texts.c.position))
        texts = [StoredText(row.name, row.origin, row.text) for row in found]
        return in_order(texts)

    async def meanings(self) -> dict[str, int]:
        """Return under which meaning of the language each rule was accepted last."""
        return {row.name: row.meaning for row in await self._read(select(t.rules))}

    async def accept(
        self, texts: Sequence[StoredText], rules: Iterable[NotificationRule], now_s: float
    ) -> dict[str, float]:
        """Replace the declaration and return when each rule was first accepted (its NOW).

        An edit keeps it. A removed rule loses its streams.
        """
        rules, doer = list(rules), current_doer()

        def write(connection: Connection) -> tuple[dict[str, float], dict[str, StoredText]]:
            wanted = {rule.name: {"fingerprint": rule.fingerprint, "counting": rule_counting(rule)} for rule in rules}
            stored = {row.name: row for row in connection.execute(select(t.rules))}
            gone = [name for name in stored if name not in wanted]
            fresh = [name for name in wanted if name not in stored]
            delete_named(connection, t.rules, t.rules.c.name, gone)
            delete_named(connection, t.streams, t.streams.c.rule, [*gone, *fresh])
            execute_many(
                connection,
                insert(t.rules),
                [wanted[name] | {"name": name, "accepted_s": now_s} for name in fresh],
            )
            _edit_rules(connection, stored, wanted)
            connection.execute(update(t.rules).where(t.rules.c.meaning != MEANING).values(meaning=MEANING))
            forget_changed_endpoints(connection, rules)
            self._webhooks.declare(connection, rules, now_s)
            written = {each.name: each for each in texts}
            _write_texts(
                connection, _load_texts(connection) if self._texts is None else self._texts, written, doer, now_s
            )
            quiet = {rule.name for rule in rules if rule.quiet}
            _forget_future(connection, now_s, quiet)
            return {row.name: row.accepted_s for row in connection.execute(select(t.rules))}, written

        accepted, self._texts = await self._writer.submit(write)
        self.times = await asyncio.to_thread(self._times_of, rules)
        return accepted

    async def follow(self, rules: Iterable[NotificationRule]) -> None:
        """Follow the rules of a declaration that another planner has accepted."""
        self.times = await asyncio.to_thread(self._times_of, list(rules))

    def _times_of(self, rules: Collection[NotificationRule]) -> RuleTimes:
        length_s, digests, limits = self._chronon_s, dict[str, DigestTimes](), dict[str, LimitTimes]()
        for rule in rules:
            if rule.digest is not None:
                digests[rule.name] = DigestTimes(rule.digest, length_s)
            if rule.limit is not None:
                limits[rule.name] = LimitTimes(rule.limit.most, rule.limit.per.in_seconds(chronon_s=length_s))
        return RuleTimes(digests, limits, {rule.name: rule.quiet for rule in rules if rule.quiet})

    async def source_names(self) -> frozenset[str]:
        """Return the names of the sources that were declared last."""
        return frozenset(row.source_id for row in await self._read(select(t.declared.c.source_id)))

    async def declare_sources(self, names: Collection[str], now_s: float) -> dict[str, float]:
        """Return when each of these sources was first declared, and forget all others."""

        def write(connection: Connection) -> dict[str, float]:
            stored = self._declared
            if stored is None:
                found = {row.source_id: row.declared_s for row in connection.execute(select(t.declared))}
                stored = {name: min(since_s, now_s) for name, since_s in found.items()}
            new = sorted(name for name in names if name not in stored)
            gone = [] if len(names) == len(stored) + len(new) else sorted(each for each in stored if each not in names)
            delete_named(connection, t.declared, t.declared.c.source_id, gone)
            execute_many(connection, insert(t.declared), [{"source_id": name, "declared_s": now_s} for name in new])
            kept = stored if not gone else {name: each for name, each in stored.items() if name in names}
            return kept | dict.fromkeys(new, now_s) if new else kept

        self._declared = await self._writer.submit(write)
        return self._declared


def _load_texts(connection: Connection) -> dict[str, StoredText]:
    return {row.name: StoredText(row.name, row.origin, row.text) for row in connection.execute(select(t.texts))}


def _write_texts(
    connection: Connection,
    stored: Mapping[str, StoredText],
    wanted: Mapping[str, StoredText],
    doer: Doer,
    now_s: float,
) -> None:
    """Replace the texts that differ, and note who does that; new ones come last."""
    old = [each for name, each in stored.items() if wanted.get(name) != each]
    delete_named(connection, t.texts, t.texts.c.name, [each.name for each in old])
    new = [each for name, each in wanted.items() if stored.get(name) != each]
    last = connection.scalar(select(func.max(t.texts.c.position))) if new else None
    first = 0 if last is None else last + 1
    execute_many(
        connection,
        insert(t.texts),
        [{"name": x.name, "origin": x.origin, "position": n, "text": x.text} for n, x in enumerate(new, first)],
    )
    gone = [each for each in old if each.name not in wanted]
    for did, texts in (("remove", gone), ("declare", new)):
        if texts:
            note_deed(connection, doer, now_s, did, named([each.told for each in texts]))


_COUNTS_OTHERS = (
    update(t.streams)
    .where(t.streams.c.rule == bindparam("of_rule"), t.streams.c.counting == "")
    .values(counting="unknown")
)
_EDIT_RULE = (
    update(t.rules)
    .where(t.rules.c.name == bindparam("of_rule"))
    .values(fingerprint=bindparam("is_now"), counting=bindparam("counts"))
)


def _edit_rules(connection: Connection, stored: Mapping[str, Any], wanted: Mapping[str, Mapping[str, str]]) -> None:
    """Note what known rules count now; an earlier version did not store what its streams count."""
    edited, unknown = [], []
    for name in stored.keys() & wanted.keys():
        row, now = stored[name], wanted[name]
        if (row.fingerprint, row.counting) != (now["fingerprint"], now["counting"]):
            edited.append({"of_rule": name, "is_now": now["fingerprint"], "counts": now["counting"]})
        if not row.counting and row.fingerprint != now["fingerprint"]:
            unknown.append({"of_rule": name})
    execute_many(connection, _COUNTS_OTHERS, unknown)
    execute_many(connection, _EDIT_RULE, edited)


_RELEASE = (
    update(t.outbox)
    .where(t.outbox.c.lane == bindparam("of_lane"), t.outbox.c.state == "released")
    .values(next_s=bindparam("at_s"))
)


def _forget_future(connection: Connection, now_s: float, quiet: Collection[str]) -> None:
    """Bring times that lie too far in the future back to now: the clock was set back, or a rule is quiet no more."""
    o, rules = t.outbox.c, t.rules.c
    connection.execute(update(t.rules).where(rules.accepted_s > now_s).values(accepted_s=now_s))
    waiting = o.state.in_(("pending", "held", "stopped"))
    connection.execute(update(t.outbox).where(waiting, o.next_s > now_s + _LONGEST_WAIT_S).values(next_s=now_s))
    waits = connection.scalars(select(o.lane).where(o.state == "released", o.next_s > now_s).distinct())
    loud = [{"of_lane": lane} for lane in waits if rule_of(lane) not in quiet]
    execute_many(connection, _RELEASE, [each | {"at_s": now_s} for each in loud])
    connection.execute(update(t.outbox).where(waiting, o.first_attempt_s > now_s).values(first_attempt_s=now_s))
    mark_due(connection, connection.scalars(select(t.lanes.c.lane).where(t.lanes.c.due_s > now_s)), now_s)
