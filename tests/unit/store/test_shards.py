"""Processes that follow the turnover share all shards fairly, whoever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxyd.store.databases.shards import SHARDS, shard_of, turnover


def shared(holders: dict[int, int | None], members: list[int]) -> int:
    """Let every member follow in turn until nothing changes; return how many shards changed hands."""
    moved = 0
    for _ in range(3):
        for me in members:
            due = turnover(holders, members, me)
            assert all(holders[shard] == me for shard in due.give)
            assert all(holders[shard] not in members for shard in due.take)
            holders |= dict.fromkeys(due.take, me) | dict.fromkeys(due.give)
            moved += len(due.take)
    assert all(not (due.take or due.give) for due in (turnover(holders, members, me) for me in members))
    return moved


@given(st.lists(st.sets(st.integers(1, 9), min_size=1), min_size=1, max_size=5))
def test_shares_are_fair_after_any_changes_of_members(changes: list[set[int]]) -> None:
    holders: dict[int, int | None] = dict.fromkeys(range(SHARDS))
    for members in map(sorted, changes):
        shared(holders, members)
        has = [sum(holder == me for holder in holders.values()) for me in members]
        assert sum(has) == SHARDS
        assert max(has) - min(has) <= 1


def test_only_what_a_new_process_is_due_changes_hands() -> None:
    holders: dict[int, int | None] = dict.fromkeys(range(SHARDS))
    assert shared(holders, [1, 2, 3]) == SHARDS
    assert shared(holders, [1, 2, 3]) == 0
    assert shared(holders, [1, 2, 3, 4]) == SHARDS // 4
    assert shared(holders, [1, 2, 4]) == SHARDS // 4


def test_of_more_processes_than_shards_some_have_none() -> None:
    holders: dict[int, int | None] = dict.fromkeys(range(SHARDS))
    shared(holders, list(range(100)))
    assert sorted(holder for holder in holders.values() if holder is not None) == list(range(SHARDS))


def test_endpoints_spread_over_the_shards() -> None:
    per_shard = [0] * SHARDS
    for number in range(64_000):
        per_shard[shard_of(f"https://hooks.example/{number}")] += 1
    assert 850 < min(per_shard) <= max(per_shard) < 1150
