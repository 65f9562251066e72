"""SET IMPORTANCE: the cost of waiting by hour of the week."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from proxyd.core.language import During, parse_during
from proxyd.core.model.profile import ImportanceTerm
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rates.week_shapes import HOUR_S, HOURS
from proxyd.core.rules.programs.rule_program import RuleProgram

Floats = NDArray[np.float64]


def source_weights(programs: Iterable[RuleProgram], at_s: float) -> Floats | None:
    """Return the cost of a delay for a source's rules by hour of the week, shape (168,), or ``None`` if it is constant.

    In each hour the rule with the highest weight decides.
    """
    asked = [(program.weight, program.rule.importance) for program in programs]
    if not any(importance for _, importance in asked):
        return None
    weights: Floats = np.max([weight * importance_by_hour(terms, at_s) for weight, terms in asked], axis=0)
    return weights


def importance_by_hour(terms: tuple[ImportanceTerm, ...], at_s: float) -> Floats:
    """Return the weight of each hour of the week of ``at_s``, from Monday 00:00 UTC, shape (168,).

    The first term that holds decides; if none does, the weight is 1. A term holds for an hour if it holds at its
    middle.

    Examples
    --------
    >>> from decimal import Decimal
    >>> office = ImportanceTerm(Decimal(3), "Mon-Fri 09:00-18:00", "Europe/Berlin")
    >>> weights = importance_by_hour((office,), 1_760_000_000.0)  # summer: two hours ahead of UTC
    >>> weights[6:17].tolist()
    [1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0]
    """
    return _by_hour(terms, MONDAY_S + (at_s - MONDAY_S) // WEEK_S * WEEK_S)


@lru_cache(1024)
def _by_hour(terms: tuple[ImportanceTerm, ...], monday_s: float) -> Floats:
    middles = (datetime.fromtimestamp(monday_s + (hour + 0.5) * HOUR_S, UTC) for hour in range(HOURS))
    return np.array([_weight(terms, middle) for middle in middles])


def _weight(terms: Sequence[ImportanceTerm], moment: datetime) -> float:
    for term in terms:
        during = None if term.during is None else parse_during(term.during)
        local = moment.astimezone(ZoneInfo(term.zone)) if term.zone else moment
        if during is None or _holds(during, local):
            return float(term.weight)
    return 1.0


def _holds(during: During, local: datetime) -> bool:
    """Whether a time is in a part of the week; a period over midnight belongs to the day on which it begins."""
    minute = local.hour * 60 + local.minute
    if during.start < during.stop:
        return local.weekday() in during.days and during.start <= minute < during.stop
    if minute >= during.start:
        return local.weekday() in during.days
    return minute < during.stop and (local - timedelta(days=1)).weekday() in during.days
