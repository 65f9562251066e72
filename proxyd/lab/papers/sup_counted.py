"""SUP and fbSUP against the planning of counted updates as a Markov decision, at equal probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.count_distributions import gamma_share
from proxyd.lab.algorithms.counted_horizon import UpdateChances, plan_of_counts
from proxyd.lab.papers.figure import CHRONONS, SYNTHETIC_2, Dataset, Drawn, Figure, Probes, Updates
from proxyd.lab.papers.sup_feedback import PASSED, follow
from proxyd.lab.papers.sup_wic import life_name

_POISSON = "Poisson"
_KEPT = (0.4, 0.8, 1.0)
_LIVES = (None, 5, 10, 50)

_HOURS = 168
_HALVINGS = 7
_LEAST_PRICE = 2.0**-20
_EQUAL = 1e-9
_SURE = 2.0  # standard deviations
_SMALL = replace(SYNTHETIC_2, name="a quarter of Synthetic 2", pages=198, events=1048)


@dataclass(frozen=True, slots=True)
class _CountedDuel:
    """SUP and fbSUP for one rule and model, and the counted plan with as many probes; means over traces."""

    model: str
    every: int
    life: int | None
    sup_probes: float
    sup: float
    at_sup: float  # the utility of the counted plan with the probes of SUP
    feedback_probes: float
    feedback: float
    at_feedback: float  # the utility of the counted plan with the probes of fbSUP

    @property
    def lead(self) -> float:
        """By how much the counted plan is above SUP and fbSUP, whichever it leads by less."""
        return min(self.at_sup - self.sup, self.at_feedback - self.feedback)


@dataclass(frozen=True, slots=True, eq=False)
class PageModels:
    """What an update model says of each page: the chances, and the firings expected at most."""

    chances: Sequence[UpdateChances]
    updates: Floats
    is_known: bool

    @classmethod
    def poisson(cls, drawn: Drawn) -> PageModels:
        """Return the models of a Poisson process with the true rates."""
        shares = np.diff(drawn.dataset.week.expect(np.arange(CHRONONS + 1) / CHRONONS))
        return cls([UpdateChances.poisson(rate * shares) for rate in drawn.rates], drawn.rates, is_known=False)

    @classmethod
    def noisy(cls, plan: Updates, kept: float, shares: Floats) -> PageModels:
        """Return the models of FPN: each update of the plan is where it is known to be, or anywhere else.

        Parameters
        ----------
        shares
            The part of all updates that comes in each chronon, shape (K,).

        Notes
        -----
        An update that is known at t is in place with the odds of ``kept * shares[t]`` to ``(1 - kept) / K``: noise
        moves it anywhere, updates come where the week has them.
        """
        return cls([_noisy(own, kept, shares) for own in plan.of_page], _counts(plan), is_known=True)

    def firings(self, every: int) -> Floats:
        """Return how many firings each page is expected to have, shape (pages,)."""
        if self.is_known:
            return self.updates // every
        most = int(self.updates.max() + 10 * np.sqrt(self.updates.max()) + 10)
        counts = range(every, most, every)
        return np.array([sum(gamma_share(count, mean) for count in counts) for mean in self.updates.tolist()])

    def probes(self, actual: Updates, *, every: int, life: int | None, price: float) -> Probes:
        """Return the probes of the counted plan at a price, in firings, for all pages."""
        some = self.firings(every) > price
        found = [
            plan_of_counts(chances, every=every, life=life, price=price).probes(own) if is_worth else []
            for chances, own, is_worth in zip(self.chances, actual.of_page, some.tolist(), strict=True)
        ]
        pages = np.repeat(np.arange(len(found)), [len(own) for own in found])
        return pages, np.array([chronon for own in found for chronon in own], dtype=np.int64)


def _counts(plan: Updates) -> Floats:
    return np.bincount(plan.pages, minlength=plan.count).astype(np.float64)


def _noisy(known: Ints, kept: float, shares: Floats) -> UpdateChances:
    in_place, misplaced = kept * shares[known], (1 - kept) / len(shares)
    stays = np.ones(len(known)) if kept == 1.0 else in_place / (in_place + misplaced)
    return UpdateChances.noisy(shares * (1 - stays).sum(), known, stays)


def _shares_of_chronons(plan: Updates, kept: float) -> Floats:
    """Return the part of the updates in each chronon, as the updates of all pages tell it through FPN's noise.

    They are counted by hours of the week. What noise puts into each hour is subtracted; hours that do not stand out of
    it have none.

    >>> shares = _shares_of_chronons(Updates.of([[3, 3, 3, 3, 1]], 168), 0.8)
    >>> shares[[1, 3, 5]].round(2).tolist()
    [0.2, 0.8, 0.0]
    """
    hour = np.arange(plan.epoch) * _HOURS // plan.epoch
    length = np.bincount(hour)
    found = np.bincount(hour[plan.chronons], minlength=_HOURS)
    noise = (1 - kept) * len(plan) * length / plan.epoch
    rest = np.where(found > noise + _SURE * np.sqrt(noise), found - noise, 0.0)
    shares: Floats = (rest / length)[hour]
    return np.asarray(shares / shares.sum())


def even_shares(plan: Updates, _: float) -> Floats:
    """Return equal parts of the updates for all chronons: where nothing is known of the week.

    >>> even_shares(Updates.of([[3]], 4), 0.8).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return np.full(plan.epoch, 1 / plan.epoch)


def utility_at(
    models: PageModels, actual: Updates, probes: Sequence[int], *, every: int, life: int | None
) -> list[float]:
    """Return the utility of the counted plan with each number of probes, mixed from two prices.

    Bisection of the price finds them. Between two prices some pages follow one and some the other; the utility is what
    that yields on the average.
    """
    wanted = actual.intervals(every, life)

    @cache
    def made(price: float) -> tuple[int, float]:
        found = models.probes(actual, every=every, life=life, price=price)
        return len(found[0]), wanted.utility(found)

    def utility(number: int) -> float:
        low, high = _bracket(number, lambda price: made(price)[0])
        (most, better), (least, worse) = made(low), made(high)
        share = 0.0 if most == least else min(1.0, (number - least) / (most - least))
        return worse + share * (better - worse)

    return [utility(number) for number in probes]


def _bracket(number: int, made: Callable[[float], int]) -> tuple[float, float]:
    """Return two near prices, the lower with more than ``number`` probes if any price has, the higher with no more."""
    low, high = 0.125, 1.0
    while made(low) <= number and low > _LEAST_PRICE:
        low /= 2
    while made(high) > number:
        high *= 2
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if made(middle) > number else (low, middle)
    return low, high


def figures(*, rng: np.random.Generator, quick: bool) -> Iterator[Figure]:
    """Yield the table of all rules and models, and the one of what a plan under noise needs to know."""
    first, second = rng.spawn(2)
    dataset, repeats = (_SMALL, 1) if quick else (SYNTHETIC_2, 3)
    rules, lives, kept = ((1, 3), (None, 5), (0.8, 1.0)) if quick else ((1, 3, 10), _LIVES, _KEPT)
    grid = [(every, life) for every in rules for life in lives]
    yield _table(dataset, _duels(dataset, grid, kept, repeats=repeats, rng=first))
    yield _weeks(dataset, kept[:-1], repeats=repeats, rng=second)


def _duels(
    dataset: Dataset,
    grid: Sequence[tuple[int, int | None]],
    kept: Sequence[float],
    *,
    repeats: int,
    rng: np.random.Generator,
) -> list[_CountedDuel]:
    """Return all policies for each rule and life of ``grid``, for the Poisson model and FPN with each Z of ``kept``."""
    traces = [(dataset.draw(child), child) for child in rng.spawn(repeats)]
    found = []
    for name, share in [(_POISSON, None), *((f"FPN({share})", share) for share in kept)]:
        known = [_models(drawn, share, child) for drawn, child in traces]
        for every, life in grid:
            measured = [
                _duel(plan, models, drawn.updates(), every, life)
                for (plan, models), (drawn, _) in zip(known, traces, strict=True)
            ]
            found.append(_CountedDuel(name, every, life, *np.mean(measured, axis=0).tolist()))
    return found


def _models(drawn: Drawn, kept: float | None, rng: np.random.Generator) -> tuple[Updates, PageModels]:
    """Return the updates that SUP expects, and the chances for the counted plan."""
    if kept is None:
        return drawn.expect(), PageModels.poisson(drawn)
    plan = drawn.updates().noisy(kept, rng)
    return plan, PageModels.noisy(plan, kept, _shares_of_chronons(plan, kept))


def _duel(plan: Updates, models: PageModels, actual: Updates, every: int, life: int | None) -> tuple[float, ...]:
    wanted = actual.intervals(every, life)
    fixed, mended = plan.intervals(every, life).sup(), follow(plan, actual, every, PASSED, life=life)
    numbers = len(fixed[0]), len(mended[0])
    at_sup, at_feedback = utility_at(models, actual, numbers, every=every, life=life)
    return numbers[0], wanted.utility(fixed), at_sup, numbers[1], wanted.utility(mended), at_feedback


def _table(dataset: Dataset, found: Sequence[_CountedDuel]) -> Figure:
    rows = [
        (
            each.model,
            each.every,
            life_name(each.life),
            round(each.sup_probes),
            round(each.sup, 3),
            round(each.at_sup, 3),
            round(each.feedback_probes),
            round(each.feedback, 3),
            round(each.at_feedback, 3),
        )
        for each in found
    ]
    nearest = min((each for each in found if each.model != "FPN(1.0)"), key=lambda each: each.lead)
    behind = sum(each.lead < -_EQUAL for each in found)
    columns = ("model", "X", "life", "SUP probes", "SUP", "counted", "fbSUP probes", "fbSUP", "counted, as many")
    return Figure(
        "sup-6a-counted",
        f"Utility of counted plans at the probes of SUP and of fbSUP, {dataset.name}",
        columns,
        tuple(rows),
        note="Not in the paper. The counted plan takes each probe's count as a state and weighs the chances of every "
        f"next probe. It is behind SUP or fbSUP in {behind} of {len(found)} rows; its least lead under noise is "
        f"{nearest.lead:.3f} ({nearest.model}, X = {nearest.every}, {life_name(nearest.life)}). fbSUP adds as printed.",
    )


def _weeks(dataset: Dataset, kept: Sequence[float], *, repeats: int, rng: np.random.Generator) -> Figure:
    """Return how much the counted plan owes to what it knows of misplaced updates, at X = 1."""
    rows: list[tuple[str | float | int, ...]] = []
    for share in kept:
        traces = [(dataset.draw(child).updates(), child) for child in rng.spawn(repeats)]
        known = [(actual, actual.noisy(share, child)) for actual, child in traces]
        for life in (5, 10):
            found = np.mean([_knowing(actual, plan, share, life) for actual, plan in known], axis=0)
            rows.append((f"FPN({share})", life_name(life), round(found[0]), *found[1:].round(3).tolist()))
    return Figure(
        "sup-6b-misplaced",
        f"What a counted plan knows of misplaced updates, {dataset.name}, X = 1, at the probes of SUP",
        ("model", "life", "probes", "SUP", "misplaced anywhere", "misplaced in the week"),
        tuple(rows),
        note="At X = 1 there is nothing to count, and both policies cover as many known updates as they can. Noise "
        "moves an update anywhere, but the update itself comes in working hours: a plan that expects misplaced updates "
        "anywhere stretches its probes into the night, and loses to SUP. One that learns the week from all pages knows "
        "where they are, and which known updates are noise.",
    )


def _knowing(actual: Updates, plan: Updates, kept: float, life: int) -> tuple[float, ...]:
    wanted, fixed = actual.intervals(1, life), plan.intervals(1, life).sup()
    found = []
    for shares in (even_shares, _shares_of_chronons):
        models = PageModels.noisy(plan, kept, shares(plan, kept))
        found += utility_at(models, actual, [len(fixed[0])], every=1, life=life)
    return len(fixed[0]), wanted.utility(fixed), *found
