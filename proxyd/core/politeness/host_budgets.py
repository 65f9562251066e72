"""The spacing of starts, and one politeness budget for each host, for planned and for actual starts."""

from __future__ import annotations

from collections.abc import Iterable, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import inf


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
                other._hosts[host] = deepcopy(known)
            if (turn_s := self._turns_s.get(host)) is not None:
                other._turns_s[host] = turn_s

    def keep(self, hosts: Set[str], now_s: float) -> None:
        """Forget all other hosts that could have been asked an hour ago."""
        since_s = now_s - _FORGOTTEN_AFTER_S
        self._hosts = {
            host: known for host, known in self._hosts.items() if host in hosts or known.planned.earliest_s() > since_s
        }
        self._turns_s = {host: turn_s for host, turn_s in self._turns_s.items() if turn_s > now_s}

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
