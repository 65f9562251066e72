"""Figures: the results of an experiment, as a table that matplotlib can also draw.

Matplotlib is an optional dependency, which is imported only when needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Curve: TypeAlias = tuple[str, list[float | str], list[float]]
"""A curve's name, and the coordinates of its points."""

_MARKERS = "os^Dv<>pXP*"
_WIDE, _HIGH = 100.0, 20.0
"""Values that span more than these factors get a logarithmic axis, along ``x`` and along ``y``."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A table, and how to draw it.

    Parameters
    ----------
    name
        Short name, also for its files: letters, digits and hyphens.
    title
        What it shows, with the units.
    columns, rows
        The table.
    x, y
        Columns to draw, ``y`` against ``x``; ``None`` for a table only.
    by
        Column that distinguishes the curves; ``None`` if each of ``y`` is one.
    note
        What to compare the figure with, or what differs from the paper and why.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    x: str | None = None
    y: tuple[str, ...] = ()
    by: str | None = None
    note: str = ""


def curves(figure: Figure) -> list[_Curve]:
    """Return the curves of a figure with an ``x``, in the order of the table.

    >>> rows = (("a", 1, 2.0), ("a", 2, 3.0), ("b", 1, 4.0))
    >>> curves(Figure("f", "", ("name", "t", "cost"), rows, x="t", y=("cost",), by="name"))
    [('a', [1, 2], [2.0, 3.0]), ('b', [1], [4.0])]
    """
    if figure.x is None:
        raise ValueError(f"{figure.name} is a table only")
    along = figure.columns.index(figure.x)
    split = None if figure.by is None else figure.columns.index(figure.by)
    found: dict[str, _Curve] = {}
    for measured in figure.y:
        height = figure.columns.index(measured)
        for row in figure.rows:
            key = measured if split is None else str(row[split])
            name = key if split is None or len(figure.y) == 1 else f"{key}, {measured}"
            _, places, heights = found.setdefault(name, (name, [], []))
            places.append(row[along])
            heights.append(float(row[height]))
    return list(found.values())


def _height_label(figure: Figure) -> str:
    """Return the label of the vertical axis: the column or, if there are several, the title's units or subject.

    >>> costs = "Expected cost of the policies, ratio 3 (days x importance)"
    >>> _height_label(Figure("f", costs, ("n", "doe", "uniform"), (), x="n", y=("doe", "uniform")))
    'days x importance'
    >>> _height_label(Figure("f", "Items undiscovered: 20 sources", ("n", "a", "b"), (), x="n", y=("a", "b")))
    'Items undiscovered'
    """
    if len(figure.y) == 1:
        return figure.y[0]
    units = re.search(r"\(([^()\d]+)\)$", figure.title)
    return units[1] if units else re.split(r"[,:]", figure.title)[0]


def plot(figure: Figure, path: Path) -> None:
    """Draw ``figure`` into a PNG file."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8.0, 5.0), dpi=120, layout="constrained")
    axes = canvas.add_subplot()
    drawn = curves(figure)
    for number, curve in enumerate(drawn):
        _draw(axes, number, curve)
    axes.set_title(fill(figure.title, 80), fontsize=11)
    axes.set_xlabel(figure.x or "")
    axes.set_ylabel(fill(_height_label(figure), 60))
    axes.grid(visible=True, alpha=0.3)
    _scale(axes, drawn)
    if len(drawn) > 1:
        axes.legend(fontsize=8, ncols=1 if len(drawn) <= 8 else 2, title=figure.by)
    canvas.savefig(path, format="png")


def _draw(axes: Axes, number: int, curve: _Curve) -> None:
    name, places, heights = curve
    marker = _MARKERS[number % len(_MARKERS)]
    if len(places) == 1:
        axes.plot(places, heights, marker, markersize=11, label=name, zorder=3)
    else:
        axes.plot(places, heights, marker=marker, markersize=4 if len(places) < 50 else 0, linewidth=1.4, label=name)


def _scale(axes: Axes, drawn: list[_Curve]) -> None:
    from matplotlib.ticker import MaxNLocator

    heights = [value for _, _, values in drawn for value in values]
    places = [place for _, values, _ in drawn for place in values if not isinstance(place, str)]
    if _is_wide(heights, _HIGH):
        axes.set_yscale("log")
    if len(places) < len(heights):
        return
    if _is_wide(places, _WIDE):
        axes.set_xscale("log")
    elif all(float(place).is_integer() for place in places):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _is_wide(values: list[float], factor: float) -> bool:
    return bool(values) and min(values) > 0 and max(values) > factor * min(values)
