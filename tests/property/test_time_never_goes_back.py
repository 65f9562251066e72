"""Whatever is done to the machine's clock, the daemon's time goes on, and meets it again."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from proxyd.base.clock import SystemClock

STEPS = st.lists(st.tuples(st.floats(0.01, 3600.0), st.floats(-7200.0, 7200.0)), max_size=20)
START_S = 1e9


class Machine:
    """Clocks that are read in turn: seconds pass between readings, and somebody turns the wall's."""

    def __init__(self) -> None:
        self.passed_s = self.turned_s = 0.0

    def clock(self) -> SystemClock:
        """Return the daemon's clock over these."""
        return SystemClock(lambda: START_S + self.passed_s + self.turned_s, lambda: self.passed_s)


@given(STEPS)
def test_time_goes_on_at_half_speed_at_least(steps: Sequence[tuple[float, float]]) -> None:
    machine = Machine()
    clock = machine.clock()
    before_s = clock.time_s()
    for passed_s, turned_s in steps:
        machine.passed_s += passed_s
        machine.turned_s += turned_s
        now_s = clock.time_s()
        assert now_s - before_s >= 0.499 * passed_s
        assert now_s >= clock.wall_s()
        before_s = now_s


@given(STEPS)
def test_time_is_the_machines_once_twice_the_jump_has_passed(steps: Sequence[tuple[float, float]]) -> None:
    machine = Machine()
    clock = machine.clock()
    for passed_s, turned_s in steps:
        machine.passed_s += passed_s
        machine.turned_s += turned_s
        ahead_s = clock.time_s() - clock.wall_s()
    if steps:
        machine.passed_s += 2.0 * ahead_s + 0.001
        assert clock.time_s() == clock.wall_s()
