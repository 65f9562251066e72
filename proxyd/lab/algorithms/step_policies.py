"""Policies step by step, with known or learned rates: which sources to probe next; among them WIC."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.planning.allocation.probe_allocator import largest
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.lab.algorithms.detection_frequencies import check_rates, memoryless, tight_bound


class DetectionPolicy(Protocol):
    """Chooses the probes of one step after the other; steps are whole numbers that grow by one.

    Examples
    --------
    >>> policy: DetectionPolicy = IndexPolicy([1.0, 1.0])
    >>> [policy.choose(step, 1).tolist() for step in range(2)]
    [[0], [1]]
    """

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources to probe in step ``now``, at most ``room``, each once."""

    def observe(self, now: int, sources: Ints, found: Ints) -> None:
        """Take in the numbers of new items that the probes of step ``now`` found, in the order of ``sources``."""


class _KnowsRates:
    """A policy that is given the rates and learns nothing."""

    def observe(self, now: int, sources: Ints, found: Ints) -> None:
        """Ignore what was found."""


class IndexPolicy(_KnowsRates):
    """Probes the c sources of largest ``rate * tau (tau + 1) / 2``, with tau the steps since the last probe.

    This is the cost of a source's present gap if it is probed now. The optimal frequencies equalise it, and no source
    starves.

    Notes
    -----
    Source: ``docs/algorithms.md``: within 0.3 % of the tight bound on its settings.

    Examples
    --------
    >>> policy = IndexPolicy([4.0, 1.0, 1.0])
    >>> [policy.choose(step, 1).tolist() for step in range(6)]
    [[0], [0], [1], [0], [2], [0]]
    """

    def __init__(self, rates: ArrayLike) -> None:
        self.rates = check_rates(rates, 1)
        self._probed = np.full(len(self.rates), -1)

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources of largest index, ties to the lower number."""
        tau = now - self._probed
        return self._take(self.rates * tau * (tau + 1), now, room)

    def _take(self, index: Floats, now: int, room: int) -> Ints:
        chosen = largest(index, room)
        self._probed[chosen] = now
        return chosen


class GreedyPolicy(IndexPolicy):
    """Probes the sources where most new items are expected now; arbitrarily bad, for comparison only.

    Notes
    -----
    Source: Mahmoody, Riondato and Upfal, section 4.1.

    Examples
    --------
    >>> policy = GreedyPolicy([4.0, 1.0])
    >>> [policy.choose(step, 1).tolist() for step in range(5)]
    [[0], [0], [0], [0], [1]]
    """

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources with the largest ``rate * tau``."""
        return self._take(self.rates * (now - self._probed), now, room)


class DuePolicy(_KnowsRates):
    """Gives each source a due time that advances by ``1 / f`` with every probe; O(log n) a probe.

    Notes
    -----
    Source: ``docs/algorithms.md``: within 3 % of the tight bound on its settings. First due times are spread by the
    golden ratio, so that sources of equal rates are not in step.

    Parameters
    ----------
    c
        Mean number of probes a step.

    Examples
    --------
    >>> policy = DuePolicy([1.0, 1.0], 1)
    >>> sorted(int(policy.choose(step, 1)[0]) for step in range(4))
    [0, 0, 1, 1]
    """

    def __init__(self, rates: ArrayLike, c: float) -> None:
        lam = check_rates(rates, c)
        frequencies = tight_bound(lam, c).frequencies
        self._period = np.where(frequencies > 0, 1 / np.maximum(frequencies, 1e-300), np.inf)
        spread = turns(np.arange(len(lam)))
        self._heap = [(float(d), i) for i, d in enumerate(spread * self._period) if np.isfinite(d)]
        heapify(self._heap)

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources that are due soonest, at most ``room``, each once."""
        chosen = [heappop(self._heap) for _ in range(min(room, len(self._heap)))]
        for due, source in chosen:
            heappush(self._heap, (due + float(self._period[source]), source))
        return np.array([source for _, source in chosen], dtype=np.int64)


class CyclePolicy(_KnowsRates):
    """Repeats a cycle of probes, ``c`` of them a step; idle places (-1) and repetitions within a step are left out.

    Examples
    --------
    >>> policy = CyclePolicy([0, 1, 0, -1])
    >>> [policy.choose(step, 2).tolist() for step in range(2)]
    [[0, 1], [0]]
    """

    def __init__(self, cycle: ArrayLike) -> None:
        self._cycle = np.asarray(cycle, dtype=np.int64)
        self._place = 0

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources of the next ``room`` places."""
        places = self._cycle[np.arange(self._place, self._place + room) % len(self._cycle)]
        self._place = (self._place + room) % len(self._cycle)
        return np.unique(places[places >= 0])


class AdaptivePolicy:
    """The paper's Adaptive: memoryless on rates estimated as ``max(1, N) / t``, estimated again after each probe.

    Notes
    -----
    Source: Mahmoody, Riondato and Upfal, section 4.5; it converges to the optimal memoryless schedule (Theorem 4.4).

    Examples
    --------
    >>> policy = AdaptivePolicy(3, np.random.Generator(np.random.PCG64(1)))
    >>> chosen = policy.choose(0, 2)
    >>> policy.observe(0, chosen, np.array([4, 0]))
    >>> len(policy.choose(1, 2))
    2
    """

    def __init__(self, sources: int, rng: np.random.Generator) -> None:
        self._found = np.zeros(sources)
        self._rates = np.ones(sources)
        self._rng = rng

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources drawn."""
        room = min(room, len(self._rates))
        # the probabilities do not depend on room, which may be 0
        return _draw(memoryless(self._rates, 1), room, self._rng)

    def observe(self, now: int, sources: Ints, found: Ints) -> None:
        """Estimate the rates of the probed sources from all items they ever showed."""
        self._found[sources] += found
        self._rates[sources] = np.maximum(1, self._found[sources]) / (now + 1)


class LearningIndexPolicy:
    """The index on posterior means: a Gamma prior at the population's mean, with forgetting.

    The estimate of a source is ``(N + k) / (E + k / m)`` with ``k = 0.5``: N items found in E probed steps, both
    multiplied by ``forget`` each step, and m the mean over all sources. Exploration is not forced: the index of a
    source that was not probed for long grows with its waiting time.

    Parameters
    ----------
    forget
        Share of the evidence that is left after a step; 1 forgets nothing.

    Notes
    -----
    Source: ``docs/algorithms.md`` (unknown rates).

    Examples
    --------
    >>> policy = LearningIndexPolicy(2)
    >>> policy.observe(0, np.array([0, 1]), np.array([5, 0]))
    >>> policy.choose(1, 1).tolist(), bool(policy.rates()[0] > policy.rates()[1])
    ([0], True)
    """

    def __init__(self, sources: int, *, forget: float = 0.999, prior_events: float = 0.5) -> None:
        self._found = np.zeros(sources)
        self._exposure = np.zeros(sources)
        self._probed = np.full(sources, -1)
        self._forget = forget
        self._k = prior_events

    def rates(self) -> Floats:
        """Return the posterior mean of each rate, in items a step."""
        exposed = float(self._exposure.sum())
        mean = max(float(self._found.sum()), 1.0) / exposed if exposed > 0 else 1.0
        rates: Floats = (self._found + self._k) / (self._exposure + self._k / mean)
        return rates

    def choose(self, now: int, room: int) -> Ints:
        """Return the sources of largest index under the estimated rates."""
        tau = now - self._probed
        return largest(self.rates() * tau * (tau + 1), room)

    def observe(self, now: int, sources: Ints, found: Ints) -> None:
        """Add the items found over the steps since each source's last probe."""
        waited = now - self._probed[sources]
        self._found *= self._forget
        self._exposure *= self._forget
        self._found[sources] += found
        self._exposure[sources] += waited
        self._probed[sources] = now


def _draw(p: Floats, c: int, rng: np.random.Generator) -> Ints:
    """Draw c different positions, one after the other in proportion to ``p`` (exponential races)."""
    with np.errstate(divide="ignore"):
        races = rng.exponential(size=len(p)) / p
    return np.argpartition(races, c - 1)[:c] if c < len(p) else np.arange(len(p))


class Wic:
    """Probes in each chronon the M pages with the greatest utility, even if that is small.

    Parameters
    ----------
    chances
        Probability that page i is updated in chronon j of the epoch, shape (pages, chronons).
    probes
        M, the probes of each chronon.
    life
        ``None`` for *overwrite*, else the window in chronons.

    Raises
    ------
    ValueError
        A shape does not match, a chance is not a probability, or a number is negative.

    Notes
    -----
    Source: Pandey, Dhamdhere and Olston 2004, as Roitman et al., section 4.5, use it; they leave out the details. Our
    interpretation: the utility of probing page i now is the expected number of updates since its last probe that are
    still alive. Under *overwrite* only the last update can be alive, so that is the probability of any
    update since; under a window it is the sum of the chances of its chronons. Utility does not fall with delay (the
    papers' strict utility), and updates count one by one, whatever X a rule waits for. A probe sees its own chronon's
    update. Ties go to the page probed longest ago, then to the lower number. It ignores demand, so it spends M in
    every chronon: the paper counts N M probes. A heuristic, within a factor 2 of the best schedule.

    Examples
    --------
    >>> policy = Wic([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]], 1, epoch=Epoch(0, 3), life=None)
    >>> [policy.choose(chronon).tolist() for chronon in range(3)]
    [[0], [0], [0]]
    >>> policy = Wic([[0.5, 0.5, 0.5], [0.4, 0.4, 0.4]], 1, epoch=Epoch(0, 3), life=None)
    >>> [policy.choose(chronon).tolist() for chronon in range(3)]
    [[0], [1], [0]]
    """

    def __init__(self, chances: ArrayLike, probes: int, *, epoch: Epoch, life: int | None) -> None:
        self._chances = np.asarray(chances, dtype=np.float64)
        if self._chances.ndim != 2 or self._chances.shape[1] != len(epoch):
            raise ValueError(f"chances need a row for each page and {len(epoch)} columns")
        pages = len(self._chances)
        if np.any((self._chances < 0) | (self._chances > 1)):
            raise ValueError("chances lie between 0 and 1")
        if probes < 0 or (life is not None and life < 0):
            raise ValueError("neither probes nor life can be negative")
        self._epoch, self._life, self._most = epoch, life, min(probes, pages)
        self._last = np.full(pages, -1, dtype=np.int64)
        self._missed = np.ones(pages)  # chance of no update since the last probe, up to self._upto
        self._upto = 0
        self._sums = np.concatenate([np.zeros((pages, 1)), np.cumsum(self._chances, axis=1)], axis=1)

    def renew(self, chances: ArrayLike, epoch: Epoch) -> None:
        """Continue with the next epoch; updates that the last probes left unseen still count under *overwrite*."""
        self._pass_to(len(self._epoch) - 1)
        self._last -= len(self._epoch)
        self._chances, self._epoch, self._upto = np.asarray(chances, dtype=np.float64), epoch, 0
        pages = len(self._chances)
        self._sums = np.concatenate([np.zeros((pages, 1)), np.cumsum(self._chances, axis=1)], axis=1)

    def choose(self, now: Chronon, room: int | None = None) -> Ints:
        """Return the pages to probe at ``now``, best first, and record them as probed; M pages, but at most ``room``.

        ``now`` lies in the epoch and must not decrease.
        """
        if now not in self._epoch:
            raise ValueError(f"chronon {now} lies outside the epoch")
        slot = now - self._epoch.start
        chosen = np.lexsort((self._last, -self._alive(slot)))[: self._most if room is None else min(self._most, room)]
        self._last[chosen] = slot
        self._missed[chosen] = 1.0
        return chosen

    def _alive(self, slot: int) -> Floats:
        """Return each page's expected number of updates since its last probe that are still alive."""
        self._pass_to(slot)
        if self._life is None:
            return 1 - self._missed
        first = np.maximum(self._last + 1, slot - self._life)
        pages = np.arange(len(first))
        expected: Floats = self._sums[pages, slot + 1] - self._sums[pages, np.maximum(first, 0)]
        return expected

    def _pass_to(self, slot: int) -> None:
        """Add the chances of all chronons up to this one."""
        while self._upto <= slot:
            self._missed *= 1 - self._chances[:, self._upto]
            self._upto += 1
