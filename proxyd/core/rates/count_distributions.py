"""Distributions of counts: the regularised incomplete gamma and beta, and their quantiles.

scipy has them, but would be most of an installation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from math import exp, inf, lgamma, log, log1p

_EXACT, _TINY = 4e-16, 1e-300


def gamma_share(shape: float, x: float) -> float:
    """Return the probability that a Gamma variable of scale 1 is at most ``x``: the regularised incomplete gamma.

    For a whole ``shape`` it is the probability of at least so many Poisson items where ``x`` are expected.

    Notes
    -----
    Source: a series below the mean, a continued fraction by Lentz's method above it (Press et al., Numerical Recipes,
    section 6.2).

    Examples
    --------
    >>> round(gamma_share(1.0, 1.0), 12), gamma_share(3.0, 0.0), gamma_share(3.0, 1e9)
    (0.632120558829, 0.0, 1.0)
    """
    if shape <= 0 or x == inf:
        return 1.0
    if x <= 0:
        return 0.0
    factor = exp(shape * log(x) - x - lgamma(shape))
    if x < shape + 1.0:
        term = total = 1.0 / shape
        for n in count(1):
            term *= x / (shape + n)
            total += term
            if term < total * _EXACT:
                break
        return min(1.0, total * factor)
    terms = ((-n * (n - shape), x + 1.0 - shape + 2.0 * n) for n in count(1))
    return 1.0 - factor / _fraction(x + 1.0 - shape, terms)


def log_gamma_rest(shape: float, x: float) -> float:
    """Return the logarithm of ``1 - gamma_share(shape, x)``, also where that is next to nothing.

    >>> round(log_gamma_rest(1.0, 900.0), 9), round(log_gamma_rest(2.0, 0.5), 9)
    (-900.0, -0.094534892)
    """
    if x < shape + 1.0:
        return log1p(-gamma_share(shape, x))
    terms = ((-n * (n - shape), x + 1.0 - shape + 2.0 * n) for n in count(1))
    return shape * log(x) - x - lgamma(shape) - log(_fraction(x + 1.0 - shape, terms))


def gamma_quantile(shape: float, share: float) -> float:
    """Return the ``x`` of which ``gamma_share`` is a share between 0 and 1: by Newton's method, kept in an interval.

    >>> round(gamma_quantile(21.0, 0.01), 8), round(gamma_share(0.2, gamma_quantile(0.2, 0.9)), 12)
    (11.82504734, 0.9)
    """
    low, high = exp((log(share) + lgamma(shape + 1.0)) / shape), inf  # the first term of the series is too large
    x = low if shape < 1 else max(low, shape)
    for _ in range(200):
        excess = gamma_share(shape, x) - share
        low, high = (low, x) if excess > 0 else (x, high)
        following = x - excess / max(exp((shape - 1.0) * log(x) - x - lgamma(shape)), _TINY) if x > 0 else low
        if not low <= following <= high:
            following = 2.0 * x if high == inf else (low + high) / 2.0
        if abs(following - x) <= _EXACT * x:
            return following
        x = following
    return x


def beta_share(a: float, b: float, x: float) -> float:
    """Return the probability that a Beta variable is at most ``x``: the regularised incomplete beta.

    Notes
    -----
    Source: the continued fraction of Numerical Recipes, section 6.4.

    Examples
    --------
    >>> round(beta_share(2.0, 3.0, 0.4), 12), beta_share(2.0, 3.0, 0.0), beta_share(2.0, 3.0, 1.0)
    (0.5248, 0.0, 1.0)
    """
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_share(b, a, 1.0 - x)

    def term(n: int) -> tuple[float, float]:
        m = n // 2
        if n % 2:
            return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)), 1.0
        return m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)), 1.0

    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    return front / a / _fraction(1.0, map(term, count(1)))


def _fraction(first: float, terms: Iterable[tuple[float, float]]) -> float:
    """Return the continued fraction ``first + a1 / (b1 + a2 / (b2 + ...))`` by Lentz's method."""
    value = c = first or _TINY
    d = 0.0
    for a, b in terms:
        d = 1.0 / ((b + a * d) or _TINY)
        c = (b + a / c) or _TINY
        value *= c * d
        if abs(c * d - 1.0) < _EXACT:
            break
    return value


def root(rises: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function changes its sign between two numbers at which its signs differ, by bisection.

    >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0), 12), round(root(lambda x: 2.0 - x * x, 0.0, 2.0), 12)
    (1.414213562373, 1.414213562373)
    """
    is_below = rises(low) < 0
    while high - low > _EXACT * high:
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if (rises(middle) < 0) == is_below:
            low = middle
        else:
            high = middle
    return high
