"""Expected execution intervals from a rate model."""

from __future__ import annotations

from dataclasses import dataclass

from proxyd.core.model.chronon import Chronon, ChrononGrid


@dataclass(frozen=True, slots=True)
class FiringPattern:
    """When a rule fires, counted in items of its source: at counts ``remainder`` modulo ``every``.

    ``COUNT(*) % 3 = 1`` is ``FiringPattern(3, 1)``; a rule that does not count is ``FiringPattern(1, 0)``.

    Examples
    --------
    >>> FiringPattern(every=3, remainder=1).items_to_next(1)
    3
    """

    every: int = 1
    remainder: int = 0

    def items_to_next(self, count: int, k: int = 1) -> int:
        """Return the number of items from ``count`` to the k-th firing (k from 1).

        >>> third = FiringPattern(3, 0)
        >>> third.items_to_next(4), third.items_to_next(3), third.items_to_next(3, k=2)
        (2, 3, 6)
        """
        return (self.remainder - count - 1) % self.every + 1 + (k - 1) * self.every


@dataclass(frozen=True, slots=True)
class PlannedInterval:
    """Chronons ``start`` to ``deadline``, both inclusive, in which the rate model expects a probe to be useful."""

    start: Chronon
    deadline: Chronon


def interval_of_item(
    items: float, *, anchor_s: float, rate_per_s: float, life_s: float | None, grid: ChrononGrid
) -> PlannedInterval:
    """Return the interval that the ``items``-th item after ``anchor_s`` is expected to open.

    It starts when the expected number of items reaches ``items``. Under *overwrite* (``life_s`` is ``None``) it ends
    one chronon before the next expected item, under a window ``life_s`` later.

    Parameters
    ----------
    items
        Items still to come until the rule fires, counted from ``anchor_s``.
    rate_per_s
        Update rate, greater than 0.

    Notes
    -----
    Source: Roitman et al., section 4. If the interval ended *at* the next update, one probe
    could serve two updates.

    Examples
    --------
    >>> interval_of_item(2, anchor_s=0.0, rate_per_s=0.01, life_s=None, grid=ChrononGrid(10.0))
    PlannedInterval(start=20, deadline=29)
    >>> interval_of_item(2, anchor_s=0.0, rate_per_s=0.01, life_s=50.0, grid=ChrononGrid(10.0))
    PlannedInterval(start=20, deadline=25)
    """
    start = grid.chronon_at(anchor_s + items / rate_per_s)
    next_update = grid.chronon_at(anchor_s + (items + 1) / rate_per_s)
    deadline = next_update - 1 if life_s is None else start + grid.ceil(life_s)
    return PlannedInterval(start, max(start, deadline))
