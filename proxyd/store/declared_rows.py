"""The last good declaration: its texts, rules and sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from proxyd.core.language import MEANING, rule_counting
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.profile import NotificationRule
from proxyd.store import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.limit_rows import LimitTimes
from proxyd.store.outbox import forget_changed_endpoints
from proxyd.store.rows import DigestTimes
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


class SqlDeclarations:
    """Stores the declaration; ``digests`` and ``limits`` hold those of its rules, by name."""

    def __init__(self, writer: Writer, read: StoreReader, webhooks: SqlWebhooks, grid: ChrononGrid) -> None:
        self._writer = writer
        self._read = read
        self._webhooks = webhooks
        self._chronon_s = grid.length_s
        self.digests: dict[str, DigestTimes] = {}
        self.limits: dict[str, LimitTimes] = {}

    async def load_texts(self) -> list[StoredText]:
        """Return the texts of the last good declaration, in order."""
        found = await self._read(select(t.texts).order_by(t.texts.c.position))
        return [StoredText(row.name, row.origin, row.text) for row in found]

    async def meanings(self) -> dict[str, int]:
        """Return under which meaning of the language each rule was accepted last."""
        return {row.name: row.meaning for row in await self._read(select(t.rules))}

    async def accept(
        self, texts: Sequence[StoredText], rules: Iterable[NotificationRule], now_s: float
    ) -> dict[str, float]:
        """Replace the declaration and return when each rule was first accepted (its NOW).

        An edit keeps it. A removed rule loses its streams.
        """
        rules = list(rules)
        wanted = {rule.name: {"fingerprint": rule.fingerprint, "counting": rule_counting(rule)} for rule in rules}
        self.digests = {
            rule.name: DigestTimes(rule.digest, self._chronon_s) for rule in rules if rule.digest is not None
        }
        limits = {rule.name: rule.limit for rule in rules if rule.limit is not None}
        self.limits = {
            name: LimitTimes(limit.most, limit.per.in_seconds(chronon_s=self._chronon_s))
            for name, limit in limits.items()
        }

        def write(connection: Connection) -> dict[str, float]:
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
            connection.execute(update(t.rules).values(meaning=MEANING))
            forget_changed_endpoints(connection, rules)
            self._webhooks.declare(connection, rules, now_s)
            connection.execute(delete(t.texts))
            execute_many(
                connection,
                insert(t.texts),
                [{"name": x.name, "origin": x.origin, "position": n, "text": x.text} for n, x in enumerate(texts)],
            )
            _forget_future(connection, now_s)
            return {row.name: row.accepted_s for row in connection.execute(select(t.rules))}

        return await self._writer.submit(write)

    async def declare_sources(self, names: Iterable[str], now_s: float) -> dict[str, float]:
        """Return when each of these sources was first declared, and forget all others."""
        wanted = set(names)

        def write(connection: Connection) -> dict[str, float]:
            stored = {row.source_id: row.declared_s for row in connection.execute(select(t.declared))}
            gone = [name for name in stored if name not in wanted]
            delete_named(connection, t.declared, t.declared.c.source_id, gone)
            new = [{"source_id": name, "declared_s": now_s} for name in sorted(wanted - stored.keys())]
            execute_many(connection, insert(t.declared), new)
            return {name: min(stored.get(name, now_s), now_s) for name in wanted}

        return await self._writer.submit(write)


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


def _forget_future(connection: Connection, now_s: float) -> None:
    """Bring times that lie too far in the future back to now: the clock was set back."""
    o, rules = t.outbox.c, t.rules.c
    connection.execute(update(t.rules).where(rules.accepted_s > now_s).values(accepted_s=now_s))
    waiting = o.state.in_(("pending", "held", "stopped"))
    connection.execute(update(t.outbox).where(waiting, o.next_s > now_s + _LONGEST_WAIT_S).values(next_s=now_s))
    connection.execute(update(t.outbox).where(o.state == "released", o.next_s > now_s).values(next_s=now_s))
    connection.execute(update(t.outbox).where(waiting, o.first_attempt_s > now_s).values(first_attempt_s=now_s))
