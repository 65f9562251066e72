"""Waits after failures: of a source, and of a whole host after one "too many requests"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

import numpy as np

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome

QUIET_S = 1800.0


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
    is_forgiven = now_s > previous.until_s + QUIET_S
    strikes = previous.strikes if is_same else 1 if is_forgiven else previous.strikes + 1
    if asked_s:
        wait_s = min(LONGEST_S, asked_s)
    else:
        wait_s = min(LONGEST_S, _FIRST_THROTTLE_S * 2.0 ** min(strikes - 1, 32)) * (1.0 + JITTER * float(rng.random()))
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
LONGEST_S = 86400.0
JITTER = 0.1
_FIRST_WAIT_S = {OutcomeKind.THROTTLED: _FIRST_THROTTLE_S, OutcomeKind.GONE: LONGEST_S}


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
        return BackOff(0, outcome.finished_s + min(asked, LONGEST_S) if asked else 0.0)
    if not counts:
        wait = spacing_s * (1.0 + JITTER * float(rng.random()))
        return BackOff(previous.failures, max(previous.not_before_s, outcome.finished_s + wait))
    failures = previous.failures + 1
    if not grows and outcome.kind is not OutcomeKind.THROTTLED and outcome.retry_after_s is None:
        return BackOff(failures)
    first = _FIRST_WAIT_S.get(outcome.kind, spacing_s)
    wait = min(LONGEST_S, first * 2.0 ** min(failures - 1, 32))
    if outcome.retry_after_s is not None:
        wait = min(outcome.retry_after_s, LONGEST_S) if outcome.retry_after_s > 0 else first
    wait *= 1.0 + JITTER * float(rng.random())
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
