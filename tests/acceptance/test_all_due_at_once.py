"""Ten thousand sources that are all due at once: within the budget and politeness, and to the last one."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, Receiver, eventually, listening
from tests.cluster.hosts import Hosts, hosts

HOSTS, PAGES = 2_500, 4
SPACING_S = 2.0
JITTER_S = 1.0  # of arrivals, which are told by the loop that answers them
CHRONON_S = 1.0
PATIENCE_S = 300.0


@pytest.mark.alone
@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.parametrize("budget", [200, 10_000], ids=["a budget for few", "a budget for all"])
async def test_ten_thousand_that_are_due_at_once_are_asked_politely(tmp_path: Path, budget: int) -> None:
    receiver = Receiver()
    settings = {"chronon": f"{CHRONON_S:g}s", "budget": f"{budget}/s", "host_spacing": f"{SPACING_S:g}s"}
    async with (
        hosts(HOSTS, pages=PAGES) as origin,
        listening(receiver),
        Daemon(tmp_path, **settings, host_concurrency="1") as daemon,
    ):
        for number, text in enumerate(origin.texts(receiver.url("each"))):
            daemon.declare(text, f"{number}")
        await daemon.start()
        await eventually(
            lambda: len(origin.asked) >= HOSTS * PAGES and len({url for _, url in origin.asked}) == HOSTS * PAGES,
            "every source was asked",
            timeout_s=PATIENCE_S,
            state=lambda: len(origin.asked),
        )
        metrics = await daemon.metrics()
        await daemon.stop()
    in_time = metrics[f'proxyd_loop_lag_seconds_bucket{{le="{CHRONON_S}"}}']
    assert metrics["proxyd_loop_lag_seconds_count"] <= in_time + 1, "the loop was late by a chronon twice"
    assert metrics["proxyd_loop_lag_seconds_count"] == metrics['proxyd_loop_lag_seconds_bucket{le="2.5"}']
    if budget < HOSTS:  # else the machine allows less than the budget
        within_budget(origin, budget)
    spaced(origin)
    assert origin.in_turn


def within_budget(origin: Hosts, budget: int) -> None:
    """Fail where more came within a chronon's time than two chronons may bring."""
    times_s = [at_s for at_s, _ in origin.asked]
    for first, at_s in enumerate(times_s):
        assert bisect(times_s, at_s + CHRONON_S) - first <= 2 * budget


def spaced(origin: Hosts) -> None:
    """Fail where a host was asked sooner than its spacing allows."""
    times_s = defaultdict(list)
    for at_s, url in origin.asked:
        times_s[url.host].append(at_s)
    gaps_s = [later - at_s for of_a_host in times_s.values() for at_s, later in pairwise(of_a_host)]
    assert min(gaps_s) > SPACING_S - JITTER_S
