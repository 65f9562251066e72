"""Reports of weeks: what was added up before and what came since make the same sums as reading all at once."""

from __future__ import annotations

import numpy as np
from sqlalchemy import delete

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rules.known.state import IntervalRecord, SourceState
from proxyd.daemon.reports import RuleWeeks
from proxyd.store.databases.tables import intervals
from proxyd.store.sql_store import SqlStore
from tests.observations import observed

WEEK = int(WEEK_S / 10.0)
FIRST = int(MONDAY_S / 10.0)
WITHIN_S = 50.0


def drawn(rng: np.random.Generator, count: int) -> tuple[IntervalRecord, ...]:
    """Return intervals of two weeks and three rules; their numbers do not follow the order of their times."""
    return tuple(
        IntervalRecord(
            f"r{rng.integers(3)}", "s", n, at - 5, None, at, bool(rng.random() < 0.8), True, float(rng.integers(100)),
            utility=float(rng.integers(2)), seen=bool(rng.random() < 0.9),
        )
        for n, at in enumerate(rng.integers(FIRST - 9, FIRST + 2 * WEEK, count).tolist())
    )  # fmt: skip


async def record(store: SqlStore, found: tuple[IntervalRecord, ...]) -> None:
    outcome = ProbeOutcome("s", OutcomeKind.CHANGED, 1.0, 2.0, 200)
    await store.record(observed(SourceState("s", "https://s.example/"), outcome, intervals=found))


async def test_sums_that_grow_are_those_of_all_intervals(store: SqlStore) -> None:
    rng, weeks = np.random.default_rng(5), RuleWeeks(store)
    for count in (0, 200, 1, 0, 40):
        if count:
            await record(store, drawn(rng, count))
        for week_s in (MONDAY_S, MONDAY_S + WEEK_S):
            at_once = await store.history.rule_week(week_s, week_s + WEEK_S, WITHIN_S)
            assert sorted(await weeks.of(week_s, WITHIN_S), key=lambda each: each.rule) == at_once
    assert sum(each.intervals for each in at_once) > 80


async def test_only_what_is_new_is_read_again(store: SqlStore) -> None:
    rng, weeks = np.random.default_rng(6), RuleWeeks(store)
    await record(store, drawn(rng, 50))
    before = await weeks.of(MONDAY_S, WITHIN_S)
    newest = await store.history.newest_interval()
    assert await store.history.rule_week(MONDAY_S, MONDAY_S + WEEK_S, WITHIN_S, after=newest) == []
    await store.writer.submit(
        lambda connection: connection.execute(delete(intervals).where(intervals.c.interval_id < newest))
    )
    assert await weeks.of(MONDAY_S, WITHIN_S) == before
    assert await RuleWeeks(store).of(MONDAY_S, WITHIN_S) != before


async def test_sums_begin_again_where_everything_was_deleted(store: SqlStore) -> None:
    weeks = RuleWeeks(store)
    await record(store, drawn(np.random.default_rng(7), 50))
    assert await weeks.of(MONDAY_S, WITHIN_S)
    await store.writer.submit(lambda connection: connection.execute(delete(intervals)))
    assert await weeks.of(MONDAY_S, WITHIN_S) == []


async def test_few_weeks_are_remembered(store: SqlStore) -> None:
    weeks = RuleWeeks(store)
    for number in range(9):
        await weeks.of(MONDAY_S + number * WEEK_S, WITHIN_S)
    assert len(weeks._known) == 4
