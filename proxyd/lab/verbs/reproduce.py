"""The verb that reproduces the papers' experiments: tables, plots and one report."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import numpy as np

from proxyd.errors import ProxydError
from proxyd.lab.papers.figure import Figure
from proxyd.lab.verbs.plots import plot
from proxyd.terminal.tables import print_table, progress

_PAPERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "robot": ("robot", "Access frequencies of a robot"),
        "politeness": ("politeness", "One source under a politeness constraint"),
        "sup": ("sup", "SUP and fbSUP: execution intervals of many sources"),
        "proxy-dilemma": ("proxy_dilemma", "The proxy dilemma: completeness against delay"),
        "detection": ("detection", "Rapid detection of new items"),
    }
)
_REPORT = "report.md"
_ROWS = 60


def reproduce(options: argparse.Namespace) -> int:
    """Run the experiments, write their results, and print where."""
    papers = list(_PAPERS) if options.paper == "all" else [options.paper]
    can_plot = find_spec("matplotlib") is not None
    made: list[tuple[str, Figure, list[str]]] = []
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for paper in papers:
            for figure in progress(_figures(paper, options.seed, quick=options.quick), paper):
                made.append((paper, figure, _write(options.out, figure, can_plot=can_plot)))
                _write_report(options.out, made, options)
    except OSError as error:
        raise ProxydError(f"results cannot be written to {options.out}: {error}") from error
    if options.json:
        print(json.dumps(_summary(made, options, can_plot=can_plot), indent=2))
    else:
        rows = [(paper, figure.name, str(len(figure.rows)), " ".join(files)) for paper, figure, files in made]
        notes = [f"report: {options.out / _REPORT}"]
        if not can_plot:
            notes.append("no plots: matplotlib is not installed; pip install '.[plots]' in proxyd's folder adds it")
        print_table(("paper", "figure", "rows", "files"), rows, notes=notes)
    return 0


def markdown(figure: Figure, files: list[str]) -> str:
    """Return a figure as Markdown: title, plot, table and note; a long table is cut, and numbers are rounded.

    >>> print(markdown(Figure("f", "A title", ("x", "y"), ((1, 2.5),), note="A note."), ["f.csv"]))
    ### A title
    <BLANKLINE>
    | x | y |
    |---|---|
    | 1 | 2.5 |
    <BLANKLINE>
    A note. Table: [f.csv](f.csv).
    """
    image = [f"![{figure.title}]({name})\n" for name in files if name.endswith(".png")]
    head = [_line(figure.columns), "|" + "---|" * len(figure.columns)]
    body = [_line(row) for row in figure.rows[:_ROWS]]
    table = "\n".join([*head, *body])
    rest = len(figure.rows) - _ROWS
    left = f" It has {rest} rows more." if rest > 0 else ""
    note = f"{figure.note} " if figure.note else ""
    csv_name = files[0]
    return "\n".join([f"### {figure.title}\n", *image, table, f"\n{note}Table: [{csv_name}]({csv_name}).{left}"])


def _figures(paper: str, seed: int, *, quick: bool) -> Iterator[Figure]:
    """Return a paper's figures; each paper has its own generator, so that its results do not depend on the others."""
    number = list(_PAPERS).index(paper)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))
    module = import_module(f"proxyd.lab.papers.{_PAPERS[paper][0]}")
    found: Iterator[Figure] = module.figures(rng=rng, quick=quick)
    return found


def _write(folder: Path, figure: Figure, *, can_plot: bool) -> list[str]:
    """Write a figure's files and return their names, the table's first."""
    name = f"{figure.name}.csv"
    (folder / name).write_text(_csv(figure), encoding="utf-8")
    if not can_plot or figure.x is None:
        return [name]
    image = f"{figure.name}.png"
    plot(figure, folder / image)
    return [name, image]


def _csv(figure: Figure) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(figure.columns)
    rows.writerows(figure.rows)
    return text.getvalue()


def _write_report(folder: Path, made: list[tuple[str, Figure, list[str]]], options: argparse.Namespace) -> None:
    """Write the report on the results so far: an interrupted experiment keeps its first figures."""
    size = "quick" if options.quick else "full"
    parts = [f"# The papers' experiments\n\nSeed {options.seed}, {size} run of `proxyd reproduce {options.paper}`."]
    shown = ""
    for paper, figure, files in made:
        if paper != shown:
            parts.append(f"## {_PAPERS[paper][1]}")
            shown = paper
        parts.append(markdown(figure, files))
    (folder / _REPORT).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _summary(
    made: list[tuple[str, Figure, list[str]]], options: argparse.Namespace, *, can_plot: bool
) -> dict[str, object]:
    return {
        "out": str(options.out),
        "report": _REPORT,
        "seed": options.seed,
        "quick": options.quick,
        "plots": can_plot,
        "figures": [
            {
                "paper": paper,
                "name": figure.name,
                "title": figure.title,
                "rows": len(figure.rows),
                "files": files,
                "note": figure.note,
            }
            for paper, figure, files in made
        ],
    }


def _line(cells: tuple[object, ...]) -> str:
    shown = (f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells)
    return "| " + " | ".join(text.replace("|", "\\|") for text in shown) + " |"
