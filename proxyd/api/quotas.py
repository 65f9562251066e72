"""Quotas: how many requests each bearer may send to the API."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from aiohttp import web

_MOST_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Quota:
    """The maximum number of requests of a bearer in a window, which begins with the first of them."""

    requests: int
    window_s: float


@dataclass(frozen=True, slots=True)
class Left:
    """The requests that a bearer has left in its window; ``is_over`` if this request exceeded the quota."""

    quota: Quota
    requests: int
    reset_s: float
    is_over: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell the client (draft-ietf-httpapi-ratelimit-headers).

        >>> Left(Quota(60, 60.0), 59, 59.5).headers
        {'RateLimit-Policy': '"token";q=60;w=60', 'RateLimit': '"token";r=59;t=60'}
        """
        return {
            "RateLimit-Policy": f'"token";q={self.quota.requests};w={ceil(self.quota.window_s)}',
            "RateLimit": f'"token";r={self.requests};t={ceil(self.reset_s)}',
        }


LEFT = web.RequestKey("left", Left)


class Quotas:
    """The windows of all bearers.

    Examples
    --------
    >>> quotas = Quotas(Quota(2, 60.0))
    >>> [quotas.take("a", now_s).is_over for now_s in (0.0, 1.0, 2.0, 60.0)]
    [False, False, True, False]
    >>> quotas.take("a", 61.0).requests
    0
    """

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._windows: dict[str, tuple[float, int]] = {}

    def take(self, bearer: str, now_s: float) -> Left:
        """Count a request; return how many are left after it."""
        began_s, used = self._windows.get(bearer, (now_s, 0))
        if not 0.0 <= now_s - began_s < self._quota.window_s:
            began_s, used = now_s, 0
        if used == 0:
            self._forget(now_s)
        left = self._quota.requests - used
        self._windows[bearer] = began_s, used + min(1, left)
        return Left(self._quota, max(0, left - 1), began_s + self._quota.window_s - now_s, is_over=left == 0)

    def _forget(self, now_s: float) -> None:
        """Forget past windows once there are many."""
        if len(self._windows) >= _MOST_KEPT:
            limit_s = now_s - self._quota.window_s
            self._windows = {name: each for name, each in self._windows.items() if each[0] > limit_s}


async def tell_left(request: web.Request, response: web.StreamResponse) -> None:
    """Add the remaining quota of the bearer to the headers of a response."""
    if (left := request.get(LEFT)) is not None:
        response.headers.update(left.headers)
