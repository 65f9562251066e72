"""What is replayed: the events that the daemon saw, from its database."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

import numpy as np

from proxyd.cli.science.given import Given, begin_s
from proxyd.config import load
from proxyd.errors import NotFoundError
from proxyd.estimation import WEEK_S
from proxyd.model.chronon import ChrononGrid
from proxyd.simulate.past import Past, middle_of, past_of
from proxyd.store import read_past

_HOUR_S = 3600.0


def from_database(options: argparse.Namespace, grid: ChrononGrid) -> Given:
    """Return the events that the daemon saw."""
    settings = load(options.config, database=options.from_database or None)
    name, kept_s = settings.database, settings.retention
    if settings.database_path is None:
        raise NotFoundError(
            f"{settings.database_shown}: only a file can be replayed; make one with `proxyd backup FILE`"
        )
    seen = read_past(settings.database_path)

    def middle_s() -> float:
        return middle_of(seen, retention_s=kept_s, name=name)

    stop_s = max((source.watched_s for source in seen), default=np.inf)
    start_s = grid.start_s(grid.chronon_at(begin_s(options.test_from, stop_s, middle_s)))
    past = past_of(seen, start_s, retention_s=kept_s, name=name)
    made = past.probes_per_source_week(least_gap_s=settings.source_spacing, most_per_s=settings.budget.mean_per_s)
    weekly = min(made, WEEK_S / grid.length_s)  # a replayed source is probed once a chronon at most
    notes = _notes(past, made, grid)
    return Given(past.trace, start_s, past.stop_s, past.known_from_s, weekly, _facts(past, made), notes)


def _facts(past: Past, made: float) -> dict[str, object]:
    return {
        "own_mean_delay_s": past.own_delay_s,
        "own_median_delay_s": past.own_median_s,
        "own_probes_per_source_week": made,
        "events": past.replayed,
        "events_without_time": past.placed,
        "sources": len(past.trace.sources),
        "sources_left_out": past.left_out,
        "lost_events": past.lost,
    }


def _notes(past: Past, made: float, grid: ChrononGrid) -> tuple[str, ...]:
    own, median = past.own_delay_s / _HOUR_S, past.own_median_s / _HOUR_S
    saw = f"The daemon itself saw these events after {own:.2f} h on the average (median {median:.2f} h)"
    notes = [f"{saw}, with about {made:.1f} probes a source and week."]
    if made * grid.length_s > WEEK_S:
        minutes = grid.length_s / 60
        notes.append(f"Replayed policies probe a source once in {minutes:g} min at most; try --slot 5m for more.")
    if past.placed:
        notes.append(
            f"{past.placed} of {past.replayed} events have no time of their own: each is placed between the probe that"
            f" saw it and the one before, {past.placed_wait_s / _HOUR_S:.2f} h earlier on the average; so coarse are"
            " their delays."
        )
    if past.left_out:
        since = datetime.fromtimestamp(past.start_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
        notes.append(f"Sources left out: {past.left_out}, not watched both before and after {since}.")
    if past.lost >= 1:
        notes.append(f"About {past.lost:.0f} more events were lost unseen since first contact; no replay finds them.")
    return tuple(notes)
