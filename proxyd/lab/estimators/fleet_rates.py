"""Update rates of a fleet: a blend of estimates under several half-lives, weighted by how well they predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.rates.gamma_poisson import DEFAULT_MEAN_PER_S, PRIOR_EVENTS, posterior_means
from proxyd.core.rates.rate_blend import HALF_LIVES_S, MEMORY_ITEMS, PRIOR_ITEMS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class FleetRates:
    """Posterior update rates of many sources, learned together.

    No half-life suits every fleet: recipes of a package collection are predicted best by a year, forums by a week. So
    each source keeps its evidence under several half-lives, and each of these gives a posterior mean. The
    rate is their weighted sum, with the population's mean as one more member. The weights are shared by the fleet and
    fitted online by maximum likelihood of what the probes found (stepwise EM).

    Parameters
    ----------
    sources
        Number of sources; they are numbered from 0.
    half_lives_s
        Ages at which evidence counts half, in seconds, shape (h,).
    mean_per_s
        The population's mean rate before anything is known, in items per second.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``: discounting and its likelihoods.

    Examples
    --------
    >>> rates = FleetRates(2)
    >>> day = 86400.0
    >>> rates.observe([0, 1], [0.0, 0.0], 7 * day, [0, 0, 0, 0, 0, 0, 0], np.arange(1.0, 8.0) * day)
    >>> estimates = rates.per_s(7 * day) * day
    >>> bool(0.8 < estimates[0] < 1.2), bool(estimates[1] < 0.4)
    (True, True)
    """

    def __init__(
        self, sources: int, *, half_lives_s: Sequence[float] = HALF_LIVES_S, mean_per_s: float = DEFAULT_MEAN_PER_S
    ) -> None:
        self._decay = np.log(2) / np.asarray(half_lives_s, dtype=np.float64)[:, None]
        self._default_per_s = mean_per_s
        members = len(half_lives_s) + 1
        self.events = np.zeros((members - 1, sources))
        self.exposure_s = np.zeros((members - 1, sources))
        self.as_of_s = np.full(sources, np.nan)
        self._means_per_s = np.full(members - 1, mean_per_s)
        self._credit = np.full(members, PRIOR_ITEMS / members)
        self._expected = np.full(members, PRIOR_ITEMS)

    @property
    def weights(self) -> Floats:
        """Weights of the half-lives and, last, of the population's mean."""
        weights: Floats = self._credit / self._expected
        return weights

    @property
    def credits(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What the weights are made of, as ``Blend.credits``: the items credited to each member, and those expected.

        >>> FleetRates(1, half_lives_s=[86400.0]).credits
        ((25.0, 25.0), (50.0, 50.0))
        """
        return tuple(self._credit.tolist()), tuple(self._expected.tolist())

    def observe(
        self, sources: ArrayLike, since_s: ArrayLike, until_s: ArrayLike, item_of: ArrayLike, times_s: ArrayLike
    ) -> None:
        """Take in what probes showed: the exact times of the items that appeared since each source's last probe.

        Parameters
        ----------
        sources
            The sources probed, each at most once, shape (p,).
        since_s, until_s
            What each probe could see: (``since_s``, ``until_s``], unix seconds, shape (p,) or one number.
        item_of
            For each item, the position in ``sources`` of the source that showed it, shape (m,).
        times_s
            Unix seconds of the items, shape (m,).
        """
        probed = np.asarray(sources, dtype=np.int64)
        until = np.broadcast_to(np.asarray(until_s, dtype=np.float64), probed.shape)
        gap_s = until - np.asarray(since_s, dtype=np.float64)
        places, times = np.asarray(item_of, dtype=np.int64), np.asarray(times_s, dtype=np.float64)
        found = np.bincount(places, minlength=len(probed)).astype(np.float64)
        self._weigh(probed, until - gap_s, gap_s, found)
        self._discount(probed, until)
        ages = np.exp(-self._decay * (until[places] - times))
        for horizon, weighted in enumerate(ages):
            self.events[horizon, probed] += np.bincount(places, weights=weighted, minlength=len(probed))
        self.exposure_s[:, probed] += -np.expm1(-self._decay * gap_s) / self._decay

    def per_s(self, now_s: float, sources: ArrayLike | None = None) -> Floats:
        """Return the rates of ``sources`` (all by default) in items per second."""
        which = np.arange(self.events.shape[1]) if sources is None else np.asarray(sources, dtype=np.int64)
        rates: Floats = self.weights @ self._members(which, np.full(len(which), now_s))
        return rates

    def refresh(self, now_s: float) -> None:
        """Compute the population's means again from all sources; takes a pass over the fleet."""
        every = np.arange(self.events.shape[1])
        weight = np.exp(-self._decay * self._age_s(every, np.full(len(every), now_s)))
        events, exposure_s = (self.events * weight).sum(axis=1), (self.exposure_s * weight).sum(axis=1)
        self._means_per_s = (events + PRIOR_EVENTS) / (exposure_s + PRIOR_EVENTS / self._default_per_s)

    def _members(self, sources: Ints, now_s: Floats) -> Floats:
        """Return the rates by each half-life and the population's mean, shape (h + 1, p)."""
        weight = np.exp(-self._decay * self._age_s(sources, now_s))
        members = np.empty((len(self._decay) + 1, len(sources)))
        for horizon, mean in enumerate(self._means_per_s):
            members[horizon] = posterior_means(
                self.events[horizon, sources] * weight[horizon],
                self.exposure_s[horizon, sources] * weight[horizon],
                float(mean),
            )
        members[-1] = self._means_per_s[-1]
        return members

    def _weigh(self, sources: Ints, since_s: Floats, gap_s: Floats, found: Floats) -> None:
        """Credit each member with its share of the items it predicted."""
        members = self._members(sources, since_s)
        rates = self.weights @ members
        share = members * (found / np.maximum(rates, 1e-300))
        forget = np.exp(-found.sum() / MEMORY_ITEMS)
        self._credit = self._credit * forget + self.weights * share.sum(axis=1)
        self._expected = self._expected * forget + members @ gap_s

    def _discount(self, sources: Ints, until_s: Floats) -> None:
        weight = np.exp(-self._decay * self._age_s(sources, until_s))
        self.events[:, sources] *= weight
        self.exposure_s[:, sources] *= weight
        self.as_of_s[sources] = np.fmax(self.as_of_s[sources], until_s)

    def _age_s(self, sources: Ints, now_s: Floats) -> Floats:
        """Return the age of the evidence, 0 without evidence."""
        age_s: Floats = np.fmax(0.0, now_s - self.as_of_s[sources])
        return age_s
