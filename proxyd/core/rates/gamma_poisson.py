"""Gamma-Poisson rates with exponential discounting and a heavy-tailed population prior."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from operator import truediv

import numpy as np
from numpy.typing import ArrayLike, NDArray

PRIOR_EVENTS = 2.0
DEFAULT_MEAN_PER_S = 1.0 / 86400.0
_STEP = 4.0
_POWERS = np.arange(-10.0, 11.0)


def _components(spread: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log weights and relative means of the prior: log-normal in steps of 4, with mean 1."""
    weights = np.exp(-((_POWERS / spread) ** 2) / 2)
    weights /= weights.sum()
    means: NDArray[np.float64] = np.power(_STEP, _POWERS)
    return np.log(weights), means / float(weights @ means)


_POPULATION = _components(2.0)  # sources differ by a factor of 16 either way
_EXPECTED = _components(1.0)  # authors err by a factor of 4


def _plain(components: tuple[NDArray[np.float64], NDArray[np.float64]]) -> tuple[tuple[float, float], ...]:
    """Return for each component the log of its weight in the posterior, and the inverse of its mean.

    Factors that all components share do not change the posterior and are left out.
    """
    log_weights, means = components
    return tuple(zip((log_weights - PRIOR_EVENTS * np.log(means)).tolist(), (1.0 / means).tolist(), strict=True))


_PLAIN_POPULATION, _PLAIN_EXPECTED = _plain(_POPULATION), _plain(_EXPECTED)


def prior_components(*, is_expected: bool) -> tuple[tuple[float, float], ...]:
    """Return the prior's components for ``posterior_mean``: of the population, or around an expectation."""
    return _PLAIN_EXPECTED if is_expected else _PLAIN_POPULATION


def posterior_means(events: ArrayLike, exposure_s: ArrayLike, mean_per_s: float) -> NDArray[np.float64]:
    """Return the posterior mean rates of many sources under the population's prior, in items per second.

    Parameters
    ----------
    events, exposure_s
        Discounted evidence of each source, shape (n,).
    mean_per_s
        The population's mean rate.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> posterior_means([0.0, 50.0], [0.0, 100.0], 0.5).round(1)
    array([0.5, 0.5])
    """
    log_weights, relative_means = _POPULATION
    return _posterior_means(events, exposure_s, PRIOR_EVENTS / (mean_per_s * relative_means), log_weights)


def _posterior_means(
    events: ArrayLike, exposure_s: ArrayLike, prior_s: NDArray[np.float64], log_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    seen = np.atleast_1d(np.asarray(events, dtype=np.float64))[:, None] + PRIOR_EVENTS
    waited_s = np.atleast_1d(np.asarray(exposure_s, dtype=np.float64))[:, None] + prior_s
    logs = log_weights + PRIOR_EVENTS * np.log(prior_s) - seen * np.log(waited_s)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    means: NDArray[np.float64] = (posterior * (seen / waited_s)).sum(axis=1) / posterior.sum(axis=1)
    return means


def posterior_mean(
    events: float, exposure_s: float, mean_per_s: float, components: tuple[tuple[float, float], ...] = _PLAIN_POPULATION
) -> float:
    """Return the same as ``posterior_means`` for one source, without arrays, which are slower for 21 numbers.

    >>> round(posterior_mean(50.0, 100.0, 0.5), 6) == float(posterior_means([50.0], [100.0], 0.5)[0].round(6))
    True
    """
    seen, prior_s = events + PRIOR_EVENTS, PRIOR_EVENTS / mean_per_s
    waited_s = [exposure_s + prior_s * inverse for _, inverse in components]
    logs = [weight - seen * log(each) for (weight, _), each in zip(components, waited_s, strict=True)]
    highest = max(logs)
    posterior = [exp(each - highest) for each in logs]
    mean: float = seen * sum(map(truediv, posterior, waited_s)) / sum(posterior)
    return mean


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
