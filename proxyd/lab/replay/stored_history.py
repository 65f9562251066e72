"""Prepares a replay of a daemon's stored events: the sources, their start, and the accuracy of event times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.arrays import Floats
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.traces import Trace
from proxyd.store.seen_events import PastSource

_Bools = NDArray[np.bool_]

_LEAST_S = 2 * 86400.0  # one day to learn from and one to replay
_HOUR_S = 3600.0
_LONGEST_HISTORY_S = 52 * WEEK_S  # no estimate looks further back
_PRIOR_GAPS = 2.0  # weight of the mean gap of all sources against a source's own


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The part of the stored events that can be replayed."""

    trace: Trace
    known_from_s: Floats  # start of each source's complete events, shape (sources,)
    start_s: float  # of the period to replay; earlier events are history
    stop_s: float
    replayed: int  # number of events in the period
    placed: int  # those of them without a time of their own
    placed_wait_s: float  # the mean wait of these before they were seen, as assumed
    own_delay_s: float  # after which the daemon itself saw the events of the period
    own_median_s: float
    gaps_s: Floats  # about the daemon's gap between two probes of each source, shape (sources,)
    left_out: int  # sources that were not watched both before and after ``start_s``
    lost: float  # about so many of these sources' events were lost unseen since first contact

    def probes_per_source_week(self, *, least_gap_s: float, most_per_s: float) -> float:
        """Return the daemon's approximate number of probes of a source in a week, estimated from its events' waits.

        Parameters
        ----------
        least_gap_s
            Minimum time between two probes of a source.
        most_per_s
            Most probes of all sources in a second.
        """
        per_s = float(np.sum(1.0 / np.maximum(self.gaps_s, least_gap_s)))
        return min(per_s, most_per_s) * WEEK_S / len(self.gaps_s)


def middle_of(seen: Sequence[PastSource], *, retention_s: float, name: str) -> float:
    """Return when to start a replay: the middle of the period with most observation, in sources times seconds.

    Parameters
    ----------
    retention_s
        How long events are kept.
    name
        Name of the database, for messages.

    Raises
    ------
    InvalidScheduleError
        The period is too short, or there are no sources.
    """
    stop_s = _stop_s(seen, name)
    begun_s = np.maximum([source.first_contact_s for source in seen], stop_s - retention_s)
    starts_s = (begun_s + stop_s) / 2
    covered = (begun_s <= starts_s[:, None]).sum(axis=1) * (stop_s - starts_s)
    start_s = float(starts_s[np.argmax(covered)])
    watched_s = 2 * (stop_s - start_s)
    if watched_s < _LEAST_S:
        raise InvalidScheduleError(
            f"{name}: sources were watched for {watched_s / _HOUR_S:.1f} h, a replay needs {_LEAST_S / _HOUR_S:.0f} h;"
            " let the daemon run on, or give --test-from a time between"
        )
    return start_s


def past_of(seen: Sequence[PastSource], start_s: float, *, retention_s: float, name: str) -> Past:
    """Return the events that can be replayed from ``start_s`` on.

    A feed shows only its newest items, so of the time before a source's first contact only the items that it showed
    then are known. They are history to learn from, complete since the oldest, and never replayed: a source takes part
    if it was first seen before ``start_s`` and still seen after it. Events older than ``retention_s`` are left out,
    because only some of them are kept.

    Raises
    ------
    InvalidScheduleError
        There is nothing to replay.
    """
    stop_s = _stop_s(seen, name)
    kept = [source for source in seen if source.first_contact_s <= start_s < source.watched_s]
    if not kept:
        raise InvalidScheduleError(
            f"{name}: no source was watched before and after {_date(start_s)}; choose a --test-from between"
            f" {_date(min(source.first_contact_s for source in seen))} and {_date(stop_s)}"
        )
    horizons_s = stop_s - retention_s, start_s - _LONGEST_HISTORY_S
    known = np.array([_known_from_s(source, *horizons_s) for source in kept])
    usable = [_usable(source, known_s, stop_s) for source, known_s in zip(kept, known, strict=True)]
    replayed = [_only(source, source.events_s >= start_s) for source in usable]
    waits = [source.seen_s - source.events_s for source in replayed]
    waits_s = np.concatenate(waits)
    if not waits_s.size:
        raise InvalidScheduleError(
            f"{name}: no event was seen between {_date(start_s)} and {_date(stop_s)}; let the daemon run on, or choose"
            " another --test-from"
        )
    placed_s = waits_s[~np.concatenate([source.exact for source in replayed])]
    return Past(
        trace=Trace(tuple(s.source_id for s in usable), tuple(np.sort(s.events_s) for s in usable)),
        known_from_s=known,
        start_s=start_s,
        stop_s=stop_s,
        replayed=waits_s.size,
        placed=placed_s.size,
        placed_wait_s=float(placed_s.mean()) if placed_s.size else 0.0,
        own_delay_s=float(waits_s.mean()),
        own_median_s=float(np.median(waits_s)),
        gaps_s=_gaps_s(waits),
        left_out=len(seen) - len(kept),
        lost=sum(source.lost for source in kept),
    )


def _stop_s(seen: Sequence[PastSource], name: str) -> float:
    if not seen:
        raise InvalidScheduleError(f"{name}: no source was seen yet; let the daemon run for a while")
    return max(source.watched_s for source in seen)


def _known_from_s(source: PastSource, expired_s: float, oldest_s: float) -> float:
    """Return the start of the complete events: at the earliest, that of the oldest item seen at first contact."""
    begun_s = source.first_contact_s
    shown = source.events_s[source.seed & source.exact]
    if shown.size > 1:
        begun_s = min(begun_s, float(shown.min()))
    if source.first_contact_s <= expired_s:
        begun_s = expired_s
    return max(begun_s, oldest_s)


def _usable(source: PastSource, known_s: float, stop_s: float) -> PastSource:
    """Return the source with only timed events from its complete period; a seed without a time is left out."""
    is_within = (source.events_s > known_s) & (source.events_s <= stop_s)
    return _only(source, is_within & (source.exact | ~source.seed))


def _only(source: PastSource, some: _Bools) -> PastSource:
    arrays = {name: getattr(source, name)[some] for name in ("events_s", "seen_s", "exact", "seed")}
    return replace(source, **arrays)


def _gaps_s(waits: Sequence[Floats]) -> Floats:
    """Return the approximate gaps between probes: an event waits half a gap on average."""
    twice_s = np.array([2.0 * times.sum() for times in waits])
    count = np.array([times.size for times in waits])
    gaps_s: Floats = (twice_s + _PRIOR_GAPS * twice_s.sum() / count.sum()) / (count + _PRIOR_GAPS)
    return gaps_s


def _date(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
