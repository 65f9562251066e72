"""Requests to WebSub hubs, guarded and paced like probes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from proxyd.core.errors import FetchError, FetchTimeoutError
from proxyd.net.guard import refusal_in
from proxyd.net.http_values import describe, read_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxyd.net.guard import Guard
    from proxyd.net.host_turns import HostTokens

_REDIRECTS = frozenset({307, 308})
_MOST_REDIRECTS = 3


class HubClient:
    """Sends subscription requests to hubs.

    Parameters
    ----------
    tokens
        Spaces the requests to one host, shared with the probes; waiting for them does not count towards ``timeout_s``.
    """

    def __init__(
        self, session: aiohttp.ClientSession, guard: Guard, tokens: HostTokens, *, timeout_s: float = 30.0
    ) -> None:
        self._session = session
        self._guard = guard
        self._tokens = tokens
        self._timeout_s = timeout_s

    async def request(self, url: str, form: Mapping[str, str]) -> None:
        """Post a form; return once the hub accepted it.

        Raises ``FetchError`` or ``FetchTimeoutError``: the hub could not be reached, answered too late, or refused.
        """
        target = read_url(url)
        for _ in range(_MOST_REDIRECTS + 1):
            if target is None:
                raise FetchError("the hub's address, or that of its redirect, is not a valid URL")
            self._guard.check_url(target)
            moved = await self._post(target, form)
            if moved is None:
                return
            target = read_url(moved, target)
            if target is not None and not _may_follow(URL(url), target):
                raise FetchError("the hub redirects to another origin, to which the form is not sent")
        raise FetchError(f"more than {_MOST_REDIRECTS} redirects")

    async def _post(self, url: URL, form: Mapping[str, str]) -> str | None:
        """Return the redirect's target, or ``None`` if the request was accepted."""
        async with self._tokens.turn(url.raw_host or ""):
            try:
                async with (
                    asyncio.timeout(self._timeout_s),
                    self._session.post(url, data=form, allow_redirects=False, auto_decompress=False) as response,
                ):
                    if response.status in _REDIRECTS and "Location" in response.headers:
                        return response.headers["Location"]
                    if not 200 <= response.status < 300:
                        raise FetchError(f"the hub answers {response.status}")
                    return None
            except TimeoutError as error:
                raise FetchTimeoutError(f"no answer within {self._timeout_s:g} s") from error
            except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as error:
                raise refusal_in(error) or FetchError(describe(error)) from error


def _may_follow(first: URL, target: URL) -> bool:
    """Return whether the form, which holds a secret, may go there: to the same host, and not from https to http."""
    return target.raw_host == first.raw_host and target.scheme in {first.scheme, "https"}
