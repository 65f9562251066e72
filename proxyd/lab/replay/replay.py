"""Replays: a policy against events that only the replay knows, chronon by chronon, and what it achieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.measures import captured, delays_s, found_s
from proxyd.core.model.outcome import OutcomeKind
from proxyd.lab.traces.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EVERY = slice(None)


@dataclass(frozen=True, slots=True)
class SourceFault:
    """A time in which a source answers otherwise.

    Parameters
    ----------
    kind
        THROTTLED, TIMEOUT or any other failure.
    retry_after_s
        What a throttle asks for, ``None`` where it does not say.

    Examples
    --------
    >>> SourceFault(0.0, 60.0).holds_at(60.0)
    False
    """

    start_s: float
    stop_s: float
    kind: OutcomeKind = OutcomeKind.TIMEOUT
    retry_after_s: float | None = None

    def holds_at(self, time_s: float) -> bool:
        """Whether a probe at a time fails."""
        return self.start_s <= time_s < self.stop_s


@dataclass(frozen=True, eq=False)
class Terms:
    """What holds for a replay, and what a policy may know when it begins.

    Parameters
    ----------
    grid, epoch
        Chronons, and those that are replayed.
    probes
        Budget of the whole epoch.
    per_chronon
        Most probes of a chronon, ``None`` where only the whole counts.
    history
        Each source's events before the epoch, from ``history_start_s`` on.
    slot_s
        Slots in which plans are made, in seconds; a multiple of a chronon.
    life_s
        How long an event is worth capturing; until the next one (*overwrite*) where ``None``.
    seed
        Of policies that draw.
    faults
        By number of a source, when its probes fail: they count, and find nothing.
    known_from_s
        Since when each source's history is whole, shape (sources,); ``history_start_s`` for all where ``None``.

    Examples
    --------
    >>> grid, epoch = ChrononGrid(10.0), Epoch(0, 6)
    >>> nothing = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(grid, epoch, probes=3, history=nothing, history_start_s=0.0, slot_s=10.0)
    >>> terms.sources, terms.stop_s, [terms.even(now) for now in epoch]
    (2, 60.0, [0, 1, 0, 1, 0, 1])
    """

    grid: ChrononGrid
    epoch: Epoch
    probes: int
    history: tuple[Floats, ...]
    history_start_s: float
    slot_s: float
    per_chronon: int | None = None
    life_s: float | None = None
    seed: int = 1
    known_from_s: Floats | None = None
    faults: Mapping[int, Sequence[SourceFault]] = field(default_factory=dict)

    @property
    def sources(self) -> int:
        """How many sources there are."""
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
        """Whether a probe of a source at a time does not fail."""
        return not any(fault.holds_at(now_s) for fault in self.faults.get(source, ()))

    @property
    def pace(self) -> float:
        """Probes a chronon on the average."""
        return self.probes / len(self.epoch)

    def even(self, now: Chronon) -> int:
        """Return the probes of chronon ``now`` if the budget is spread evenly."""
        number = now - self.epoch.start
        return (number + 1) * self.probes // len(self.epoch) - number * self.probes // len(self.epoch)


class ReplayPolicy(Protocol):
    """Chooses sources chronon by chronon and is told what was found; sources are numbers from 0.

    Examples
    --------
    A policy of one's own needs these two methods and nothing else:

    >>> class Always:
    ...     def choose(self, now: Chronon, room: int) -> Ints:
    ...         return np.arange(min(room, 1))
    ...
    ...     def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
    ...         pass
    >>> grid, epoch = ChrononGrid(10.0), Epoch(0, 6)
    >>> nothing = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(grid, epoch, probes=3, history=nothing, history_start_s=0.0, slot_s=10.0)
    >>> replay((np.array([5.0]), np.array([7.0])), Always(), terms).chronons.tolist()
    [0, 1, 2]
    """

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the sources to probe at the start of chronon ``now``: each once, at most ``room``."""

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Take in what the probes of ``now`` found: item times, and for each the position in ``probed``."""


@dataclass(frozen=True, eq=False)
class ProbesMade:
    """The probes of a replay in order: sources and chronons, shape (probes,) each, without the ``failed`` ones.

    Examples
    --------
    >>> made = ProbesMade(np.array([1, 0, 1]), np.array([3, 4, 5]))
    >>> [chronons.tolist() for chronons in made.of_each(2)]
    [[4], [3, 5]]
    """

    sources: Ints
    chronons: Ints
    failed: int = 0

    @property
    def count(self) -> int:
        """How many probes were made, those included that failed."""
        return len(self.sources) + self.failed

    def of_each(self, sources: int) -> list[Ints]:
        """Return the chronons at which each source was probed, ascending."""
        order = np.argsort(self.sources, kind="stable")
        cuts = np.searchsorted(self.sources[order], np.arange(1, sources))
        return np.split(self.chronons[order], cuts)


def split(trace: Trace, start_s: float) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the events of each source before ``start_s`` and those from then on.

    Examples
    --------
    >>> before, after = split(Trace.of([[1.0, 2.0, 3.0]]), 2.0)
    >>> before[0].tolist(), after[0].tolist()
    ([1.0], [2.0, 3.0])
    """
    cuts = [int(np.searchsorted(times, start_s, side="left")) for times in trace.events_s]
    before = tuple(times[:cut] for times, cut in zip(trace.events_s, cuts, strict=True))
    return before, tuple(times[cut:] for times, cut in zip(trace.events_s, cuts, strict=True))


def replay(events_s: Sequence[Floats], policy: ReplayPolicy, terms: Terms) -> ProbesMade:
    """Return the probes that ``policy`` makes; it learns of an event only by a probe at or after it.

    Parameters
    ----------
    events_s
        Each source's events in the epoch, ascending.

    Raises
    ------
    ValueError
        The policy probed more than it may, or a source twice in a chronon.

    Examples
    --------
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
    """Events that nobody has found yet."""

    def __init__(self, events_s: Sequence[Floats]) -> None:
        self._events = events_s
        self._found = np.zeros(len(events_s), dtype=np.int64)
        self._next_s = np.array([times[0] if times.size else np.inf for times in events_s])

    def take(self, probed: Ints, now_s: float, seen: Any) -> tuple[Ints, Floats]:
        """Return and forget the events up to ``now_s`` of the sources ``seen``: positions in ``probed``, and times."""
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
    """What a policy achieved; delays of events that were never found run to the end of the epoch.

    Parameters
    ----------
    completeness
        Execution intervals captured, 0 to 1.
    undiscovered_mean
        Events waiting to be found, on the average over time.
    peak_probes_per_slot
        Most probes in one slot of the plan.

    Examples
    --------
    >>> MeasuredDelays(3, 14.0, 14.0, 22.1, 1.0, 0.47, 1).mean_delay_s
    14.0
    """

    probes: int
    mean_delay_s: float
    median_delay_s: float
    p95_delay_s: float
    completeness: float
    undiscovered_mean: float
    peak_probes_per_slot: int


def achieved(events_s: Sequence[Floats], made: ProbesMade, terms: Terms) -> MeasuredDelays:
    """Return the measures of the probes made against the events of the epoch.

    Examples
    --------
    >>> grid, epoch = ChrononGrid(10.0), Epoch(0, 6)
    >>> nothing = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(grid, epoch, probes=3, history=nothing, history_start_s=0.0, slot_s=10.0)
    >>> made = ProbesMade(np.array([0, 1]), np.array([1, 3]))
    >>> achieved((np.array([5.0]), np.array([7.0])), made, terms).mean_delay_s
    14.0
    """
    probes_s = [terms.grid.length_s * chronons for chronons in made.of_each(terms.sources)]
    pairs = list(zip(events_s, probes_s, strict=True))
    delays = np.concatenate([np.zeros(0), *(delays_s(e, p, end_s=terms.stop_s) for e, p in pairs)])
    if terms.life_s is None:
        caught = np.concatenate([np.zeros(0), *(captured(e, p, grid=terms.grid) for e, p in pairs)])
    else:
        # no number is never within a life: what was not found was not captured, however late it came
        waits = np.concatenate([np.zeros(0), *(found_s(e, p) - e for e, p in pairs)])
        caught = waits <= terms.life_s
    slots = np.unique(np.floor(made.chronons * (terms.grid.length_s / terms.slot_s) + 1e-9), return_counts=True)[1]
    some = delays.size > 0
    return MeasuredDelays(
        probes=made.count,
        mean_delay_s=float(delays.mean()) if some else 0.0,
        median_delay_s=float(np.median(delays)) if some else 0.0,
        p95_delay_s=float(np.quantile(delays, 0.95)) if some else 0.0,
        completeness=float(caught.mean()) if some else 1.0,
        undiscovered_mean=float(delays.sum()) / (terms.stop_s - terms.start_s),
        peak_probes_per_slot=int(slots.max(initial=0)),
    )
