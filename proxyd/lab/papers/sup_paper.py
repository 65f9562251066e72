"""Experiments of the paper on SUP and fbSUP (Roitman, Gal, Raschid and Bright), Figures 1 to 5, and a comparison.

Effective utility is the share of actual execution intervals that are captured: SUP with full knowledge captures all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from proxyd.lab.papers import sup_counted, sup_feedback, sup_wic
from proxyd.lab.papers.figure import RSS, SYNTHETIC_1, SYNTHETIC_2, Dataset, Drawn, Figure, Updates

_RULES = (1, 2, 3, 4, 5)
_STAND_IN = "The RSS trace is not published: a stand-in of 103 pages and 1972 updates is drawn, Zipf rates, a week."
_BATCHED = replace(RSS, name="RSS (stand-in), 8 at once", batch=8.0)
_KEPT = 0.6
_REMARKS = {
    "a": f"{_STAND_IN} The printed level at Y = 0 needs updates that come at once: see the next figure.",
    "b": f"{_STAND_IN} Here they come in batches of 8 on the average, each misplaced on its own.",
    "c": "With each update misplaced on its own, a count up to 5 is wrong more often than in the paper: see the next "
    "figure.",
    "d": "Here only the updates that open an interval are misplaced, which keeps counts apart from noise: X = 5 stays "
    "nearer to X = 1, though not as near as printed.",
}

_Model = Callable[[Drawn, np.random.Generator], Updates]


def figures(*, rng: np.random.Generator, quick: bool) -> Iterator[Figure]:
    """Yield the figures of the paper.

    Parameters
    ----------
    rng
        Generator for the traces and the noise.
    quick
        Use fewer traces, and only the chosen interpretations of the paper's open points.
    """
    first, second, third, fourth, fifth, sixth = rng.spawn(6)
    repeats = 2 if quick else 10
    yield from _windows(first, repeats, quick=quick)
    yield from _lives(second, repeats)
    yield from _models(third, repeats)
    yield from sup_wic.figures(rng=fourth, quick=quick)
    yield from sup_feedback.figures(rng=fifth, quick=quick)
    yield from sup_counted.figures(rng=sixth, quick=quick)


def _fpn(kept: float) -> _Model:
    """Return the model that knows each update with probability ``kept`` and misplaces it otherwise."""
    return lambda drawn, rng: drawn.updates().noisy(kept, rng)


def _poisson(drawn: Drawn, _: np.random.Generator) -> Updates:
    """Return the updates that a Poisson model with the true rates expects."""
    return drawn.expect()


def _effective_utility(
    dataset: Dataset,
    model: _Model,
    *,
    grid: Sequence[tuple[int, int | None]],
    repeats: int,
    rng: np.random.Generator,
    closed: bool = False,
) -> list[float]:
    """Return the effective utility of SUP for each rule and life in ``grid``, as means over traces.

    Parameters
    ----------
    grid
        X of the rule, and the life: a window in chronons, or ``None`` for overwrite.
    closed
        Under overwrite, intervals end at the next update instead of one chronon before it.
    """
    found = []
    for child in rng.spawn(repeats):
        drawn = dataset.draw(child)
        actual, expected = drawn.updates(), model(drawn, child)
        found.append(
            [
                actual.intervals(every, life, closed=closed).utility(
                    expected.intervals(every, life, closed=closed).sup()
                )
                for every, life in grid
            ]
        )
    means: list[float] = np.mean(found, axis=0).round(4).tolist()
    return means


def _windows(rng: np.random.Generator, repeats: int, *, quick: bool) -> Iterator[Figure]:
    """Yield Figure 1: utility over the window, for each X."""
    windows = (0, 20, 50, 100) if quick else tuple(range(0, 101, 10))
    grid = [(every, window) for every in _RULES for window in windows]
    for part, dataset in zip("abc", (RSS, _BATCHED, SYNTHETIC_1), strict=True):
        utilities = _effective_utility(dataset, _fpn(_KEPT), grid=grid, repeats=repeats, rng=rng)
        yield _window_figure(part, dataset, grid, utilities, _REMARKS[part])
    utilities = _noise_on_triggers(SYNTHETIC_1, grid, repeats, rng)
    yield _window_figure("d", SYNTHETIC_1, grid, utilities, _REMARKS["d"])


def _noise_on_triggers(
    dataset: Dataset, grid: Sequence[tuple[int, int]], repeats: int, rng: np.random.Generator
) -> list[float]:
    found = []
    for child in rng.spawn(repeats):
        updates = dataset.draw(child).updates()
        actual = [updates.intervals(every, window) for every, window in grid]
        plans = [known.noisy_windows(_KEPT, epoch=updates.epoch, rng=child).sup() for known in actual]
        found.append([known.utility(plan) for known, plan in zip(actual, plans, strict=True)])
    means: list[float] = np.mean(found, axis=0).round(4).tolist()
    return means


def _window_figure(
    part: str, dataset: Dataset, grid: Sequence[tuple[int, int]], utilities: Sequence[float], remark: str
) -> Figure:
    printed = "71 to 80.5 %" if dataset is SYNTHETIC_1 else "90.7 to 99.4 %"
    noise = "noise on the rule's events" if part == "d" else "noise on every update"
    return Figure(
        f"sup-1{part}-window",
        f"Utility of SUP over the window, {dataset.name}, FPN({_KEPT}), {noise}",
        ("rule", "Y [chronons]", "effective utility"),
        tuple((f"X = {every}", window, u) for (every, window), u in zip(grid, utilities, strict=True)),
        x="Y [chronons]",
        y=("effective utility",),
        by="rule",
        note=f"Paper: {printed}, rising with Y, X = 1 above X = 5. Measured: {100 * min(utilities):.1f} to "
        f"{100 * max(utilities):.1f} %. {remark}",
    )


def _lives(rng: np.random.Generator, repeats: int) -> Iterator[Figure]:
    """Yield Figure 2: utility over X, for each life."""
    lives: dict[str, tuple[int | None, bool]] = {
        "overwrite": (None, False),
        "overwrite, ending at the next update": (None, True),
        "window(0)": (0, False),
        "window(10)": (10, False),
        "window(20)": (20, False),
    }
    for part, dataset in zip("abc", (SYNTHETIC_1, SYNTHETIC_2, _BATCHED), strict=True):
        rows: list[tuple[str | float | int, ...]] = []
        for name, (life, closed) in lives.items():
            grid = [(every, life) for every in _RULES]
            utilities = _effective_utility(dataset, _fpn(_KEPT), grid=grid, repeats=repeats, rng=rng, closed=closed)
            rows += [(name, every, u) for every, u in zip(_RULES, utilities, strict=True)]
        title = f"Utility of SUP over X, {dataset.name}, FPN({_KEPT})"
        yield _over_x(f"sup-2{part}-life", title, "life", rows, _life_note(rows))


def _over_x(name: str, title: str, by: str, rows: Sequence[tuple[str | float | int, ...]], note: str) -> Figure:
    """Return a figure of utility over X with a curve for each value of ``by``."""
    utility = "effective utility"
    return Figure(name, title, (by, "X", utility), tuple(rows), x="X", y=(utility,), by=by, note=note)


def _life_note(rows: Sequence[tuple[str | float | int, ...]]) -> str:
    level = {(row[0], row[1]): float(row[2]) for row in rows}
    worst = [every for every in _RULES if level["overwrite", every] <= level["window(0)", every]]
    below = "X = " + ", ".join(str(every) for every in worst) if worst else "no X"
    return (
        "Paper: utility rises with the window, and overwrite is the worst, to its authors' surprise. Measured: the "
        f"window does; overwrite lies below window(0) at {below}. It can be the worst only where updates come "
        "together, as in batches, for then most intervals under overwrite last a single chronon; ending an interval at "
        "the next update, so that one probe may serve two, does not make it so by itself."
    )


def _models(rng: np.random.Generator, repeats: int) -> Iterator[Figure]:
    """Yield Figure 3: utility over X, for each update model."""
    models: dict[str, _Model] = {f"FPN({kept})": _fpn(kept) for kept in sup_feedback.KEPT} | {"Poisson": _poisson}
    grid = [(every, None) for every in _RULES]
    for part, dataset in zip("ab", (SYNTHETIC_1, SYNTHETIC_2), strict=True):
        rows: list[tuple[str | float | int, ...]] = []
        for name, model in models.items():
            utilities = _effective_utility(dataset, model, grid=grid, repeats=repeats, rng=rng)
            rows += [(name, every, u) for every, u in zip(_RULES, utilities, strict=True)]
        title = f"Utility of SUP over X, {dataset.name}, overwrite"
        yield _over_x(f"sup-3{part}-model", title, "model", rows, _model_note(rows))


def _model_note(rows: Sequence[tuple[str | float | int, ...]]) -> str:
    level = {(row[0], row[1]): float(row[2]) for row in rows}
    lowest = [every for every in _RULES if level["Poisson", every] <= level["FPN(0.4)", every]]
    where = "X = " + ", ".join(str(every) for every in lowest) if lowest else "no X"
    return (
        "Paper: 1 without noise, less with more of it, Poisson the lowest, falling with X (on Synthetic 1 less "
        f"predictably). Measured: FPN as printed; Poisson the lowest at {where}. The Poisson model knows the true "
        "rates. Its utility is 1 - 1/e at X = 1 but for the ends of the epoch, and tends to 1 / X at larger X: once "
        "the count has drifted, a plan meets a multiple of X by chance."
    )
