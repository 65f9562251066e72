"""The client of the REST API for programs without an event loop, or within a foreign one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from threading import Event, Thread
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from proxyd.client.client import Client

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Return a method of ``Client`` as one that blocks."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[Client, P], AsyncGenerator[T]],
) -> Callable[Concatenate[SyncClient, P], Generator[T]]:
    """Return a generator method of ``Client`` as one that blocks until each value."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T]:
        following = _Following(method(self._client, *args, **kwargs))
        try:
            while (value := self._thread.run(following.next())) is not None:
                yield value
        finally:
            if not self._thread.is_closed:
                self._thread.run(following.close())

    return call


class SyncClient:
    """Talks to one daemon as ``Client`` does, with blocking methods; use it with ``with``.

    Requests run on an event loop in a separate thread, so it also works where a loop already runs, as in a notebook.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._thread = _LoopThread()
        self._client = self._thread.run(_made(make))

    @classmethod
    def over_socket(cls, path: object, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon with this Unix socket; it needs no token."""
        return cls(lambda: Client.over_socket(path, timeout_s=timeout_s))

    @classmethod
    def over_http(cls, base: str, token: str, *, timeout_s: float = 30.0) -> Self:
        """Return a client of the daemon at ``base``, for example ``http://127.0.0.1:8080``."""
        return cls(lambda: Client.over_http(base, token, timeout_s=timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections, open streams and the thread."""
        if not self._thread.is_closed:
            self._thread.run(self._client.__aexit__(None, None, None))
            self._thread.close()

    alive = _blocking(Client.alive)
    ready = _blocking(Client.ready)
    metrics = _blocking(Client.metrics)
    profiles = _blocking(Client.profiles)
    profile = _blocking(Client.profile)
    declare = _blocking(Client.declare)
    drop_profile = _blocking(Client.drop_profile)
    import_feeds = _blocking(Client.import_feeds)
    export_feeds = _blocking(Client.export_feeds)
    rules = _blocking(Client.rules)
    rule = _blocking(Client.rule)
    intervals = _blocking(Client.intervals)
    domains = _blocking(Client.domains)
    reload = _blocking(Client.reload)
    suspensions = _blocking(Client.suspensions)
    moves = _blocking(Client.moves)
    accept_move = _blocking(Client.accept_move)
    probe = _blocking(Client.probe)
    pause = _blocking(Client.pause)
    resume = _blocking(Client.resume)
    mute = _blocking(Client.mute)
    unmute = _blocking(Client.unmute)
    sources = _blocking(Client.sources)
    probes = _blocking(Client.probes)
    items = _blocking(Client.items)
    search = _blocking(Client.search)
    explain = _blocking(Client.explain)
    plan = _blocking(Client.plan)
    advice = _blocking(Client.advice)
    report = _blocking(Client.report)
    notifications = _blocking(Client.notifications)
    notification = _blocking(Client.notification)
    screenshot = _blocking(Client.screenshot)
    atom = _blocking(Client.atom)
    json_feed = _blocking(Client.json_feed)
    replay = _blocking(Client.replay)
    replay_dead = _blocking(Client.replay_dead)
    dead_letters = _blocking(Client.dead_letters)
    test_deliveries = _blocking(Client.test_deliveries)
    webhooks = _blocking(Client.webhooks)
    tokens = _blocking(Client.tokens)
    create_token = _blocking(Client.create_token)
    drop_token = _blocking(Client.drop_token)
    stream = _iterating(Client.stream)


class _Following(Generic[T]):
    """A stream on the loop that can be closed while it waits, because an interrupt may come at any time."""

    def __init__(self, events: AsyncGenerator[T]) -> None:
        self._events = events
        self._waiting: asyncio.Task[T | None] | None = None

    async def next(self) -> T | None:
        """Return the next event, ``None`` at the end."""
        self._waiting = asyncio.create_task(self._next(), name="next event")
        return await self._waiting

    async def close(self) -> None:
        """End the connection and the task that waits for it."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._events.aclose()

    async def _next(self) -> T | None:
        return await anext(self._events, None)


class _LoopThread:
    """An event loop in a thread, which ends with the program at the latest."""

    def __init__(self) -> None:
        self._has_started = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._work()), name="proxyd client", daemon=True)
        self._thread.start()
        self._has_started.wait()

    @property
    def is_closed(self) -> bool:
        """Whether the loop has ended."""
        return self._closing.is_set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` returns, or raise what it raises; an interrupt ends it."""
        if self.is_closed:
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    async def _work(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._has_started.set()
        await self._closing.wait()


async def _made(make: Callable[[], Client]) -> Client:
    return make()
