"""Overflow: when so many items may have come that some slid off the feed's window unseen."""

from __future__ import annotations

from functools import lru_cache

from scipy.special import gammaincinv


@lru_cache(65_536)
def most_items(window: int, probability: float, dispersion: float = 1.0) -> float:
    """Return the expected items at which more than ``window`` come with a probability, and no more than that.

    Parameters
    ----------
    window
        Items that the feed shows.
    probability
        Of losing some, between 0 and 1.
    dispersion
        Variance over mean of the items of a short time: batches of d items are taken as single ones in a window of
        ``window / d``.

    Notes
    -----
    Source: ALGORITHMS 6 (feed-window overflow). ``P(N > w)`` of a Poisson variable is the regularised incomplete gamma
    function of ``w + 1``, which is inverted.

    Examples
    --------
    >>> round(most_items(20, 0.01), 2), round(most_items(20, 0.01, dispersion=4.0), 2)
    (11.83, 7.14)
    """
    single = max(1.0, dispersion)
    return float(single * gammaincinv(window / single + 1.0, probability))
