"""What requests ask for in their queries."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from proxyd.api import wire
from proxyd.api.rest.problems import BadRequestError
from proxyd.core.model.field_values import parse_iso
from proxyd.core.model.profile import Declaration
from proxyd.errors import BusyError, NotFoundError
from proxyd.queries import Profiles, Wanted


class _Positioned(Protocol):
    @property
    def position(self) -> int:
        """Where it stands in a list."""


Each = TypeVar("Each", bound=_Positioned)
_LARGEST = 2**63 - 1
_FOREIGN = "cursor is not one that this API gave out"


def position(text: str, complaint: str) -> int:
    """Return a position; raises with ``complaint`` where ``text`` is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise BadRequestError(complaint)
    return min(int(text), _LARGEST)


def cursor_of(value: str) -> str:
    """Return what a client passes on to get what comes after ``value``."""
    return base64.urlsafe_b64encode(value.encode()).decode()


def read_cursor(cursor: str | None) -> str | None:
    """Return what a cursor stands for."""
    try:
        return None if cursor is None else base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError as error:
        raise BadRequestError(_FOREIGN) from error


def before(cursor: str | None) -> int | None:
    """Return the position that a cursor stands for."""
    value = read_cursor(cursor)
    return None if value is None else position(value, _FOREIGN)


def page_of(rows: list[Each], limit: int) -> tuple[list[Each], str | None]:
    """Return the rows of a part of a list by position, and the cursor of the next; one more was asked for."""
    return rows[:limit], cursor_of(str(rows[limit - 1].position)) if len(rows) > limit else None


class InOrder:
    """The names of a mapping in order, sorted once for as long as it stays the same.

    >>> names = InOrder()
    >>> names.of({"b": 1, "a": 2})
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._mapping: Mapping[str, Any] = {}
        self._names: list[str] = []

    def of(self, mapping: Mapping[str, Any]) -> list[str]:
        """Return the names of what is never changed but replaced."""
        if mapping is not self._mapping:
            self._mapping, self._names = mapping, sorted(mapping)
        return self._names


def part_of(names: Sequence[str], window: wire.ListWindow) -> tuple[Sequence[str], str | None]:
    """Return a part of names in order, and the cursor of the next.

    >>> part_of(["a", "b"], wire.ListWindow(limit=1, cursor=cursor_of("a")))
    (['b'], None)
    """
    after = read_cursor(window.cursor)
    first = 0 if after is None else bisect_right(names, after)
    found = names[first : first + window.limit]
    return found, cursor_of(found[-1]) if first + window.limit < len(names) else None


def wanted(which: wire.Which, profiles: Profiles, *, since: str | None = None) -> Wanted:
    """Return which notifications a request is about."""
    since_s = None
    if since is not None:
        since_s = parse_iso(since)
        if since_s is None:
            raise BadRequestError("since is not a time such as 2026-01-31T12:00:00Z")
    return Wanted(wanted_rules(profiles, which.profile, which.rule), which.source, since_s)


def wanted_rules(profiles: Profiles, profile: str | None, rule: str | None) -> frozenset[str] | None:
    """Return the rules of a profile as it is declared now, or the one rule, or ``None`` for all of them.

    A rule need not be declared any more: its notifications are still there.
    """
    if profile is None:
        return None if rule is None else frozenset([rule])
    declaration = known_declaration(profiles)
    if profile not in declaration.profiles:
        raise NotFoundError(f"there is no profile {profile!r}")
    its = frozenset(name for name, each in declaration.rules.items() if profile in each.profiles)
    return its if rule is None else its & {rule}


def known_declaration(profiles: Profiles) -> Declaration:
    """Return the declaration to look up names in; raises ``BusyError`` while the daemon starts and knows none."""
    if not profiles.has_started:
        raise BusyError("the daemon is starting")
    return profiles.declaration
