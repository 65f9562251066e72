"""What a week shape makes of any two times: expected items and how long they wait, one source at a time."""

from __future__ import annotations

from collections.abc import Sequence

from proxyd.estimation.bins import MONDAY_S, WEEK_S


class WeekSums:
    """Integrals of a week shape, exact between any two times, in plain floats: a probe asks for two or three of them.

    Parameters
    ----------
    factors
        Of equal parts of the week from Monday 00:00 on, mean 1.

    Notes
    -----
    With ``F(t)`` the integral of the factor and ``H(t)`` that of ``F``, both from Monday on, the items of ``(s, t]``
    are ``F(t) - F(s)`` and have waited ``H(t) - H(s) - F(s) (t - s)`` at ``t``.

    Examples
    --------
    >>> even = WeekSums([1.0] * 168)
    >>> even.between(0.0, 60.0)
    (60.0, 1800.0)
    >>> days = WeekSums([7.0] + [0.0] * 6)
    >>> days.factor(MONDAY_S + 3600.0), days.between(MONDAY_S, MONDAY_S + 2 * 86400.0)[0] / 86400.0
    (7.0, 7.0)
    """

    def __init__(self, factors: Sequence[float]) -> None:
        self._part_s = WEEK_S / len(factors)
        self._factors = [float(factor) for factor in factors]
        self._F, self._H = [0.0], [0.0]
        for factor in self._factors:
            self._H.append(self._H[-1] + self._F[-1] * self._part_s + factor * self._part_s**2 / 2)
            self._F.append(self._F[-1] + factor * self._part_s)

    def factor(self, time_s: float) -> float:
        """Return the factor at a time of the week."""
        return self._factors[int((time_s - MONDAY_S) % WEEK_S // self._part_s) % len(self._factors)]

    def between(self, since_s: float, until_s: float) -> tuple[float, float]:
        """Return the items expected of a mean rate of one a second, and their waits at ``until_s`` in item-seconds."""
        gap_s = until_s - since_s
        begin_s = (since_s - MONDAY_S) % WEEK_S
        F0, H0 = self._at(begin_s)  # noqa: N806 - as in the notes
        F1, H1 = self._at(begin_s + gap_s)  # noqa: N806
        return F1 - F0, max(0.0, H1 - H0 - F0 * gap_s)

    def _at(self, time_s: float) -> tuple[float, float]:
        """Return F and H, which go on from week to week."""
        weeks, within_s = divmod(time_s, WEEK_S)
        part = min(int(within_s / self._part_s), len(self._factors) - 1)
        rest_s = within_s - part * self._part_s
        whole, factor = self._F[-1], self._factors[part]
        F = self._F[part] + factor * rest_s  # noqa: N806
        H = self._H[part] + self._F[part] * rest_s + factor * rest_s * rest_s / 2  # noqa: N806
        earlier = weeks * (weeks - 1) / 2 * whole * WEEK_S + weeks * (self._H[-1] + whole * within_s)
        return weeks * whole + F, earlier + H
