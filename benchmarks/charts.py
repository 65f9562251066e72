"""Draws what ``worlds.py --json`` and ``traces.py --json`` measured: a plot for each world and trace, in one image.

``python benchmarks/charts.py IMAGE MEASURED...``, with files of their JSON; needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

COLUMNS = 5
POLICIES = ("even", "square root", "index", "proxyd", "known")
COLOURS = {"proxyd": "#1f6feb", "known": "#8b949e"}
OTHERS = "#c9d1d9"
Lines = Sequence[Mapping[str, Any]]


def draw(image: Path, measured: Lines) -> None:
    """Draw the mean delay of each policy, and as dots that of each seed."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "proxyd", "font.size": 8, "axes.titlesize": 8}
    from matplotlib import pyplot

    names = list(dict.fromkeys(name_of(line) for line in measured))
    rows = ceil(len(names) / COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, squeeze=False, layout="constrained", figsize=(10.5, 1.5 * rows))
    for axis, name in zip(axes.flat, names, strict=False):
        found = [line for line in measured if name_of(line) == name]
        policies = [policy for policy in POLICIES if any(line["policy"] == policy for line in found)]
        for place, policy in enumerate(policies):
            delays_h = [line["delay_h"] for line in found if line["policy"] == policy]
            mean_h = sum(delays_h) / len(delays_h)
            axis.barh(place, mean_h, color=COLOURS.get(policy, OTHERS), height=0.7)
            axis.text(0, place, f" {mean_h:.2f} h", va="center", color="white" if policy == "proxyd" else "black")
            if len(delays_h) > 1:
                axis.plot(delays_h, [place] * len(delays_h), "k.", markersize=2)
        axis.set(title=name, yticks=range(len(policies)), yticklabels=policies)
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(names) :]:
        axis.remove()
    figure.savefig(image, metadata={"Date": None}, facecolor="white")


def name_of(line: Mapping[str, Any]) -> str:
    """Return the world or the trace of a line."""
    return str(line.get("world") or line["trace"])


def main() -> None:
    """Draw the image that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("measured", type=Path, nargs="+")
    asked = parser.parse_args()
    draw(asked.image, [line for path in asked.measured for line in json.loads(path.read_text(encoding="utf-8"))])


if __name__ == "__main__":
    main()
