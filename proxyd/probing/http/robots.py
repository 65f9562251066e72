"""The robots.txt of every origin (RFC 9309): fetched once a day, and checked before each request.

It comes from strangers: only the lines for proxyd reach the parser, which has no limits of its own. A group with many
user agents would cost it the product of agents and rules.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protego import Protego

from proxyd.core.errors import BlockedAddressError, ProbeError
from proxyd.probing.documents.probe_failures import (
    BadStatusError,
    DisallowedError,
    QueueTimeoutError,
    ThrottledError,
    TooManyRedirectsError,
)
from proxyd.probing.http.fetcher import FetchLimits, FetchRequest, ProbeTrace

if TYPE_CHECKING:
    from yarl import URL

    from proxyd.base.ports import Clock
    from proxyd.probing.http.fetcher import Fetch, FetchResponse

_AGENT = "proxyd"
_ROBOTS_BYTES = 512 * 1024
_ROBOTS_TIME_S = 10.0
_DAY_S = 86_400.0
_LONGEST_COPY_S = 30 * _DAY_S
_LEAST_S = 300.0
_BUSY = frozenset({429, 503})
_MOST_LINES = 50_000
_MOST_DELAY_S = 60.0  # of a Crawl-delay that is obeyed
_MOST_RULES = 10_000
_LONGEST_LINE = 2048
_MOST_CHARACTERS = 64 * 1024 * 1024
_INLINE_BYTES = 65_536
_AGENT_LINE = re.compile(r"user[-\s]*agent\s*[:\s]\s*(\*(?!\S)|[a-z_-]*)", re.IGNORECASE)
_RULE_LINE = re.compile(r"(allow|di[a-z]{1,8}w|crawl[-\s]*delay)\s*[:\s]", re.IGNORECASE)


def robots_limits(limits: FetchLimits) -> FetchLimits:
    """Return the limits for fetching robots.txt, given those of a probe."""
    total_s = min(limits.total_s, _ROBOTS_TIME_S)
    return FetchLimits(total_s, limits.queue_s, _ROBOTS_BYTES, redirects=5, cut=True)


@dataclass(frozen=True, slots=True)
class _RobotsRules:
    """The rules of a robots.txt for proxyd; ``parsed`` is ``None`` if it has none."""

    parsed: Protego | None = None
    characters: int = 0

    def allows(self, url: URL) -> bool:
        """Return whether the path may be requested."""
        return self.parsed is None or self.parsed.can_fetch(f"http://host{url.raw_path_qs}", _AGENT)

    @property
    def crawl_delay_s(self) -> float | None:
        """Minimum seconds between two requests that it asks for, if any."""
        return None if self.parsed is None else self.parsed.crawl_delay(_AGENT)


_EVERYTHING_ALLOWED = _RobotsRules()


def read_robots(body: bytes) -> _RobotsRules:
    """Return the rules of a robots.txt; any content can be read.

    >>> read_robots(b"User-agent: *").crawl_delay_s
    """
    text = "\n".join(_concerning(body[:_ROBOTS_BYTES].decode("utf-8-sig", "replace")))
    return _RobotsRules(Protego.parse(text), len(text)) if text else _EVERYTHING_ALLOWED


def _concerning(text: str) -> list[str]:
    r"""Return the lines of the groups for proxyd and for everyone, in a form that the parser reads correctly.

    >>> _concerning("User-agent: a\nUser-Agent: Proxyd/1\nDisallow: /x # no\nUser-agent: b\nDisallow: /")
    ['user-agent: proxyd', 'Disallow: /x']
    """
    kept: list[str] = []
    agents: set[str] = set()
    among_agents = False
    for line in text.splitlines()[:_MOST_LINES]:
        content = line[: _LONGEST_LINE + 1].partition("#")[0].strip()
        agent = _AGENT_LINE.match(content)
        if agent is not None:
            named = {agent[1].lower()} & {"*", _AGENT}
            agents = agents | named if among_agents else named
            kept += [f"user-agent: {name}" for name in named]
            among_agents = True
        elif _RULE_LINE.match(content):
            among_agents = False
            rule = content if len(content) <= _LONGEST_LINE else "disallow:"  # without a path: it ends the agents
            kept += [rule] if agents else []
        if len(kept) >= _MOST_RULES:
            break
    return kept


@dataclass(slots=True)
class _Record:
    """The state of one origin; the holder of the lock may fetch."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    rules: _RobotsRules | None = None
    fetched_s: float = 0.0
    refresh_s: float = float("-inf")
    failing_since_s: float | None = None
    refusal: str = ""


class Robots:
    """Decides for each request whether its origin's robots.txt allows it, and how far apart requests should be.

    A missing robots.txt (4xx, or endless redirects) allows everything. An unreachable one forbids everything, unless
    there is a copy from the last 30 days, or it has been unreachable for 30 days.

    Parameters
    ----------
    fetcher
        Fetches within ``robots_limits``.
    origins
        Maximum number of remembered origins; the least recently used are forgotten first.
    """

    def __init__(self, fetcher: Fetch, clock: Clock, *, origins: int = 10_000) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._origins = origins
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._characters = 0

    def __len__(self) -> int:
        """Return the number of remembered origins."""
        return len(self._records)

    async def __call__(self, url: URL, trace: ProbeTrace) -> float:
        """Return the seconds between requests that the origin of ``url`` asks for.

        It is a ``RequestGate``; ``trace`` records the requests that it needed, and the delay. Raises
        ``DisallowedError``: the robots.txt forbids it, or the server failed to provide it; ``ProbeError``: the host
        could not be reached, or the guard refused it.
        """
        rules = await self._rules(url, trace)
        origin = url.origin()
        if not rules.allows(url):
            message = f"robots.txt of {origin} disallows {url.raw_path} to {_AGENT}"
            raise DisallowedError(f"{message}; ask the site's owner, or set ROBOTS IGNORE on the source")
        asked_s = rules.crawl_delay_s
        if asked_s is None:
            return 0.0
        trace.crawl_delay_s = min(asked_s, _MOST_DELAY_S)
        return trace.crawl_delay_s

    async def _rules(self, url: URL, trace: ProbeTrace) -> _RobotsRules:
        record = self._record(str(url.origin()))
        record.users += 1
        try:
            async with record.lock:
                if self._clock.monotonic_s() >= record.refresh_s:
                    await self._refresh(url, record, trace)
        finally:
            record.users -= 1
            self._forget()
        if record.refusal or record.rules is None:
            raise DisallowedError(record.refusal)
        return record.rules

    async def _refresh(self, url: URL, record: _Record, trace: ProbeTrace) -> None:
        detour = ProbeTrace(may_send=trace.may_send)
        try:
            response = await self._fetcher.fetch(FetchRequest(str(url.origin().with_path("/robots.txt"))), detour)
        except (BlockedAddressError, QueueTimeoutError):
            raise
        except TooManyRedirectsError:
            self._keep(record, _EVERYTHING_ALLOWED, _DAY_S)
        except ProbeError as error:
            if not self._is_covered(record, _LEAST_S):
                error.message = f"robots.txt of {url.origin()}: {error.message}"
                raise
        else:
            await self._take_answer(url, record, response)
        finally:
            trace.add_detour(detour)

    async def _take_answer(self, url: URL, record: _Record, response: FetchResponse) -> None:
        if response.status in _BUSY:
            self._busy(url, record, response)
        elif response.status < 500:
            fresh_s = _DAY_S if response.fresh_for_s is None else response.fresh_for_s
            self._keep(record, await _read(response), min(max(fresh_s, _LEAST_S), _DAY_S))
        else:
            self._take_failure(url, record, response)

    def _busy(self, url: URL, record: _Record, response: FetchResponse) -> None:
        """Use an old copy while the host is busy; without one, the probe is throttled or fails as the file did."""
        # The next probe asks for the file again: a host that is back is not forbidden for minutes
        if not self._is_covered(record, _LEAST_S):
            message = f"robots.txt of {url.origin()} answers with status {response.status}"
            if response.is_throttling:
                raise ThrottledError(message, retry_after_s=response.retry_after_s)
            raise BadStatusError(message)

    def _take_failure(self, url: URL, record: _Record, response: FetchResponse) -> None:
        wait_s = min(max(response.retry_after_s or 0.0, _LEAST_S), _DAY_S)
        if not self._is_covered(record, wait_s):
            record.refresh_s = self._clock.monotonic_s() + wait_s
            record.refusal = f"robots.txt of {url.origin()} answers with status {response.status}: no request is"
            record.refusal += " allowed until it can be read; ask the site's owner, or set ROBOTS IGNORE on the source"
            raise DisallowedError(record.refusal, retry_after_s=response.retry_after_s)

    def _keep(self, record: _Record, rules: _RobotsRules, keep_s: float) -> None:
        self._characters += rules.characters - (0 if record.rules is None else record.rules.characters)
        record.rules, record.refusal, record.failing_since_s = rules, "", None
        record.fetched_s = self._clock.monotonic_s()
        record.refresh_s = record.fetched_s + keep_s

    def _is_covered(self, record: _Record, wait_s: float) -> bool:
        """Record a failure; return whether an old copy, or a long time without one, decides for now."""
        now_s = self._clock.monotonic_s()
        if record.failing_since_s is None:
            record.failing_since_s = now_s
        if record.rules is not None and now_s - record.fetched_s > _LONGEST_COPY_S:
            self._characters -= record.rules.characters
            record.rules = None
        if record.rules is None and now_s - record.failing_since_s < _LONGEST_COPY_S:
            return False
        if record.rules is None:
            record.rules, record.fetched_s = _EVERYTHING_ALLOWED, now_s
        record.refusal = ""
        record.refresh_s = now_s + wait_s
        return True

    def _record(self, origin: str) -> _Record:
        record = self._records.get(origin)
        if record is None:
            record = self._records[origin] = _Record()
        self._records.move_to_end(origin)
        return record

    def _forget(self) -> None:
        """Forget the least recently used origins, except those in use."""
        idle = [origin for origin in self._oldest() if self._records[origin].users == 0]
        for origin in idle:
            rules = self._records.pop(origin).rules
            self._characters -= 0 if rules is None else rules.characters

    def _oldest(self) -> list[str]:
        surplus = len(self._records) - self._origins
        if self._characters > _MOST_CHARACTERS:
            surplus = max(surplus, len(self._records) // 4)
        return [origin for origin, _ in zip(self._records, range(surplus), strict=False)]


async def _read(response: FetchResponse) -> _RobotsRules:
    """Return the rules in a response; a long one is read in a thread, so that the loop goes on."""
    if response.status not in {200, 203}:
        return _EVERYTHING_ALLOWED
    if len(response.body) <= _INLINE_BYTES:
        return read_robots(response.body)
    return await asyncio.to_thread(read_robots, response.body)
