"""Gamma-Poisson rates with exponential discounting and a heavy-tailed population prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

PRIOR_EVENTS = 2.0
DEFAULT_MEAN_PER_S = 1.0 / 86400.0
_STEP = 4.0
_POWERS = np.arange(-10.0, 11.0)


def _components(spread: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the prior: log-normal in steps of 4, with mean 1.

    The first array holds the log of each component's weight in the posterior, without the factors that all share; the
    second one the inverses of their means.
    """
    weights = np.exp(-((_POWERS / spread) ** 2) / 2)
    weights /= weights.sum()
    means: NDArray[np.float64] = np.power(_STEP, _POWERS)
    means /= float(weights @ means)
    return np.log(weights) - PRIOR_EVENTS * np.log(means), 1.0 / means


_POPULATION = _components(2.0)  # sources differ by a factor of 16 either way
_EXPECTED = _components(1.0)  # authors err by a factor of 4


def posterior_means(
    events: ArrayLike, exposure_s: ArrayLike, mean_per_s: ArrayLike, *, is_expected: bool = False
) -> NDArray[np.float64]:
    """Return posterior mean rates, in items per second.

    Parameters
    ----------
    events, exposure_s
        Discounted evidence, shape (n,).
    mean_per_s
        The means of the prior: one, or shape (n,).
    is_expected
        Whether an author expects this mean; otherwise it is the population's, whose sources differ more.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> posterior_means([0.0, 50.0], [0.0, 100.0], 0.5).round(1)
    array([0.5, 0.5])
    """
    log_weights, inverses = _EXPECTED if is_expected else _POPULATION
    seen = np.array(events, dtype=np.float64).reshape(-1, 1) + PRIOR_EVENTS
    prior_s = PRIOR_EVENTS / np.array(mean_per_s, dtype=np.float64).reshape(-1, 1)
    waited_s = np.array(exposure_s, dtype=np.float64).reshape(-1, 1) + prior_s * inverses
    logs = log_weights - seen * np.log(waited_s)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    means: NDArray[np.float64] = seen[:, 0] * (posterior / waited_s).sum(axis=1) / posterior.sum(axis=1)
    return means


@dataclass(slots=True)
class PopulationPrior:
    """The mean rate of all sources together: the assumed rate of a source without evidence.

    The mean is events over exposure of the whole population, starting from ``mean_per_s`` with the weight of
    ``PRIOR_EVENTS`` events.

    >>> prior = PopulationPrior(mean_per_s=0.5)
    >>> prior.replace(old=(0.0, 0.0), new=(10.0, 4.0))
    >>> round(prior.rate_per_s(), 3)
    1.5
    """

    mean_per_s: float = DEFAULT_MEAN_PER_S
    events: float = 0.0
    exposure_s: float = 0.0

    def replace(self, *, old: tuple[float, float], new: tuple[float, float]) -> None:
        """Exchange one source's (events, exposure in seconds)."""
        self.events = max(0.0, self.events + new[0] - old[0])
        self.exposure_s = max(0.0, self.exposure_s + new[1] - old[1])

    def rate_per_s(self) -> float:
        """Return the mean rate in items per second."""
        return (self.events + PRIOR_EVENTS) / (self.exposure_s + PRIOR_EVENTS / self.mean_per_s)
