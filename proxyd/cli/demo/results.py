"""The measurements of the demo, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from proxyd.cli.demo.receiver import Delivered, Receiver
from proxyd.cli.demo.workload import FEEDS, WINDOW, DemoWorkload
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.measures import Measures, Times, found_s, measure
from proxyd.lab.replay.reference_schedules import clairvoyant_probes, uniform_probes

_ROWS = {
    "proxyd": "as it ran: real requests to the origin",
    "uniform": "the same items, as many probes, every feed equally often",
    "clairvoyant": "the same items, at most as many probes, every item known beforehand",
}


@dataclass(frozen=True, slots=True)
class Results:
    """The three schedules over the same items, the deliveries, and the titles of the last of them."""

    measures: dict[str, Measures]
    delivered: Delivered
    unseen: int
    duration_s: float
    seed: int
    newest: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return one object for each schedule."""
        objects = {
            name: {
                "completeness": found.completeness,
                "mean_delay_s": found.mean_delay_s,
                "p95_delay_s": found.p95_delay_s,
                "probes": found.probes,
            }
            for name, found in self.measures.items()
        }
        extra = {
            "items": self.measures["proxyd"].events,
            "unseen": self.unseen,
            "notifications": self.delivered.notifications,
            "verified": self.delivered.verified,
            "duplicates": self.delivered.duplicates,
            "out_of_order": self.delivered.disordered,
            "undelivered": self.delivered.undelivered,
        }
        return json.dumps(objects | {"proxyd": objects["proxyd"] | extra}, indent=2)

    def to_text(self) -> str:
        """Return a table for 80 columns."""
        sent = self.delivered
        items = self.measures["proxyd"].events
        lines = [f"{FEEDS} feeds, {items} items in {self.duration_s:g} s, seed {self.seed}", ""]
        lines.append(f"{'':<12}{'completeness':>13}{'mean delay':>13}{'p95 delay':>12}{'probes':>9}")
        for name, found in self.measures.items():
            delays = f"{found.mean_delay_s:>11.2f} s{found.p95_delay_s:>10.2f} s"
            lines.append(f"{name:<12}{found.completeness:>11.1%}  {delays}{found.probes:>9}")
        lines += ["", *(f"{name:<12} {text}" for name, text in _ROWS.items()), ""]
        lines.append(
            f"{sent.notifications} notifications: {sent.verified} signatures verified, {sent.duplicates} repeated, "
            f"{sent.disordered} out of order, {sent.undelivered} not delivered"
        )
        lines += ["", "the last of what was told:", *(f"  {title}" for title in self.newest)] if self.newest else []
        return "\n".join(lines)


def readable_items(workload: DemoWorkload, requests_s: Sequence[Times]) -> set[tuple[int, int]]:
    """Return the demo's items, by feed and number, that the responses to ``requests_s`` showed."""
    items = set()
    for feed, (times, requests, history) in enumerate(
        zip(workload.times_s, requests_s, workload.histories(), strict=True)
    ):
        found = found_s(times, requests, window=WINDOW)
        items |= {(feed, int(number)) for number in np.flatnonzero(~np.isnan(found)) if number >= history}
    return items


def make_results(
    workload: DemoWorkload, requests_s: Sequence[Times], receiver: Receiver, *, grid: ChrononGrid, seed: int
) -> Results:
    """Return the measures of the daemon and the baselines; times in seconds from the start."""
    stop_s, events = workload.duration_s, workload.events_s()
    probes = [times[(times >= 0.0) & (times < stop_s)] for times in requests_s]
    count = sum(times.size for times in probes)
    schedules = {
        "proxyd": probes,
        "uniform": uniform_probes(FEEDS, count, start_s=0.0, stop_s=stop_s),
        "clairvoyant": clairvoyant_probes(events, count, epoch=Epoch(0, grid.ceil(stop_s)), grid=grid),
    }
    measures = {
        name: measure(events, schedule, grid=grid, end_s=stop_s, window=WINDOW) for name, schedule in schedules.items()
    }
    readable = readable_items(workload, requests_s)
    delivered = replace(receiver.delivered, undelivered=len(readable - receiver.items))
    unseen = sum(times.size for times in events) - len(readable)
    return Results(measures, delivered, unseen, stop_s, seed, tuple(receiver.newest))
