"""Replays: runs a policy, chronon by chronon, on events that only the replay knows, and measures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.outcome import OutcomeKind
from proxyd.core.model.schedule import captures, delays_s, found_s
from proxyd.lab.traces import Trace

_EVERY = slice(None)


@dataclass(frozen=True, slots=True)
class SourceFault:
    """A period in which a source answers differently."""

    start_s: float
    stop_s: float
    kind: OutcomeKind = OutcomeKind.TIMEOUT
    retry_after_s: float | None = None  # what a throttle asks for

    def holds_at(self, time_s: float) -> bool:
        """Return whether a probe at a time fails."""
        return self.start_s <= time_s < self.stop_s


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of a replay, and what a policy may know at its start."""

    grid: ChrononGrid
    epoch: Epoch
    probes: int  # of the whole epoch
    history: tuple[Floats, ...]  # each source's events before the epoch, from ``history_start_s`` on
    history_start_s: float
    slot_s: float  # of plans; a multiple of a chronon
    per_chronon: int | None = None
    life_s: float | None = None  # how long an event is worth capturing; ``None`` until the next one (*overwrite*)
    in_time: bool = False  # whether policies that can plan for it are to capture events in time
    target: float | None = None  # the share to capture in time, with as few probes as that takes
    seed: int = 1
    importance: Floats | None = (
        None  # of an item of each source, for the daemon's own policies; ``None`` if all are alike
    )
    known_from_s: Floats | None = None  # start of each source's complete history, if it is not ``history_start_s``
    # Periods of failing probes by source number; such probes count, and find nothing.
    faults: Mapping[int, Sequence[SourceFault]] = field(default_factory=dict)

    @property
    def sources(self) -> int:
        """Number of sources."""
        return len(self.history)

    @property
    def start_s(self) -> float:
        """When the epoch starts."""
        return self.grid.start_s(self.epoch.start)

    @property
    def stop_s(self) -> float:
        """When the epoch ends."""
        return self.grid.start_s(self.epoch.stop)

    def answers(self, source: int, now_s: float) -> bool:
        """Return whether a probe of a source at a time succeeds."""
        return not any(fault.holds_at(now_s) for fault in self.faults.get(source, ()))

    @property
    def pace(self) -> float:
        """Average number of probes in a chronon."""
        return self.probes / len(self.epoch)

    def even(self, now: Chronon) -> int:
        """Return the probes of chronon ``now`` if the budget is spread evenly."""
        number = now - self.epoch.start
        return (number + 1) * self.probes // len(self.epoch) - number * self.probes // len(self.epoch)


class ReplayPolicy(Protocol):
    """Chooses sources in each chronon and is told the results; sources are numbers from 0."""

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the sources to probe at the start of chronon ``now``: no source twice, at most ``room``."""

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Record the results of the probes of ``now``: item times, and for each the position in ``probed``."""


@dataclass(frozen=True, eq=False)
class ProbesMade:
    """The probes of a replay in order: sources and chronons, shape (probes,) each, without the ``failed`` ones."""

    sources: Ints
    chronons: Ints
    failed: int = 0

    @property
    def count(self) -> int:
        """Number of probes, including failed ones."""
        return len(self.sources) + self.failed

    def of_each(self, sources: int) -> list[Ints]:
        """Return the chronons at which each source was probed, ascending."""
        order = np.argsort(self.sources, kind="stable")
        cuts = np.searchsorted(self.sources[order], np.arange(1, sources))
        return np.split(self.chronons[order], cuts)


def split(trace: Trace, start_s: float) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the events of each source before ``start_s``, and those from then on."""
    cuts = [int(np.searchsorted(times, start_s, side="left")) for times in trace.events_s]
    before = tuple(times[:cut] for times, cut in zip(trace.events_s, cuts, strict=True))
    return before, tuple(times[cut:] for times, cut in zip(trace.events_s, cuts, strict=True))


def replay(events_s: Sequence[Floats], policy: ReplayPolicy, terms: Terms) -> ProbesMade:
    """Return the probes of ``policy``; it learns of an event only from a probe at or after the event.

    A ``ValueError`` says that the policy made too many probes, or probed a source twice in a chronon. ``events_s`` are
    each source's events in the epoch, ascending.

    >>> grid, epoch = ChrononGrid(10.0), Epoch(0, 6)
    >>> nothing = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(grid, epoch, probes=3, history=nothing, history_start_s=0.0, slot_s=10.0)
    >>> from proxyd.lab.replay.replay_policies import UniformPolicy
    >>> made = replay((np.array([5.0]), np.array([7.0])), UniformPolicy(terms), terms)
    >>> made.sources.tolist(), made.chronons.tolist()
    ([0, 1, 0], [1, 3, 5])
    """
    waiting = _Waiting(events_s)
    made: list[tuple[Chronon, Ints]] = []
    left, failed = terms.probes, 0
    for now in terms.epoch:
        room = left if terms.per_chronon is None else min(left, terms.per_chronon)
        if room <= 0:
            continue
        probed = policy.choose(now, room)
        if not len(probed):
            continue
        if len(probed) > room or len(np.unique(probed)) < len(probed):
            raise ValueError(f"chronon {now}: {len(probed)} probes with room for {room}, each source once")
        left -= len(probed)
        now_s = terms.grid.start_s(now)
        seen = np.array([terms.answers(source, now_s) for source in probed.tolist()]) if terms.faults else _EVERY
        made.append((now, probed[seen]))
        failed += len(probed) - len(made[-1][1])
        policy.observe(now, probed, *waiting.take(probed, now_s, seen))
    sources = np.concatenate([np.zeros(0, dtype=np.int64), *(probed for _, probed in made)])
    chronons = np.repeat(np.array([now for now, _ in made], dtype=np.int64), [len(probed) for _, probed in made])
    return ProbesMade(sources, chronons, failed)


class _Waiting:
    """Events that are not found yet."""

    def __init__(self, events_s: Sequence[Floats]) -> None:
        self._events = events_s
        self._found = np.zeros(len(events_s), dtype=np.int64)
        self._next_s = np.array([times[0] if times.size else np.inf for times in events_s])

    def take(self, probed: Ints, now_s: float, seen: Any) -> tuple[Ints, Floats]:
        """Remove and return the events of the sources ``seen`` up to ``now_s``: positions in ``probed``, and times."""
        places = np.arange(len(probed))[seen]
        places = places[self._next_s[probed[places]] <= now_s]
        taken: list[Floats] = []
        for source in probed[places]:
            times, first = self._events[source], self._found[source]
            last = int(np.searchsorted(times, now_s, side="right"))
            taken.append(times[first:last])
            self._found[source] = last
            self._next_s[source] = times[last] if last < times.size else np.inf
        return np.repeat(places, [times.size for times in taken]), np.concatenate([np.zeros(0), *taken])


@dataclass(frozen=True, slots=True)
class MeasuredDelays:
    """The results of a policy; delays of events that were never found last to the end of the epoch."""

    probes: int
    mean_delay_s: float
    median_delay_s: float
    p95_delay_s: float
    completeness: float  # share of the finished execution intervals that were captured
    unfinished: int  # intervals that outlive the epoch, of events that were not found in it
    undiscovered_mean: float  # events, averaged over time
    peak_probes_per_slot: int


def measures_of_probes(events_s: Sequence[Floats], made: ProbesMade, terms: Terms) -> MeasuredDelays:
    """Return the measures of the probes for the events of the epoch.

    >>> grid, epoch = ChrononGrid(10.0), Epoch(0, 6)
    >>> nothing = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(grid, epoch, probes=3, history=nothing, history_start_s=0.0, slot_s=10.0)
    >>> made = ProbesMade(np.array([0, 1]), np.array([1, 3]))
    >>> measures_of_probes((np.array([5.0]), np.array([7.0])), made, terms).mean_delay_s
    14.0
    """
    probes_s: list[Floats] = [
        terms.grid.length_s * chronons.astype(np.float64) for chronons in made.of_each(terms.sources)
    ]
    pairs: list[tuple[Floats, Floats]] = list(zip(events_s, probes_s, strict=True))
    delays = np.concatenate([np.zeros(0), *(delays_s(e, p, end_s=terms.stop_s) for e, p in pairs)])
    caught, unfinished = zip(*(_captures(e, p, terms) for e, p in pairs), strict=True) if pairs else ((), ())
    finished = np.concatenate([np.zeros(0), *caught])
    slots = np.unique(np.floor(made.chronons * (terms.grid.length_s / terms.slot_s) + 1e-9), return_counts=True)[1]
    some = delays.size > 0
    return MeasuredDelays(
        probes=made.count,
        mean_delay_s=float(delays.mean()) if some else 0.0,
        median_delay_s=float(np.median(delays)) if some else 0.0,
        p95_delay_s=float(np.quantile(delays, 0.95)) if some else 0.0,
        completeness=float(finished.mean()) if finished.size else 1.0,
        unfinished=sum(unfinished),
        undiscovered_mean=float(delays.sum()) / (terms.stop_s - terms.start_s),
        peak_probes_per_slot=int(slots.max(initial=0)),
    )


def _captures(events_s: Floats, probes_s: Floats, terms: Terms) -> tuple[NDArray[np.bool_], int]:
    """Return which finished intervals of a source were captured, and the number of the others."""
    if terms.life_s is None:
        caught = captures(events_s, probes_s, grid=terms.grid)
        last = caught.size - int(caught.size > 0 and not caught[-1] and not np.any(probes_s >= events_s[-1]))
        return caught[:last], caught.size - last
    found = found_s(events_s, probes_s)
    # NaN is never within a life: an event that was not found was not captured, even a late one
    waiting = np.isnan(found) & (events_s + terms.life_s > terms.stop_s)
    return (found - events_s <= terms.life_s)[~waiting], int(waiting.sum())


def uniform_probes(sources: int, probes: int, *, start_s: float, stop_s: float) -> list[NDArray[np.float64]]:
    """Return the times of exactly ``probes`` probes, distributed as evenly as possible over sources and time.

    The sources take turns, so that their phases are staggered and the load is even. Their order must not depend on
    their events.

    Examples
    --------
    >>> uniform_probes(2, 5, start_s=0.0, stop_s=10.0)
    [array([1., 5., 9.]), array([3., 7.])]
    """
    turns = np.arange(probes, dtype=np.float64) + 0.5
    times = start_s + turns * ((stop_s - start_s) / max(1, probes))
    return [times[source::sources] for source in range(sources)]


def clairvoyant_probes(
    events_s: Sequence[ArrayLike], probes: int, *, epoch: Epoch, grid: ChrononGrid
) -> list[NDArray[np.float64]]:
    """Return the probe times of a schedule that knows every event; at most ``probes``.

    The probes are spread evenly over the chronons as ``C_j``. A chronon spends its probes on the pages with the most
    undiscovered items, then those with the oldest, and does not save unused ones. It probes when a thousandth of the
    chronon is left, so that it finds the chronon's items.

    It is greedy and not proven optimal: waiting for a page that will soon have more items could be better.

    Parameters
    ----------
    events_s
        The events of each source, ascending.

    Examples
    --------
    >>> schedule = clairvoyant_probes([[0.5, 2.5], [0.25, 0.75]], 3, epoch=Epoch(0, 3), grid=ChrononGrid(1.0))
    >>> [times.round(3).tolist() for times in schedule]
    [[1.999, 2.999], [0.999]]
    """
    events = [np.asarray(times, dtype=np.float64).reshape(-1) for times in events_s]
    seen = np.zeros(len(events), dtype=np.int64)
    schedule: list[list[float]] = [[] for _ in events]
    length = len(epoch)
    for number, chronon in enumerate(epoch):
        at_s = grid.start_s(chronon + 1) - grid.length_s / 1000
        capacity = (number + 1) * probes // length - number * probes // length
        there = np.array([np.searchsorted(times, at_s, side="right") for times in events], dtype=np.int64)
        holding = np.flatnonzero(there > seen)
        oldest = np.array([events[source][seen[source]] for source in holding])
        for source in holding[np.lexsort((oldest, seen[holding] - there[holding]))[:capacity]]:
            schedule[source].append(at_s)
            seen[source] = there[source]
    return [np.array(times, dtype=np.float64) for times in schedule]
