"""Open intervals are found by their sources as by a look at all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rules.known.state import JointInterval
from proxyd.core.rules.stages.captures import OpenIntervals

SOURCES = "abcd"


@dataclass(frozen=True)
class Interval:
    """What the table reads of an interval."""

    interval_id: str
    wanted: tuple[str, ...]
    version: int = 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["keep", "drop"]),
            st.sampled_from(["1", "2", "3"]),
            st.lists(st.sampled_from(SOURCES), unique=True).map(tuple),
        ),
        max_size=30,
    )
)
def test_intervals_are_found_as_by_a_look_at_all(steps: list[tuple[str, str, tuple[str, ...]]]) -> None:
    table, reference = OpenIntervals(), dict[str, JointInterval]()
    for version, (what, interval_id, wanted) in enumerate(steps):
        if what == "keep":
            reference[interval_id] = cast("JointInterval", Interval(interval_id, wanted, version))
            table.keep(reference[interval_id])
        else:
            assert table.drop(interval_id) is reference.pop(interval_id, None)
        assert list(table) == list(reference.values())
        assert table.get(interval_id) is reference.get(interval_id)
        for source_id in SOURCES:
            wanting = [each.interval_id for each in reference.values() if source_id in each.wanted]
            assert sorted(each.interval_id for each in table.wanting(source_id)) == sorted(wanting)
            assert all(each is reference[each.interval_id] for each in table.wanting(source_id))
    again = OpenIntervals(reference.values())
    assert [again.wanting(source_id) for source_id in SOURCES] == [
        [each for each in reference.values() if source_id in each.wanted] for source_id in SOURCES
    ]
