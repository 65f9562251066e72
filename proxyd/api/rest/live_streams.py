"""Server-sent events: each stream reads the store from its own position, so nothing is missed or sent twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import structlog
from aiohttp import web

from proxyd.api import wire
from proxyd.api.auth import BEARER
from proxyd.api.endpoint import read_query
from proxyd.api.problems import later
from proxyd.api.queries import Queries
from proxyd.api.query_readers import filter_of_request, parse_position
from proxyd.base.clock import wait_until
from proxyd.core.errors import NotFoundError
from proxyd.core.language import find_named
from proxyd.daemon.declarations import Declarations
from proxyd.store.api_rows import Token
from proxyd.store.listed_rows import StoredNotification, Wanted

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
log = structlog.get_logger("api")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Bounds of streams."""

    most: int = 100  # maximum number of open streams
    each: int = 20  # maximum number of open streams of one token
    batch: int = 50  # notifications read at once for a client, which bounds the memory of a stream
    # Time after which a client that reads nothing is disconnected; it can resume where it was
    write_timeout_s: float = 30.0
    heartbeat_s: float = 15.0  # pause after which a comment is sent, and the store is read even without news


@dataclass(frozen=True, slots=True)
class _Listener:
    """A stream's response and filter; ``until_s`` is when its token expires, in unix seconds."""

    response: web.StreamResponse
    which: Callable[[], Wanted]
    until_s: float
    bearer: Token | None = None


class Streams:
    """The streams of one listener."""

    def __init__(self, queries: Queries, settings: StreamSettings) -> None:
        self._profiles = queries.profiles
        self._access = queries.access
        self._clock = queries.clock
        self._history = queries.history
        self._news = queries.news
        self._settings = settings
        self._open: list[str | None] = []  # the tokens of the open streams
        self._ending = asyncio.Event()

    async def end(self, app: web.Application) -> None:
        """End every stream once it has sent the recorded notifications."""
        self._ending.set()

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """Stream notifications as they are recorded, after ``Last-Event-ID`` or from now on."""
        token = request.get(BEARER)
        token_id = None if token is None else token.token_id
        if len(self._open) >= self._settings.most or self._ending.is_set():
            return later("too many streams are open; try again later")
        if token_id is not None and self._open.count(token_id) >= self._settings.each:
            return later(f"this token has {self._settings.each} open streams; close one, or use another token")
        asked = read_query(request, wire.Followed)
        _check_rule(self._profiles, asked.rule)
        which = _which(self._profiles, asked)
        self._open.append(token_id)
        try:
            return await self._follow(request, which, asked)
        finally:
            self._open.remove(token_id)

    async def _follow(
        self, request: web.Request, which: Callable[[], Wanted], asked: wire.Followed
    ) -> web.StreamResponse:
        last = _last_event(request.headers.get("Last-Event-ID") or asked.last_event_id)
        if last is None:  # of what comes between the two questions nothing is missed
            newest, since_s = await self._history.newest_position(), which().since_s
            last = newest if since_s is None else await self._history.position_before(since_s, newest)
        response = web.StreamResponse(headers=_HEADERS)
        try:
            await response.prepare(request)
            await self._write(response, b"retry: 3000\nid: %d\n\n" % last)
            await self._send_all(_listener(request, response, which), last)
        except ConnectionResetError:  # the client went
            pass
        except TimeoutError:
            log.warning("a stream's client is too slow: disconnected", client=request.remote)
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _send_all(self, to: _Listener, last: int) -> None:
        """Send until the daemon stops or the token expires; a notification recorded meanwhile sets ``news``."""
        while not self._has_expired(to) and not await self._is_dropped(to):
            is_ending, news = self._ending.is_set(), self._news.next
            last = await self._send_new(to, last)
            if is_ending:
                return
            if not await self._either(news, to.until_s):
                await self._write(to.response, b": still there\nid: %d\n\n" % last)

    async def _send_new(self, to: _Listener, last: int) -> int:
        """Send the notifications after ``last``, and return the position of the last one.

        Once the token has expired, nothing more is sent.
        """
        newest = await self._history.newest_position()
        if newest < last:  # the position is from another database, or all before it has expired
            last = 0
        while last < newest and not await self._is_dropped(to):
            await self._profiles.prepare()
            found = await self._history.find_between(to.which(), last, newest, limit=self._settings.batch)
            for row in found.rows:
                if self._has_expired(to):
                    return last
                await self._write(to.response, event_of(row))
            last = newest if found.rest is None else found.rest
        return last

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(self._settings.write_timeout_s):
            await response.write(data)

    async def _is_dropped(self, to: _Listener) -> bool:
        """Whether the token of the stream was revoked, or may read something else now."""
        if to.bearer is None:
            return False
        now = await self._access.find_token(to.bearer.token_id)
        return now is None or (now.created_s, now.profiles) != (to.bearer.created_s, to.bearer.profiles)

    def _has_expired(self, listener: _Listener) -> bool:
        return self._clock.time_s() >= listener.until_s

    async def _either(self, news: asyncio.Event, until_s: float) -> bool:
        """Wait for news or an end; return whether one of them came before the heartbeat."""
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in (news, self._ending)]
        if until_s < inf:
            waiting.append(asyncio.ensure_future(wait_until(self._clock, until_s)))
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=self._settings.heartbeat_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for waiter in waiting:
                waiter.cancel()
        return bool(done)


def event_of(stored: StoredNotification) -> bytes:
    r"""Return a notification as an event.

    >>> event_of(StoredNotification(7, "n", "r", "s", 0.0, 0.0, False, b'{"a": 1}'))
    b'id: 7\nevent: notification\ndata: {"a": 1}\n\n'
    """
    lines = _mark_body(stored).splitlines() or [b""]
    data = b"".join(b"data: " + line + b"\n" for line in lines)
    return b"id: %d\nevent: notification\n%s\n" % (stored.position, data)


def _mark_body(stored: StoredNotification) -> bytes:
    """Return a notification's body, with ``muted`` or ``limited`` among its data if it was not sent because of that."""
    marks = {name: True for name in ("muted", "limited") if getattr(stored, name)}
    if not marks:
        return stored.body
    body = json.loads(stored.body)
    return json.dumps(body | {"data": body["data"] | marks}, ensure_ascii=False).encode()


def _listener(request: web.Request, response: web.StreamResponse, which: Callable[[], Wanted]) -> _Listener:
    token = request.get(BEARER)
    if token is None:
        return _Listener(response, which, inf)
    return _Listener(response, which, inf if token.expires_s is None else token.expires_s, token)


def _last_event(text: str | None) -> int | None:
    return parse_position(text, "Last-Event-ID is not valid; pass on the id of an event") if text else None


def _which(profiles: Declarations, asked: wire.Followed) -> Callable[[], Wanted]:
    """Return a function of the current filter: a profile's rules may change while a stream is open."""

    def which() -> Wanted:
        try:
            return filter_of_request(asked, profiles, since=asked.since)
        except NotFoundError:  # the profile has been removed
            return Wanted(frozenset())

    filter_of_request(asked, profiles, since=asked.since)
    return which


def _check_rule(profiles: Declarations, rule: str | None) -> None:
    if rule is not None:
        find_named("rule", rule, profiles.ready().rules)
