"""When a source may be asked again after a failure: never at once, never in step with others, never given up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyd.model.outcome import OutcomeKind, ProbeOutcome

FIRST_THROTTLE_S = 60.0
LONGEST_S = 86400.0
JITTER = 0.1
_FIRST_WAIT_S = {OutcomeKind.THROTTLED: FIRST_THROTTLE_S, OutcomeKind.GONE: LONGEST_S}


@dataclass(frozen=True, slots=True)
class BackOff:
    """``failures`` in a row, and ``not_before_s``: the earliest next probe in unix seconds (0: no wait)."""

    failures: int = 0
    not_before_s: float = 0.0


def back_off(
    previous: BackOff, outcome: ProbeOutcome, *, spacing_s: float, rng: np.random.Generator, counts: bool = True
) -> BackOff:
    """Return the back-off after ``outcome``.

    A success forgets the failures. A throttle waits what the origin asked (Retry-After), or 60 s doubling to a day.
    What is gone for good (410) waits a day at once, any other failure its source's spacing doubling to a day. All but
    Retry-After's own share get up to 10 % of jitter on top, so that what failed together does not come back together;
    the wait is never shorter than asked. A failure that does not count (the fault is ours) waits the spacing.
    """
    if outcome.kind.is_success:
        asked = outcome.retry_after_s or 0.0
        return BackOff(0, outcome.finished_s + min(asked, LONGEST_S) if asked else 0.0)
    if not counts:
        wait = spacing_s * (1.0 + JITTER * float(rng.random()))
        return BackOff(previous.failures, max(previous.not_before_s, outcome.finished_s + wait))
    failures = previous.failures + 1
    first = _FIRST_WAIT_S.get(outcome.kind, spacing_s)
    wait = min(LONGEST_S, first * 2.0 ** min(failures - 1, 32))
    if outcome.retry_after_s is not None:
        wait = min(outcome.retry_after_s, LONGEST_S) if outcome.retry_after_s > 0 else first
    wait *= 1.0 + JITTER * float(rng.random())
    return BackOff(failures, outcome.finished_s + wait)
