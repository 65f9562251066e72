"""Clocks of two machines differ: what one did is put where the other's clock allows it."""

from __future__ import annotations

from dataclasses import replace

from proxyd.model.outcome import ProbeOutcome


def by_our_clock(outcome: ProbeOutcome, *, sent_s: float, arrived_s: float) -> ProbeOutcome:
    """Return an outcome whose times lie after its request was sent and before it arrived, by our clock.

    Its duration stays. Clocks that agree better than messages travel change nothing.

    Examples
    --------
    >>> from proxyd.model.outcome import OutcomeKind
    >>> ahead = ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, started_s=107.0, finished_s=108.0)
    >>> moved = by_our_clock(ahead, sent_s=100.0, arrived_s=102.0)
    >>> moved.started_s, moved.finished_s
    (101.0, 102.0)
    """
    shift_s = max(0.0, sent_s - outcome.started_s) or min(0.0, arrived_s - outcome.finished_s)
    if shift_s == 0.0:
        return outcome
    return replace(outcome, started_s=outcome.started_s + shift_s, finished_s=outcome.finished_s + shift_s)
