"""Rules that fail."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict

from sqlalchemy import Connection, select

from proxyd.core.rules.failing import FailingRule
from proxyd.store import tables as t
from proxyd.store.databases.connections import StoreReader
from proxyd.store.rows import typed
from proxyd.store.statements import delete_named, execute_many, upsert
from proxyd.store.writer import Writer

_UPSERT = upsert(t.failing_rules)


class SqlFailingRules:
    """Stores the rules that failed the last time they were evaluated."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read

    async def load(self) -> dict[str, FailingRule]:
        """Return every rule that failed the last time, by name."""
        return {row.rule: typed(FailingRule, row) for row in await self._read(select(t.failing_rules))}

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
