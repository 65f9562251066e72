"""Small laws of what plans are made of: shares of limits, integrals of weeks, rows, and records of plans."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from proxyd.core.planning.allocation.fleet_state import FleetState, pack, unpack
from proxyd.core.planning.allocation.prices import HostLimits, row_place, row_places
from proxyd.core.planning.allocation.week_plan import by_slot
from proxyd.core.planning.kernels.losses import Losses, WeekCosts, window
from proxyd.core.rates.week_shapes import WeekShapes


def test_a_sample_has_its_share_of_each_host() -> None:
    limits = HostLimits(np.array([0, 0, 1]), np.array([6.0, 6.0])).sample(np.array([0, 2]))
    assert limits.per_slot.tolist() == [3.0, 6.0]


def test_one_source_has_the_row_that_it_has_among_all() -> None:
    assert row_place(8.0, 0.5) == row_places(np.array([8.0]), np.array([0.5]))[0]


def test_costs_of_a_week_go_on_from_week_to_week() -> None:
    costs, nobody = WeekCosts(np.array([[1.0, 1.0, 4.0, 2.0]])), np.array([0])
    assert costs.between(np.array([0, 0]), np.array([0.0, 6.0]), np.array([2.0, 8.0])).tolist() == [1.0, 3.5]
    late = Losses(window(1.0, delay=100.0))
    assert costs.kept(late, nobody, np.array([0.0]), np.array([3.0])).tolist() == [200.0]
    assert costs.reach(0, 1.0, 1.0) == 2.25


def test_slots_have_the_mean_of_the_hours_that_they_cover() -> None:
    assert by_slot(np.arange(168.0)[None, :], 336)[0, :4].tolist() == [0.0, 0.0, 1.0, 1.0]


ONE_SOURCE = FleetState(
    ("a",),
    np.array([1e-4]),
    np.ones(1),
    np.zeros(1),
    WeekShapes(np.ones((1, 168)), np.zeros(1, dtype=np.int64)),
    probes_per_s=1e-3,
)


def test_a_packed_state_reads_back() -> None:
    again = unpack(pack(ONE_SOURCE))
    assert again.source_ids == ("a",)
    assert again.rate_per_s.tolist() == [1e-4]
    assert again.weeks.shapes.shape == (1, 168)
    assert again.cycle == ONE_SOURCE.cycle


def test_bytes_that_are_no_plan_are_refused() -> None:
    with pytest.raises(ValueError, match="this is not a plan of this version"):
        unpack(b"")


def test_a_plan_with_a_wrong_bit_is_refused_unless_the_bit_means_nothing() -> None:
    packed, read = pack(ONE_SOURCE), list[bytes]()
    for place in range(len(packed)):
        damaged = bytearray(packed)
        damaged[place] ^= 1 << place % 8
        with suppress(ValueError):
            read.append(pack(unpack(bytes(damaged))))
    assert len(read) < 0.1 * len(packed)
    assert set(read) <= {packed}
