"""Curves: what a gap between probes costs, by slot of the week, for the sources that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proxyd.core.planning.allocation.fleet_state import FleetState, Floats, Ints
from proxyd.core.planning.kernels.losses import MISSED_S, NO_LOSSES, Losses, by_rate, index_of


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The combinations of shape, importance and losses that occur, by slot, and the one of each source.

    Parameters
    ----------
    shapes, importance
        Factors of the rate and of the cost of waiting, shape (curves, slots); ``None`` if waiting costs the
        same at any time.
    of_source
        The curve of each source, shape (sources,).
    losses
        What items lose while they wait, in slots, for each curve.

    Examples
    --------
    >>> from proxyd.core.rates.week_shapes import WeekShapes
    >>> even = WeekShapes(np.ones((1, 168)), np.zeros(2, dtype=np.int64))
    >>> state = FleetState(("a", "b"), np.full(2, 1e-4), np.ones(2), np.zeros(2), even, probes_per_s=1e-3)
    >>> curves = Curves.of(state, 336)
    >>> curves.shapes.shape, curves.of_source.tolist()
    ((1, 336), [0, 0])
    """

    shapes: Floats
    of_source: Ints
    importance: Floats | None
    losses: Sequence[Losses]

    @classmethod
    def of(cls, state: FleetState, slots: int) -> Curves:
        """Return the curves of a fleet."""
        weeks = state.planned_weeks
        nothing = np.zeros(len(state.source_ids), dtype=np.int64)
        kinds, kind_of = (None, nothing) if state.importances is None else state.importances
        losses, loss_of = _losses(state)
        (shape, kind, loss), curve_of = index_of(weeks.of_source, kind_of, loss_of)
        return cls(
            by_slot(weeks.shapes, slots)[shape],
            curve_of,
            None if kinds is None else by_slot(kinds, slots)[kind],
            [losses[number] for number in loss.tolist()],
        )


def _losses(state: FleetState) -> tuple[Sequence[Losses], Ints]:
    """Return the losses that occur, in slots, and the one of each source."""
    if state.losses is None:
        return [NO_LOSSES], np.zeros(len(state.source_ids), dtype=np.int64)
    kinds, kind_of = state.losses
    speed, slot_s = state.cycle.speed, state.slot_s
    in_slots = [each.scaled(speed / slot_s, MISSED_S / slot_s) for each in kinds]
    counted = state.rate_per_s if state.passing is None else state.rate_per_s * state.passing
    return by_rate(in_slots, kind_of, counted / speed * slot_s)


def by_slot(shapes: Floats, slots: int) -> Floats:
    """Return factors by slot from factors by hour, shape (shapes, slots): the mean over the time that a slot covers.

    >>> by_slot(np.arange(168.0)[None, :], 336)[0, :4]
    array([0., 0., 1., 1.])
    """
    hours = shapes.shape[1]
    sums = np.concatenate([np.zeros((len(shapes), 1)), np.cumsum(shapes, axis=1)], axis=1)
    edges = np.arange(slots + 1) * (hours / slots)
    at = np.array([np.interp(edges, np.arange(hours + 1), row) for row in sums])
    factors: Floats = np.diff(at, axis=1) * (slots / hours)
    return factors
