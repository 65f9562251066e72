"""Hosts: tokens that space their requests, turns that limit how many run at once, and who shares a throttle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from publicsuffixlist import PublicSuffixList

from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from proxyd.base.ports import Clock

_SWEEP_AT = 1024
_MOST_SCOPES = 65_536


@dataclass(slots=True)
class _HostTurn:
    """One host."""

    slots: asyncio.Semaphore
    log: ProbeLog
    # Who holds it is next, and keeps `leaving` until its request was sent
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    leaving: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # the number of running requests, the holder and the queue

    @property
    def last_grant_s(self) -> float | None:
        """When the last token was given out."""
        return self.log.starts_s[-1] if self.log.starts_s else None

    def leave(self) -> None:
        """Release the slot."""
        self.slots.release()
        self.users -= 1


@dataclass(slots=True)
class Turn:
    """A slot at a host, released when its ``with`` block ends."""

    lane: _HostTurn
    clock: Clock
    is_leaving: bool = False

    def sent(self) -> None:
        """Note that the request left now; the next one's spacing counts from here, however long connecting took."""
        # Until then no other turn gets its token. If a request is sent again, the newest token is moved.
        self.lane.log.move_last(self.clock.monotonic_s())
        self.let_next()

    def let_next(self) -> None:
        """Let the next turn get its token."""
        if self.is_leaving:
            self.is_leaving = False
            self.lane.leaving.release()

    def leave(self) -> None:
        """Release the slot."""
        self.let_next()
        self.lane.leave()

    def __enter__(self) -> Self:
        """Return the turn, which already holds its slot."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class HostTokens:
    """Spaces the requests to one host, in the order of their arrival.

    Parameters
    ----------
    spacing_s
        Minimum time between the starts of two requests to the same host.
    probes, window_s
        Most starts within ``window_s``; ``None`` if only the spacing counts.
    concurrency
        Most simultaneous turns at one host; it does not limit tokens.
    idle_s
        A host without requests for this long may be forgotten, which bounds memory.
    """

    def __init__(
        self,
        clock: Clock,
        spacing_s: float,
        *,
        probes: int | None = None,
        window_s: float = 0.0,
        concurrency: int = 1,
        idle_s: float = 600.0,
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._budget = PolitenessBudget(spacing_s, probes, window_s)
        self._keep_s = max(idle_s, spacing_s, window_s)
        self._lanes: dict[str, _HostTurn] = {}
        self._sweep_at = _SWEEP_AT
        self._ask_others: Callable[[str, float], Awaitable[None]] | None = None
        self._ask_first: Callable[[str, float], Awaitable[None]] | None = None

    def __len__(self) -> int:
        """Return the number of remembered hosts."""
        return len(self._lanes)

    @contextmanager
    def share(self, ask_others: Callable[[str, float], Awaitable[None]], *, is_first: bool = False) -> Iterator[None]:
        """While the context is open: let each turn also wait until ``ask_others(host, spacing_s)`` returns.

        It is for hosts that other processes ask too, and returns at once for all others. It is asked last, when the
        request is next here. It must be asked first (``is_first``) if it may wait for requests of this process.
        """
        self._ask_first, self._ask_others = (ask_others, None) if is_first else (None, ask_others)
        try:
            yield
        finally:
            self._ask_first = self._ask_others = None

    async def take(self, host: str, spacing_s: float = 0.0) -> None:
        """Wait until a request to ``host`` may start, and spend its token.

        ``spacing_s`` may ask for more than the general spacing before this request. A caller that is cancelled while
        it waits loses its place and spends nothing.
        """
        self._keep_s = max(self._keep_s, spacing_s)
        lane = self._lane(_canonical(host))
        lane.users += 1
        try:
            async with lane.lock:
                await self._wait(lane, spacing_s)
                lane.log.record(self._clock.monotonic_s())
        finally:
            lane.users -= 1

    async def give(self, host: str, spacing_s: float = 0.0) -> None:
        """Wait until another process may start a request to ``host``, and spend its token.

        As with turns, the request before must have been sent.
        """
        lane = self._lane(_canonical(host))
        lane.users += 1
        try:
            async with lane.leaving:
                await self.take(host, spacing_s)
        finally:
            lane.users -= 1

    async def enter(self, host: str, spacing_s: float = 0.0) -> Turn:
        """Wait for a slot at ``host`` and its token; the slot is held until the turn's ``with`` block ends.

        Do not wait for another turn inside the block: two callers would wait for each other. The next turn waits for
        its token until this request was ``sent``; otherwise two that connect slowly would leave together.
        """
        if self._ask_first is not None:
            await self._ask_first(_canonical(host), spacing_s)
        lane = self._lane(_canonical(host))
        lane.users += 1
        try:
            await lane.slots.acquire()
        except BaseException:
            lane.users -= 1
            raise
        turn = Turn(lane, self._clock)
        try:
            await lane.leaving.acquire()
            turn.is_leaving = True
            await self.take(host, spacing_s)
            if self._ask_others is not None:
                await self._ask_others(_canonical(host), spacing_s)
        except BaseException:
            turn.leave()
            raise
        return turn

    @asynccontextmanager
    async def turn(self, host: str, spacing_s: float = 0.0) -> AsyncIterator[None]:
        """Hold a turn at ``host`` while the block runs; the next turn's spacing counts from this one's start."""
        with await self.enter(host, spacing_s) as turn:
            turn.let_next()
            yield

    async def _wait(self, lane: _HostTurn, spacing_s: float) -> None:
        earliest_s = lane.log.earliest_s()
        if lane.last_grant_s is not None:
            earliest_s = max(earliest_s, lane.last_grant_s + spacing_s)
        while (left_s := earliest_s - self._clock.monotonic_s()) > 0:
            await self._clock.sleep(left_s)

    def _lane(self, host: str) -> _HostTurn:
        lane = self._lanes.get(host)
        if lane is None:
            if len(self._lanes) >= self._sweep_at:
                self._forget_idle()
            lane = self._lanes[host] = _HostTurn(asyncio.Semaphore(self._concurrency), ProbeLog(self._budget))
        return lane

    def _forget_idle(self) -> None:
        before_s = self._clock.monotonic_s() - self._keep_s
        self._lanes = {host: lane for host, lane in self._lanes.items() if not _is_idle(lane, before_s)}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._lanes))


def _is_idle(lane: _HostTurn, before_s: float) -> bool:
    return lane.users == 0 and (lane.last_grant_s is None or lane.last_grant_s <= before_s)


def _canonical(host: str) -> str:
    return host.rstrip(".").lower()


class ThrottleScopes:
    """Maps a host to its scope: the group it is declared in, else its registrable domain or the host itself.

    Parameters
    ----------
    by_domain
        Whether the hosts of a registrable domain share a scope.
    groups
        Groups of hosts that share a scope; a domain includes its hosts.

    Examples
    --------
    >>> scopes = ThrottleScopes(by_domain=True, groups=[("cdn.example", "images.example")])
    >>> scopes("blog.feeds.co.uk"), scopes("a.images.example"), scopes("192.0.2.7")
    ('feeds.co.uk', 'cdn.example|images.example', '192.0.2.7')
    """

    def __init__(self, *, by_domain: bool = False, groups: Sequence[Sequence[str]] = ()) -> None:
        self._suffixes = PublicSuffixList(accept_unknown=False) if by_domain else None
        self._groups: Mapping[str, str] = {host: "|".join(group) for group in groups for host in group}
        self._scope = lru_cache(_MOST_SCOPES)(self._find)

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs, which keeps scopes of its own."""
        return {name: value for name, value in vars(self).items() if name != "_scope"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._scope = lru_cache(_MOST_SCOPES)(self._find)

    def __repr__(self) -> str:
        return f"ThrottleScopes(by_domain={self._suffixes is not None}, groups={sorted(set(self._groups.values()))})"

    def __call__(self, host: str) -> str:
        """Return the scope of a host."""
        return self._scope(host)

    def _find(self, host: str) -> str:
        labels = host.split(".")
        for start in range(len(labels)):
            group = self._groups.get(".".join(labels[start:]))
            if group is not None:
                return group
        domain: str | None = self._suffixes.privatesuffix(host) if self._suffixes else None
        return domain or host
