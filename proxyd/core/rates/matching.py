"""Matching: which share of a source's events passes the condition of a rule."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_K, _MOST_K = 0.1, 1e4


@dataclass(frozen=True, slots=True)
class MatchingShare:
    """The share of events that match, learned from all sources of a rule.

    A source's share is Beta with the mean of all sources and a concentration k, found from how much the sources differ.
    Where they differ a lot, a source's own events decide soon; where they are alike, those of all sources do.

    Parameters
    ----------
    seen, matched
        Events of all sources, and those that matched.
    seen_squares, matched_squares, products
        Sums over the sources of the squares of both, and of their products.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``. The counts are beta-binomial: ``m (1 - m) n (1 + (n - 1) / (k + 1))`` is
    the variance of the matching ones of n events. Before any event, all are taken to match.

    Examples
    --------
    >>> share = MatchingShare()
    >>> for matched in (10, 0, 0, 0, 0):
    ...     share = share.after((0, 0), (10, matched))
    >>> round(share.of(10, 10), 2), round(share.of(10, 0), 2), round(share.of(0, 0), 2)
    (0.99, 0.0, 0.22)
    """

    seen: float = 0.0
    matched: float = 0.0
    seen_squares: float = 0.0
    matched_squares: float = 0.0
    products: float = 0.0

    def after(self, old: tuple[int, int], new: tuple[int, int]) -> MatchingShare:
        """Return the share after the events, and the matching ones, of a source changed from ``old`` to ``new``."""
        (n0, m0), (n1, m1) = old, new
        return MatchingShare(
            self.seen + n1 - n0,
            self.matched + m1 - m0,
            self.seen_squares + n1 * n1 - n0 * n0,
            self.matched_squares + m1 * m1 - m0 * m0,
            self.products + n1 * m1 - n0 * m0,
        )

    @property
    def mean(self) -> float:
        """The share over all sources."""
        return (1.0 + self.matched) / (1.0 + self.seen)

    def of(self, seen: int, matched: int) -> float:
        """Return the expected share of a source with so many events and matching ones."""
        k = self._concentration
        return (k * self.mean + matched) / (k + seen)

    @property
    def _concentration(self) -> float:
        """How alike the sources are: events of its own after which a source counts as much as all others."""
        mean = self.mean
        spread, pairs = mean * (1.0 - mean), self.seen_squares - self.seen
        if spread <= 0 or pairs <= 0:
            return 1.0
        squares = self.matched_squares - 2 * mean * self.products + mean * mean * self.seen_squares
        together = (squares / spread - self.seen) / pairs
        return min(max(1.0 / together - 1.0, _LEAST_K), _MOST_K) if together > 0 else _MOST_K
