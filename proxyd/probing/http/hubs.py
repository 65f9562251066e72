"""Requests of WebSub, guarded: to hubs, paced like probes, and to those who follow a feed of ours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from proxyd.core.errors import FetchError, FetchTimeoutError
from proxyd.net.guard import refusal_in
from proxyd.net.http_values import describe, read_some, read_url, retry_after_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxyd.net.guard import Guard
    from proxyd.net.host_turns import HostTokens

_REDIRECTS = frozenset({307, 308})
_MOST_REDIRECTS = 3
_CALL_S = 10.0  # for which a follower may take to answer
_MOST_ANSWER = 1024  # bytes


@dataclass(frozen=True, slots=True)
class FollowerAnswer:
    """What a follower's callback answered; ``body`` is its beginning."""

    status: int
    body: bytes
    retry_after_s: float | None

    @property
    def is_accepted(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class HubClient:
    """Sends subscription requests to hubs, and the requests of our own hub to those who follow a feed.

    Parameters
    ----------
    tokens
        Spaces the requests to one host, shared with the probes; waiting for them does not count towards ``timeout_s``.
    turns_of_followers
        Spaces the questions to the host of a callback. The probes have other turns: whoever may read a feed would hold
        them up by naming callbacks at their host.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        guard: Guard,
        tokens: HostTokens,
        turns_of_followers: HostTokens,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        self._session = session
        self._guard = guard
        self._tokens = tokens
        self._turns_of_followers = turns_of_followers
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

    async def ask_follower(self, callback: str, query: Mapping[str, str]) -> FollowerAnswer:
        """Ask a callback, with a query added to its own, whether it asked for something; raises as ``call`` does.

        It waits for a turn at the host, because anybody's address may be given as a callback.
        """
        target = _target(callback)
        async with self._turns_of_followers.turn(target.raw_host or ""):
            return await self._call("GET", target.extend_query(query), {}, None)

    async def push_to_follower(self, callback: str, headers: Mapping[str, str], body: bytes) -> FollowerAnswer:
        """Send a document to a callback.

        Raises ``FetchError`` or ``FetchTimeoutError``: it could not be reached, or answered too late.
        """
        return await self._call("POST", _target(callback), headers, body)

    async def _call(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> FollowerAnswer:
        """Send a request that follows no redirect: it would tell somebody else what this callback may know."""
        self._guard.check_url(url)
        try:
            async with (
                asyncio.timeout(_CALL_S),
                self._session.request(
                    method, url, data=body, headers=headers, allow_redirects=False, auto_decompress=False
                ) as response,
            ):
                answer = await read_some(response, _MOST_ANSWER)
                return FollowerAnswer(response.status, answer, retry_after_s(response.headers, 0.0))
        except TimeoutError as error:
            raise FetchTimeoutError(f"no answer within {_CALL_S:g} s") from error
        except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as error:
            raise refusal_in(error) or FetchError(describe(error)) from error


def _target(callback: str) -> URL:
    """Return the address of a callback; raises ``FetchError`` if it is not valid."""
    target = read_url(callback)
    if target is None:
        raise FetchError("the callback is not a valid URL")
    return target


def _may_follow(first: URL, target: URL) -> bool:
    """Return whether the form, which holds a secret, may go there: to the same host, and not from https to http."""
    return target.raw_host == first.raw_host and target.scheme in {first.scheme, "https"}
