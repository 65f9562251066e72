"""A typed client of the REST API, over its Unix socket or over HTTP with a token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp

from proxyd.client.events import EventReader, StreamEvent
from proxyd.errors import ProxydError

__all__ = ["ApiError", "Client", "StreamEvent", "UnreachableError"]
_SILENCE_S = 60.0  # four heartbeats of a stream


class ApiError(ProxydError):
    """The daemon refused the request."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        lines = [str(problem.get("detail") or problem.get("title") or f"status {status}")]
        lines += [f"{e['line']}:{e['column']}: {e['detail']}" for e in problem.get("errors", [])]
        super().__init__("\n".join(lines))


class UnreachableError(ProxydError):
    """No daemon answers; start one with `proxyd serve`."""


class Client:
    """Talks to one daemon; use it with ``async with``."""

    def __init__(self, base: str, session: aiohttp.ClientSession, where: str) -> None:
        self._base = base
        self._session = session
        self._where = where

    @classmethod
    def over_socket(cls, path: object, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon whose Unix socket that is; no token is needed."""
        session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(path)), timeout=aiohttp.ClientTimeout(total=timeout_s)
        )
        return cls("http://proxyd", session, str(path))

    @classmethod
    def over_http(cls, base: str, token: str, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon at ``base``, for example ``http://127.0.0.1:8080``."""
        session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"}, timeout=aiohttp.ClientTimeout(total=timeout_s)
        )
        return cls(base.rstrip("/"), session, base)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def plan(self, *, limit: int = 50) -> list[dict[str, Any]]:
        """Return the coming probes."""
        return await self._items("GET", "/api/v1/plan", params={"limit": limit})

    async def advice(self) -> dict[str, Any]:
        """Return what other budgets would buy."""
        return await self._call("GET", "/api/v1/advice")

    async def report(self, *, days: int = 14) -> dict[str, Any]:
        """Return what was found beside what was predicted, day by day, and whose models are off."""
        return await self._call("GET", "/api/v1/report", params={"days": days})

    async def explain(self, source: str) -> dict[str, Any]:
        """Return why and when a source is probed next."""
        return await self._call("GET", f"/api/v1/explain/{quote(source, safe='')}")

    async def sources(self) -> list[dict[str, Any]]:
        """Return every source."""
        return await self._pages("/api/v1/sources")

    async def profiles(self) -> list[dict[str, Any]]:
        """Return every profile."""
        return await self._pages("/api/v1/profiles")

    async def declare(self, text: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Declare a text of the rule language and return what changed."""
        query = {"dry_run": "true"} if dry_run else {}
        return await self._call("POST", "/api/v1/profiles", params=query, data=text.encode(), plain=True)

    async def drop_profile(self, name: str) -> dict[str, Any]:
        """Remove a profile that the API declared."""
        return await self._call("DELETE", f"/api/v1/profiles/{quote(name, safe='')}")

    async def notifications(
        self,
        *,
        limit: int = 50,
        rule: str | None = None,
        profile: str | None = None,
        source: str | None = None,
        since: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return notifications, newest first; ``since`` is an ISO 8601 time."""
        params = _given(limit=str(limit), rule=rule, profile=profile, source=source, since=since)
        return await self._items("GET", "/api/v1/notifications", params=params)

    async def notification(self, notification_id: str) -> dict[str, Any]:
        """Return all that led to a notification, and what became of it."""
        return await self._call("GET", f"/api/v1/notifications/{quote(notification_id, safe='')}")

    async def stream(
        self,
        *,
        last: int | None = None,
        rule: str | None = None,
        profile: str | None = None,
        source: str | None = None,
        retry_s: float = 3.0,
    ) -> AsyncGenerator[StreamEvent]:
        """Yield notifications as they are recorded: after the position ``last``, or from now on.

        A connection that ends is made again after ``retry_s``, and goes on where it was; only where the first one
        cannot be made ``UnreachableError`` is raised. Close the generator to end the connection at once.
        """
        params = _given(rule=rule, profile=profile, source=source)
        reader = EventReader(last)
        has_answered = False
        while True:
            try:
                async with aclosing(self._listen(reader, params)) as events:
                    async for event in events:
                        has_answered = True
                        if event is not None:
                            yield event
            except (aiohttp.ClientError, FileNotFoundError, TimeoutError) as error:
                if not has_answered:
                    raise self._unreachable() from error
            await asyncio.sleep(retry_s)

    async def _listen(self, reader: EventReader, params: Mapping[str, str]) -> AsyncGenerator[StreamEvent | None]:
        """Yield the events of one connection, ``None`` before the first, or none while the daemon cannot take it."""
        headers = {} if reader.last is None else {"Last-Event-ID": str(reader.last)}
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)
        address = f"{self._base}/api/v1/stream"
        async with self._session.get(address, params=params, headers=headers, timeout=limits) as response:
            if 400 <= response.status < 500:
                raise ApiError(response.status, await response.json(content_type=None))
            if response.status != 200:
                return
            reader.restart()
            yield None
            async for piece in response.content.iter_any():
                for event in reader.read(piece):
                    yield event

    async def replay(self, notification_id: str | None) -> int:
        """Send a notification again, or every delivery that was given up; return how many deliveries that are."""
        path = f"notifications/{quote(notification_id, safe='')}/replay" if notification_id else "deliveries/replay"
        return int((await self._call("POST", f"/api/v1/{path}"))["deliveries"])

    async def webhooks(self) -> list[dict[str, Any]]:
        """Return every webhook and whether it has shown that it is there."""
        return await self._items("GET", "/api/v1/webhooks")

    async def test_deliveries(self, rule: str) -> list[dict[str, Any]]:
        """Send a test message to a rule's webhooks, mail addresses and channels."""
        return await self._items("POST", "/api/v1/deliveries/test", json={"rule": rule})

    async def reload(self) -> bool:
        """Check the profiles and swap them in; return whether that was possible."""
        try:
            await self._call("POST", "/api/v1/reload")
        except ApiError as error:
            if error.status == 422:
                return False
            raise
        return True

    async def create_token(self, name: str, scope: str, *, expires_s: float | None = None) -> str:
        """Make a token and return its text."""
        wanted = {"name": name, "scope": scope, "expires_in_s": expires_s}
        return str((await self._call("POST", "/api/v1/tokens", json=wanted))["token"])

    async def ready(self) -> dict[str, Any]:
        """Return what /readyz says."""
        try:
            return await self._call("GET", "/readyz")
        except ApiError as error:
            return error.problem

    async def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        try:
            async with self._session.get(f"{self._base}/metrics") as response:
                return await response.text()
        except aiohttp.ClientConnectionError as error:
            raise self._unreachable() from error

    async def _pages(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        params: dict[str, Any] = {"limit": 500}
        while True:
            page = await self._call("GET", path, params=params)
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            params["cursor"] = page["next_cursor"]

    async def _items(self, method: str, path: str, **request: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self._call(method, path, **request))["items"]
        return items

    async def _call(self, method: str, path: str, *, plain: bool = False, **request: Any) -> dict[str, Any]:
        headers = {"Content-Type": "text/plain; charset=utf-8"} if plain else {}
        try:
            async with self._session.request(method, self._base + path, headers=headers, **request) as response:
                answer: dict[str, Any] = await response.json(content_type=None)
                if response.status >= 400:
                    raise ApiError(response.status, answer)
                return answer
        except (aiohttp.ClientConnectionError, FileNotFoundError) as error:
            raise self._unreachable() from error
        except TimeoutError as error:
            raise UnreachableError(f"the daemon at {self._where} did not answer in time") from error

    def _unreachable(self) -> UnreachableError:
        return UnreachableError(f"no daemon answers at {self._where}; start one with `proxyd serve`")


def _given(**wanted: str | None) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if value is not None}
