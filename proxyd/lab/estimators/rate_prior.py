"""The prior belief about a rate, in events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxyd.core.rates.gamma_poisson import DEFAULT_MEAN_PER_S


@dataclass(frozen=True, slots=True)
class RatePrior:
    """A Gamma prior with the weight of ``events`` items seen in ``events / mean_per_s`` seconds.

    With ``events = 0`` it has no weight: ``mean_per_s`` is then used only without any evidence.

    Parameters
    ----------
    mean_per_s
        The expected update rate in items per second, greater than 0.
    events
        Weight of the expectation, not negative.

    Raises
    ------
    ValueError
        The mean is not greater than 0, or the weight is negative.

    Notes
    -----
    ``docs/decisions/update-rates.md``: a prior worth about 2 events. As a density it is Gamma of shape ``events +
    1``, so that the most probable rate is ``(N + events) / (E + events / mean_per_s)``.

    Examples
    --------
    >>> RatePrior(0.5, events=2.0).levels(np.array([8.0]), np.array([6.0]))
    array([1.])
    """

    mean_per_s: float = DEFAULT_MEAN_PER_S
    events: float = 0.0

    def __post_init__(self) -> None:
        if not self.mean_per_s > 0 or not self.events >= 0:
            raise ValueError("a prior needs a mean rate greater than 0 and a weight that is not negative")

    @property
    def exposure_s(self) -> float:
        """Seconds of exposure that the prior is worth."""
        return self.events / self.mean_per_s

    def levels(self, events: NDArray[np.float64], exposure_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the most probable rate of each level, in items per second.

        A level that was never observed is assumed to be like the others; without any evidence, like the prior's mean.

        Parameters
        ----------
        events, exposure_s
            Of each level, shape (levels,).
        """
        total_s = float(exposure_s.sum()) + self.exposure_s
        mean = (float(events.sum()) + self.events) / total_s if total_s > 0 else self.mean_per_s
        weight_s = exposure_s + self.exposure_s
        levels = np.full(len(events), mean)
        np.divide(events + self.events, weight_s, out=levels, where=weight_s > 0)
        return levels


WEIGHTLESS = RatePrior()
"""Maximum likelihood; without any evidence, the initial mean of a population."""
