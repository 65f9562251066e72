"""Printing for verbs: JSON unchanged, and texts from outside with invisible characters spelt out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from proxyd.safe_text import visible, visible_line

_SHOWN = 60
_LINE = 2000


def print_json(value: object) -> None:
    """Print a value as JSON with non-ASCII characters escaped."""
    print(json.dumps(value, indent=2))


def print_lines(lines: Iterable[str]) -> None:
    """Print texts, one per line."""
    for line in lines:
        print(visible_line(line, _LINE), flush=True)


def print_text(text: str) -> None:
    """Print a text unchanged, but on a terminal with invisible characters spelt out."""
    print(visible(text) if sys.stdout.isatty() else text, end="")


def first_row(body: Mapping[str, Any]) -> str:
    """Return the first row of a rule's result in a few words."""
    values = [str(value) for row in body["data"].get("items", ())[:1] for value in row.values() if value is not None]
    return visible_line(", ".join(value[: _SHOWN + 1] for value in values), _SHOWN)


def about(seconds: float) -> str:
    """Return a duration for people.

    >>> about(90.0), about(5400.0), about(0.5), about(172_800.0)
    ('1.5 min', '1.5 h', '0.5 s', '2 d')
    """
    for unit, length_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length_s:
            return f"{seconds / length_s:.3g} {unit}"
    return f"{seconds:.3g} s"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "rule"), counted(2, "rule")
    ('1 rule', '2 rules')
    """
    return f"{count} {noun}{'s' * (count != 1)}"
