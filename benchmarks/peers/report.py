"""Writes what was measured as tables in Markdown, a row a program."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_BEGIN, _END = "<!-- measured by benchmarks/peers/run.py -->", "<!-- measured -->"
_WHOLE = 10.0  # a greater number is written without decimals


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of some runs: medians, with the least and the greatest of several runs."""
    mixes = list(dict.fromkeys(each["mix"] for each in found))
    first = mixes[0]
    delays = {mix: (mix, "mean") for mix in mixes}
    delays |= {f"{first}, first quarter": (first, "mean of the first quarter")}
    if "cyclic" in mixes:
        delays["cyclic, second half"] = ("cyclic", "mean of the second half")
    lives = {life: (first, life) for life in found[0] if life.startswith("within ")}
    spread = {"median": (first, "median"), "p95": (first, "p95"), "noticed after": (first, "notice mean")} | lives
    costs = {
        "requests": (first, "requests"),
        "304s": (first, "not modified"),
        "processor, s": (first, "processor s"),
        "memory, MiB": (first, "memory MiB"),
        "written, MiB": (first, "written MiB"),
        "first request after, s": (first, "first request after"),
    }
    outages = {}
    if "limits" in mixes:
        outages["requests inside a Retry-After: limits"] = ("limits", "inside a Retry-After")
    if "faults" in mixes:
        outages["last waiting message after the receiver's return, s: faults"] = (
            "faults",
            "last told after the receiver's return",
        )
    parts = {
        "Seconds from an item to its message, mean:": delays,
        f"The same with *{first}*, and the share of items told in time:": spread,
        "Items that were not told:": {mix: (mix, "lost") for mix in mixes},
        "Items that were told twice:": {mix: (mix, "doubled") for mix in mixes},
        "Old items that were told as new:": {mix: (mix, "old told") for mix in mixes},
        "While sources or the receiver refuse:": outages,
        f"What it takes, with *{first}*:": costs,
    }
    return "\n".join(f"{said}\n\n{_table(found, columns)}" for said, columns in parts.items() if columns)


def write(page: Path, text: str) -> None:
    """Put a text between the marks of a page."""
    whole = page.read_text(encoding="utf-8")
    marked = re.compile(f"(?<={re.escape(_BEGIN)}\n).*(?={re.escape(_END)})", re.DOTALL)
    page.write_text(marked.sub(lambda _: f"\n{text}\n", whole), encoding="utf-8")


def _table(found: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]) -> str:
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for program in dict.fromkeys(each["program"] for each in found):
        of_program = [each for each in found if each["program"] == program]
        cells = (
            written([each[figure] for each in of_program if each["mix"] == mix], as_share=figure.startswith("within "))
            for mix, figure in columns.values()
        )
        lines.append(f"| {program} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(values: Sequence[float | None], *, as_share: bool = False) -> str:
    """Return the median of some runs, with the least and the greatest if they differ.

    >>> written([3.14159]), written([3, 1, 2]), written([None]), written([0.5, 0.5], as_share=True)
    ('3.1', '2 (1 to 3)', '-', '50%')
    >>> written([11.6, 12.2, 9.94]), written([1234, 1236])
    ('12 (9.9 to 12)', '1,235 (1,234 to 1,236)')
    """
    known = sorted(each for each in values if each is not None)
    if not known:
        return "-"
    show: Callable[[float], str] = "{:.0%}".format if as_share else _number
    least, middle, most = show(known[0]), show(statistics.median(known)), show(known[-1])
    return middle if least == most else f"{middle} ({least} to {most})"


def _number(value: float) -> str:
    is_whole = isinstance(value, int) or value.is_integer() or round(value, 1) >= _WHOLE
    return f"{value:,.0f}" if is_whole else f"{value:.1f}"
