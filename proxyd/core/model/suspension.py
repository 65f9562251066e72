"""Suspensions, beside the declaration: paused sources; muted rules, profiles or everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import TypeAlias

from proxyd.core.model.field_values import iso_time
from proxyd.core.model.profile import Declaration


class Subject(Enum):
    """What is suspended."""

    SOURCE = "source"
    RULE = "rule"
    PROFILE = "profile"
    ALL = "all"  # every rule, also those that are declared later


EVERYTHING = "everything"
"""The name of what ``Subject.ALL`` is about."""
Key: TypeAlias = tuple[Subject, str]


@dataclass(frozen=True, slots=True)
class Suspension:
    """A paused source, or a muted rule or profile: since when, until when and by whom; times in unix seconds.

    Without ``until_s`` it lasts until it is ended.
    """

    subject: Subject
    name: str
    since_s: float
    by: str
    until_s: float | None = None

    @property
    def key(self) -> Key:
        """The subject and its name."""
        return self.subject, self.name

    @property
    def told(self) -> str:
        """Since when, by whom and until when.

        >>> Suspension(Subject.RULE, "r", 0.0, "token me", 60.0).told
        'since 1970-01-01T00:00:00.000Z by token me, until 1970-01-01T00:01:00.000Z'
        """
        until = "" if self.until_s is None else f", until {iso_time(self.until_s)}"
        return f"since {iso_time(self.since_s)} by {self.by}{until}"

    def has_ended(self, now_s: float) -> bool:
        """Whether its time is over."""
        return self.until_s is not None and self.until_s <= now_s


def lasting(suspensions: Iterable[Suspension], declaration: Declaration, now_s: float) -> dict[Key, Suspension]:
    """Return the suspensions of what is declared whose time is not over."""
    declared: Mapping[Subject, Mapping[str, object]] = {
        Subject.SOURCE: declaration.sources,
        Subject.RULE: declaration.rules,
        Subject.PROFILE: declaration.profiles,
        Subject.ALL: {EVERYTHING: None},
    }
    return {each.key: each for each in suspensions if each.name in declared[each.subject] and not each.has_ended(now_s)}


def suspensions_of_sources(suspensions: Mapping[Key, Suspension]) -> dict[str, Suspension]:
    """Return the suspensions of sources, by their names."""
    return {name: each for (subject, name), each in suspensions.items() if subject is Subject.SOURCE}


def mute_of(rule: str, profiles: Iterable[str], suspensions: Mapping[Key, Suspension]) -> Suspension | None:
    """Return what mutes a rule: its own suspension, one of its profiles' or that of all, the one that lasts longest.

    >>> long = Suspension(Subject.PROFILE, "P", 0.0, "me", None)
    >>> short = Suspension(Subject.RULE, "r", 0.0, "me", 60.0)
    >>> mute_of("r", ["P"], {each.key: each for each in (short, long)}).name
    'P'
    >>> mute_of("r", ["Q"], {long.key: long}) is None
    True
    """
    keys = [(Subject.RULE, rule), *((Subject.PROFILE, name) for name in profiles), (Subject.ALL, EVERYTHING)]
    found = [suspensions[key] for key in keys if key in suspensions]
    return max(found, key=lambda each: inf if each.until_s is None else each.until_s, default=None)


def rules_to_mute(suspensions: Mapping[Key, Suspension], declaration: Declaration) -> frozenset[str]:
    """Return the declared rules that are muted, themselves or by one of their profiles."""
    if not suspensions:
        return frozenset()
    return frozenset(
        name for name, rule in declaration.rules.items() if mute_of(name, rule.profiles, suspensions) is not None
    )
