"""The policies of a replay by name, and their results on a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np

from proxyd.core.errors import UnknownPolicyError
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.policies.registry import POLICIES as LANGUAGE
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.decider_policy import DeciderPolicy
from proxyd.lab.replay.interval_policies import EdfPolicy, WicPolicy
from proxyd.lab.replay.peers import PEERS, WaitingPolicy, factor_for
from proxyd.lab.replay.reference_schedules import clairvoyant_probes
from proxyd.lab.replay.replay import Floats, MeasuredDelays, ProbesMade, ReplayPolicy, Terms, achieved, replay
from proxyd.lab.replay.replay_policies import (
    AutoPolicy,
    LearnedGreedyPolicy,
    UniformPolicy,
    due_policy,
    improved_powers_policy,
    powers_policy,
)
from proxyd.lab.replay.weekly_policies import WeeklyPolicy, parametric_slots

CLAIRVOYANT = "clairvoyant"
_LEAST_WEEKS, _WHOLE = 4, 1e-9


def _doe(terms: Terms) -> str:
    """Return DOE with about the budget's probes; a week may hold one more."""
    each = max(1, terms.probes) / (terms.stop_s - terms.start_s) * WEEK_S / max(1, terms.sources)
    weeks = max(_LEAST_WEEKS, ceil(1 / each))
    return f"DOE({floor(each * weeks + _WHOLE)} PROBES PER {weeks} WEEKS)"


def _of_the_language(name: PolicyName) -> Callable[[Terms], ReplayPolicy]:
    """Return a policy that a rule can set, run by the daemon's own decider."""
    return lambda terms: DeciderPolicy(terms, _doe(terms) if name is PolicyName.DOE else name.value)


LEARNING: dict[str, Callable[[Terms], ReplayPolicy]] = {
    **{name.value.lower(): _of_the_language(name) for name in LANGUAGE},
    "auto": AutoPolicy,
    "daemon": DeciderPolicy,
    "uniform": UniformPolicy,
    "due": due_policy,
    "greedy": LearnedGreedyPolicy,
    "powers": powers_policy,
    "powers-improved": improved_powers_policy,
    "threshold": lambda terms: WeeklyPolicy(terms, parametric_slots("threshold")),
    "first-arrival": lambda terms: WeeklyPolicy(terms, parametric_slots("first-arrival")),
    "wic": WicPolicy,
    "edf": EdfPolicy,
}
POLICIES: tuple[str, ...] = (*LEARNING, *PEERS, CLAIRVOYANT)
"""All names, in the order of listings."""

_SCALING_ROOM = 2  # times the budget while scaling: a formula that uses all of it makes too many probes


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The results of one policy.

    Parameters
    ----------
    factor
        The factor of a peer's waits at which it makes as many probes; ``None`` for other policies.
    """

    policy: str
    achieved: MeasuredDelays
    factor: float | None = None


def checked_policies(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with ``all`` replaced by every name.

    Raises
    ------
    UnknownPolicyError
        A name is unknown.

    Examples
    --------
    >>> checked_policies(["auto", "uniform"])
    ('auto', 'uniform')
    """
    for name in names:
        if name != "all" and name not in POLICIES:
            raise UnknownPolicyError(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}, or all")
    return POLICIES if "all" in names else tuple(dict.fromkeys(names))


def run(name: str, events_s: Sequence[Floats], terms: Terms) -> PolicyRow:
    """Return the results of a policy on the events of the epoch.

    Parameters
    ----------
    name
        One of ``POLICIES``.
    events_s
        Each source's events in the epoch, ascending.

    Examples
    --------
    >>> from proxyd.core.model.chronon import ChrononGrid, Epoch
    >>> history = (np.zeros(0), np.zeros(0))
    >>> terms = Terms(ChrononGrid(10.0), Epoch(0, 6), probes=3, history=history, history_start_s=0.0, slot_s=10.0)
    >>> run("uniform", (np.array([5.0]), np.array([7.0])), terms).achieved.probes
    3
    """
    if name == CLAIRVOYANT:
        return PolicyRow(name, achieved(events_s, _clairvoyant(events_s, terms), terms))
    if name in PEERS:
        return _run_peer(name, events_s, terms)
    return PolicyRow(name, achieved(events_s, replay(events_s, LEARNING[name](terms), terms), terms))


def _run_peer(name: str, events_s: Sequence[Floats], terms: Terms) -> PolicyRow:
    roomy = replace(terms, probes=terms.probes * _SCALING_ROOM)

    def made(factor: float) -> ProbesMade:
        return replay(events_s, WaitingPolicy(roomy, PEERS[name](roomy), factor=factor), roomy)

    factor = factor_for(lambda tried: made(tried).count, terms.probes)
    return PolicyRow(name, achieved(events_s, made(factor), terms), factor)


def _clairvoyant(events_s: Sequence[Floats], terms: Terms) -> ProbesMade:
    schedule = clairvoyant_probes(events_s, terms.probes, epoch=terms.epoch, grid=terms.grid)
    sources = np.repeat(np.arange(len(schedule)), [times.size for times in schedule])
    # it probes at the end of a chronon, which is the start of the next
    chronons = np.concatenate([np.zeros(0), *schedule]) / terms.grid.length_s
    return ProbesMade(sources, np.floor(chronons + 0.5).astype(np.int64))
