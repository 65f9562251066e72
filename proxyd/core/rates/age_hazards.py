"""The rate of a source's next item by the age of the newest one, if its items come at regular gaps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proxyd.core.model.arrays import Floats
from proxyd.core.rates.model_fit import SHAPES, log_survival

_CELLS, _LONGEST = 32, 4  # cells of a mean gap, and the oldest age in mean gaps
_POWER, _FACTOR = 1.2, 0.72  # within 1 % of the optimum for shapes up to 24, 3 % for 96; with 1 and 1 2 to 7 %
_LEAST = 0.003  # of the mean rate: an item out of turn is not left for half a gap
FEWEST_PROBES = 0.8
"""Probes in a mean gap; with fewer of them the age of the newest of several items says next to nothing."""
_NUMBERS: Floats = FEWEST_PROBES * 2.0 ** np.arange(0.0, 12.0, 0.5)  # probes in a mean gap


@dataclass(frozen=True, eq=False)
class AgeHazards:
    """The rate of the next item by the age of the newest one; ages are in mean gaps.

    >>> hazards = AgeHazards.of(24.0)
    >>> bool(hazards.factors[0] < 0.1), bool(hazards.factors[40] > 3)
    (True, True)
    """

    factors: Floats  # by which the rate in each cell of ages differs from the mean, shape (cells,)
    worth: Floats  # the rate of a source that is probed as often as this one at each age, over the mean, shape (cells,)
    numbers: Floats  # probes in a mean gap, where a source of the same mean rate has ``_NUMBERS``

    @classmethod
    def of(cls, shape: float) -> AgeHazards:
        """Return the rates if gaps have a Gamma distribution of a shape."""
        logs = np.array([log_survival(shape, cell / _CELLS) for cell in range(_LONGEST * _CELLS + 1)])
        factors = np.maximum(-np.diff(logs) * _CELLS, _LEAST)
        worth = np.maximum(_FACTOR * factors**_POWER, _LEAST)
        return cls(factors, worth, _numbers(worth, np.exp(logs)))

    def probes(self, as_many: Floats) -> Floats:
        """Return how many probes a mean gap has where a source of the same mean rate has ``as_many``."""
        logs = np.log2(np.maximum(as_many, 1e-30))
        found: Floats = as_many * np.interp(logs, np.log2(_NUMBERS), self.numbers / _NUMBERS)
        return np.where(as_many < FEWEST_PROBES, as_many, found)

    def wait(self, probes: Floats, age: float) -> float:
        """Return how long after a probe the next one is due, in mean gaps.

        Parameters
        ----------
        probes
            How often the source is probed at each age, in probes a mean gap, shape (cells,).
        age
            The age of the newest item at the probe.
        """
        edges = np.arange(len(probes) + 1) / _CELLS
        sums = np.concatenate([[0.0], np.cumsum(probes)]) / _CELLS
        last = float(probes[-1])
        begun = float(np.interp(age, edges, sums)) + max(0.0, age - _LONGEST) * last
        until = begun + 1.0
        ends = float(np.interp(until, sums, edges)) + max(0.0, until - float(sums[-1])) / max(last, 1e-12)
        return ends - age


def _numbers(worth: Floats, survival: Floats) -> Floats:
    """Return the probes in a mean gap if the time between two is by the root of ``worth``, for each of ``_NUMBERS``.

    The probe that finds an item comes half a wait after it on average, and the next gap begins that much later.
    """
    roots, dies = np.sqrt(worth), -np.diff(survival)
    sums = np.concatenate([[0.0], np.cumsum(roots)]) / _CELLS
    alone = float(roots @ (survival[1:] + survival[:-1]) / 2) / _CELLS
    found = []
    for number in _NUMBERS.tolist():
        begun = np.interp(0.5 / (number * roots), np.arange(len(sums)) / _CELLS, sums)
        found.append(max(1.0, number * alone + 0.5 - number * float(dies @ begun)))  # two items hardly share one
    return np.array(found)


age_hazards = lru_cache(maxsize=len(SHAPES))(AgeHazards.of)
