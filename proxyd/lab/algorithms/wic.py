"""WIC, the policy that SUP is compared with: it probes the M pages with the greatest expected utility."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.planning.capture.spans import Floats, Ints


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
