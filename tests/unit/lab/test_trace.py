"""Traces from CSV, and what is said of lines that are none."""

from __future__ import annotations

import pytest

from proxyd.core.errors import TraceError
from proxyd.lab.traces import parse_trace


def test_lines_may_come_in_any_order_and_blank_ones_are_passed_over() -> None:
    trace = parse_trace(["source,timestamp\n", "b,5\n", "\n", "a,3\n", "b,1.5\n"], name="t.csv")
    assert trace.sources == ("b", "a")
    assert [times.tolist() for times in trace.events_s] == [[1.5, 5.0], [3.0]]
    assert (len(trace), trace.start_s, trace.stop_s) == (3, 1.5, 5.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "t.csv:1: expected the header source,timestamp"),
        (["feed,when"], "t.csv:1: expected the header source,timestamp"),
        (["source,timestamp"], "t.csv:2: there are no events; add lines such as feed1,1700000000"),
        (["source,timestamp", "a,1", "a"], "t.csv:3: expected a source and a timestamp, found 1 fields"),
        (["source,timestamp", "a,1,2"], "t.csv:2: expected a source and a timestamp, found 3 fields"),
        (["source,timestamp", "a,monday"], "t.csv:2: 'monday' is not a time in unix seconds"),
        (["source,timestamp", "a,nan"], "t.csv:2: 'nan' is not a time in unix seconds"),
        (["source,timestamp", "a,inf"], "t.csv:2: 'inf' is not a time in unix seconds"),
    ],
    ids=["empty", "header", "no events", "too few fields", "too many fields", "a word", "nan", "infinite"],
)
def test_a_bad_line_is_named(lines: list[str], message: str) -> None:
    with pytest.raises(TraceError) as error:
        parse_trace(lines, name="t.csv")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [("a,1\rb,2", "not CSV"), ("a" * 200_000 + ",1", "not CSV"), (" ,1", "source is empty")],
    ids=["bare carriage return", "huge field", "no name"],
)
def test_lines_that_are_no_events_are_named(line: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        parse_trace(["source,timestamp\n", line + "\n"], name="t.csv")
