"""Probes for rules that fire on every n-th update, in an epoch: the best next one for every chronon and count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.numba_kernels import flat, kernel

_EXACT = 1e-9
_RARE = 1e-9
_LEAST_NOISE = 1e-6  # updates a chronon; fewer are left out


@dataclass(frozen=True, slots=True, eq=False)
class UpdateChances:
    """The number of updates in each chronon, as a distribution; chronons are independent.

    Parameters
    ----------
    chronons
        Those in which updates may come, ascending, shape (n,).
    of_count
        The probability of each number of updates, shape (n, most + 1); rows have the sum 1.

    Examples
    --------
    >>> UpdateChances(np.array([4]), np.array([[0.5, 0.5]])).chronons.tolist()
    [4]
    """

    chronons: Ints
    of_count: Floats

    @classmethod
    def poisson(cls, expected: ArrayLike) -> UpdateChances:
        """Return the chances of a Poisson process.

        Parameters
        ----------
        expected
            Updates expected in each chronon, shape (K,).

        Examples
        --------
        >>> chances = UpdateChances.poisson([0.0, 0.5])
        >>> chances.chronons.tolist(), chances.of_count[0, :3].round(3).tolist()
        ([1], [0.607, 0.303, 0.076])
        """
        return cls.noisy(expected, [], 1.0)

    @classmethod
    def noisy(cls, expected: ArrayLike, known: ArrayLike, kept: ArrayLike) -> UpdateChances:
        """Return the chances of updates known with noise, and of others that come as a Poisson process.

        Parameters
        ----------
        expected
            Updates expected in each chronon besides the known ones, shape (K,).
        known, kept
            The chronons of known updates, and the probability that each comes there, shape (updates,).

        Examples
        --------
        >>> chances = UpdateChances.noisy(np.zeros(9), [3, 7, 7], [1.0, 0.5, 0.5])
        >>> chances.chronons.tolist(), chances.of_count.tolist()
        ([3, 7], [[0.0, 1.0, 0.0, 0.0], [0.25, 0.5, 0.25, 0.0]])
        """
        rates, at = np.asarray(expected, dtype=np.float64), np.asarray(known, dtype=np.int64)
        stays = np.broadcast_to(np.asarray(kept, dtype=np.float64), at.shape)
        chronons = np.union1d(np.flatnonzero(rates > _LEAST_NOISE), at[stays > 0])
        of_count = _poisson(rates[chronons])
        rank = np.arange(len(at)) - np.searchsorted(at, at)  # among the updates of a chronon
        for turn in range(int(rank.max(initial=-1)) + 1):
            comes = np.zeros(len(chronons))
            some = (rank == turn) & (stays > 0)
            comes[np.searchsorted(chronons, at[some])] = stays[some]
            of_count = np.pad(of_count, ((0, 0), (0, 1)))
            of_count[:, 1:] = of_count[:, 1:] * (1 - comes)[:, None] + of_count[:, :-1] * comes[:, None]
            of_count[:, 0] *= 1 - comes
        return cls(chronons, of_count)


def _poisson(rates: Floats) -> Floats:
    """Return Poisson probabilities up to a count that is hardly ever exceeded, shape (n, most + 1)."""
    terms = [np.exp(-rates)]
    while len(terms) <= rates.max(initial=0.0) or terms[-1].max(initial=0.0) > _RARE:
        terms.append(terms[-1] * rates / len(terms))
    found = np.stack(terms, axis=1)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class _CountedPlan:
    """The best next probe after each chronon with updates and count, and what it is worth.

    Parameters
    ----------
    chronons
        Those in which probes may come, shape (n,).
    following
        The index of the next probe's chronon, -1 if none is worth its price, shape (n + 1, every): the first row is for
        the beginning, each other one for a probe at a chronon; the column is the count since the last firing.
    worth
        Firings expected in time from the next probe on, less the price of each probe, of the same shape.

    Examples
    --------
    The second and the fourth update fire. One probe may serve both, if their life is long enough.

    >>> chances = UpdateChances.noisy(np.zeros(20), [2, 5, 7, 9], 1.0)
    >>> [plan_of_counts(chances, every=2, life=life, price=0.1).probes(np.array([2, 5, 7, 9])) for life in (3, 4)]
    [[5, 9], [9]]
    """

    chronons: Ints
    following: Ints
    worth: Floats

    def probes(self, updates: Ints) -> list[int]:
        """Return the chronons of the probes if these updates come, ascending; each probe counts what has come."""
        every, found = self.following.shape[1], []
        row = seen = 0
        while (place := int(self.following[row, seen % every])) >= 0:
            found.append(int(self.chronons[place]))
            seen = int(np.searchsorted(updates, found[-1], side="right"))
            row = place + 1
        return found


def plan_of_counts(chances: UpdateChances, *, every: int, life: int | None, price: float) -> _CountedPlan:
    """Return the best plan for ``COUNT(*) % every = 0`` on a source whose updates are counted at each probe.

    Parameters
    ----------
    life
        A window in chronons, or ``None`` for overwrite.
    price
        What a probe costs, in firings.

    Notes
    -----
    Source: ``docs/decisions/counted-events.md``. A Markov decision whose state is the chronon of a probe and the count
    found. Probes come only in chronons with updates: one between them is worth no more than one at the last of them.

    Examples
    --------
    >>> chances = UpdateChances.poisson(np.full(9, 0.5))
    >>> plan = plan_of_counts(chances, every=2, life=1, price=0.1)
    >>> plan.chronons[plan.following[0]].tolist()  # the first probe, if none or one item has come since a firing
    [2, 1]
    """
    moved, fired = _steps(chances.of_count, every)
    places, most = moved.shape[0], moved.shape[1]
    nothing = chances.of_count[:, 0] if places else np.zeros(0)
    worth, following = np.zeros((places + 1, every)), np.full((places + 1, every), -1, dtype=np.int64)
    found, links = flat(worth), flat(following)
    _plan_back(
        flat(chances.chronons), flat(moved), flat(fired), flat(np.ascontiguousarray(nothing)),
        -1 if life is None else life, price, most, every, flat(np.zeros((places, every))), flat(np.zeros(every)),
        flat(np.ones(places)), found, links,
    )  # fmt: skip
    return _CountedPlan(chances.chronons, np.asarray(links).reshape(following.shape), np.asarray(found))


def _steps(of_count: Floats, every: int) -> tuple[Floats, Floats]:
    """Return what a chronon does to the count since the last firing.

    The first result is the probability of each step modulo ``every``, shape (n, steps); the second the firings expected
    from each count, shape (n, every).
    """
    counts = np.arange(of_count.shape[1])
    moved = np.zeros((len(of_count), min(every, of_count.shape[1])))
    for count in counts.tolist():
        moved[:, count % every] += of_count[:, count]
    return moved, of_count @ ((np.arange(every)[None, :] + counts[:, None]) // every).astype(np.float64)


@kernel
def _plan_back(
    at: Ints, moved: Floats, fired: Floats, nothing: Floats, life: int, price: float, most: int, every: int,
    ahead: Floats, new: Floats, quiet: Floats, worth: Floats, following: Ints,
) -> None:  # fmt: skip
    """Fill ``worth`` and ``following`` backwards in time; see ``_CountedPlan``.

    ``ahead[t]`` is what the next probe at ``t`` brings if the last one is at the present chronon, by count. A step back
    costs O(every * most) for each ``t``. Once the counts have mixed and what ``t`` catches lies ahead, its row is the
    same for all counts and chronons before: only the best such ``t`` is kept.

    Parameters
    ----------
    at, nothing
        The chronons, and the probability that each has no update, shape (n,).
    moved, fired
        As ``_steps`` returns them.
    life
        -1 for overwrite.
    most
        The number of columns of ``moved``.
    ahead, new, quiet
        Working space: shape (n, every), (every,) and (n,).
    """
    last = len(at) - 1
    settled, settled_at = 0.0, -1
    for i in range(len(at) - 1, -2, -1):
        step = i + 1
        if step < len(at):
            for t in range(step + 1, last + 1):
                is_caught = life >= 0 and at[step] >= at[t] - life
                _before(ahead[t], moved[step], fired[step], is_caught, most, every, new)
                for m in range(every):
                    ahead[t][m] = new[m]
                quiet[t] *= nothing[step]
            _before(worth[step + 1], moved[step], fired[step], True, most, every, ahead[step])
            quiet[step] = nothing[step]
            if life < 0:  # as if the last update had fired after the last probe; taken back below
                ahead[step][0] += nothing[step]
            while last > step and _is_settled(ahead[last], every):
                if (quiet[last] > _EXACT) if life < 0 else (at[step] >= at[last] - life):
                    break
                if ahead[last][0] - price > max(_EXACT, settled - _EXACT):
                    settled, settled_at = ahead[last][0] - price, last
                last -= 1
        for m in range(every):
            best, place = settled, settled_at
            for t in range(last, i, -1):
                value = ahead[t][m] - price
                if life < 0 and m == 0:
                    value -= quiet[t]  # no update since the last probe: nothing to catch
                if value > _EXACT and value >= best - _EXACT:
                    best, place = value, t
            worth[step][m], following[step][m] = best, place


@kernel
def _before(
    after: Floats, move: Floats, fire: Floats, is_caught: bool, most: int, every: int, into: Floats
) -> None:  # fmt: skip
    """Fill ``into`` with what is expected before a chronon, by count, given what is expected after it."""
    for m in range(every):
        total = fire[m] if is_caught else 0.0
        for d in range(most):
            total += move[d] * after[m + d if m + d < every else m + d - every]
        into[m] = total


@kernel
def _is_settled(row: Floats, every: int) -> bool:
    """Whether all counts expect the same."""
    low = high = row[0]
    for m in range(1, every):
        low, high = min(low, row[m]), max(high, row[m])
    settled: bool = high - low <= _EXACT
    return settled
