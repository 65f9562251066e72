"""Freshness bounds: how long an origin says that its answer holds, so that asking again sooner is of no use."""

from __future__ import annotations

from proxyd.model.outcome import ProbeOutcome


def fresh_until_s(outcome: ProbeOutcome, *, period_s: float | None, cap_s: float) -> float:
    """Return before when a source need not be asked again, in unix seconds; 0 for any time.

    The longer of what the response says (``max-age``, ``Expires``, of a 304 as well) and of how often the document says
    that it changes, from the end of the probe that saw it. Many say a day or a year without meaning it, so the bound is
    capped. A failure says nothing of the document: it bounds nothing.

    Parameters
    ----------
    period_s
        What the document said when it was last read, in seconds.
    cap_s
        Longest bound.

    Examples
    --------
    >>> from proxyd.model.outcome import OutcomeKind
    >>> read = ProbeOutcome("a", OutcomeKind.NOT_MODIFIED, 90.0, 100.0, fresh_for_s=60.0)
    >>> fresh_until_s(read, period_s=1800.0, cap_s=3600.0), fresh_until_s(read, period_s=None, cap_s=30.0)
    (1900.0, 130.0)
    """
    if not outcome.kind.is_success:
        return 0.0
    asked_s = max(outcome.fresh_for_s or 0.0, period_s or 0.0)
    return outcome.finished_s + min(asked_s, cap_s) if asked_s > 0 else 0.0
