"""Host groups: the sources of each host, and how independently they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from proxyd.core.planning.allocation.fleet_state import FleetState, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class HostGroups:
    """The sources of each host, and how independently they change.

    Parameters
    ----------
    names, group_of
        The sources, and the group of each by number, shape (sources,).
    k
        The concentration of each group, as ``rates.bursts`` finds it, shape (groups,).
    order, first
        The numbers of the sources group by group, and where each group begins, shape (groups + 1,).

    Examples
    --------
    >>> NO_GROUPS.k_of(3), NO_GROUPS.members_of(None).tolist()
    (inf, [])
    """

    names: Sequence[str]
    group_of: Ints
    k: Floats
    order: Ints
    first: Ints

    @classmethod
    def of(cls, state: FleetState) -> HostGroups:
        """Return the groups of a fleet."""
        if state.host_of is None or state.host_k is None:
            return NO_GROUPS
        order = np.argsort(state.host_of, kind="stable")
        first = np.searchsorted(state.host_of[order], np.arange(len(state.host_k) + 1))
        return cls(state.source_ids, state.host_of, state.host_k, order, first)

    def k_of(self, number: int | None) -> float:
        """Return the concentration of a source's group."""
        return inf if number is None or number >= len(self.group_of) else float(self.k[self.group_of[number]])

    def members_of(self, number: int | None) -> Ints:
        """Return the numbers of the sources of a source's group."""
        if number is None or number >= len(self.group_of):
            return np.zeros(0, dtype=np.int64)
        group = self.group_of[number]
        return self.order[self.first[group] : self.first[group + 1]]


_NOBODY = np.zeros(0, dtype=np.int64)
NO_GROUPS = HostGroups((), _NOBODY, np.zeros(0), _NOBODY, _NOBODY)
