"""Tables and progress on a terminal and off it."""

from __future__ import annotations

import argparse
import io
import re
import sys

import pytest

from proxyd.terminal.text_tables import print_table, progress
from proxyd.terminal.verbs import probability

_STYLE = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """A terminal of 80 columns that keeps what was written to it."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in _STYLE.sub("", self.getvalue()).splitlines()]


def terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> Terminal:
    """Let a stream be a terminal until the test ends; a fixture would be too early, because pytest captures later."""
    for variable, value in {"TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, name, shown := Terminal())
    return shown


def test_a_table_on_a_terminal_has_its_title_columns_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch, "stdout")
    print_table(["source", "probes"], [["a[b]", "5"], ["c\x1bd", "12"]], title="Sources", notes=["2 of 2"])
    assert out.lines == ["Sources", "source      probes", "a[b]             5", "c⟨U+001B⟩d      12", "2 of 2"]


def test_a_table_off_a_terminal_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["source", "probes"], [["a[b]", "5"]], title="Sources")
    assert capsys.readouterr().out == "Sources\nsource  probes\na[b]         5\n"


def test_progress_on_a_terminal_is_shown_beside_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = terminal(monkeypatch, "stdout"), terminal(monkeypatch, "stderr")
    assert list(progress([1, 2, 3], "copying", total=3)) == [1, 2, 3]
    assert "copying" in err.getvalue()
    assert out.getvalue() == ""


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.25", 0.25), ("1", 1.0)])
def test_a_probability_is_read(text: str, value: float) -> None:
    assert probability(text) == value


@pytest.mark.parametrize("text", ["often", "-0.1", "1.5", "nan", ""])
def test_what_is_no_probability_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{re.escape(text)}' is not a probability from 0 to 1"):
        probability(text)
