"""The distributions of counts are scipy's, which only tests and the laboratory need."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc, gammainc, gammaincinv, gammaln

from proxyd.core.rates.count_distributions import beta_share, gamma_quantile, gamma_share
from proxyd.core.rates.week_shapes import _log_gamma

_SHAPES = [0.1, 0.5, 1.0, 3.0, 21.0, 500.0, 1e4, 1e6]


@pytest.mark.parametrize("shape", _SHAPES)
def test_shares_and_quantiles_of_gammas_are_those_of_scipy(shape: float) -> None:
    near = [shape + times * np.sqrt(shape) for times in (-0.9, -0.3, 0.0, 0.3, 1.0, 4.0)]
    for x in (0.0, 0.01 * shape, *near, 10.0 * shape, np.inf):
        assert gamma_share(shape, x) == pytest.approx(gammainc(shape, max(0.0, x)), rel=1e-8, abs=1e-200)
    for share in (1e-6, 0.01, 0.1, 0.5, 0.9, 1 - 1e-6):
        assert gamma_quantile(shape, share) == pytest.approx(gammaincinv(shape, share), rel=1e-8)


@pytest.mark.parametrize("a", _SHAPES)
def test_shares_of_betas_are_those_of_scipy(a: float) -> None:
    for b in _SHAPES:
        for x in (0.0, 1e-6, 0.3, a / (a + b), 0.999, 1.0):
            assert beta_share(a, b, x) == pytest.approx(betainc(a, b, x), rel=1e-6, abs=1e-200)


def test_logarithms_of_gammas_are_those_of_scipy() -> None:
    values = np.geomspace(0.125, 1e7, 1000).reshape(10, 100)
    assert _log_gamma(values) == pytest.approx(gammaln(values), rel=1e-12, abs=1e-9)
