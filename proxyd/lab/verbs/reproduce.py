"""The verb that reproduces the papers' experiments: tables, plots and one report."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.core.errors import ProxydError, extra_hint
from proxyd.terminal.text_tables import print_table, progress
from proxyd.terminal.verbs import JSON, SEED, argument, flag, verb

if TYPE_CHECKING:
    from proxyd.lab.papers.figure import Figure

_PAPERS = {
    "robot": "Access frequencies of a robot",
    "politeness": "One source under a politeness constraint",
    "sup": "SUP and fbSUP: execution intervals of many sources",
    "proxy-dilemma": "The proxy dilemma: completeness against delay",
    "detection": "Rapid detection of new items",
}
_REPORT = "report.md"
_ROWS = 60


@verb(
    "reproduce",
    "proxyd reproduce detection --out results",
    takes=[
        argument("paper", "which paper (default: all)", nargs="?", choices=(*_PAPERS, "all"), default="all"),
        argument("--out", "folder for tables and plots", type=Path, required=True, metavar="DIR"),
        argument("--seed", "seed of all random numbers (default 1)", type=SEED, default=1),
        flag("--quick", "fewer repetitions: minutes become seconds"),
        JSON,
    ],
)
def reproduce(options: argparse.Namespace) -> int:
    """Reproduce the papers' experiments and write the results into files."""
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
            notes.append(f"no plots: {extra_hint('plots')}")
        print_table(("paper", "figure", "rows", "files"), rows, notes=notes)
    return 0


def _markdown(figure: Figure, files: list[str]) -> str:
    """Return a figure as Markdown: title, plot, table and note; a long table is cut, and numbers are rounded.

    >>> from proxyd.lab.papers.figure import Figure
    >>> print(_markdown(Figure("f", "A title", ("x", "y"), ((1, 2.5),), note="A note."), ["f.csv"]))
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
    import numpy as np

    from proxyd.lab.papers import detection_paper, politeness_paper, proxy_dilemma, robot_paper, sup_paper

    figures_of: dict[str, Callable[..., Iterator[Figure]]] = {
        "robot": robot_paper.figures,
        "politeness": politeness_paper.figures,
        "sup": sup_paper.figures,
        "proxy-dilemma": proxy_dilemma.figures,
        "detection": detection_paper.figures,
    }
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, list(_PAPERS).index(paper)])))
    return figures_of[paper](rng=rng, quick=quick)


def _write(folder: Path, figure: Figure, *, can_plot: bool) -> list[str]:
    """Write a figure's files and return their names, the table's first."""
    name = f"{figure.name}.csv"
    (folder / name).write_text(_csv(figure), encoding="utf-8")
    if not can_plot or figure.x is None:
        return [name]
    from proxyd.lab.papers.figure import plot

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
            parts.append(f"## {_PAPERS[paper]}")
            shown = paper
        parts.append(_markdown(figure, files))
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
