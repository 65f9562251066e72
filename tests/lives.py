"""Sources whose items live for three seconds: half of them flat, of very different rates, half with a cycle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proxyd.core.model.schedule import Times

SOURCES, LIFE_S, CYCLE_S = 60, 3.0, 60.0
UNIFORM_S = 12.0  # a source's even spacing at the budget
BUDGET_PER_S = SOURCES / UNIFORM_S
FASTEST_S, SLOWEST_S, CYCLIC_S = 3.0, 90.0, 12.0
CHRONON_S = 0.2
RULE = """CREATE PROFILE "watch";
INSERT NOTIFICATION "in time" INTO "watch"
SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED"
SET LIFE WINDOW(3 SECONDS) SET POLICY {policy} SET DELIVERY NONE;
"""
POLICIES = {"auto": "AUTO", "even": f"UNIFORM({UNIFORM_S:g} SECONDS)", "fbsup": "FBSUP"}


def mixed_items(begin_s: float, length_s: float, seed: int = 7) -> list[Times]:
    """Return item times of flat sources, whose rates differ by a factor of 30, and of cyclic ones, in two phases.

    A cyclic source gains its items in a quarter of the cycle.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    half = SOURCES // 2
    flat = [poisson(begin_s, length_s, gap_s, rng) for gap_s in np.geomspace(FASTEST_S, SLOWEST_S, half)]
    busy_s = CYCLE_S / 4
    cyclic = []
    for number in range(SOURCES - half):
        drawn = poisson(0.0, length_s / 4, CYCLIC_S / 4, rng)  # time in which the source is busy
        cycles, within_s = np.divmod(drawn, busy_s)
        cyclic.append(begin_s + cycles * CYCLE_S + within_s + number % 2 * CYCLE_S / 2)
    return [*flat, *cyclic]


def equal_items(begin_s: float, length_s: float, seed: int = 7) -> list[Times]:
    """Return item times of flat sources of one rate."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return [poisson(begin_s, length_s, CYCLIC_S, rng) for _ in range(SOURCES)]


def poisson(begin_s: float, length_s: float, gap_s: float, rng: np.random.Generator) -> Times:
    """Return the times of a Poisson process."""
    return np.sort(begin_s + rng.uniform(0.0, length_s, rng.poisson(length_s / gap_s)))


def seen_in_time(
    items_s: Sequence[Times],
    requests_s: Sequence[Times],
    from_s: float,
    until_s: float,
    down_s: Sequence[tuple[float, float]] = (),
) -> Times:
    """Return 1 for each item of a time that a request of its source follows within its life, and 0 for the others.

    Items whose life touches a time in which the daemon was down (``down_s``) are left out.
    """
    seen = [
        np.any((requests >= item_s) & (requests <= item_s + LIFE_S))
        for items, requests in zip(items_s, requests_s, strict=True)
        for item_s in items[(items >= from_s) & (items < until_s)].tolist()
        if not any(begin_s <= item_s + LIFE_S and item_s <= end_s for begin_s, end_s in down_s)
    ]
    return np.array(seen, dtype=np.float64)
