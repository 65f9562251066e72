"""Requests to WebSub hubs, guarded and paced like probes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from proxyd.errors import FetchError, FetchTimeoutError
from proxyd.net import describe, refusal_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxyd.net import Guard

_REDIRECTS = frozenset({307, 308})
_MOST_REDIRECTS = 3


class HubClient:
    """Asks hubs for subscriptions."""

    def __init__(self, session: aiohttp.ClientSession, guard: Guard, *, timeout_s: float = 30.0) -> None:
        self._session = session
        self._guard = guard
        self._timeout_s = timeout_s

    async def request(self, url: str, form: Mapping[str, str]) -> None:
        """Post a form; return once the hub accepted it.

        Raises
        ------
        FetchError, FetchTimeoutError
            The hub could not be reached, answered too late, or refused.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._post(URL(url), form)
        except TimeoutError as error:
            raise FetchTimeoutError(f"no answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as error:
            raise refusal_in(error) or FetchError(describe(error)) from error

    async def _post(self, url: URL, form: Mapping[str, str]) -> None:
        for _ in range(_MOST_REDIRECTS + 1):
            self._guard.check_url(url)
            async with self._session.post(url, data=form, allow_redirects=False) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    url = url.join(URL(response.headers["Location"]))
                    continue
                if not 200 <= response.status < 300:
                    raise FetchError(f"the hub answers {response.status}")
                return
        raise FetchError(f"more than {_MOST_REDIRECTS} redirects")
