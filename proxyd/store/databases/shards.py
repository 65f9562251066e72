"""Shards: the parts into which a role's work is divided among the processes that share it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

SHARDS = 64
FIRST_SHARD = 0
"""The one that is never given up: which of several planners looks after the declaration must not change needlessly."""
OwnShards: TypeAlias = Callable[[], Collection[int]]


def shard_of(key: str) -> int:
    """Return the shard of what belongs together, which is the same on every machine.

    >>> shard_of("https://hooks.example/a"), shard_of("https://hooks.example/b")
    (25, 35)
    """
    return zlib.crc32(key.encode()) % SHARDS


@dataclass(frozen=True, slots=True)
class Turnover:
    """The shards that a process should take now, those that it should give up, and how many others must give first."""

    take: frozenset[int] = frozenset()
    give: frozenset[int] = frozenset()
    lacks: int = 0


def turnover(holders: Mapping[int, int | None], members: Collection[int], me: int) -> Turnover:
    """Return what brings a process nearer to its fair share; once all have followed, nobody takes or gives any more.

    The shares differ by one at most; the processes with the smaller numbers have the larger ones.

    Parameters
    ----------
    holders
        Who has each shard; ``None`` for nobody. Those that are not among ``members`` are dead.
    members
        The processes that share the work, ``me`` among them.

    Examples
    --------
    >>> turnover({0: 7, 1: 7, 2: 7, 3: 5}, members=[7, 8], me=7)
    Turnover(take=frozenset(), give=frozenset({2}), lacks=0)
    >>> turnover({0: 7, 1: 7, 2: None, 3: 5}, members=[7, 8], me=8)
    Turnover(take=frozenset({2, 3}), give=frozenset(), lacks=0)
    """
    least, over = divmod(len(holders), len(members))
    fair = least + (sum(each < me for each in members) < over)
    own = sorted(shard for shard, holder in holders.items() if holder == me)
    fair = max(fair, FIRST_SHARD in own)
    free = sorted(shard for shard, holder in holders.items() if holder not in members)
    wanted = max(0, fair - len(own))
    return Turnover(frozenset(free[:wanted]), frozenset(own[fair:]), max(0, wanted - len(free)))
