"""Figures: what an experiment found, as a table that can also be drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A table, and how to draw it.

    Parameters
    ----------
    name
        Short name, also of its files: letters, digits and hyphens.
    title
        What it shows, with the units.
    columns, rows
        The table.
    x, y
        Columns to draw, ``y`` against ``x``; ``None`` where it is a table only.
    by
        Column that tells the curves apart, ``None`` where each of ``y`` is one.
    note
        What to compare it with, or what differs from the paper and why.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    x: str | None = None
    y: tuple[str, ...] = ()
    by: str | None = None
    note: str = ""
