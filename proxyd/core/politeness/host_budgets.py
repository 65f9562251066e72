"""The spacing of starts, and one politeness budget for each host, for planned and for actual starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

import numpy as np

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome

_QUIET_S = 1800.0


@dataclass(frozen=True, slots=True)
class HostThrottle:
    """``strikes`` in a row, and ``until_s``: the earliest next probe of the host in unix seconds."""

    strikes: int = 0
    until_s: float = 0.0


def throttle_host(
    previous: HostThrottle, *, now_s: float, asked_s: float | None, rng: np.random.Generator
) -> HostThrottle:
    """Return the host's throttle after one of its sources asked for fewer requests at ``now_s``.

    The wait is what the origin asked for (Retry-After, at most a day), otherwise 60 s doubling to a day with every
    strike and up to 10 % longer. Answers to probes that were under way together count as one strike. After 30 quiet
    minutes the count starts at one again. The caller should forget the strikes when the host answers meanwhile, because
    one bad address must not silence a host.
    """
    is_same = previous.strikes > 0 and now_s < previous.until_s
    is_forgiven = now_s > previous.until_s + _QUIET_S
    strikes = previous.strikes if is_same else 1 if is_forgiven else previous.strikes + 1
    if asked_s:
        wait_s = min(_LONGEST_S, asked_s)
    else:
        wait_s = min(_LONGEST_S, _FIRST_THROTTLE_S * 2.0 ** min(strikes - 1, 32)) * (
            1.0 + _JITTER * float(rng.random())
        )
    if is_same:
        return HostThrottle(strikes, max(previous.until_s, now_s + wait_s) if asked_s else previous.until_s)
    return HostThrottle(strikes, now_s + wait_s)


class Throttles:
    """The throttles of all scopes: hosts, or groups of hosts that are throttled together."""

    def __init__(self) -> None:
        self._known: dict[str, HostThrottle] = {}

    def take_in(self, scope: str, outcome: ProbeOutcome, rng: np.random.Generator) -> float | None:
        """Note the outcome of a probe of a scope; return until when the scope must not be asked, or ``None``.

        An answer forgets the strikes; a push is not an answer.
        """
        if outcome.kind is OutcomeKind.THROTTLED:
            before = self._known.get(scope, HostThrottle())
            now_s, asked_s = outcome.finished_s, outcome.retry_after_s
            self._known[scope] = after = throttle_host(before, now_s=now_s, asked_s=asked_s, rng=rng)
            return after.until_s
        if outcome.kind.is_success and not outcome.is_push:
            self._known.pop(scope, None)
        return None


class ScopeBlocks:
    """The times until which no probe of a throttle scope may start."""

    def __init__(self, until_s: Mapping[str, float] = MappingProxyType({})) -> None:
        self._until_s = dict(until_s)

    def block(self, scope: str, until_s: float) -> None:
        """Let no probe of a scope start before ``until_s``."""
        self._until_s[scope] = max(until_s, self.until_s(scope))

    def until_s(self, scope: str) -> float:
        """Return until when a scope is blocked, in unix seconds; minus infinity if it is not."""
        return self._until_s.get(scope, -inf)

    def forget(self, now_s: float) -> None:
        """Forget the blocks that are over."""
        self._until_s = {scope: until_s for scope, until_s in self._until_s.items() if until_s > now_s}

    def copy(self) -> ScopeBlocks:
        """Return an independent copy."""
        return ScopeBlocks(self._until_s)


_FIRST_THROTTLE_S = 60.0
_LONGEST_S = 86400.0
_JITTER = 0.1
_FIRST_WAIT_S = {OutcomeKind.THROTTLED: _FIRST_THROTTLE_S, OutcomeKind.GONE: _LONGEST_S}


@dataclass(frozen=True, slots=True)
class BackOff:
    """``failures`` in a row, and ``not_before_s``: the earliest next probe in unix seconds (0: no wait)."""

    failures: int = 0
    not_before_s: float = 0.0


def back_off(
    previous: BackOff,
    outcome: ProbeOutcome,
    *,
    spacing_s: float,
    rng: np.random.Generator,
    counts: bool = True,
    grows: bool = True,
) -> BackOff:
    """Return the back-off after ``outcome``.

    A success forgets the failures. A throttle waits as long as the origin asked (Retry-After), or 60 s doubling to a
    day. A page that is gone (410) waits a day at once, any other failure its source's spacing doubling to a day. All
    waits except the part that Retry-After sets get up to 10 % of jitter, so that sources that failed together do not
    come back together; a wait is never shorter than asked. A failure that does not count (the fault is ours) waits the
    spacing. Unless waits may grow, only a throttle and Retry-After make the source wait longer than its spacing.
    """
    if outcome.kind.is_success:
        asked = outcome.retry_after_s or 0.0
        return BackOff(0, outcome.finished_s + min(asked, _LONGEST_S) if asked else 0.0)
    if not counts:
        wait = spacing_s * (1.0 + _JITTER * float(rng.random()))
        return BackOff(previous.failures, max(previous.not_before_s, outcome.finished_s + wait))
    failures = previous.failures + 1
    if not grows and outcome.kind is not OutcomeKind.THROTTLED and outcome.retry_after_s is None:
        return BackOff(failures)
    first = _FIRST_WAIT_S.get(outcome.kind, spacing_s)
    wait = min(_LONGEST_S, first * 2.0 ** min(failures - 1, 32))
    if outcome.retry_after_s is not None:
        wait = min(outcome.retry_after_s, _LONGEST_S) if outcome.retry_after_s > 0 else first
    wait *= 1.0 + _JITTER * float(rng.random())
    return BackOff(failures, outcome.finished_s + wait)


def fresh_until_s(outcome: ProbeOutcome, *, period_s: float | None, cap_s: float) -> float:
    """Return the time until which a source need not be asked again, in unix seconds; 0 if it may be asked any time.

    It is the longer of the freshness in the response (``max-age``, ``Expires``, also in a 304) and the period after
    which the document says that it changes, from the end of the probe that saw it. Many origins say a day or a year
    without meaning it, so the result is at most ``cap_s`` away. A failure says nothing about the document and sets no
    bound.
    """
    if not outcome.kind.is_success:
        return 0.0
    asked_s = max(outcome.fresh_for_s or 0.0, period_s or 0.0)
    return outcome.finished_s + min(asked_s, cap_s) if asked_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class HostTally:
    """What probes of a host met since ``since_s`` (unix seconds)."""

    since_s: float
    requests: int = 0  # with redirects
    answers: int = 0  # probes that saw the state of their source
    throttles: int = 0  # probes that the host answered with 429, or with 503 and a Retry-After
    failures: int = 0  # other probes
    last_s: float = 0.0
    last_outcome: OutcomeKind | None = None
    last_status: int | None = None

    def count(self, outcome: ProbeOutcome) -> HostTally:
        """Return the tally with one more outcome."""
        is_throttle = outcome.kind is OutcomeKind.THROTTLED
        return HostTally(
            self.since_s,
            self.requests + outcome.requests,
            self.answers + outcome.kind.is_success,
            self.throttles + is_throttle,
            self.failures + (not outcome.kind.is_success and not is_throttle),
            outcome.finished_s,
            outcome.kind,
            outcome.status,
        )


@dataclass(frozen=True, slots=True)
class _Host:
    planned: ProbeLog
    started: ProbeLog


_FORGOTTEN_AFTER_S = 3600.0
_ASK_FOR_EACH = 4  # probe that a host takes, so that the best of them has it


class HostBudgets:
    """The politeness budget of every host, the same for all.

    Probes are planned before they start, and some start late or never. Therefore plans are checked against planned
    starts, and starts against actual ones.
    """

    def __init__(self, budget: PolitenessBudget) -> None:
        self.budget = budget
        self._hosts: dict[str, _Host] = {}
        self._turns_s: dict[str, float] = {}  # the last turn that was given, by host
        self.tallies: dict[str, HostTally] = {}  # since the start

    def earliest_s(self, host: str) -> float:
        """Return the earliest start of the host's next probe, minus infinity if it may start any time."""
        return self._host(host).planned.earliest_s()

    def most_per_s(self, host: str) -> float:
        """Return how many probes a second a host takes in the long run, infinity without a limit."""
        known = self._hosts.get(host)
        return (self.budget if known is None else known.started.budget).most_per_s

    def turn_s(self, host: str, earliest_s: float) -> float:
        """Return when one of many that want to probe a host is to ask again; each later than the last."""
        last_s = self._turns_s.get(host, -inf)
        turn_s = self._turns_s[host] = max(earliest_s, last_s + 1.0 / (_ASK_FOR_EACH * self.most_per_s(host)))
        return turn_s

    def plan(self, host: str, at_s: float) -> None:
        """Note that a probe will start at ``at_s``."""
        self._host(host).planned.record(at_s)

    def start(self, host: str, planned_s: float, now_s: float) -> float:
        """Return when a planned probe may really start, given the actual starts of others; at ``now_s`` it starts."""
        known = self._host(host)
        at_s = max(now_s, known.started.earliest_s())
        if at_s <= now_s:
            known.started.record(now_s)
            known.planned.correct(planned_s, now_s)
        return at_s

    def take_back(self, host: str, planned_s: float) -> None:
        """Forget a planned probe that did not start."""
        self._host(host).planned.correct(planned_s, None)

    def note_outcome(self, host: str, outcome: ProbeOutcome) -> None:
        """Count how a probe of a host ended."""
        self.tallies[host] = self.tallies.get(host, HostTally(outcome.started_s)).count(outcome)

    def space(self, host: str, spacing_s: float) -> None:
        """Keep at least ``spacing_s`` between the probes of a host that asks for more than the others."""
        known = self._host(host)
        if spacing_s > known.started.budget.spacing_s:
            budget = replace(self.budget, spacing_s=spacing_s)
            self._hosts[host] = _Host(
                ProbeLog(budget, known.planned.starts_s), ProbeLog(budget, known.started.starts_s)
            )

    def copy_into(self, other: HostBudgets, hosts: Set[str]) -> None:
        """Copy what is known of some hosts, except those that the other one knows already."""
        for host in hosts - other._hosts.keys():
            if (known := self._hosts.get(host)) is not None:
                other._hosts[host] = _Host(known.planned.copy(), known.started.copy())
            if (turn_s := self._turns_s.get(host)) is not None:
                other._turns_s[host] = turn_s

    def keep(self, hosts: Set[str], now_s: float) -> None:
        """Forget all other hosts that could have been asked an hour ago."""
        since_s = now_s - _FORGOTTEN_AFTER_S
        self._hosts = {
            host: known for host, known in self._hosts.items() if host in hosts or known.planned.earliest_s() > since_s
        }
        self._turns_s = {host: turn_s for host, turn_s in self._turns_s.items() if turn_s > now_s}
        self.tallies = {host: tally for host, tally in self.tallies.items() if host in hosts}

    def remember(self, host: str, start_s: float) -> None:
        """Take over a host's last start before a restart, as if the whole budget had been used then."""
        known = self._host(host)
        for log in (known.planned, known.started):
            if start_s > (log.starts_s[-1] if log.starts_s else 0.0):
                for _ in range(self.budget.probes or 1):
                    log.record(start_s)

    def restore(self, host: str, starts_s: Iterable[float]) -> None:
        """Take over starts of a host's probes before a restart, in any order of its sources."""
        known = self._host(host)
        for log in (known.planned, known.started):
            log.starts_s = sorted({*log.starts_s, *starts_s})[-max(1, self.budget.probes or 1) :]

    def spacing_s(self, host: str) -> float:
        """Return the least time between two probes of a host, in seconds."""
        known = self._hosts.get(host)
        return (self.budget if known is None else known.started.budget).spacing_s

    def _host(self, host: str) -> _Host:
        known = self._hosts.get(host)
        if known is None:
            known = self._hosts[host] = _Host(ProbeLog(self.budget), ProbeLog(self.budget))
        return known


@dataclass(frozen=True, slots=True)
class PolitenessBudget:
    """Probes start at least ``spacing_s`` apart, at most ``probes`` (or any number) of them in any ``window_s``."""

    spacing_s: float
    probes: int | None = None
    window_s: float = 0.0

    @property
    def most_per_s(self) -> float:
        """How many probes a second it allows in the long run, infinity without a limit."""
        spaced = 1.0 / self.spacing_s if self.spacing_s > 0 else inf
        return min(spaced, self.probes / self.window_s) if self.probes is not None and self.window_s > 0 else spaced


@dataclass(slots=True)
class ProbeLog:
    """The starts of a source's or host's recent probes, as many as its budget needs to remember."""

    budget: PolitenessBudget
    starts_s: list[float] = field(default_factory=list)  # a deque takes 600 bytes, and a source mostly keeps one start
    kept: int = 0  # so many more of the last ``kept_s`` seconds, because they count for others too
    kept_s: float = 0.0

    def copy(self) -> ProbeLog:
        """Return an independent copy."""
        return replace(self, starts_s=list(self.starts_s))

    def record(self, start_s: float) -> None:
        """Note a probe that started."""
        self.starts_s.append(start_s)
        least = max(1, self.budget.probes or 1)
        while len(self.starts_s) > least and not self._is_kept(start_s):
            self.starts_s.pop(0)

    def _is_kept(self, now_s: float) -> bool:
        """Whether the oldest start is remembered for others."""
        return len(self.starts_s) <= self.kept and self.starts_s[0] > now_s - self.kept_s

    def move_last(self, start_s: float) -> None:
        """Correct the last start: the probe was planned, and started later."""
        if self.starts_s:
            self.starts_s[-1] = max(self.starts_s[-1], start_s)

    def take_back(self) -> None:
        """Forget the last start: the probe was planned but not made."""
        if self.starts_s:
            self.starts_s.pop()

    def correct(self, planned_s: float, start_s: float | None) -> None:
        """Correct a planned start: the probe started at ``start_s``, or not at all."""
        if planned_s in self.starts_s:
            self.starts_s.remove(planned_s)
            if start_s is not None:
                self.starts_s = sorted([*self.starts_s, start_s])

    def earliest_s(self) -> float:
        """Return the earliest start of the next probe, minus infinity if it may start any time."""
        if not self.starts_s:
            return -inf
        earliest = self.starts_s[-1] + self.budget.spacing_s
        if self.budget.probes is not None and len(self.starts_s) >= self.budget.probes:
            earliest = max(earliest, self.starts_s[-self.budget.probes] + self.budget.window_s)
        return earliest
