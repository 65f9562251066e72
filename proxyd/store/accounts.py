"""What was found and predicted, day by day: days that are over are added up once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, func, select

from proxyd.rules import Account
from proxyd.store import tables as t
from proxyd.store.engine import Reader
from proxyd.store.rows import ACCOUNT_FIELDS, DAY_S


@dataclass(frozen=True, slots=True)
class _Over:
    """The days from ``first`` up to and without ``until``, to which nothing will be added."""

    first: int = 0
    until: int = 0
    accounts: Mapping[int, Account] = field(default_factory=dict)


class DayAccounts:
    """The sums of all sources by day (since 1970-01-01, UTC)."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._over = _Over()

    async def since(self, time_s: float) -> list[tuple[int, Account]]:
        """Return each day since a time that has any probe, in order."""
        first, over = int(time_s // DAY_S), self._over
        if not over.first <= first < over.until:
            over = _Over(first, first)
        days = {**over.accounts, **{row.day: _account(row) for row in await self._read(_by_day(over.until))}}
        until = max(over.until, max(days, default=0) - 1)  # what ended before midnight may be recorded after it
        self._over = _Over(over.first, until, {day: each for day, each in days.items() if day < until})
        return [(day, days[day]) for day in sorted(days) if day >= first]

    def forget(self) -> None:
        """Add up all days anew: some were deleted."""
        self._over = _Over()


def _by_day(since_day: int) -> Select[*tuple[Any, ...]]:
    c = t.accounts.c
    sums = [func.sum(c[name]).label(name) for name in ACCOUNT_FIELDS]
    return select(c.day, *sums).where(c.day >= since_day).group_by(c.day).order_by(c.day)


def _account(row: Any) -> Account:
    values = row._asdict()
    values.pop("day")
    return Account(**values)
