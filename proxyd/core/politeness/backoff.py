"""When a failed source may be asked again: not at once, not in step with others, but always eventually."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome

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
    without meaning it, so the result is capped. A failure says nothing about the document and sets no bound.

    Parameters
    ----------
    period_s
        The period that the document gave when it was last read, in seconds.
    cap_s
        The longest bound.

    Examples
    --------
    >>> from proxyd.core.model.outcome import OutcomeKind
    >>> read = ProbeOutcome("a", OutcomeKind.NOT_MODIFIED, 90.0, 100.0, fresh_for_s=60.0)
    >>> fresh_until_s(read, period_s=1800.0, cap_s=3600.0), fresh_until_s(read, period_s=None, cap_s=30.0)
    (1900.0, 130.0)
    """
    if not outcome.kind.is_success:
        return 0.0
    asked_s = max(outcome.fresh_for_s or 0.0, period_s or 0.0)
    return outcome.finished_s + min(asked_s, cap_s) if asked_s > 0 else 0.0
