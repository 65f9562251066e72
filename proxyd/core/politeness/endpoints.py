"""Limits on the attempts at an endpoint, and a circuit that pauses a failing one, for all lanes that lead to it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf

import numpy as np

_FAILURES = 5
_LANES = 2
_FIRST_WAIT_S = 2.0
_LONGER = 1.1  # so that what waits comes within a tenth of the outage after it; doubling took as long again
LONGEST_WAIT_S = 600.0
LONGEST_PAUSE_S = 86400.0
JITTER = 0.1
_MOST_ENDPOINTS = 4096


@dataclass(frozen=True, slots=True)
class Circuit:
    """``failures`` in a row over ``lanes``; after ``trips`` in a row it is open until ``until_s`` (unix seconds)."""

    failures: int = 0
    lanes: frozenset[str] = frozenset()
    trips: int = 0
    until_s: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether only one attempt at a time is made, each after a growing wait."""
        return self.trips > 0


def circuit_after_failure(circuit: Circuit, lane: str, now_s: float, rng: np.random.Generator) -> Circuit:
    """Return the circuit after an attempt of ``lane`` failed.

    It opens after 5 failures in a row over at least 2 lanes, because a single lane is paced by its own retries. While
    it is open, one attempt is made after 2 s, a tenth longer with every failure, up to 10 minutes, plus up to 10 % of
    jitter. Attempts that were under way when it opened do not count again.
    """
    if circuit.is_open and now_s < circuit.until_s:
        return circuit
    lanes = circuit.lanes if len(circuit.lanes) >= _LANES else circuit.lanes | {lane}
    failures = circuit.failures + 1
    if not circuit.is_open and (failures < _FAILURES or len(lanes) < _LANES):
        return Circuit(failures, lanes)
    wait_s = min(LONGEST_WAIT_S, _FIRST_WAIT_S * _LONGER ** min(circuit.trips, 64))
    return Circuit(failures, lanes, circuit.trips + 1, now_s + wait_s * (1.0 + JITTER * float(rng.random())))


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """The most attempts at an endpoint at once, and the most in any ``window_s``; ``None`` means no limit."""

    concurrency: int = 8
    attempts: int | None = None
    window_s: float = 0.0


@dataclass(slots=True)
class _Gate:
    circuit: Circuit = field(default_factory=Circuit)
    under_way: int = 0
    pause_until_s: float = 0.0
    starts_s: deque[float] = field(default_factory=deque)
    is_awaited: bool = False

    def opens_s(self, now_s: float, limits: EndpointLimits) -> float:
        """Return when the next attempt may start: 0 means now, infinity when one under way has ended."""
        if self.under_way >= (1 if self.circuit.is_open else limits.concurrency):
            return inf
        wait_s = max(self.circuit.until_s, self.pause_until_s)
        if limits.attempts is not None and len(self.starts_s) >= limits.attempts:
            wait_s = max(wait_s, min(self.starts_s[0], now_s) + limits.window_s)
        return wait_s if wait_s > now_s else 0.0

    def is_idle(self, now_s: float, limits: EndpointLimits) -> bool:
        """Whether there is nothing to remember."""
        is_quiet = not self.starts_s or self.starts_s[-1] + limits.window_s <= now_s
        return self.circuit == Circuit() and not self.under_way and self.pause_until_s <= now_s and is_quiet


@dataclass(slots=True)
class _Waiting:
    """The deliveries that failed since the last success, and those that were woken and have not been accepted since."""

    failing: set[int] = field(default_factory=set)
    woken: set[int] = field(default_factory=set)


class Endpoints:
    """Decides which endpoints may be sent to, and when to wake what waits for one; a restart forgets its state."""

    def __init__(self, limits: EndpointLimits, rng: np.random.Generator) -> None:
        self._limits = limits
        self._rng = rng
        self._gates: dict[str, _Gate] = {}
        self._waiting: dict[str, _Waiting] = {}

    def note_shut(self, now_s: float) -> dict[str, float]:
        """Return the endpoints that may not be sent to now, and when that ends (infinity: with an attempt)."""
        if len(self._gates) > _MOST_ENDPOINTS:
            self._gates = {name: gate for name, gate in self._gates.items() if not gate.is_idle(now_s, self._limits)}
        waits = {name: gate.opens_s(now_s, self._limits) for name, gate in self._gates.items()}
        for name, wait_s in waits.items():
            self._gates[name].is_awaited = wait_s == inf
        return {name: wait_s for name, wait_s in waits.items() if wait_s > 0}

    def enter(self, endpoint: str, now_s: float) -> bool:
        """Note the start of an attempt if one may start, and return whether it may."""
        gate = self._gates.setdefault(endpoint, _Gate())
        if gate.opens_s(now_s, self._limits) > 0:
            return False
        gate.under_way += 1
        if self._limits.attempts is not None:
            gate.starts_s.append(now_s)
            while len(gate.starts_s) > self._limits.attempts:
                gate.starts_s.popleft()
        return True

    def leave(self, endpoint: str, now_s: float) -> bool:
        """Note the end of an attempt whose result was noted before; return whether others may wait for it."""
        gate = self._gates[endpoint]
        was_awaited, gate.is_awaited = gate.is_awaited, False
        gate.under_way -= 1
        if gate.is_idle(now_s, self._limits):
            del self._gates[endpoint]
        return was_awaited

    def note_acceptance(self, endpoint: str, position: int) -> bool:
        """Note that the endpoint works, so that all lanes may continue; return whether to wake what waits for it.

        That is so if something failed since its last success. A delivery that fails again after it was woken is refused
        itself: alone, it does not make the next success wake it.
        """
        self._gates.setdefault(endpoint, _Gate()).circuit = Circuit()
        if len(self._waiting) > _MOST_ENDPOINTS:
            self._waiting = {name: waiting for name, waiting in self._waiting.items() if waiting.failing}
        is_known = endpoint in self._waiting
        waiting = self._waiting.setdefault(endpoint, _Waiting())
        is_back = not is_known or not waiting.failing <= waiting.woken
        waiting.woken |= waiting.failing if is_back else set()
        waiting.woken.discard(position)
        waiting.failing.clear()
        return is_back

    def note_failure(self, endpoint: str, lane: str, now_s: float, *, asked_s: float | None, position: int) -> bool:
        """Note a failure and the wait that the receiver asked for; return whether this opened the circuit."""
        gate = self._gates.setdefault(endpoint, _Gate())
        self._waiting.setdefault(endpoint, _Waiting()).failing.add(position)
        before, gate.circuit = gate.circuit, circuit_after_failure(gate.circuit, lane, now_s, self._rng)
        if asked_s:
            gate.pause_until_s = max(gate.pause_until_s, now_s + min(asked_s, LONGEST_PAUSE_S))
        return gate.circuit.is_open and not before.is_open


LADDER_S = (1.0, 3.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)


def wait_after_attempt_s(attempts: int, *, asked_s: float | None, rng: np.random.Generator) -> float | None:
    """Return how long to wait after the ``attempts``-th failed attempt, or ``None`` if no attempts are left.

    A receiver's Retry-After lengthens a step but never shortens one; up to 10 % of jitter is added.
    """
    if attempts > len(LADDER_S):
        return None
    wait = max(LADDER_S[attempts - 1], min(asked_s or 0.0, LADDER_S[-1]))
    return wait * (1.0 + JITTER * float(rng.random()))
