"""Figures: the results of an experiment, as a table that can also be drawn."""

from __future__ import annotations

from dataclasses import dataclass


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
