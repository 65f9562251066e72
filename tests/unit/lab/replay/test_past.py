"""What of a daemon's own history can be replayed: from when on, which sources, and how coarse it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.errors import InvalidScheduleError
from proxyd.lab.replay.stored_history import Past, middle_of, past_of
from proxyd.store.seen_events import PastSource

DAY_S = 86400.0
KEPT_S = 90 * DAY_S


def seen(  # times in days
    name: str,
    events: Sequence[float] = (),
    *,
    first: float = 0.0,
    until: float = 10.0,
    wait: float = 0.25,
    placed: Sequence[float] = (),
    seeds: Sequence[float] = (),
    lost: float = 0.0,
) -> PastSource:
    times = np.array([*seeds, *events, *placed])
    is_seed = np.arange(len(times)) < len(seeds)
    return PastSource(
        name,
        first * DAY_S,
        until * DAY_S,
        lost,
        events_s=times * DAY_S,
        seen_s=np.where(is_seed, first, times + wait) * DAY_S,
        exact=np.arange(len(times)) < len(seeds) + len(events),
        seed=is_seed,
    )


def past(*sources: PastSource, start: float = 5.0, kept: float = 90.0) -> Past:
    return past_of(sources, start * DAY_S, retention_s=kept * DAY_S, name="p.db")


def days(found: Past) -> list[list[float]]:
    return [[float(time) for time in times / DAY_S] for times in found.trace.events_s]


def test_events_are_sorted_and_the_period_ends_with_the_last_probe() -> None:
    found = past(seen("a", [7, 1, 6]), seen("b", [8], until=9.5))
    assert found.trace.sources == ("a", "b")
    assert days(found) == [[1, 6, 7], [8]]
    assert (found.start_s, found.stop_s, found.replayed) == (5 * DAY_S, 10 * DAY_S, 3)


def test_what_a_feed_showed_at_first_contact_is_history_complete_since_its_oldest_item() -> None:
    found = past(seen("a", [6], first=2, seeds=[-30, -1, 1]))
    assert days(found) == [[-1, 1, 6]]
    assert found.known_from_s.tolist() == [-30 * DAY_S]


@pytest.mark.parametrize("seeds", [[], [1.0]], ids=["nothing", "one item"])
def test_who_showed_too_little_at_first_contact_is_known_since_then(seeds: list[float]) -> None:
    found = past(seen("a", [3, 6], first=2, seeds=seeds))
    assert found.known_from_s.tolist() == [2 * DAY_S]
    assert days(found) == [[3, 6]]


def test_a_source_takes_part_only_where_it_was_watched_before_and_after() -> None:
    found = past(seen("late", [7], first=6), seen("dead", [1], until=4), seen("a", [7]))
    assert found.trace.sources == ("a",)
    assert found.left_out == 2


def test_events_that_only_some_were_kept_of_are_left_out() -> None:
    found = past(seen("a", [2, 4, 6], first=-50, seeds=[-60, -55]), start=5.0, kept=7.0)
    assert days(found) == [[4, 6]]
    assert found.known_from_s.tolist() == [3 * DAY_S]


def test_no_history_is_older_than_estimates_look_back() -> None:
    found = past(seen("a", [6], seeds=[-4000, -100]))
    assert found.known_from_s.tolist() == [(5 - 52 * 7) * DAY_S]
    assert days(found) == [[-100, 6]]


def test_events_without_a_time_of_their_own_are_counted_and_their_coarseness_is_told() -> None:
    found = past(seen("a", [1, 6], placed=[2, 7, 8], wait=0.5))
    assert (found.replayed, found.placed, found.placed_wait_s) == (3, 2, 0.5 * DAY_S)


def test_a_seed_without_a_time_tells_nothing() -> None:
    source = seen("a", [6], first=3, seeds=[1, 2])
    assert days(past(replace(source, exact=np.array([False, False, True])))) == [[6]]


def test_times_behind_the_last_probe_are_not_replayed() -> None:
    assert days(past(seen("a", [6, 11]))) == [[6]]


def test_what_the_daemon_itself_achieved_is_told() -> None:
    found = past(seen("a", [1, 6], wait=0.5), seen("b", [7, 8], wait=0.25, lost=3.0))
    assert found.own_delay_s == pytest.approx(DAY_S / 3)
    assert found.own_median_s == 0.25 * DAY_S
    assert found.lost == 3.0


def test_probes_are_estimated_by_waits_of_half_a_gap_and_never_more_than_allowed() -> None:
    found = past(seen("a", np.linspace(5.1, 9.9, 400).tolist()), seen("b"))
    assert found.gaps_s == pytest.approx(0.5 * DAY_S)
    assert found.probes_per_source_week(least_gap_s=300.0, most_per_s=1.0) == pytest.approx(14.0)
    assert found.probes_per_source_week(least_gap_s=DAY_S, most_per_s=1.0) == pytest.approx(7.0)
    assert found.probes_per_source_week(least_gap_s=300.0, most_per_s=1 / DAY_S) == pytest.approx(3.5)


def test_a_gap_hidden_by_pushes_is_the_least_allowed() -> None:
    found = past(seen("a", [6, 7], wait=0.0))
    assert found.probes_per_source_week(least_gap_s=DAY_S, most_per_s=1.0) == pytest.approx(7.0)


def test_a_replay_begins_in_the_middle_of_what_was_watched() -> None:
    assert middle_of([seen("a"), seen("b")], retention_s=KEPT_S, name="p.db") == 5 * DAY_S
    assert middle_of([seen("a", first=-100)], retention_s=8 * DAY_S, name="p.db") == 6 * DAY_S


def test_one_old_source_does_not_leave_out_many_newer_ones() -> None:
    newer = [seen(f"n{number}", first=6) for number in range(9)]
    assert middle_of([seen("old"), *newer], retention_s=KEPT_S, name="p.db") == 8 * DAY_S


def test_one_new_source_does_not_shorten_the_replay_of_many() -> None:
    older = [seen(f"o{number}") for number in range(9)]
    assert middle_of([seen("new", first=9), *older], retention_s=KEPT_S, name="p.db") == 5 * DAY_S


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "p.db: no source was seen yet; let the daemon run for a while"),
        ([seen("a", first=8.5)], "p.db: sources were watched for 36.0 h, a replay needs 48 h; let the daemon run on"),
    ],
    ids=["nothing", "little"],
)
def test_too_little_history_is_refused(sources: list[PastSource], message: str) -> None:
    with pytest.raises(InvalidScheduleError, match=message):
        middle_of(sources, retention_s=KEPT_S, name="p.db")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "no source was seen yet"),
        ([seen("a", [7], first=6)], "no source was watched before and after 1970-01-06T00:00Z; choose a --test-from"),
        ([seen("a", [1])], "no event was seen between 1970-01-06T00:00Z and 1970-01-11T00:00Z"),
    ],
    ids=["nothing", "only newer", "no events"],
)
def test_a_period_without_anything_is_refused(sources: list[PastSource], message: str) -> None:
    with pytest.raises(InvalidScheduleError, match=message):
        past(*sources)
